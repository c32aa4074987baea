"""Processes of this machine: what tells one from another, whether it still runs, and what signals end it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals by which a user ends a command."""


def started(pid: int) -> int | None:
    """A process's start time in clock ticks since boot; 0 where the system does not tell.

    Returns:
        ``None`` when there is no such process.
    """
    try:
        # The name, in parentheses, may hold anything: count fields from the last one (proc(5), field 22).
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, fields = stat.rpartition(")")[2].split()[0], stat.rpartition(")")[2].split()
        return None if state in {"Z", "X"} else int(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0


def boot_id() -> str:
    """The id of this boot of this machine; empty where the system names none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def namespace() -> str:
    """This process's PID namespace: in another one a number names another process (pid_namespaces(7)).

    Empty where the system has none, or ``/proc`` is that of another one.
    """
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


@contextmanager
def handling_signals(
    handler: Callable[[int, FrameType | None], None], numbers: Sequence[int] = ENDING
) -> Generator[None]:
    """Handles the signals that end a command while the body runs. Only the main thread can.

    One that whoever started this process has had ignored stays so: after ``nohup``, a closed window ends
    nothing.
    """
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)
