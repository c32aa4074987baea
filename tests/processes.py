"""The processes of this machine, any of which may end while it is looked at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

PROC = Path("/proc")
ENDED = frozenset({b"Z", b"X"})
"""States of a process that has ended; its parent may not have waited for it."""


def command_lines() -> dict[int, bytes]:
    """The command line of each process that can be seen, by its number."""
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    found = ((number, look(PROC / str(number) / "cmdline")) for number in numbers)
    return {number: line for number, line in found if line is not None}


def ssh_of(runtime: Path) -> list[int]:
    """The ssh processes of a shell with this folder for sockets, shared connections too."""
    pattern = re.compile(rf"ssh .*{re.escape(str(runtime))}".encode())
    return [pid for pid, line in command_lines().items() if pattern.search(line.replace(b"\0", b" "))]


def runs(number: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    stat = look(PROC / str(number) / "stat")
    return stat is not None and stat.rpartition(b")")[2].split()[0] not in ENDED


def first_child(number: int) -> int:
    """The first child of a process; the process itself where it has none."""
    children = (look(PROC / str(number) / "task" / str(number) / "children") or b"").split()
    return int(children[0]) if children else number


def states() -> dict[int, list[bytes]]:
    """The fields of ``/proc/PID/stat`` of each process, from its state (the third one of proc(5)) on."""
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    found = ((number, look(PROC / str(number) / "stat")) for number in numbers)
    return {number: stat.rpartition(b")")[2].split() for number, stat in found if stat is not None}


def descendants(number: int, known: Mapping[int, Sequence[bytes]]) -> set[int]:
    """The processes below one, of those that are known; also those that ended and were not waited for."""
    children = defaultdict[int, list[int]](list)
    for each, fields in known.items():
        children[int(fields[1])].append(each)
    found, below = set[int](), [number]
    while below:
        ours = children[below.pop()]
        found.update(ours)
        below += ours
    return found


def look(file: Path) -> bytes | None:
    """A file of a process; ``None`` once that is over, whether its folder is gone already or not."""
    try:
        return file.read_bytes()
    except OSError:  # ESRCH from a folder whose process has ended, ENOENT afterwards
        return None
