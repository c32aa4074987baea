"""What a run of the tests leaves behind is named and removed, however the run ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.processes import runs
from tests.tidy import LEFT_BEHIND
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SLEEPER = """
import os, pathlib, subprocess, sys
left = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path("number").write_text(str(left.pid))
"""
FILE = "import tempfile; tempfile.mkstemp(prefix='forgotten-')\n"
CRASH = "import signal; os.kill(os.getpid(), signal.SIGKILL)\n"
INTERRUPTED = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(2))
"""
WAIT = "time.sleep(600)\n"


def tidy(folder: Path, code: str) -> subprocess.Popen[str]:
    """Starts tests, of which this is the code."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.tidy", sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_gone(folder: Path) -> bool:
    """Whether the process that was left has ended, and no folder of the run is left."""
    return not runs(int((folder / "number").read_text())) and not list(folder.glob("gc-*"))


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is left here would end by itself."""
    monkeypatch.setenv("TIDY_ENDING_S", "0.5")


def test_a_process_and_a_file_that_are_left_fail_a_run_that_succeeded(tmp_path: Path) -> None:
    run = tidy(tmp_path, SLEEPER + FILE)
    _, said = run.communicate()
    assert run.returncode == LEFT_BEHIND
    assert "sleep 600" in said
    assert "the file forgotten-" in said
    assert is_gone(tmp_path)


def test_what_a_crash_leaves_is_ended_and_its_code_is_kept(tmp_path: Path) -> None:
    run = tidy(tmp_path, SLEEPER + CRASH)
    _, said = run.communicate()
    assert run.returncode == 128 + signal.SIGKILL
    assert "sleep 600" in said
    assert not runs(int((tmp_path / "number").read_text()))


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    run = tidy(tmp_path, INTERRUPTED + SLEEPER + WAIT)
    until(lambda: (tmp_path / "number").exists() and (tmp_path / "number").read_text(), "the tests")
    os.killpg(run.pid, signal.SIGINT)
    run.communicate()
    assert run.returncode == 2
    assert is_gone(tmp_path)


def test_a_run_that_leaves_nothing_ends_as_its_tests_do(tmp_path: Path) -> None:
    code = f"import tempfile; assert tempfile.gettempdir() != {tempfile.gettempdir()!r}"
    for program, ends in ((code, 0), ("raise SystemExit(3)", 3)):
        run = tidy(tmp_path, program)
        run.communicate()
        assert run.returncode == ends
