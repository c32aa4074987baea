"""``volume``: disks that outlive boxes, found, billed and ended like boxes."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.cli.test_guard import CLOUDS
from tests.cli.test_least_privilege import apply, policy
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
    assert volumes(cli) == [{**made, "cost_so_far": volumes(cli)[0]["cost_so_far"]}]
    [disk] = cli.sandbox.status()["billing"]
    assert (disk["kind"], disk["tags"]["gpucloud:volume"], disk["tags"]["gpucloud:retain"]) == (
        "disk",
        "data",
        "true",
    )
    assert cli.boxes() == []
    assert cli("down", "--all", "--yes").code == 0
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
    assert cli("recover").code == 0
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
        (("--size", "5"), "--near"),
        (("--size", "5", "--near", "T4", "--keep", "none"), "--keep"),
        (("--size", "5", "--near", "T4", "--keep", "1m"), "at least 1h"),
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


def forget(shell: Shell) -> None:
    """Loses the journal."""
    for file in (shell.home / "state-sandbox").glob("journal.db*"):
        file.unlink()
