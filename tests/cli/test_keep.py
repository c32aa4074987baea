"""``launch --keep-on-failure``, ``setup``, and the logs of boxes that are no more."""

from __future__ import annotations

import signal
from itertools import takewhile
from typing import Any

from tests.shell import Shell
from tests.waiting import PATIENCE_S, until

SECRET = "canary-of-a-setup-5f0e1b"
WAITS = "until [ -e ~/mended ]; do [ ! -e ~/broken ] || exit 3; sleep 0.1; done"


def launch(cli: Shell, *more: str, **variables: str) -> Any:
    """A launch that fails and keeps its box; returns the error."""
    failed = cli(
        "launch", "--gpu", "T4", "--name", "x", "--yes", "--keep-on-failure", "--json", *more, **variables
    )
    assert failed.code == 8, failed.err
    return failed.error


def test_a_box_with_a_failed_setup_is_entered_mended_and_ready(cli: Shell) -> None:
    error = launch(
        cli, "--cloud", "alibaba", "--setup", "echo looking for it; test -e ~/mended", "--ttl", "2h"
    )
    assert error["class"] == "setup"
    assert error["owed_command"] == "gpucloud down x --yes"
    assert {left["kind"] for left in error["left"]} >= {"instance"}
    [box] = cli.boxes()
    assert (box["state"], box["nodes"][0]["state"]) == ("failed", "running")
    assert "exit code 1" in box["setup_error"]
    assert float(box["per_hour"]["compute"]["amount"]) > 0
    assert box["expires_at"]
    assert cli.billed(), "the sandbox's ledger says so too"
    assert "failed (still billed)" in cli("list").out
    shown = cli("show", "x").out
    assert "gpucloud ssh x\n" in shown, "a box that was kept can be entered"
    told = shown[shown.index("setup error") :].splitlines()
    field = takewhile(lambda line: line.startswith("   "), told[1:])
    assert any("looking for it" in line for line in field), "its log is inside its field"
    assert "looking for it" in cli("logs", "x").out

    again = cli("setup", "x", "--json")
    assert again.code == 8
    assert again.error["class"] == "setup"
    assert cli("exec", "x", "--", "touch", "mended").code == 0
    ready = cli("setup", "x", "--json")
    assert ready.box["state"] == "ready", ready.err
    assert ready.box["setup_error"] is None
    assert [box["state"] for box in cli.boxes()] == ["ready"]
    assert cli("down", "x", "--yes").code == 0
    assert cli.billed() == []


def test_variables_reach_setup_exec_and_ssh_and_no_place_here(cli: Shell) -> None:
    launch(
        cli,
        "--setup",
        'echo "with $TOKEN"; test -e ~/mended',
        "--env",
        "TOKEN",
        "--run",
        "echo $TOKEN >ran",
        TOKEN=SECRET,
    )
    assert cli("exec", "x", "--", "printenv", "TOKEN").out == f"{SECRET}\n"
    assert cli("ssh", "x", "--", "sh", "-c", "echo $TOKEN").out == f"{SECRET}\n"
    assert cli("exec", "x", "--", "sh", "-c", "stat -c %a .gpucloud/env").out == "600\n"
    cli("exec", "x", "--", "touch", "mended")
    assert cli("setup", "x").code == 0
    assert cli("exec", "x", "--", "sh", "-c", "until cat ran; do sleep 0.1; done").out == f"{SECRET}\n"
    assert cli("down", "x", "--yes").code == 0
    logs = cli("logs", "x")
    assert "with [hidden]" in logs.out, logs.err
    files = [file for file in (cli.home / "state-sandbox").rglob("*") if file.is_file()]
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
    kept = [file for file in files if "logs" in file.parts]
    assert kept
    assert {file.stat().st_mode & 0o777 for file in kept} == {0o600}
    assert {file.parent.stat().st_mode & 0o777 for file in kept} == {0o700}


def test_logs_of_boxes_that_are_no_more(cli: Shell) -> None:
    failed = cli("launch", "--gpu", "T4", "--name", "x", "--setup", "echo why it failed; exit 3", "--yes")
    assert failed.code == 1
    assert cli.billed() == []
    of_failed = cli("logs", "x")
    assert "why it failed" in of_failed.out
    assert "was kept at" in of_failed.err
    cli.launch("--gpu", "T4", "--name", "y", "--run", "echo computed")
    assert (
        cli(
            "exec", "y", "--", "sh", "-c", "until grep computed .gpucloud/jobs/run/out; do sleep 0.1; done"
        ).code
        == 0
    )
    assert cli("down", "y", "--yes").code == 0
    assert cli("logs", "y", "--job", "run", "--json").json["text"] == "computed"
    assert cli("run", "--gpu", "T4", "--name", "z", "--", "echo", "ran").code == 0
    assert cli("logs", "z", "--job", "run").out == "ran\n"
    assert cli("logs", "z", "--job", "run", "--node", "1").code == 2


def test_a_launch_that_dies_before_it_keeps_its_box_leaves_nothing(cli: Shell) -> None:
    """Killed after the set-up failed and before that is journalled: remains, which the next command ends."""
    process = cli.start(
        *("launch", "--gpu", "T4", "--name", "x", "--yes", "--keep-on-failure", "--cloud", "aws"),
        *("--setup", WAITS, "--ttl", "2h"),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "running the setup" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert [box["state"] for box in cli.boxes()] == ["bootstrapping"]
    assert cli("setup", "x").code == 2
    assert cli("sweep", "--yes").code == 0
    assert cli.billed() == []
    assert cli.boxes() == []


def test_a_repeated_setup_that_dies_leaves_a_box_that_can_be_set_up_again(cli: Shell) -> None:
    launch(cli, "--setup", "[ ! -e ~/slow ] || sleep 2; test -e ~/mended")
    cli("exec", "x", "--", "touch", "slow")
    process = cli.start("setup", "x")
    assert process.stderr is not None
    for line in process.stderr:
        if "running the setup" in line:
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    [box] = cli.boxes()
    assert (box["state"], box["nodes"][0]["state"]) == ("failed", "running")
    swept = cli("sweep", "--older-than", "0s", "--yes", "--json")
    assert (swept.code, swept.json["found"]) == (0, [])
    cli("exec", "x", "--", "rm", "slow")
    cli("exec", "x", "--", "touch", "mended")
    ended = "cd /var/lib/gpucloud; until [ -e ready ] || [ -e failed ]; do sleep 0.1; done"
    assert cli("exec", "x", "--", "sh", "-c", ended).code == 0
    assert cli("setup", "x").code == 0
    assert [box["state"] for box in cli.boxes()] == ["ready"]


def test_a_kept_box_ends_at_its_deadline(own_clouds: Shell) -> None:
    """Without us; what is billed after that on Azure is deleted by the next command."""
    launch(own_clouds, "--cloud", "azure", "--setup", "exit 3", "--ttl", "1h")
    assert own_clouds("extend", "x", "--ttl", "40m", "--yes").code == 0
    own_clouds.sandbox.clock(advance_s=50 * 60)
    until(lambda: not own_clouds.billed(), "the end of the bill")
    assert "ended by its ttl" in own_clouds("list", "--live").out
    assert own_clouds("down", "x", "--yes").code == 0
    assert own_clouds.sandbox.status()["billing"] == []


def test_a_box_whose_guard_does_not_run_is_not_kept(cli: Shell) -> None:
    """It would not end by itself."""
    stop = (
        "sudo systemctl stop gpucloud-guard.service; cd ../../run; mv gpucloud gone; touch gpucloud; exit 3"
    )
    failed = cli("launch", "--gpu", "T4", "--name", "x", "--yes", "--keep-on-failure", "--setup", stop)
    assert failed.code == 1
    assert "not kept" in failed.err
    assert cli.billed() == []


def test_a_run_keeps_a_box_with_a_failed_setup(cli: Shell) -> None:
    line = ("run", "--gpu", "T4", "--name", "x", "--keep-on-failure", "--setup", "exit 3", "--", "true")
    assert cli(*line).code == 125
    assert [box["state"] for box in cli.boxes()] == ["failed"]
    assert cli("sweep", "--older-than", "0s", "--yes", "--json").json["found"] == [], "its run is no more"
    assert cli.billed()
