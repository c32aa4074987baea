"""The guard inside the boxes of the sandbox: the program that travels in the user-data, on every cloud."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from typing import Any

import pytest

from tests.shell import Shell
from tests.waiting import until

CLOUDS = ("alibaba", "aws", "azure")


def looked_at(shell: Shell) -> Any:
    """The only box, after a look at it. ``list --live`` would look at every region of all clouds."""
    [box] = shell.boxes()
    return shell("show", box["name"], "--live", "--json").box


def deadlines(shell: Shell) -> list[str | None]:
    """The ends that the guards of the only box tell; a guard that has not looked yet tells none."""
    return [guard["deadline"] for guard in looked_at(shell)["guards"] if guard]


def told_by_guard(shell: Shell) -> Any:
    """What the guard of the only box tells, once it has looked: a box that boots has nothing of its."""
    [status] = until(lambda: list((shell.home / "sandbox").glob("boxes/*/root/run/gpucloud/guard.json")))
    return json.loads(status.read_text())


def let_time_pass(shell: Shell, minutes: int) -> None:
    """The guard of the only box has looked since."""
    now = datetime.fromisoformat(shell.sandbox.clock(advance_s=minutes * 60)["now"]).timestamp()
    until(lambda: told_by_guard(shell)["at"] >= int(now))


def ten_minutes_later(shell: Shell) -> bool:
    """Moves the clouds' clock, and gives the guard a moment to look."""
    shell.sandbox.clock(advance_s=10 * 60)
    time.sleep(0.5)
    return True


def test_the_checkpoint_command_runs_on_the_box_when_its_cloud_takes_it_back(own_clouds: Shell) -> None:
    """What each cloud's metadata service says then is the matter of tests/boot/test_guard.py."""
    own_clouds.launch(
        *("--gpu", "T4", "--spot", "--cloud", "azure", "--name", "cheap"),
        *("--checkpoint", 'echo "$USER: $GPUCLOUD_END_REASON in $GPUCLOUD_SECONDS_LEFT s" >/workspace/saved'),
    )
    own_clouds("sandbox", "interrupt", "cheap", "--notice", "600")
    until(lambda: own_clouds("exec", "cheap", "--", "cat", "/workspace/saved").code == 0)
    saved = own_clouds("exec", "cheap", "--", "cat", "/workspace/saved").out
    assert re.fullmatch(r"gpucloud: interruption in (5\d\d|600) s\n", saved), "of ten minutes"
    assert own_clouds("down", "cheap", "--yes").code == 0
    assert own_clouds.sandbox.status()["billing"] == []


def test_a_box_that_nobody_uses_ends(own_clouds: Shell) -> None:
    own_clouds.launch("--gpu", "T4", "--cloud", "aws", "--name", "lonely", "--ttl", "8h", "--idle", "20m")
    until(lambda: ten_minutes_later(own_clouds) and own_clouds.sandbox.status()["billing"] == [])
    assert own_clouds("down", "lonely", "--yes").code == 0


@pytest.mark.parametrize("cloud", ["alibaba", "azure"])
def test_where_power_off_does_not_end_the_bill_the_next_changing_command_does(
    own_clouds: Shell, cloud: str
) -> None:
    own_clouds.launch("--gpu", "T4", "--cloud", cloud, "--name", "lonely", "--ttl", "8h", "--idle", "20m")
    until(lambda: ten_minutes_later(own_clouds) and looked_at(own_clouds)["nodes"][0]["state"] == "stopped")
    assert {"instance", "disk"} <= {each["kind"] for each in own_clouds.sandbox.status()["billing"]}
    assert own_clouds("down", "--run-id", "nobody").code == 0  # a changing command that names no box
    assert own_clouds.sandbox.status()["billing"] == []


@pytest.mark.parametrize("cloud", ["alibaba", "azure"])
def test_what_a_user_stopped_is_left_alone_and_said(cli: Shell, cloud: str) -> None:
    cli.launch("--gpu", "T4", "--cloud", cloud, "--name", "resting", "--idle", "20m")
    cli("exec", "resting", "--", "sudo", "systemctl", "poweroff")
    until(lambda: looked_at(cli)["nodes"][0]["state"] == "stopped")
    cli("down", "--run-id", "nobody")
    assert "ready (stopped, still billed)" in cli("list").out
    assert len(cli.billed()) == 1


def test_a_box_in_use_does_not(own_clouds: Shell) -> None:
    """Somebody is logged in."""
    own_clouds.launch("--gpu", "T4", "--cloud", "aws", "--name", "used", "--ttl", "8h", "--idle", "20m")
    session = own_clouds.start("exec", "used", "--", "sh", "-c", "echo in; exec sleep 600")
    try:
        assert session.stdout is not None
        assert session.stdout.readline() == "in\n"
        let_time_pass(own_clouds, minutes=2)  # the guard asks who is there once a minute
        until(lambda: told_by_guard(own_clouds)["sessions"], "the guard to see it")
        for _ in range(3):
            let_time_pass(own_clouds, minutes=10)
        assert {each["kind"] for each in own_clouds.sandbox.status()["billing"]} >= {"instance"}
    finally:
        session.terminate()
        session.communicate()


def test_what_the_guard_sees_is_listed_and_shown(own_clouds: Shell) -> None:
    own_clouds.launch("--gpu", "T4", "--spot", "--cloud", "aws", "--name", "watched")
    until(lambda: any(guard and guard["clock_is_right"] for guard in looked_at(own_clouds)["guards"]))
    [quiet] = own_clouds.boxes()
    [guard] = quiet["guards"]
    assert guard["deadline"] == quiet["expires_at"]
    assert guard["health"] == {}
    taken = own_clouds("sandbox", "interrupt", "watched", "--notice", "60").out
    assert re.fullmatch(r"watched: \S+ ends at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.\n", taken)
    until(lambda: bool(own_clouds.boxes("--live")[0]["guards"][0]["taken_back_at"]))
    assert "ready (interrupted at 20" in own_clouds("list").out
    shown = own_clouds("show", "watched", "--live").out
    assert "running (" in shown
    assert "interrupted at" in shown
