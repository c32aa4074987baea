"""Every command that makes a bill larger, against every limit: one test for each cell of the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.forked import ForkServer
from tests.shell import Result, Shell, newcomer

T4 = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "launch": ("launch", *T4, "--ttl", "2h", "--tag", "team="),
    "run": ("run", *T4, "--ttl", "2h", "--tag", "team=", "--", "true"),
    "move": ("move", "x", "--to", "us-west-2"),
    "start": ("start", "y", "--ttl", "2h"),
    "stop": ("stop", "x", "--keep", "3650d"),
    "stop of a stopped box": ("stop", "y", "--keep", "3650d"),
    "extend": ("extend", "x", "--ttl", "3000h"),
    "volume create": ("volume", "create", "v", "--size", "16000", "--near", "T4", "--cloud", "aws"),
    "snapshot of a volume": ("snapshot", "create", "s", "--of", "data"),
    "image of a box": ("snapshot", "create", "i", "--of", "y"),
}
POLICIES: Mapping[str, str] = {
    "per_hour": "per_hour: 0.01",
    "ttl": "ttl: 1h",
    "tags": "tags: [team]",
    "max_price": "max_price: 0.01",
}
LIMITS = ("budget", *POLICIES)
STORES = {"volume create", "snapshot of a volume", "image of a box"}
NOT_HELD: Mapping[tuple[str, str], str] = {
    **{(stores, "ttl"): "it outlives boxes, and has an end of its own" for stores in STORES},
    **{(stores, "tags"): "the rule is about boxes" for stores in STORES},
    **{(stores, "max_price"): "the limit is of compute" for stores in STORES},
    **{
        (lasts, limit): "it costs no more per hour than before"
        for lasts in ("stop", "stop of a stopped box", "extend")
        for limit in ("per_hour", "tags", "max_price")
    },
}
"""The cells that hold nothing back, and why."""


@pytest.fixture(scope="module")
def lab(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Shell]:
    """A box that runs, one that is stopped, and a volume: no test may buy anything or change an end."""
    with newcomer(endpoint, tmp_path_factory.mktemp("home"), forks) as shell:
        shell.launch(*T4, "--ttl", "2h", "--name", "x")
        shell.launch(*T4, "--ttl", "2h", "--name", "y")
        assert shell("stop", "y", "--yes").code == 0
        made = shell("volume", "create", "data", "--size", "10", "--near", "T4", "--cloud", "aws", "--yes")
        assert made.code == 0, made.err
        yield shell


def limited(shell: Shell, limit: str) -> str:
    """Puts a limit in force; gives the class of its refusal."""
    if limit == "budget":
        assert shell("budget", "set", "lab", "0.01", "--per", "total").code == 0
        return "budget"
    file = shell.home / "policy.yaml"
    file.write_text(POLICIES[limit])
    assert shell("policy", "apply", str(file)).code == 0
    return "policy"


@pytest.fixture
def free(lab: Shell) -> Iterator[Shell]:
    """The lab, without a limit before and after."""
    yield lab
    if lab("budget", "list", "--json").json["budgets"]:
        assert lab("budget", "set", "lab", "none").code == 0
    file = lab.home / "policy.yaml"
    file.write_text("# nothing\n")
    assert lab("policy", "apply", str(file)).code == 0


def ran(shell: Shell, command: str) -> Result:
    line = list(COMMANDS[command])
    at = line.index("--") if "--" in line else len(line)
    return shell(*line[:at], *([] if command == "run" else ["--yes"]), "--json", *line[at:])


@pytest.mark.parametrize(
    ("command", "limit"), [cell for cell in itertools.product(COMMANDS, LIMITS) if cell not in NOT_HELD]
)
def test_a_command_that_makes_the_bill_larger_is_held_by_the_limit(
    free: Shell, command: str, limit: str
) -> None:
    refusal = limited(free, limit)
    ends = {box["name"]: box["expires_at"] for box in free.boxes()}
    free.sandbox.calls(clear=True)
    result = ran(free, command)
    assert result.code, f"{command} was done: {result.out}"
    assert result.error["class"] == refusal, result.error
    assert free.changes_asked() == []
    assert {box["name"]: box["expires_at"] for box in free.boxes()} == ends


def test_a_budget_that_has_room_for_some_days_of_a_stopped_box_has_none_for_ten_years(free: Shell) -> None:
    assert free("budget", "set", "lab", "20", "--per", "total").code == 0
    assert free("stop", "y", "--keep", "3650d", "--yes", "--json").error["class"] == "budget"
    assert free("stop", "y", "--keep", "3d", "--yes").code == 0


def test_a_stop_without_a_time_is_never_refused_and_keeps_for_as_long_as_the_policy_allows(
    own_clouds: Shell, tmp_path: Path
) -> None:
    """On clouds of its own: those of the lab are not emptied while others look at it."""
    own_clouds.launch(*T4, "--ttl", "2h", "--name", "z")
    file = tmp_path / "policy.yaml"
    file.write_text("ttl: 5h")
    assert own_clouds("policy", "apply", str(file)).code == 0
    assert own_clouds("budget", "set", "lab", "0.01", "--per", "total").code == 0
    stopped = own_clouds("stop", "z", "--yes", "--json")
    assert stopped.box["state"] == "stopped"
    assert "budget 'lab' would be exceeded" in stopped.err
    lives = own_clouds("list").out
    assert "4h" in lives or "5h" in lives


def test_every_cell_of_the_table_is_held_or_says_why_not() -> None:
    assert set(NOT_HELD) <= set(itertools.product(COMMANDS, LIMITS))
