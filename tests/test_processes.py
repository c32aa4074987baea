"""What tests see of processes, whenever those end."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import command_lines, look, runs


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600.5"])
    while not look(Path(f"/proc/{process.pid}/cmdline")):  # the kernel lets us go on before it has set it
        time.sleep(0.001)
    yield process
    process.kill()
    process.wait()


def test_a_process_that_ends_between_two_looks_is_no_error(sleeper: subprocess.Popen[bytes]) -> None:
    """The kernel answers ESRCH for a while, not ENOENT: held open, the folder shows it for certain."""
    folder = os.open(f"/proc/{sleeper.pid}", os.O_PATH)
    file = Path(f"/proc/self/fd/{folder}/cmdline")
    assert look(file) == b"sleep\x00600.5\x00"
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(ProcessLookupError):
        file.exists()
    assert look(file) is None
    os.close(folder)


def test_a_process_that_nobody_waited_for_is_over(sleeper: subprocess.Popen[bytes]) -> None:
    assert runs(sleeper.pid)
    assert command_lines()[sleeper.pid] == b"sleep\x00600.5\x00"
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not runs(sleeper.pid)
