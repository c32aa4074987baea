"""The first step of every changing command, where runs may have left something."""

from __future__ import annotations

from gpucloud.boxes import settling
from gpucloud.journal.lifecycle import BoxState
from gpucloud.runtime.context import Context


def settle_first(context: Context) -> None:
    """Saves what killed runs have left on their boxes, then finishes what earlier commands left.

    The latter deletes these boxes, of which nothing could be saved any more.
    """
    if context.ended_without is not None and context.ended_without.exists():
        from gpucloud.ending.stand_in import tell  # most commands have nothing to tell

        tell(context)
    save_first(context)
    settling.settle_first(context)


def save_first(context: Context) -> None:
    """Saves what killed runs have left on their boxes, before anything deletes these."""
    boxes = context.journal.boxes(owner=context.owner)
    if any(box.attended and box.state is BoxState.READY and context.may_take(box.lease) for box in boxes):
        from gpucloud.runs.orphaned import save_orphaned  # most commands have no use for what it loads

        save_orphaned(context)
