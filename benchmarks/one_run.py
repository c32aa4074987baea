"""Runs a program once; prints its wall-clock seconds, its peak of resident memory in bytes, its exit code.

A program of its own, and a small one: Linux counts what the parent had resident at the fork into the child's
peak, so the parent must be smaller than whatever it measures. Run with ``python -I -S``.
"""

import os
import sys
import time


def one_run(argv: list[str]) -> tuple[float, int, int]:
    """Runs a program without a terminal and drops what it prints."""
    quiet = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, usage.ru_maxrss * unit, os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    print(*one_run(sys.argv[1:]))
