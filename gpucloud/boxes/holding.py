"""Holds a box for one call, with its state as its cloud has just shown it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gpucloud.ending.reconcile import refresh
from gpucloud.errors import UsageError
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context


@contextmanager
def holding(context: Context, box: Box) -> Generator[Box]:
    """Takes the lease of a box and reads its state; releases it at the end.

    Raises:
        UsageError: another process holds it.
    """
    taken = context.take(box)
    if taken is None:
        raise UsageError(f"another process works on box {box.name!r}", hint="see its state: gpucloud list")
    try:
        refresh(context, taken)
        yield context.journal.held(taken)
    finally:
        context.journal.release(taken)
