"""``run``: a box for one command, which is gone in every outcome; test_fetch.py has what keeps it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import Any

import pytest

from tests.forked import Forked
from tests.processes import command_lines, ssh_of
from tests.shell import PROGRAMS, TIMEOUT_S, Shell
from tests.waiting import PATIENCE_S, until

ON = ("run", "--gpu", "T4", "--cloud")
RUN = (*ON, "aws")
SECRET = "hunter2-correct-horse"


def started(cli: Shell, *arguments: str, **environment: str) -> subprocess.Popen[str] | Forked:
    """A run whose command has begun: it says so."""
    process = cli.start(*RUN, *arguments, "--", "sh", "-c", "echo begun; sleep 600", **environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def states(cli: Shell) -> list[str]:
    """Of all boxes that there ever were."""
    return [box["state"] for box in cli.boxes("--all")]


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_the_life_of_a_run(cli: Shell, cloud: str) -> None:
    """Files go up, the command's output, files and exit code come back, and nothing is left."""
    (cli.home / "src").mkdir()
    (cli.home / "src" / "numbers").write_text("40 2\n")
    script = "echo told >&2; read a b <work/numbers; echo $((a + b)) | tee result; exit 7"
    ran = cli(
        *("run", "--gpu", "T4", "--cloud", cloud, "--sync", "src/:work", "--fetch", "result:here/"),
        *("--summary", "summary.md", "--", "bash", "-c", script),
    )
    assert (ran.code, ran.out) == (7, "42\n")
    assert "told" in ran.err
    assert (cli.home / "here" / "result").read_text() == "42\n"
    assert cli.sandbox.status()["billing"] == []
    assert states(cli) == ["deleted"]
    summary = (cli.home / "summary.md").read_text()
    assert "**Exit code 7.**" in summary
    assert f"| where | {cloud} " in summary
    assert "| job |" in summary


def test_the_document_has_the_box_and_the_exit_code_and_the_output_goes_elsewhere(cli: Shell) -> None:
    ran = cli(*RUN, "--run-id", "ci-1", "--json", "--", "echo", "hello")
    assert (ran.code, ran.json["schema"], ran.json["exit_code"]) == (0, "gpucloud.run/v1", 0)
    assert (ran.json["box"]["run_id"], ran.json["box"]["state"]) == ("ci-1", "deleted")
    assert [node["state"] for node in ran.json["box"]["nodes"]] == ["gone"]
    shown = cli("show", ran.json["box"]["name"], "--json").json["box"]
    assert [node["state"] for node in shown["nodes"]] == ["gone"]
    assert {"create", "job", "down"} <= {step["step"] for step in ran.json["timeline"]}
    assert "hello" in ran.err


def test_output_comes_as_it_is_written_and_whole(cli: Shell) -> None:
    """Half a megabyte in both streams, no line end at the end."""
    script = "seq 80000; printf end; seq 80000 >&2"
    ran = cli(*RUN, "--", "sh", "-c", script)
    assert ran.out == "".join(f"{n}\n" for n in range(1, 80001)) + "end"
    assert "".join(f"{n}\n" for n in range(1, 80001)) in ran.err


def test_arguments_and_variables_arrive_as_they_are_and_nobody_else_sees_the_values(cli: Shell) -> None:
    """Not the journal, not user-data, not a log, not our output."""
    (cli.home / "box.yaml").write_text('setup: test -n "$TOKEN" && touch seen\n')
    ran = cli(
        *(*RUN, "-f", "box.yaml", "--env", "TOKEN", "--env", "GREETING=a b $c", "-vv", "--", "sh", "-c"),
        *('ls seen; printf "%s|" "$GREETING" "$1" ${#TOKEN}', "sh", "it's $HOME"),
        TOKEN=SECRET,
    )
    assert ran.out == f"seen\na b $c|it's $HOME|{len(SECRET)}|"
    assert SECRET not in ran.err
    for file in [*cli.home.glob("state-sandbox/**/*"), *cli.home.glob("sandbox/**/*")]:
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_a_variable_that_is_not_there_is_refused_before_anything_is_bought(cli: Shell) -> None:
    refused = cli(*RUN, "--env", "NO_SUCH_THING", "--json", "--", "true")
    assert (refused.code, refused.error["class"]) == (125, "usage")
    assert cli.changes_asked() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "specify a command"),
        (("--retry-on", "luck", "--", "true"), "unknown reason 'luck'"),
        (("--restarts", "-1", "--", "true"), "--restarts"),
        (("--timeout", "5", "--", "true"), "--timeout"),
        (("--fetch", ":", "--", "true"), "--fetch"),
        (("--sync", "nowhere", "--", "true"), "nowhere does not exist"),
    ],
)
def test_a_bad_line_is_refused_before_anything_is_bought(
    cli: Shell, arguments: tuple[str, ...], said: str
) -> None:
    refused = cli(*RUN, *arguments)
    assert refused.code == 125
    assert said in refused.err
    assert cli.changes_asked() == []


@pytest.mark.parametrize("text", ["", "a b", "a;rm", "-x", "x" * 129])
@pytest.mark.parametrize("command", ["run", "launch", "down"])
def test_a_run_id_that_is_none_is_refused(cli: Shell, command: str, text: str) -> None:
    """An empty one, from an unset variable of a CI script, would stand for every box without a run id."""
    line = {
        "run": (*RUN, "--", "true"),
        "launch": ("launch", "--gpu", "T4", "--yes"),
        "down": ("down", "--yes"),
    }
    name, *rest = line[command]
    refused = cli(name, f"--run-id={text}", *rest)
    assert refused.code == (125 if command == "run" else 2)
    assert "--run-id" in refused.err
    assert cli.changes_asked() == []


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(cli: Shell) -> None:
    length = f"{os.getpid()}77777"  # unlike that of anybody who runs these tests beside us
    script = f"trap 'echo asked; exit 3' TERM; sleep {length} & wait"
    ran = cli(*RUN, "--timeout", "3s", "--", "bash", "-c", script)
    assert ran.code == 124
    assert "asked" in ran.out
    assert cli.billed() == []
    assert not [line for line in command_lines().values() if length.encode() in line]


def test_a_file_that_a_failed_command_did_not_write_is_named_and_its_code_is_kept(cli: Shell) -> None:
    """The other files are brought all the same."""
    fetches = ("--fetch", "nothing", "--fetch", "log:here/")
    (cli.home / "here").mkdir()
    ran = cli(*RUN, *fetches, "--json", "--", "sh", "-c", "echo why >log; exit 3")
    assert ran.code == 3, ran.err
    assert (ran.json["exit_code"], ran.json["not_fetched"]) == (3, ["nothing"])
    assert "warning: 'nothing' was not fetched" in ran.err
    assert (cli.home / "here" / "log").read_text(encoding="utf-8") == "why\n"
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_takes_the_box_down(cli: Shell, number: signal.Signals) -> None:
    process = started(cli)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.wait() == 128 + number
    assert "deleting the resources of" in err
    assert cli.sandbox.status()["billing"] == []
    assert states(cli) == ["deleted"]


def test_a_run_under_nohup_goes_on_when_its_window_is_closed(cli: Shell) -> None:
    """What its box runs hears the signal all the same: it is not this machine's."""
    hears = "trap 'echo heard' HUP; echo begun; until [ -e go ]; do sleep 0.1; done; kill -HUP $$; exit 7"
    line = ("nohup", PROGRAMS / "gpucloud", *RUN, "--", "sh", "-c", hears)
    process = subprocess.Popen(
        line, env=cli.environ, cwd=cli.home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGHUP)
    [machine] = cli.billed()
    (cli.endpoint.folder / "boxes" / str(machine["id"]) / "root/home/gpucloud/go").touch()
    ended = cli.finish(process)
    assert (ended.code, ended.out) == (7, "heard\n"), ended.err
    assert cli.billed() == []


def test_a_reader_who_goes_away_takes_the_box_down(cli: Shell) -> None:
    process = cli.start(*RUN, "--", "sh", "-c", "while :; do echo more; sleep 0.1; done")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "more\n"
    process.stdout.close()
    with process.stderr as stderr:
        stderr.read()
    assert process.wait(timeout=PATIENCE_S) == 128 + signal.SIGPIPE
    assert cli.sandbox.status()["billing"] == []


def test_what_a_killed_run_leaves_is_said_and_the_next_command_ends_it(cli: Shell) -> None:
    """As its machine would be gone: nobody answers a signal any more."""
    process = started(cli, "--run-id", "ci-9")
    assert "was left unfinished" not in cli("list").err
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert len(cli.billed()) == 1
    assert "was left unfinished by a command that ended" in cli("list").err
    again = cli(*RUN, "--run-id", "ci-9", "--", "true")
    assert again.code == 0, again.err
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize("state_is_there", [True, False])
def test_a_cleanup_job_ends_a_killed_run_also_from_another_machine(cli: Shell, state_is_there: bool) -> None:
    owner = {"GPUCLOUD_OWNER": "u-ci"}
    other = cli("launch", "--gpu", "T4", "--run-id", "ci-11", "--yes", "--json", **owner).box
    process = started(cli, "--run-id", "ci-10", **owner)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    if not state_is_there:
        for file in (cli.home / "state-sandbox").glob("journal.db*"):
            file.unlink()
    ended = cli("down", "--run-id", "ci-10", "--yes", "--json", **owner)
    assert ended.code == 0, ended.err
    assert [box["state"] for box in ended.json["boxes"]] == ["deleted"]
    assert {entry["box"] for entry in cli.sandbox.status()["billing"]} == {other["id"]}
    assert cli("down", "--run-id", "ci-10", "--yes", **owner).code == 0, "twice is no error"


def test_another_owners_run_of_the_same_id_is_left_alone_and_said(cli: Shell) -> None:
    theirs = cli("launch", "--gpu", "T4", "--run-id", "ci", "--yes", "--json", GPUCLOUD_OWNER="u-a").box
    ended = cli("down", "--run-id", "ci", "--yes", GPUCLOUD_OWNER="u-b")
    assert ended.code == 0
    assert "GPUCLOUD_OWNER=u-a" in ended.err
    assert {entry["box"] for entry in cli.billed()} == {theirs["id"]}


def test_a_cleanup_that_could_not_look_everywhere_says_so(cli: Shell) -> None:
    denied: dict[str, Any] = {"code": "UnauthorizedOperation", "status": 403, "times": None}
    cli.sandbox.fault(effect="error", cloud="aws", action="DescribeInstances", region="eu-west-1", **denied)
    ended = cli("down", "--run-id", "ci", "--yes")
    assert ended.code == 8
    assert "Could not read: aws eu-west-1" in ended.err


def test_a_living_run_id_is_not_used_twice(cli: Shell) -> None:
    """Also where only the cloud knows of it."""
    process = started(cli, "--run-id", "ci-2", "--name", "first")
    changed = len(cli.changes_asked())
    refused = cli(*RUN, "--run-id", "ci-2", "--json", "--", "true")
    assert (refused.code, refused.error["class"]) == (125, "usage")
    assert "exists already" in refused.error["message"]
    assert len(cli.changes_asked()) == changed
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)


def test_two_runs_of_one_id_that_begin_together_make_one_box(cli: Shell) -> None:
    over = cli.home / "over"  # the one that runs does so until the other one has ended
    script = ("sh", "-c", 'until [ -e "$1" ]; do sleep 0.1; done', "sh", str(over))
    both = [cli.start(*RUN, "--run-id", "ci-3", "--", *script) for _ in range(2)]
    until(lambda: any(process.poll() is not None for process in both), "the end of one of them")
    over.touch()
    codes = sorted(cli.finish(process).code for process in both)
    assert codes == [0, 125]
    born = [entry for entry in cli.sandbox.ledger() if entry["event"] == "born"]
    assert [entry["kind"] for entry in born].count("instance") == 1


def test_a_box_is_kept_for_a_look_where_its_command_failed(cli: Shell) -> None:
    ran = cli(*RUN, "--name", "look", "--keep-on-failure", "--", "sh", "-c", "echo why >reason; exit 4")
    assert ran.code == 4
    assert "gpucloud down look" in ran.err
    assert cli("launch", "--gpu", "T4", "--name", "other", "--yes").code == 0, "others do not end it"
    assert cli("exec", "look", "--", "cat", "reason").out == "why\n"
    assert cli("down", "--all", "--yes").code == 0


@pytest.mark.parametrize(
    ("cloud", "restarts"), [("aws", ("--restarts", "1")), ("azure", ("--retry-on", "interruption"))]
)
def test_a_spot_box_that_is_taken_back_is_told_apart_and_begun_anew_elsewhere_where_that_is_asked(
    cli: Shell, cloud: str, restarts: tuple[str, ...]
) -> None:
    """The second time the command is told so, finds no trace of the first, and ends."""
    script = 'echo "$GPUCLOUD_RUN_ID $GPUCLOUD_RESTARTS"; [ -e "$1" ] || { touch "$1"; sleep 60; }'
    marker = str(cli.home / "marker")
    line = ("--spot", "--run-id", "r", *restarts, "--", "sh", "-c", script, "sh", marker)
    process = cli.start(*ON, cloud, *line)
    assert process.stdout is not None
    assert process.stdout.readline() == "r 0\n"
    cli.sandbox.interrupt(cli.billed()[0]["id"], notice_s=0)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.wait(), out) == (0, "r 1\n"), err
    assert "interrupted by its cloud" in err
    assert cli.sandbox.status()["billing"] == []
    assert states(cli) == ["deleted", "deleted"]
    first, second = [(box["region"], box["zone"], box["instance_type"]) for box in cli.boxes("--all")]
    assert first != second


def test_a_command_that_exits_with_75_is_run_again_on_another_box(cli: Shell) -> None:
    """As often as the run may be restarted; without, and after that, it is an exit code as any other.

    The second box has what is left of a budget in USD after the first one, which cost CNY.
    """
    script = 'echo "$GPUCLOUD_RESTARTS"; exit 75'
    limits = ("--restarts", "1", "--ttl", "2h", "--budget", "5", "--run-id", "r")
    ran = cli(*ON, "alibaba", *limits, "--fetch", "missing", "--", "sh", "-c", script)
    assert (ran.code, ran.out) == (75, "0\n1\n"), ran.err
    assert "the command asked for a restart" in ran.err
    assert ran.err.count("was not fetched") == 1, "only from the last box"
    assert states(cli) == ["deleted", "deleted"]
    assert cli.sandbox.status()["billing"] == []
    end = cli("runs", "show", "r", "--json").json["run"]["expires_at"]
    assert cli.boxes("--all")[1]["expires_at"] <= end, "the second box does not outlive the run"


def test_a_run_that_may_wait_tries_again_and_one_whose_wait_is_over_says_so(cli: Shell) -> None:
    cli.sandbox.fault(effect="error", code="InsufficientInstanceCapacity", action="RunInstances", times=1)
    one_place = ("--instance-type", "g4dn.xlarge", "--cloud", "aws", "--zone", "use1-az4", "--wait", "2s")
    ran = cli("run", *one_place, "--", "sh", "-c", "echo $GPUCLOUD_RESTARTS")
    assert (ran.code, ran.out) == (0, "0\n"), ran.err
    assert "trying again" in ran.err
    cli.sandbox.stock(count=0)
    failed = cli("run", *one_place, "--json", "--", "true")
    assert (failed.code, failed.error["class"]) == (125, "capacity")
    assert "no box was to be had until" in failed.error["message"]
    assert cli.billed() == []


def test_a_spot_box_that_is_taken_back_while_it_boots_is_told_apart_too(cli: Shell) -> None:
    process = cli.start(*RUN, "--spot", "--setup", "sleep 600", "--json", "--", "true")
    assert process.stderr is not None
    for line in process.stderr:
        if "running the setup" in line:
            break
    cli.sandbox.interrupt(cli.billed()[0]["id"], notice_s=0)
    result = cli.finish(process)
    assert (result.code, result.error["class"]) == (125, "interruption")
    assert "while it booted" in result.error["message"]
    assert cli.sandbox.status()["billing"] == []


def test_a_spot_box_that_is_taken_back_is_a_failure_of_its_own(cli: Shell) -> None:
    process = cli.start(*RUN, "--spot", "--json", "--", "sh", "-c", "touch begun; sleep 60")
    assert process.stderr is not None
    for line in process.stderr:
        if "  job " in line:
            break
    cli.sandbox.interrupt(cli.billed()[0]["id"], notice_s=0)
    result = cli.finish(process)
    assert (result.code, result.error["class"]) == (125, "interruption")
    assert "--restarts" in result.error["hint"]
    assert cli.sandbox.status()["billing"] == []


def test_a_connection_that_breaks_loses_nothing_of_the_output(cli: Shell) -> None:
    """Every connection to the box is cut; the command goes on, and is followed from where it was lost."""
    cut = cli.home / "cut"
    script = 'for i in $(seq 3); do echo $i; done; until [ -e "$1" ]; do sleep 0.1; done; seq 4 40'
    process = cli.start(*RUN, "--", "sh", "-c", script, "sh", str(cut))
    assert process.stdout is not None
    assert process.stderr is not None
    lines = [process.stdout.readline() for _ in range(3)]
    for pid in ssh_of(cli.runtime):
        with suppress(ProcessLookupError):  # it has ended with another
            os.kill(pid, signal.SIGKILL)
    next(line for line in process.stderr if "connecting again" in line)
    cut.touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.wait() == 0, err
    assert "".join(lines) + out == "".join(f"{n}\n" for n in range(1, 41))


@pytest.mark.parametrize("how", ["attached", "detached", "launched"])
def test_a_connection_that_breaks_while_the_command_starts_starts_it_once(cli: Shell, how: str) -> None:
    """Its ssh client is killed when the box has begun the command, and before that is known here."""
    program, broken, begun = cli.home / "bin" / "ssh", cli.home / "broken", cli.home / "begun"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
case "$*" in *mkdir*token*' run '*) ;; *) exec {shutil.which("ssh")} "$@" ;; esac
{shutil.which("ssh")} "$@" || exit
[ -e {broken} ] || {{ touch {broken}; kill -9 $$; }}
"""
    )
    program.chmod(0o700)
    path = os.pathsep.join((str(program.parent), os.environ["PATH"]))
    script = f"echo begun >>{begun}; sleep 0.5"
    if how == "launched":
        ended = cli("launch", *RUN[1:], "--name", "once", "--run", script, "--yes", PATH=path)
    else:
        detach = ("--detach",) if how == "detached" else ()
        ended = cli(*RUN, *detach, "--name", "once", "--", "sh", "-c", script, PATH=path)
    assert (ended.code, broken.exists(), "connecting again" in ended.err) == (0, True, True), ended.err
    assert until(lambda: begun.exists() and begun.read_text()) == "begun\n"
    if how != "attached":
        assert cli("down", "once", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []


def test_launch_starts_the_command_of_a_spec_and_leaves_it_running(cli: Shell) -> None:
    cli.launch("--gpu", "T4", "--name", "x", "--run", 'echo "$WORD" here', "--env", "WORD=sesame")
    for _ in range(100):
        if "sesame here" in (logs := cli("logs", "x", "--job", "run").out):
            break
    assert "sesame here" in logs
    assert "sesame" not in (cli.home / "state-sandbox" / "journal.db").read_bytes().decode(errors="replace")
