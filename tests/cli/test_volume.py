"""``volume``: disks that outlive boxes, found, billed and ended like boxes."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.cli.test_guard import CLOUDS
from tests.cli.test_least_privilege import apply, policy
from tests.consoles import Console
from tests.shell import Shell

CREATE = {"aws": "CreateVolume", "azure": "PUT disks", "alibaba": "CreateDisk"}


def create(shell: Shell, cloud: str, *more: str) -> Any:
    line = ("volume", "create", "data", "--size", "100", "--near", "T4", "--cloud", cloud, "--yes", "--json")
    made = shell(*line, *more)
    assert made.code == 0, made.err
    return made.json["volume"]


def volumes(shell: Shell, *more: str) -> Any:
    return shell("volume", "list", "--json", *more).json["volumes"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_life_of_a_volume_under_the_least_privileges(cli: Shell, cloud: str) -> None:
    apply(cli, cloud, policy(cli, cloud))
    made = create(cli, cloud, "--keep", "2d")
    assert (made["state"], made["size_gib"], made["keep_s"]) == ("ready", 100, 172800)
    found = volumes(cli)
    assert found == [{**made, "cost_so_far": found[0]["cost_so_far"]}]
    assert [each["kind"] for each in cli.sandbox.status()["billing"]] == ["disk"]
    assert cli.boxes() == []
    ended = cli("down", "--all", "--yes")
    assert (ended.code, "Kept, and billed until deleted: volume data." in ended.err) == (0, True)
    assert cli("sweep", "--yes", "--older-than", "0s").code == 0
    assert cli.billed("disk")
    assert cli("volume", "delete", "data", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []
    assert volumes(cli) == []
    [spent] = cli("spend", "--json").json["boxes"]
    assert (spent["kind"], {charge["part"] for charge in spent["charges"]}) == ("volume", {"disk"})


@pytest.mark.parametrize(
    ("cloud", "stage"),
    [*((cloud, "applied") for cloud in CLOUDS), ("aws", "received"), ("azure", "answered")],
)
def test_what_a_killed_creation_left_is_deleted_by_the_next_command(
    own_clouds: Shell, cloud: str, stage: str
) -> None:
    fault = {"cloud": cloud, "action": CREATE[cloud], "effect": "kill", "stage": stage}
    own_clouds.sandbox.fault(**fault)
    line = ("volume", "create", "data", "--size", "100", "--near", "T4", "--cloud", cloud, "--yes")
    assert own_clouds(*line).code == -signal.SIGKILL
    own_clouds("sweep", "--yes")
    assert own_clouds.sandbox.status()["billing"] == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_lost_answer_makes_one_volume(cli: Shell, cloud: str) -> None:
    cli.sandbox.fault(cloud=cloud, action=CREATE[cloud], effect="drop", stage="applied")
    create(cli, cloud)
    assert len(cli.billed("disk")) == 1


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_volume_is_swept_at_its_end_and_not_before(own_clouds: Shell, cloud: str) -> None:
    """Also by a journal that does not know it: only its deadline makes it unwanted."""
    create(own_clouds, cloud, "--keep", "2h")
    forget(own_clouds)
    assert own_clouds("sweep", "--yes", "--older-than", "0s").code == 0
    assert own_clouds.billed("disk")
    own_clouds.sandbox.clock(advance_s=3 * 3600)
    assert own_clouds("sweep", "--yes").code == 0
    assert own_clouds.sandbox.status()["billing"] == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_lost_journal_finds_it_as_it_was(cli: Shell, cloud: str) -> None:
    made = create(cli, cloud, "--keep", "2d")
    forget(cli)
    assert "1 volume restored" in cli("recover").err
    [found] = volumes(cli)
    same = ("id", "name", "state", "cloud", "region", "zone", "size_gib", "expires_at", "per_hour")
    assert {name: found[name] for name in same} == {name: made[name] for name in same}
    assert cli("volume", "delete", "data", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_a_name_is_taken_by_a_box_or_a_volume(cli: Shell) -> None:
    create(cli, "aws")
    for line in (
        ("volume", "create", "data", "--size", "1", "--near", "T4", "--yes"),
        ("launch", "--gpu", "T4", "--name", "data", "--yes"),
    ):
        refused = cli(*line)
        assert refused.code == 2
        assert "a volume named 'data' exists already" in refused.err
        assert "gpucloud volume delete data" in refused.err
    assert "is a volume" in cli("down", "data", "--yes").err
    assert len(cli.sandbox.status()["billing"]) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--size", "5", "--cloud", "alibaba", "--region", "us-east-1"), "20 to"),
        (("--size", "much", "--near", "T4"), "--size"),
        (("--size", "1.5", "--near", "T4"), "whole GiB"),
        (("--size", "5"), "--near"),
        (("--size", "5", "--near", "T4", "--keep", "none"), "--keep"),
        (("--size", "5", "--near", "T4", "--keep", "1m"), "the least time is 1h"),
        (("--size", "5", "--near", "T5"), "T5"),
        (("--size", "5", "--zone", "nowhere"), "nowhere"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_spent(
    cli: Shell, options: tuple[str, ...], word: str
) -> None:
    refused = cli("volume", "create", "data", *options, "--yes")
    assert refused.code == 2
    assert word in refused.err
    assert cli.changes_asked() == []


def launch(shell: Shell, cloud: str, name: str, *more: str) -> Any:
    line = ("--gpu", "T4", "--cloud", cloud, "--ttl", "2h", "--name", name, "--volume", "data:/data")
    return shell.launch(*line, *more)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_file_on_a_volume_is_there_on_the_next_box(cli: Shell, cloud: str) -> None:
    """Under the least privileges; one box at a time uses it, and it is billed alone in between."""
    apply(cli, cloud, policy(cli, cloud))
    made = create(cli, cloud, "--keep", "2d")
    box = launch(cli, cloud, "x")
    assert (box["region"], box["zone"]) == (made["region"], made["zone"])
    assert cli("exec", "x", "--", "sh", "-c", "echo kept > /data/file").code == 0
    [used] = cli("list", "--all-kinds", "--json").json["volumes"]
    assert (used["attached_to"], used["overdue"]) == ("x", False)
    assert used["expires_at"] > made["expires_at"]
    for line in (("volume", "delete", "data", "--yes"), ("plan", "--gpu", "T4", "--volume", "data:/data")):
        refused = cli(*line)
        assert (refused.code, "is attached to box 'x'" in refused.err) == (2, True)
    assert cli("down", "x", "--yes").code == 0
    [free] = volumes(cli)
    assert free["attached_to"] is None
    assert made["expires_at"] <= free["expires_at"] < used["expires_at"]
    assert [each["kind"] for each in cli.sandbox.status()["billing"]] == ["disk"]
    launch(cli, cloud, "y")
    assert cli("exec", "y", "--", "cat", "/data/file").out == "kept\n"
    assert cli("down", "y", "--yes").code == 0


def test_a_volume_narrows_the_market_to_its_zone(cli: Shell) -> None:
    made = create(cli, "aws")
    asked = ("--gpu", "T4", "--volume", "data:/data")
    planned = cli("plan", *asked, "--json").json["attempts"]
    assert {(each["cloud"], each["zone"]) for each in planned} == {("aws", made["zone"])}
    explained = cli("offers", *asked, "--why").out
    assert f"volume data is in aws {made['zone']}" in explained
    assert "without --volume" in explained
    nowhere = cli("plan", *asked, "--cloud", "azure")
    assert (nowhere.code, "without --volume" in nowhere.err) == (3, True)


def test_of_several_volumes_that_of_the_chosen_place_is_used(cli: Shell) -> None:
    """As a spec file names them."""
    create(cli, "aws")
    other = ("volume", "create", "other", "--size", "20", "--near", "T4", "--cloud", "alibaba", "--yes")
    assert cli(*other).code == 0
    file = cli.home / "box.yaml"
    file.write_text("gpu: T4\nname: x\nvolumes:\n  - {name: [data, other], path: /mnt/models}\n")
    assert cli.launch("-f", str(file), "--cloud", "alibaba")["cloud"] == "alibaba"
    used = {volume["name"]: volume["attached_to"] for volume in volumes(cli)}
    assert used == {"data": None, "other": "x"}
    assert cli("down", "x", "--yes").code == 0


@pytest.mark.parametrize("stage", ["received", "applied", "answered"])
@pytest.mark.parametrize(("cloud", "action"), [("aws", "AttachVolume"), ("alibaba", "AttachDisk")])
def test_a_launch_that_is_killed_while_it_attaches_gives_the_volume_back(
    own_clouds: Shell, cloud: str, action: str, stage: str
) -> None:
    create(own_clouds, cloud)
    own_clouds.sandbox.fault(cloud=cloud, action=action, effect="kill", stage=stage)
    line = ("launch", "--gpu", "T4", "--cloud", cloud, "--name", "x", "--volume", "data:/data", "--yes")
    assert own_clouds(*line).code == -signal.SIGKILL
    own_clouds("sweep", "--yes")
    assert [each["kind"] for each in own_clouds.sandbox.status()["billing"]] == ["disk"]
    assert volumes(own_clouds)[0]["attached_to"] in {None, "x"}
    launch(own_clouds, cloud, "y")
    assert own_clouds("down", "y", "--yes").code == 0


def test_what_a_run_wrote_is_there_on_the_next_box(cli: Shell) -> None:
    create(cli, "azure")
    line = ("run", "--gpu", "T4", "--cloud", "azure", "--volume", "data:/data", "--")
    ran = cli(*line, "sh", "-c", "echo out > /data/result")
    assert ran.code == 0, ran.err
    assert "unmounting /data" in ran.err
    assert [each["kind"] for each in cli.sandbox.status()["billing"]] == ["disk"]
    assert cli(*line, "cat", "/data/result").out == "out\n"


def test_what_was_mounted_once_is_never_formatted_again(cli: Shell) -> None:
    create(cli, "aws")
    launch(cli, "aws", "x")
    assert cli("exec", "x", "--", "touch", "/data/file").code == 0
    assert cli("down", "x", "--yes").code == 0
    [volume] = (cli.endpoint.folder / "boxes/volumes").iterdir()
    (volume / "label").unlink()
    line = ("launch", "--gpu", "T4", "--cloud", "aws", "--name", "y", "--volume", "data:/data", "--yes")
    refused = cli(*line)
    assert refused.code != 0
    assert "it is blank, although it was mounted before" in refused.err
    assert (volume / "files/file").exists()
    assert [each["kind"] for each in cli.sandbox.status()["billing"]] == ["disk"]


def forget(shell: Shell) -> None:
    """Loses the journal."""
    for file in (shell.home / "state-sandbox").glob("journal.db*"):
        file.unlink()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_the_console_did_to_a_volume_is_told_before_anything_is_bought(cli: Shell, cloud: str) -> None:
    """What is written to its path would go to the root disk, and be deleted with that."""
    create(cli, cloud)
    launch = ("launch", "--gpu", "T4", "--cloud", cloud, "--volume", "data:/data", "--ttl", "2h", "--yes")
    made = cli(*launch, "--name", "x", "--json")
    assert made.code == 0, made.err
    assert cli("stop", "x", "--yes").code == 0
    [disk] = [each["id"] for each in cli.billed("disk") if each["box"] != made.box["id"]]
    console = Console(cli, "x")
    console.detach(disk)
    cli.sandbox.calls(clear=True)
    refused = cli("start", "x", "--yes", "--json")
    assert refused.code == 2, refused.err
    assert "'data' of 'x' is not attached" in refused.error["message"]
    assert cli.changes_asked() == []
    assert cli("down", "x", "--yes").code == 0
    console.delete(disk)
    cli.sandbox.calls(clear=True)
    refused = cli(*launch, "--name", "y", "--json")
    assert refused.code == 2, refused.err
    assert "'data' is gone" in refused.error["message"]
    assert cli.changes_asked() == []
    assert cli("volume", "delete", "data", "--yes").code == 0
    assert volumes(cli) == []


def test_a_look_names_volumes_that_the_console_took_away_or_deleted(cli: Shell) -> None:
    """Once lists of the cloud cannot lag behind any more."""
    for name, size in (("data", "99"), ("other", "50")):
        line = ("volume", "create", name, "--size", size, "--near", "T4", "--cloud", "aws", "--yes")
        assert cli(*line).code == 0
    launch = ("launch", "--gpu", "T4", "--cloud", "aws", "--volume", "data:/data", "--ttl", "2h", "--yes")
    assert cli(*launch, "--name", "x").code == 0
    assert cli("stop", "x", "--yes").code == 0
    assert "Volume" not in cli("list", "--live").err
    ec2 = cli.ec2("us-east-1")
    disks = {each["Size"]: each["VolumeId"] for each in ec2.describe_volumes()["Volumes"]}
    console = Console(cli, "x")
    console.detach(disks[99])
    console.delete(disks[50])
    for file in cli.home.rglob("journal.db"):
        with closing(sqlite3.connect(file)) as journal, journal:
            older = "json_set(document, '$.created_at', '2026-01-05T12:00:00+00:00')"
            journal.execute(f"UPDATE states SET document = {older} WHERE kind = 'volume'")  # noqa: S608
    said = cli("list", "--live").err
    assert "Volume data is not attached to x" in said
    assert "Volume other is gone" in said
