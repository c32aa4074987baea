"""Killed at the worst moments: one box or none, never two, never a lost one."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.shell import Shell

STAGES = ("received", "applied", "answered")


def named(entries: list[dict[str, Any]]) -> set[str]:
    return {str(entry["box"]) for entry in entries}


def known(cli: Shell) -> set[str]:
    return {str(box["id"]) for box in cli.boxes()}


@pytest.mark.parametrize("stage", STAGES)
def test_a_launch_that_is_killed_loses_nothing_and_doubles_nothing(cli: Shell, stage: str) -> None:
    """SIGKILL around the billable call; then `list` and `launch` in a second shell, with real boxes."""
    cli.sandbox.fault(effect="kill", action="RunInstances", stage=stage)
    assert cli("launch", "--gpu", "T4", "--name", "first", "--yes").code == -signal.SIGKILL
    assert named(cli.billed()) <= known(cli), "every instance that is billed belongs to a box that list shows"
    assert len(cli.billed()) <= 1

    second = cli("launch", "--gpu", "T4", "--name", "second", "--yes", "--json")
    assert second.code == 0, second.err
    assert [box["name"] for box in cli.boxes() if box["state"] == "ready"] == ["second"]
    if len(cli.billed()) > 1:  # a launch settles for two seconds at most, and says what it leaves
        assert "may still be billed" in second.err
        cli("tend")
    assert named(cli.billed()) == {second.json["box"]["id"]}, "what the killed launch left is gone"
    assert cli("down", "second", "--yes").code == 0
    assert cli.billed() == []


@pytest.mark.parametrize("stage", STAGES)
def test_the_same_name_again_after_a_kill_gives_one_box_or_none(cli: Shell, stage: str) -> None:
    """While the outcome of the first launch is unknown its name stays taken; afterwards there is one box."""
    cli.sandbox.fault(effect="kill", action="RunInstances", stage=stage)
    cli("launch", "--gpu", "T4", "--name", "x", "--yes")
    again = cli("launch", "--gpu", "T4", "--name", "x", "--yes")
    assert again.code in {0, 2}
    assert len(cli.billed()) == (1 if again.code == 0 else 0)
    assert named(cli.billed()) <= known(cli)


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_token(cli: Shell) -> None:
    """The connection breaks after the instance was made: the same call again gives the same instance."""
    cli.sandbox.fault(effect="drop", action="RunInstances", stage="applied", times=2)
    assert cli("launch", "--gpu", "T4", "--name", "x", "--yes").code == 0
    assert len(cli.billed()) == 1
    births = [entry for entry in cli.sandbox.ledger() if entry.get("kind") == "instance"]
    assert len(births) == 1


def test_a_deletion_that_is_denied_stays_owed(cli: Shell) -> None:
    """Exit 8, what is left, what the cloud said, and the command that ends it; then that command ends it."""
    cli("launch", "--gpu", "T4", "--name", "x", "--yes")
    cli.sandbox.fault(
        effect="error", action="TerminateInstances", times=None, code="UnauthorizedOperation", status=403
    )
    denied = cli("down", "x", "--yes", "--json")
    assert denied.code == 8
    error = denied.json["error"]
    assert [left["kind"] for left in error["left"]] == ["instance", "disk"]
    assert error["code"] == "UnauthorizedOperation"
    assert error["owed_command"] == "gpucloud down x --yes"
    assert [box["state"] for box in cli.boxes()] == ["deleting"]
    cli.sandbox.clear_faults()
    assert cli("down", "x", "--yes").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_everything_down(cli: Shell, number: signal.Signals) -> None:
    """In the middle of a launch: exit 130, 143 or 129, and nothing is billed."""
    cli.sandbox.fault(effect="delay", action="DescribeInstances", stage="received", times=None, seconds=0.5)
    process = cli.start("launch", "--gpu", "T4", "--name", "x", "--yes")
    assert process.stderr is not None
    for line in process.stderr:
        if "  boot " in line:
            break
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert cli.billed() == []
    assert [box["state"] for box in cli("list", "--all", "--json").json["boxes"]] == ["failed"]


def test_a_second_signal_ends_at_once_and_names_the_command(cli: Shell) -> None:
    """Somebody who cannot wait is told what remains to be done; the journal knows it too."""
    cli.sandbox.fault(effect="delay", action="DescribeInstances", times=None, seconds=1)
    cli.sandbox.fault(effect="hang", action="TerminateInstances", times=1)
    process = cli.start("launch", "--gpu", "T4", "--name", "x", "--yes")
    assert process.stderr is not None
    for line in process.stderr:
        if "  boot " in line:
            break
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "  down " in line:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "gpucloud down x" in err
    cli.sandbox.clear_faults()
    assert cli("down", "x", "--yes").code == 0
    assert cli.billed() == []


def test_two_shells_with_one_name_make_one_box(cli: Shell) -> None:
    """The second is refused before it spends anything."""
    both = [cli.start("launch", "--gpu", "T4", "--name", "x", "--yes") for _ in range(2)]
    codes = sorted(process.wait(timeout=120) for process in both)
    for process in both:
        process.communicate()
    assert codes == [0, 2]
    assert len(cli.billed()) == 1


def test_a_box_that_is_being_launched_is_left_alone_by_all_but_an_explicit_down(cli: Shell) -> None:
    """A second shell does not clean it up; it ends it when it is told so, and the launch gives way."""
    cli.sandbox.pace(transition_s=20)
    process = cli.start("launch", "--gpu", "T4", "--name", "x", "--yes")
    assert process.stderr is not None
    for line in process.stderr:
        if "  boot " in line:
            break
    swept = cli("sweep", "--older-than", "0s", "--yes", "--json")
    assert (swept.code, swept.json["found"]) == (0, [])
    assert len(cli.billed()) == 1
    cli.sandbox.pace(transition_s=0)
    assert cli("down", "x", "--yes").code == 0
    launched = cli.finish(process)
    assert launched.code == 1
    assert "was taken over by another gpucloud" in launched.err
    assert cli.sandbox.status()["billing"] == []
    assert [box["state"] for box in cli.boxes("--all")] == ["deleted"]


def test_a_deleted_state_file_is_no_reason_to_lose_a_box(cli: Shell) -> None:
    """Everything billable is found by its tags alone."""
    cli("launch", "--gpu", "T4", "--name", "x", "--yes")
    for file in (cli.home / "state-sandbox").glob("journal.db*"):
        file.unlink()
    assert cli.boxes() == []
    [entry] = cli.billed()
    assert entry["owner"]
    assert entry["box"]
