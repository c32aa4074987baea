"""``sweep`` and ``recover``: what the clouds hold of us, whatever happened to the journal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shell import Result, Shell

CLOUDS = ("aws", "azure", "alibaba")
OWNER = {"GPUCLOUD_OWNER": "u-here"}
DENIED: dict[str, Any] = {"effect": "error", "code": "UnauthorizedOperation", "status": 403, "times": None}


def forget_everything(cli: Shell) -> None:
    """The state file is gone; keys and owner are still there."""
    for file in (cli.home / "state-sandbox").glob("journal.db*"):
        file.unlink()


def launched(cli: Shell, cloud: str, **environment: str) -> Any:
    return cli(
        "launch", "--gpu", "T4", "--cloud", cloud, "--name", f"on-{cloud}", "--yes", "--json", **environment
    ).box


def machines(swept: Result) -> dict[str, dict[str, Any]]:
    """What was found of instances, by the box's id."""
    return {each["box"]: each for each in swept.json["found"] if each["kind"] == "instance"}


def test_a_lost_journal_on_three_clouds(cli: Shell) -> None:
    """All boxes are found; they are adopted and used again, or ended; another owner's survives both."""
    boxes = {cloud: launched(cli, cloud, **OWNER) for cloud in CLOUDS}
    theirs = launched(cli, "aws", GPUCLOUD_OWNER="u-there")
    forget_everything(cli)

    seen = cli("sweep", "--dry-run", "--json", **OWNER)
    assert seen.code == 0, seen.err
    found = machines(seen)
    assert set(found) == {box["id"] for box in boxes.values()} | {theirs["id"]}
    assert {found[box["id"]]["reason"] for box in boxes.values()} == {"young"}
    assert found[theirs["id"]]["reason"] == "other_owner"
    for cloud, box in boxes.items():
        assert (found[box["id"]]["cloud"], found[box["id"]]["price"]) == (cloud, box["price"])
    ids = {(each["kind"], each["id"]) for each in seen.json["found"]}
    billed = {(each["kind"], each["id"]) for kind in ("instance", "disk") for each in cli.billed(kind)}
    assert billed <= ids, "everything that is billed is on the list"

    adopted = cli("recover", "--json", **OWNER)
    assert adopted.code == 0, adopted.err
    for box in adopted.json["boxes"]:
        before = boxes[box["cloud"]]
        for field in (
            "name",
            "id",
            "state",
            "region",
            "zone",
            "instance_type",
            "gpu",
            "purchase",
            "nodes",
            "expires_at",
        ):
            assert box[field] == before[field], field
    for cloud in CLOUDS:
        assert "Tesla T4" in cli("exec", f"on-{cloud}", "--", "nvidia-smi", "-L", **OWNER).out
    assert cli("recover", "--json", **OWNER).json["boxes"] == []
    assert set(machines(cli("sweep", "--dry-run", "--json", **OWNER))) == {theirs["id"]}

    forget_everything(cli)
    ended = cli("sweep", "--older-than", "0s", "--yes", "--json", **OWNER)
    assert ended.code == 0, ended.err
    assert {box: each["removed"] for box, each in machines(ended).items()} == {
        **{box["id"]: True for box in boxes.values()},
        theirs["id"]: False,
    }
    assert {entry["owner"] for entry in cli.sandbox.status()["billing"]} == {"u-there"}

    assert cli("sweep", "--owner", "u-there", "--older-than", "0s", "--yes", **OWNER).code == 0
    assert cli.sandbox.status()["billing"] == []


def test_the_command_has_a_second_name(cli: Shell) -> None:
    """For whom a sweep is a search of parameters."""
    found = cli("clean", "--json")
    assert (found.code, found.json["schema"]) == (0, "gpucloud.sweep/v1")
    assert "Usage: gpucloud sweep" in cli("clean", "--help").out


def test_a_sweep_with_nothing_to_find_changes_nothing(cli: Shell) -> None:
    swept = cli("sweep", "--yes", "--json")
    assert (swept.code, swept.json["found"], swept.json["price_per_hour"]["amount"]) == (0, [], "0")
    assert cli.changes_asked() == []


def test_a_living_box_is_no_business_of_a_sweep(cli: Shell) -> None:
    box = launched(cli, "aws")
    swept = cli("sweep", "--older-than", "0s", "--yes", "--json")
    assert (swept.code, swept.json["found"]) == (0, [])
    assert [entry["box"] for entry in cli.billed()] == [box["id"]]


def test_nothing_is_ended_without_a_yes(cli: Shell) -> None:
    launched(cli, "aws")
    forget_everything(cli)
    changed = len(cli.changes_asked())
    refused = cli("sweep", "--older-than", "0s")
    assert refused.code == 2
    assert "add --yes" in refused.err
    assert "not in this journal" in refused.out
    assert len(cli.changes_asked()) == changed
    assert cli("sweep", "--older-than", "0s", "--dry-run").code == 0
    assert len(cli.changes_asked()) == changed


@pytest.mark.parametrize("text", ["soon", "-1h", "none", "15"])
def test_an_age_that_is_none_is_refused(cli: Shell, text: str) -> None:
    assert cli("sweep", f"--older-than={text}").code == 2


@pytest.mark.parametrize("command", [("sweep", "--yes", "--older-than", "0s"), ("recover",)])
def test_a_region_that_cannot_be_read_is_said_and_the_rest_is_done(
    cli: Shell, command: tuple[str, ...]
) -> None:
    box = launched(cli, "aws")
    launched(cli, "azure")
    forget_everything(cli)
    cli.sandbox.fault(cloud="aws", action="DescribeInstances", region=box["region"], **DENIED)
    done = cli(*command, "--json")
    assert done.code == 8
    assert [(each["cloud"], each["region"]) for each in done.json["unread"]] == [("aws", box["region"])]
    if command[0] == "sweep":
        assert "azure" not in {entry["cloud"] for entry in cli.sandbox.status()["billing"]}


def test_a_denied_list_that_looks_empty_is_unread(cli: Shell) -> None:
    """Alibaba Cloud shows nothing, rather than an error, to who may not look."""
    launched(cli, "alibaba")
    forget_everything(cli)
    cli.sandbox.cloud("alibaba", "deny", actions=["ecs:Describe*"])
    done = cli("sweep", "--yes", "--older-than", "0s", "--json")
    assert done.code == 8
    assert {each["cloud"] for each in done.json["unread"]} == {"alibaba"}
    assert len(cli.billed()) == 1


def test_what_cannot_be_ended_is_owed_and_ended_by_the_next_sweep(cli: Shell) -> None:
    launched(cli, "aws")
    forget_everything(cli)
    cli.sandbox.fault(cloud="aws", action="TerminateInstances", **DENIED)
    owed = cli("sweep", "--yes", "--older-than", "0s")
    assert owed.code == 8
    assert "UnauthorizedOperation" in owed.err
    assert "gpucloud sweep --yes" in owed.err
    cli.sandbox.clear_faults()
    assert cli("sweep", "--yes").code == 0, "it is in the journal now, as what is left"
    assert cli.sandbox.status()["billing"] == []


def test_a_sweep_that_is_killed_is_finished_by_the_next_one(cli: Shell) -> None:
    for cloud in ("aws", "azure"):
        launched(cli, cloud)
    forget_everything(cli)
    cli.sandbox.fault(effect="kill", action="TerminateInstances", stage="received")
    assert cli("sweep", "--yes", "--older-than", "0s").code == -9
    assert cli("sweep", "--yes", "--older-than", "0s").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_ends_go_by_the_clock_of_the_cloud(own_clouds: Shell) -> None:
    """A box that is past its end there is swept, also where this machine's clock is two days behind."""
    own_clouds("launch", "--gpu", "T4", "--cloud", "azure", "--ttl", "1h", "--yes", **OWNER)
    forget_everything(own_clouds)
    own_clouds.sandbox.clock(advance_s=2 * 3600)
    swept = own_clouds("sweep", "--yes", "--json", **OWNER)
    assert swept.code == 0, swept.err
    assert {each["reason"] for each in swept.json["found"] if each["unwanted"]} == {"past_deadline"}
    assert own_clouds.sandbox.status()["billing"] == []


def test_a_journal_in_which_two_things_are_called_alike_keeps_them_apart(cli: Shell) -> None:
    """A launch asks only those clouds for its name in which it may buy."""
    box = launched(cli, "azure")
    forget_everything(cli)
    second = cli("launch", "--gpu", "T4", "--cloud", "aws", "--name", box["name"], "--yes", "--json").box
    adopted = cli("recover", "--json").json["boxes"]
    assert [(each["id"], each["name"]) for each in adopted] == [(box["id"], f"{box['name']}-2")]
    assert {each["id"] for each in cli.boxes()} == {box["id"], second["id"]}
    assert cli("down", "--all", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []
