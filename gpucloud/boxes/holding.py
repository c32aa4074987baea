"""Holds a box for one call, with its state as its cloud has just shown it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gpucloud.ending.reconcile import refresh
from gpucloud.errors import UsageError
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context

AGAIN_S = 0.25


@contextmanager
def holding(context: Context, box: Box, *, within_s: float = 0.0) -> Generator[Box]:
    """Takes the lease of a box and reads its state; releases it at the end.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        within_s: how long another process that holds it is waited for.

    Raises:
        UsageError: another process holds it.
    """
    tries = int(within_s / AGAIN_S)
    while (taken := context.take(box)) is None and tries:
        context.tasks.pause(AGAIN_S)
        tries -= 1
    if taken is None:
        raise UsageError(f"another process works on box {box.name!r}", hint="see its state: gpucloud list")
    try:
        refresh(context, taken)
        yield context.journal.held(taken)
    finally:
        context.journal.release(taken)
