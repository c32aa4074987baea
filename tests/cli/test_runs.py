"""``runs``: what became of runs, and their end."""

from __future__ import annotations

from tests.shell import Shell

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
