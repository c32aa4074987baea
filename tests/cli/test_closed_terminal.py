"""The window is closed: a command ends as after Ctrl-C, and what it cannot show any more stops nothing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.shell import PROGRAMS, Shell
from tests.terminal import Terminal
from tests.waiting import PATIENCE_S

T4 = ("--gpu", "T4", "--cloud", "aws", "--name", "x", "--ttl", "8h", "--yes")


def at_terminal(cli: Shell, *line: str) -> Terminal:
    """The program on a terminal, where it draws."""
    environment = {**cli.environ, "TERM": "xterm-256color"}
    return Terminal([str(PROGRAMS / "gpucloud"), *line], environment, cli.home)


@pytest.mark.parametrize("moment", ["quote", "network", "create", "boot", "ssh", "setup"])
def test_a_launch_whose_window_is_closed_leaves_nothing(cli: Shell, moment: str) -> None:
    cli.sandbox.pace(latency_s=0.1)
    terminal = at_terminal(cli, "launch", *T4, "--setup", "sleep 20")
    terminal.sees(f"  {moment} ")
    assert terminal.close() == 128 + signal.SIGHUP
    assert cli.sandbox.status()["billing"] == []
    assert cli.boxes() == []


def test_a_run_whose_window_is_closed_leaves_nothing(cli: Shell) -> None:
    terminal = at_terminal(cli, "run", *T4, "--", "sh", "-c", "echo begun; sleep 600")
    terminal.sees("begun")
    assert terminal.close() == 128 + signal.SIGHUP
    assert cli.sandbox.status()["billing"] == []


@pytest.mark.parametrize(
    ("moment", "line"),
    [
        ("down", ("down", "x", "--yes")),
        ("stop", ("stop", "x", "--yes")),
        ("extend", ("extend", "x", "--ttl", "9h")),
    ],
)
def test_what_was_begun_is_finished_or_left_as_it_was(cli: Shell, moment: str, line: tuple[str, ...]) -> None:
    cli.launch(*T4[:-1])
    cli.sandbox.pace(latency_s=0.1)
    terminal = at_terminal(cli, *line)
    terminal.sees(f"  {moment} ")
    terminal.close()
    cli.sandbox.pace(latency_s=0.0)
    assert cli("down", "--run-id", "nobody").code == 0, "a changing command that names no box"
    kinds = {each["kind"] for each in cli.sandbox.status()["billing"]}
    states = [each["state"] for each in cli.boxes()]
    match line[0]:
        case "down":
            assert (kinds, states) == (set(), [])
        case "stop":
            assert states == ["ready" if "instance" in kinds else "stopped"]
        case _:
            assert states == ["ready"]
            assert cli("journal", "verify").code == 0


SAYS = """
import io, os, signal, sys
import gpucloud.__main__

class Window(io.StringIO):
    def write(self, text):
        os.kill(os.getpid(), {number})
        return len(text)

{first}
sys.stdout = Window()
gpucloud.__main__.main(["version"])
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_command_that_only_tells_its_outcome_ends_with_the_code_of_its_signal(
    number: signal.Signals, cli: Shell
) -> None:
    """Nothing is under way then: it is not killed by the signal, which a pipeline takes for a crash."""
    line = [sys.executable, "-c", SAYS.format(number=int(number), first="")]
    assert subprocess.run(line, env=cli.environ, timeout=PATIENCE_S, check=False).returncode == 128 + number


def test_after_nohup_a_closed_window_ends_nothing_while_the_outcome_is_told(cli: Shell) -> None:
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    line = [sys.executable, "-c", SAYS.format(number=int(signal.SIGHUP), first=ignored)]
    assert subprocess.run(line, env=cli.environ, timeout=PATIENCE_S, check=False).returncode == 0


READY = """
import os, signal, sys
import gpucloud.__main__

class Window:
    def __init__(self, stream):
        self.stream = stream
    def __getattr__(self, name):
        return getattr(self.stream, name)
    def write(self, text):
        if "is ready: " in text:
            os.kill(os.getpid(), {number})
        return self.stream.write(text)

sys.stderr = Window(sys.stderr)
sys.argv[1:] = {line!r}
gpucloud.__main__.main()
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_after_a_launch_is_done_does_not_say_that_everything_was_taken_down(
    number: signal.Signals, cli: Shell
) -> None:
    """The code of a signal says so: a pipeline would take it for nothing left."""
    line = [sys.executable, "-c", READY.format(number=int(number), line=["launch", *T4])]
    ran = subprocess.run(
        line, env=cli.environ, timeout=PATIENCE_S, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 8, ran.stderr
    assert "x is ready. These run and are billed: x" in ran.stderr
    assert "gpucloud down x --yes" in ran.stderr
    assert [box["name"] for box in cli.boxes()] == ["x"]
