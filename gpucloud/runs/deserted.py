"""Saves the work on a box that a run gives up: it is deleted with all that it has not uploaded."""

from __future__ import annotations

from functools import partial

from gpucloud.boxes.ingress import reach
from gpucloud.errors import GpucloudError
from gpucloud.inventory.reconcile import refresh
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.resources import State
from gpucloud.runs.checkpoints import locate, resume
from gpucloud.runs.detached import first_node
from gpucloud.runs.saved import STEP
from gpucloud.runtime.context import Context
from gpucloud.spec.file import load_spec
from gpucloud.ssh.checkpoints import save

SAVE_S = 300.0
"""How long a box may take, as its guard allows it before a deadline."""


def save_deserted(context: Context, run_id: str | None = None) -> None:
    """Has the boxes of foreground runs whose processes died save and upload once more; a failure is told.

    The command runs until its box is deleted, which the next step of the caller does.

    Args:
        context: clouds, journal, clock and progress of this call.
        run_id: the run; ``None`` for all of this owner.
    """
    for box in context.journal.boxes(owner=context.owner):
        if box.attended and run_id in {None, box.run_id} and _has_work(box):
            taken = context.take(box)
            if taken is not None:
                try:
                    save_last(
                        context, taken, "deserted", f"the process of run {box.run_id} has died: {box.name}"
                    )
                finally:
                    context.journal.release(taken)


def save_last(context: Context, box: Box, reason: str, what: str) -> None:
    """Has the box of a run save and upload once more, if it has checkpoints; a failure is told.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        reason: why it is given up, in a word, for the user's command.
        what: the beginning of a sentence that says why, and which box.
    """
    if not _has_work(box):
        return
    try:
        box = refresh(context, box)
        if box.state is BoxState.READY and box.nodes[0].state is State.RUNNING:
            _save(context, box, reason, what)
    except GpucloudError as error:
        context.warn(STEP, f"warning: the last checkpoint of {box.name} was not uploaded: {error.message}")


def _has_work(box: Box) -> bool:
    return box.checkpoints is not None and box.state is BoxState.READY


def _save(context: Context, box: Box, reason: str, what: str) -> None:
    assert box.run_id is not None  # noqa: S101  (it has checkpoints)
    assert box.checkpoints is not None  # noqa: S101
    settings = locate(context, load_spec(None, dict(box.wanted.spec)), box.run_id)
    assert settings is not None  # noqa: S101
    context.tell(STEP, f"{what} uploads its last one")
    node = first_node(context, box)
    reach(context, box, node)
    resume(context, box, node, settings, box.checkpoints).renew()
    context.tasks.run(partial(save, node, reason, SAVE_S), SAVE_S)
