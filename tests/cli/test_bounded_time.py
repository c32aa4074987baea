"""A cloud that says nothing keeps nobody waiting for the others; every command has a limit that is tested."""

from __future__ import annotations

import time

from gpucloud.cli.app import COMMANDS
from tests.chaos.patience import ROWS
from tests.shell import Shell

GENEROUS_S = 60.0
"""What hangs here hangs for longer: it was 182 s."""


def test_every_command_has_a_limit_of_time() -> None:
    """It is held to it by ``make torture``."""
    assert set(ROWS) == set(COMMANDS)
    assert all(row.line[0] == name for name, row in ROWS.items())


def test_a_live_look_names_the_cloud_that_hangs_and_answers_for_the_others(cli: Shell) -> None:
    box = cli.launch("--gpu", "T4", "--cloud", "aws", "--name", "x")
    cli.sandbox.fault(effect="hang", cloud="azure", times=None)
    began = time.monotonic()
    live = cli("list", "--live", "--json")
    shown = cli("show", "x", "--live", "--json")
    assert time.monotonic() - began < GENEROUS_S
    assert [(each["cloud"], each["region"]) for each in live.json["unread"]] == [("azure", "*")]
    assert [(each["id"], each["state"]) for each in live.json["boxes"]] == [(box["id"], "ready")]
    assert shown.box["seen_at"] >= box["seen_at"]
    assert "Could not read: azure" in live.err


def test_a_launch_goes_on_without_the_cloud_that_hangs(cli: Shell) -> None:
    """Also where a launch there is owed: that is said, and left."""
    cli.sandbox.fault(effect="kill", cloud="azure", action="PUT virtualMachine*", stage="applied")
    assert cli("launch", "--gpu", "T4", "--cloud", "azure", "--yes", "--name", "dead").code == -9
    cli.sandbox.fault(effect="hang", cloud="azure", times=None)
    began = time.monotonic()
    launched = cli("launch", "--gpu", "T4", "--yes", "--json", "--name", "x")
    assert time.monotonic() - began < GENEROUS_S
    assert launched.box["cloud"] != "azure"
    assert "Still owed: dead may still be billed" in launched.err
    cli.sandbox.clear_faults()
    assert cli("down", "dead", "x", "--yes").code == 0
    assert cli.billed() == []
