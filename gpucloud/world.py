"""What the engine touches outside itself, in one value: journal, clouds, time, chance, signals, the user."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gpucloud.cloud import Clouds
from gpucloud.lifecycle import Lease, lease_is_live
from gpucloud.store import Journal
from gpucloud.waiter import Waiter


class Tell(Protocol):
    """Shows progress: a step of the timeline and what happens in it."""

    def __call__(self, step: str, text: str, /) -> None:
        """Called when a step begins or has news; the steps are those of the contract's timeline."""
        ...


def say_nothing(step: str, text: str) -> None:
    """Progress for nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything outside the engine. Tests give their own clock, randomness and clouds.

    ``cache`` is a folder for what may be forgotten at any time.
    """

    owner: str
    journal: Journal
    clouds: Clouds
    waiter: Waiter
    tell: Tell = say_nothing
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    randomness: Callable[[int], bytes] = os.urandom
    cache: Path | None = None

    def lease(self) -> Lease:
        """What this process writes when it works on a box."""
        return this_process(self.clock())

    def may_take(self, lease: Lease | None) -> bool:
        """See :func:`is_free`."""
        return is_free(lease, self.clock())


def is_free(lease: Lease | None, now: datetime) -> bool:
    """Whether a box with this lease is free: nobody holds it, or its holder is dead, or it is ours."""
    here = this_process(now)
    if lease is None or (lease.host, lease.boot, lease.pid, lease.started) == (
        here.host,
        here.boot,
        here.pid,
        here.started,
    ):
        return True
    return not lease_is_live(lease, here=here, alive=_alive([lease.pid]), now=now)


def this_process(now: datetime) -> Lease:
    """The lease of this process."""
    pid = os.getpid()
    return Lease(host=socket.gethostname(), boot=_boot_id(), pid=pid, started=_started(pid) or 0, beat=now)


def _alive(pids: Iterable[int]) -> list[tuple[int, int]]:
    return [(pid, started) for pid in pids if (started := _started(pid)) is not None]


def _started(pid: int) -> int | None:
    """A process's start time; 0 where the system does not tell; ``None`` when there is no such process."""
    try:
        # The name, in parentheses, may hold anything: count fields from the last one (proc(5), field 22).
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, fields = stat.rpartition(")")[2].split()[0], stat.rpartition(")")[2].split()
        return None if state in {"Z", "X"} else int(fields[19])
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
