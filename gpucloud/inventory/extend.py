"""A new deadline for a box that exists and can be reached."""

from __future__ import annotations

from datetime import timedelta

from gpucloud.boxes.bring_up import targets
from gpucloud.boxes.extend import check_movable
from gpucloud.boxes.extend import extend as move_end
from gpucloud.boxes.ingress import reach
from gpucloud.errors import UsageError
from gpucloud.inventory.reconcile import refresh
from gpucloud.journal.records import Box
from gpucloud.planning.clock_check import begin_reading, reading_of, refuse_wrong
from gpucloud.runtime.context import Context
from gpucloud.ssh.keys import key_folder


def extend(context: Context, box: Box, lives: timedelta | None) -> Box:
    """Moves the deadline of a box. Its nodes are reached first: nothing is moved if one cannot be reached.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        lives: the time from now to the deadline; ``None`` for no deadline.

    Raises:
        UsageError: its deadline cannot be moved, this machine's clock is wrong, or another process holds it.
        ConnectionFailedError: a node cannot be reached.
        CloudError: the cloud refused.
    """
    assert context.state is not None  # noqa: S101  (the keys are there)
    check_movable(context, box)
    taken = context.take(box)
    if taken is None:
        raise UsageError(f"another process works on box {box.name!r}", hint="see its state: gpucloud list")
    try:
        asked = begin_reading(context, context.clouds.usable(taken.cloud))
        refresh(context, taken)
        seen = context.journal.held(taken)
        check_movable(context, seen)
        refuse_wrong(context, reading_of(context, asked))
        nodes = targets(seen, key_folder(context.state, box.id), context.proxy_command)
        for node in nodes:
            reach(context, seen, node)
        expires_at = None if lives is None else context.clock().replace(microsecond=0) + lives
        return move_end(context, seen, nodes, expires_at)
    finally:
        context.journal.release(taken)
