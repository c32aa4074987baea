"""A stopped box that is started in the console: its end and its price are what ``list`` says."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.test_guard import CLOUDS, let_time_pass, told_by_guard
from tests.consoles import Console
from tests.shell import Shell
from tests.waiting import until


def the_box(shell: Shell) -> Any:
    return shell("show", "x", "--json").box


def stopped(shell: Shell, cloud: str) -> Any:
    """A box whose life was one hour, stopped, and kept for days."""
    shell.launch("--gpu", "T4", "--cloud", cloud, "--name", "x", "--ttl", "1h")
    return shell("stop", "x", "--yes", "--json").box


def told(shell: Shell, end: str) -> bool:
    """Whether the guard has looked since the boot, and has this end."""
    written = list((shell.home / "sandbox").glob("boxes/*/root/run/gpucloud/guard.json"))
    return bool(written and told_by_guard(shell)["deadline"] == datetime.fromisoformat(end).timestamp())


@pytest.mark.parametrize("cloud", CLOUDS)
def test_it_outlives_the_end_of_its_first_life_and_its_disk_with_it(own_clouds: Shell, cloud: str) -> None:
    end = stopped(own_clouds, cloud)["expires_at"]
    Console(own_clouds, "x").start()
    until(lambda: bool(own_clouds.billed()), "the start")
    until(lambda: told(own_clouds, end), "the guard's end")
    let_time_pass(own_clouds, 70)
    assert len(own_clouds.billed()) == 1
    assert own_clouds.billed("disk")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_its_price_and_its_end_are_said_by_whoever_looks(own_clouds: Shell, cloud: str) -> None:
    box = stopped(own_clouds, cloud)
    Console(own_clouds, "x").start()
    until(lambda: bool(own_clouds.billed()), "the start")
    for line in (("tend",), ("sweep", "--yes"), ("list", "--live")):
        said = " ".join(own_clouds(*line).err.split())
        assert "x was started in the cloud's console" in said, line
        assert box["expires_at"] in said
        assert "gpucloud stop x" in said
        shown = the_box(own_clouds)["per_hour"]["compute"]
        assert Decimal(shown["amount"]) == Decimal(box["price"]["amount"])
    assert own_clouds("stop", "x", "--keep", "2d", "--yes").code == 0
    assert not own_clouds.billed()
    assert the_box(own_clouds)["expires_at"] < box["expires_at"]


def test_a_start_that_fails_leaves_the_end_of_the_stopped_box(own_clouds: Shell) -> None:
    """The guard was told the end of the new life already."""
    end = stopped(own_clouds, "aws")["expires_at"]
    own_clouds.sandbox.fault(cloud="aws", action="StartInstances", effect="kill", stage="applied")
    own_clouds("start", "x", "--ttl", "2h", "--yes")
    until(lambda: own_clouds("sweep", "--yes").code == 0 and the_box(own_clouds)["state"] == "stopped")
    Console(own_clouds, "x").start()
    until(lambda: told(own_clouds, end), "the guard's end")
