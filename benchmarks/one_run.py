"""Runs a program once; prints wall-clock and CPU seconds, peak memory in bytes, exit code.

CPU is the program's own, without that of programs which it has run (ssh), where the system tells them apart.

A program of its own, and a small one: Linux counts what the parent had resident at the fork into the child's
peak, so the parent must be smaller than whatever it measures. Run with ``python -I -S``.
"""

import os
import sys
import time


def one_run(argv: list[str]) -> tuple[float, float, int, int]:
    """Runs a program without a terminal and drops what it prints."""
    quiet = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    seconds = time.perf_counter() - start
    own = own_cpu(pid)
    _, status, usage = os.wait4(pid, 0)
    unit = 1 if sys.platform == "darwin" else 1024
    cpu = usage.ru_utime + usage.ru_stime if own is None else own
    return seconds, cpu, usage.ru_maxrss * unit, os.waitstatus_to_exitcode(status)


def own_cpu(pid: int) -> float | None:
    """CPU seconds of a process that ended and was not waited for; ``None`` where there is no ``/proc``."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(*one_run(sys.argv[1:]))
