"""Tags that gpucloud never wrote, and machines that carry the tags of a box and are none of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from gpucloud.clouds.cloud import Clouds
from gpucloud.resources import Ref, ResourceKind, Search, SearchResult
from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.cli.test_sweep import forget_everything
from tests.profiles import own_profile
from tests.sandbox.alibaba_lab import Alibaba
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import HollowBoxes
from tests.sandbox.running import client as ec2_client
from tests.shell import Shell

CLOUDS = ("aws", "azure", "alibaba")
OWNER = {"GPUCLOUD_OWNER": "u-hostile"}
RUN = ("--run-id", "ci-1")

Retag = Callable[[Any, dict[str, str]], None]
"""Gives everything of a box on AWS other values of these tags, as somebody in the console would."""


@pytest.fixture
def retag(cli: Shell, monkeypatch: pytest.MonkeyPatch) -> Retag:
    for name, value in cli.endpoint.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # one of an earlier test has its profiles

    def change(box: Any, tags: dict[str, str]) -> None:
        cloud = Clouds.installed(own_profile())["aws"]
        found: SearchResult = cloud.find(Search(box=box["id"]))
        ids = [resource.ref.id for resource in (*found.resources, *found.suspects)]
        pairs = [{"Key": f"gpucloud:{name}", "Value": value} for name, value in tags.items()]
        ec2_client(cli.endpoint, region=box["region"]).create_tags(Resources=ids, Tags=pairs)

    return change


def _untag_on_aws(endpoint: Endpoint, machine: Ref, key: str) -> None:
    ec2_client(endpoint, region=machine.region).delete_tags(Resources=[machine.id], Tags=[{"Key": key}])


def _untag_on_azure(endpoint: Endpoint, machine: Ref, key: str) -> None:
    endpoint.client.review(Review.OFF)  # the reviewer refuses what is billed without its tags
    lab = Azure(endpoint, HollowBoxes())
    tags = lab.resources.tags
    value = tags.get_at_scope(machine.id).properties.tags[key]
    gone = {"operation": "Delete", "properties": {"tags": {key: value}}}
    tags.begin_update_at_scope(machine.id, gone).result()
    lab.close()
    endpoint.client.review(Review.OWN)


def _untag_on_alibaba(endpoint: Endpoint, machine: Ref, key: str) -> None:
    asked: dict[str, Any] = {"ResourceType": "instance", "ResourceId": [machine.id], "TagKey": [key]}
    Alibaba(endpoint, HollowBoxes()).ask("UntagResources", RegionId=machine.region, **asked)


_UNTAG = {"aws": _untag_on_aws, "azure": _untag_on_azure, "alibaba": _untag_on_alibaba}


def from_elsewhere(cli: Shell, cloud: str, *more: str) -> Any:
    """A box of the same owner that another machine's journal holds."""
    home = cli.home / "elsewhere"
    home.mkdir(exist_ok=True)
    if not (home / "sandbox").exists():
        (home / "sandbox").symlink_to(cli.endpoint.folder)
    line = ("launch", "--gpu", "T4", "--cloud", cloud, "--yes", "--json", *more)
    return cli(*line, **OWNER, GPUCLOUD_HOME=str(home)).box


def test_one_bad_box_tag_keeps_no_command_from_the_good_boxes(cli: Shell, retag: Retag) -> None:
    good = [
        cli("launch", "--gpu", "T4", "--cloud", "aws", *RUN, "--yes", "--json", **OWNER).box for _ in range(2)
    ]
    bad = from_elsewhere(cli, "aws", *RUN)
    retag(bad, {"box": "*"})
    machine = bad["nodes"][0]["instance_id"]
    forget_everything(cli)

    adopted = cli("recover", "--json", **OWNER)
    assert adopted.code == 8, adopted.err
    assert {box["id"] for box in adopted.json["boxes"]} == {box["id"] for box in good}
    assert machine in {each["id"] for each in adopted.json["unjudged"]}
    assert "gpucloud:box is" in adopted.err

    live = cli("list", "--live", "--json", **OWNER)
    assert live.code == 0, live.err
    assert {box["state"] for box in live.json["boxes"]} == {"ready"}
    assert {each["wrong"] for each in live.json["strangers"] if each["id"] == machine} != {None}
    assert machine in cli("list", "--live", **OWNER).out

    ended = cli("down", *RUN, "--yes", "--json", **OWNER)
    assert ended.code == 8, ended.err
    assert {box["state"] for box in ended.json["boxes"]} == {"deleted"}
    assert [entry["id"] for entry in cli.billed()] == [machine], "it is nobody's to end by its tags"

    swept = cli("sweep", "--older-than", "0s", "--yes", "--json", **OWNER)
    assert swept.code == 8, swept.err
    assert {each["reason"] for each in swept.json["found"] if each["id"] == machine} == {"bad_tags"}
    assert [entry["id"] for entry in cli.billed()] == [machine]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("lost", ["box", "owner"])
def test_a_machine_that_has_lost_one_of_its_tags_is_found_by_sweep_and_by_recover_alike(
    cli: Shell, cloud: str, lost: str
) -> None:
    box = from_elsewhere(cli, cloud)
    id_ = box["nodes"][0]["instance_id"]
    machine = Ref(cloud=cloud, account="", region=box["region"], kind=ResourceKind.INSTANCE, id=id_)
    _UNTAG[cloud](cli.endpoint, machine, f"gpucloud:{lost}")
    swept = cli("sweep", "--dry-run", "--json", **OWNER)
    found = {each["id"]: each["reason"] for each in swept.json["found"]}
    reason = "bad_tags" if lost == "box" else "other_owner"
    assert found[id_] == reason
    recovered = cli("recover", "--json", **OWNER)
    mine = {each["id"] for each in recovered.json["unjudged"]}
    assert (id_ in mine) == (lost == "box"), "only the owner's are named"
    assert recovered.json["boxes"] == []


def test_a_box_with_an_id_that_is_none_in_the_journal_keeps_no_other(cli: Shell) -> None:
    """An earlier version has taken such a tag into its journal."""
    import sqlite3

    boxes = [cli.launch("--gpu", "T4", "--cloud", "aws") for _ in range(3)]
    with sqlite3.connect(cli.home / "state-sandbox" / "journal.db") as journal:
        for table, column, text in (("states", "id", "document"), ("events", "box", "data")):
            journal.execute(
                f"UPDATE {table} SET {column} = '*', {text} = replace({text}, :id, '*') WHERE {column} = :id",  # noqa: S608
                {"id": boxes[0]["id"]},
            )
    live = cli("list", "--live")
    assert live.code == 0, live.err
    assert "is not a box id" in live.err
    ended = cli("down", "--all", "--yes")
    assert ended.code == 8, ended.err
    assert "is not a box id" in ended.err
    assert cli.billed() == []


def test_a_machine_under_foreign_tags_or_those_of_a_box_is_seen_by_list_sweep_and_down(
    cli: Shell, retag: Retag
) -> None:
    """As "launch more like this" in the cloud's console makes it."""
    box = cli("launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--json", **OWNER).box
    second = from_elsewhere(cli, "aws")
    machine = second["nodes"][0]["instance_id"]
    retag(second, {"expires": "soon\u202e"})
    [foreign] = [
        each for each in cli("sweep", "--dry-run", "--json", **OWNER).json["found"] if each["id"] == machine
    ]
    assert (foreign["reason"], foreign["unwanted"]) == ("bad_tags", False)
    assert foreign["wrong"] == "gpucloud:expires is 'soon\\u202e'"

    retag(second, {"box": box["id"], "expires": box["expires_at"]})
    live = cli("list", "--live", "--json", **OWNER).json
    assert [each["id"] for each in live["strangers"] if each["kind"] == "instance"] == [machine]
    listed = cli("sweep", "--dry-run", "--json", **OWNER).json["found"]
    reasons = {each["id"]: (each["reason"], each["unwanted"]) for each in listed}
    assert reasons[machine] == ("not_of_its_box", True)
    assert box["nodes"][0]["instance_id"] not in reasons

    ended = cli("down", box["name"], "--yes", **OWNER)
    assert ended.code == 8, ended.err
    assert machine in ended.err
    assert "nothing billable is left" not in ended.err
    assert [entry["id"] for entry in cli.billed()] == [machine]
    assert cli("sweep", "--yes", **OWNER).code == 0
    assert cli.billed() == []
