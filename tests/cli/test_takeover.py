"""One journal, several namespaces: who lives keeps its box, and an explicit end is obeyed at once."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.forked import Forked
from tests.shell import PROGRAMS, Result, Shell
from tests.waiting import until

CONTAINER = ("--pid", "--fork", "--mount-proc", "--uts", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh")
"""What makes another PID namespace with another host name, as a container has."""


def may_unshare() -> bool:
    """Whether a process may get namespaces of its own here; in some containers none may."""
    program = shutil.which("unshare")
    if program is None:
        return False
    return not subprocess.run([program, *CONTAINER, "true"], capture_output=True, check=False).returncode


pytestmark = pytest.mark.skipif(not may_unshare(), reason="this system gives no namespaces to this user")


def in_a_container(cli: Shell, *line: str) -> Result:
    """Runs gpucloud as a container does that shares the home folder."""
    program = shutil.which("unshare")
    assert program is not None
    return cli.run(Path(program), *CONTAINER, PROGRAMS / "gpucloud", *line, GPUCLOUD_SANDBOX="1")


@contextmanager
def running(cli: Shell) -> Iterator[subprocess.Popen[str] | Forked]:
    """A run whose command has begun."""
    began = cli.home / "began"
    run = cli.start(
        "run",
        "--gpu",
        "T4",
        "--cloud",
        "aws",
        "--run-id",
        "r-1",
        "--",
        "sh",
        "-c",
        f"touch {began}; sleep 600",
    )
    until(began.exists, "the command of the run")
    yield run


def renewed_at(cli: Shell) -> str:
    """When the lease of the first box was renewed."""
    with closing(sqlite3.connect(cli.home / "state-sandbox" / "journal.db")) as journal:
        [lease] = journal.execute(
            "SELECT lease FROM states WHERE kind = 'box' ORDER BY id LIMIT 1"
        ).fetchone()
    return str(json.loads(lease)["beat"])


def test_a_run_outlives_the_sweep_and_the_launch_of_another_container(cli: Shell) -> None:
    """Its process is in no list that they can read; its lease is renewed."""
    with running(cli) as run:
        first = renewed_at(cli)
        swept = in_a_container(cli, "sweep", "--yes", "--older-than", "0s", "--json")
        assert (swept.code, swept.json["found"]) == (0, []), swept.err
        launched = in_a_container(cli, "launch", "--gpu", "T4", "--cloud", "aws", "--yes", "--name", "other")
        assert launched.code == 0, launched.err
        assert {each["box"] for each in cli.billed()} == {each["id"] for each in cli.boxes()}
        assert len(cli.billed()) == 2
        until(lambda: renewed_at(cli) != first, "the lease to be renewed while the command runs")
        run.terminate()
        assert cli.finish(run).code == 143
    assert len(cli.billed()) == 1


def test_the_clean_up_of_a_pipeline_ends_a_run_that_lives_in_another_container(cli: Shell) -> None:
    """An explicit end takes the box at once; the run sees that it was taken, and changes nothing more."""
    with running(cli) as run:
        down = in_a_container(cli, "down", "--run-id", "r-1", "--yes")
        assert down.code == 0, down.err
        assert cli.sandbox.status()["billing"] == []
        ended = cli.finish(run)
        assert ended.code == 125
        assert "Traceback" not in ended.err
    assert [box["state"] for box in cli.boxes("--all")] == ["deleted"]
