"""The processes of this machine, any of which may end while it is looked at."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")


def command_lines() -> dict[int, bytes]:
    """The command line of each process that can be seen, by its number."""
    numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    found = ((number, look(PROC / str(number) / "cmdline")) for number in numbers)
    return {number: line for number, line in found if line is not None}


def runs(number: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    stat = look(PROC / str(number) / "stat")
    return stat is not None and stat.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def first_child(number: int) -> int:
    """The first child of a process; the process itself where it has none."""
    children = (look(PROC / str(number) / "task" / str(number) / "children") or b"").split()
    return int(children[0]) if children else number


def look(file: Path) -> bytes | None:
    """A file of a process; ``None`` once that is over, whether its folder is gone already or not."""
    try:
        return file.read_bytes()
    except OSError:  # ESRCH from a folder whose process has ended, ENOENT afterwards
        return None
