"""``runs``: what became of runs, and their end."""

from __future__ import annotations

from functools import partial

import pytest

from tests.shell import Shell
from tests.waiting import until

RUN = ("run", "--gpu", "T4", "--cloud", "aws")


def test_a_run_tells_its_attempts_its_cost_and_its_output_when_it_is_over(cli: Shell) -> None:
    script = 'echo "try $GPUCLOUD_RESTARTS"; [ "$GPUCLOUD_RESTARTS" = 1 ] && exit 3; exit 75'
    ran = cli(*RUN, "--run-id", "nightly", "--restarts", "2", "--", "sh", "-c", script)
    assert ran.code == 3
    assert cli("runs", "list", "--active").out == ""
    [listed] = cli("runs", "list", "--json").json["runs"]
    assert "The run cost $" in ran.err
    shown = cli("runs", "show", "nightly", "--json").json["run"]
    assert shown == listed
    assert (shown["state"], shown["exit_code"], shown["restarts"]) == ("ended", 3, 1)
    assert shown["command"] == ["sh", "-c", script]
    first, second = shown["attempts"]
    assert (first["loss"], second["loss"]) == ("request", None)
    boxes = {box["name"]: box for box in cli.boxes("--all")}
    assert list(boxes) == [first["box"], second["box"]]
    assert first["cost_so_far"] == [boxes[first["box"]]["cost_so_far"]]
    assert cli("runs", "logs", "nightly").out == "try 1\n"
    assert cli("runs", "logs", "nightly", "--attempt", "1").out == "try 0\n"
    everything = cli("runs", "logs", "nightly", "--all")
    assert (everything.code, everything.out) == (0, "try 0\ntry 1\n")
    assert f"Attempt 1 on {first['box']}, lost by request:" in everything.err
    followed = cli("runs", "logs", "nightly", "-f")
    assert (followed.code, followed.out) == (3, "try 1\n")
    assert (
        cli("runs", "logs", "nightly", "--attempt", "3", "--json").error["hint"].endswith("runs show nightly")
    )
    table = cli("runs", "show", "nightly").out
    assert "ended (exit code 3)" in table
    assert "1 of at most 2" in table
    assert "nightly" in cli("runs", "list", "-o", "name", "--all").out


def test_a_run_that_is_cancelled_loses_its_box_and_gets_no_other(cli: Shell) -> None:
    """Its process notices, and begins nothing new, though it may restart."""
    process = cli.start(*RUN, "--run-id", "r", "--restarts", "5", "--", "sh", "-c", "echo begun; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    assert cli("runs", "list", "--json").json["runs"][0]["state"] == "running"
    assert cli("runs", "cancel", "r").code == 2, "without a terminal it asks for --yes"
    cancelled = cli("runs", "cancel", "r", "--yes", "--json")
    assert cancelled.code == 0, cancelled.err
    assert (cancelled.json["run"]["state"], cli.sandbox.status()["billing"]) == ("cancelled", [])
    ended = cli.finish(process)
    assert (ended.code, "Traceback" in ended.err) == (125, False)
    assert len(cli.boxes("--all")) == 1
    assert cli("runs", "cancel", "r", "--yes").code == 0, "once more changes nothing"


def test_a_run_that_does_not_exist_is_refused_with_the_nearest(cli: Shell) -> None:
    refused = cli("runs", "show", "nightli", "--json")
    assert (refused.code, refused.error["hint"]) == (2, "see your runs: gpucloud runs list --all")


@pytest.mark.parametrize("how", ["attached", "detached"])
def test_why_a_run_ended_is_told_apart_where_the_exit_code_is_the_same(cli: Shell, how: str) -> None:
    """By ``--timeout``, or by the command itself; also once its files have come."""
    runs = {"stopped": ("--timeout", "1s", "--fetch", "log"), "own": ()}
    for name, more in runs.items():
        detach = ("--detach",) if how == "detached" else ()
        command = ("--", "sh", "-c", "echo >log; sleep 600") if more else ("--", "sh", "-c", "exit 124")
        ran = cli(*RUN, "--run-id", name, *detach, *more, "--json", *command)
        if detach:
            until(partial(ended_by_tend, cli, name), "the run to end")
        else:
            assert (ran.code, ran.json["exit_code"]) == (124, 124)
            assert (ran.json["failure"] or {}).get("class") == ("timeout" if more else None)
    stopped, own = (cli("runs", "show", name, "--json").json["run"] for name in runs)
    assert (stopped["state"], stopped["exit_code"], stopped["failure"]["class"]) == ("failed", 124, "timeout")
    assert (own["state"], own["exit_code"], own["failure"]) == ("ended", 124, None)
    assert stopped["detached"] is (how == "detached")
    assert "still ran after 1 s, and was stopped (--timeout)" in cli("runs", "show", "stopped").out
    assert (cli.home / "log").exists()
    assert cli.sandbox.status()["billing"] == []


def ended_by_tend(cli: Shell, name: str) -> bool:
    assert cli("tend").code == 0
    return cli("runs", "show", name, "--json").json["run"]["ended_at"] is not None


def test_a_box_that_a_user_deletes_and_one_that_passes_its_deadline_end_a_run_differently(
    own_clouds: Shell,
) -> None:
    for name in ("cancelled", "deadline"):
        process = own_clouds.start(*RUN, "--ttl", "2h", "--run-id", name, "--json", "--", "sleep", "600")
        until(lambda: own_clouds("runs", "list", "--json").json["runs"], "the run")
        until(lambda: [each for each in own_clouds.boxes() if each["state"] == "ready"], "its box")
        if name == "cancelled":
            assert own_clouds("down", own_clouds.boxes()[0]["name"], "--yes").code == 0
        else:
            own_clouds.sandbox.clock(advance_s=7300)
        ended = own_clouds.finish(process)
        assert (ended.code, ended.error["class"]) == (125, name), ended.err
        run = own_clouds("runs", "show", name, "--json").json["run"]
        assert run["failure"]["class"] == name
        assert run["state"] == ("cancelled" if name == "cancelled" else "failed")


@pytest.mark.parametrize("how", ["attached", "detached"])
def test_a_command_that_fails_because_its_only_gpu_is_gone_is_run_again_elsewhere(
    cli: Shell, how: str
) -> None:
    detach = ("--detach",) if how == "detached" else ()
    script = '[ "$GPUCLOUD_RESTARTS" = 1 ] && exit; while nvidia-smi -L; do sleep 0.1; done; exit 1'
    process = cli.start(*RUN, "--run-id", "r", "--restarts", "2", *detach, "--", "sh", "-c", script)
    until(lambda: [each for each in cli.boxes() if each["state"] == "ready"], "its box")
    root = cli.endpoint.folder / "boxes" / cli.billed()[0]["id"] / "root"
    (root / "tmp/gpu-sick").write_text("lost")
    ended = cli.finish(process)
    if detach:
        until(lambda: ended_by_tend(cli, "r"), "the run to end")
    assert ended.code == 0, ended.err
    run = cli("runs", "show", "r", "--json").json["run"]
    assert (run["exit_code"], [each["loss"] for each in run["attempts"]]) == (0, ["hardware", None])
    assert "its driver shows: none" in run["attempts"][0]["message"]
    assert cli.sandbox.status()["billing"] == []
