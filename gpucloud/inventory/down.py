"""Ends boxes together: each is asked to end before any is waited for, so that none keeps another waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpucloud.boxes.teardown import end_unrecorded, take_down
from gpucloud.errors import GpucloudError, OwedError
from gpucloud.inventory.discovery import refuse_strays
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.store import Box, JournalError
from gpucloud.runtime.context import Context, say_nothing
from gpucloud.runtime.isolation import UnforeseenError, isolated
from gpucloud.ssh.client import forget
from gpucloud.ssh.keys import key_folder

BUDGET_S = 600.0
"""How long the ends of all boxes are waited for."""
TURN_S = 30.0
"""How long one of several is waited for before it is the turn of the next."""
ASKING_S = 20.0
"""How long several boxes are asked to end before any is waited for."""


def end_all(context: Context, boxes: Sequence[Box], troubles: list[GpucloudError]) -> list[Box]:
    """Ends every box; one that cannot be ended does not keep the others.

    There is one budget for all, and after a signal one minute.

    Args:
        context: the outside.
        boxes: what to end; those that are over already are given back as they are.
        troubles: takes what could not be ended, one error per box.

    Returns:
        The boxes that are over now.
    """
    waiting = [box for box in boxes if box.state not in OVER]
    over = [box for box in boxes if box.state in OVER]
    ended: dict[str, Box] = {box.id: box for box in over}
    owed: dict[str, list[GpucloudError]] = {}
    if waiting:
        context.tell("down", f"ending {', '.join(box.name for box in waiting)}")
    with context.tasks.finishing(), context.tasks.within(BUDGET_S):
        if len(waiting) > 1:
            _ask_all(context, waiting)
        while waiting and context.tasks.left_s:
            again: list[Box] = []
            for number, box in enumerate(waiting):
                owed[box.id] = []
                share_s = context.tasks.left_s / (len(waiting) - number)
                with context.tasks.within(min(share_s, TURN_S) if len(waiting) > 1 else share_s):
                    with isolated(owed[box.id], f"box {box.name!r}"):
                        ended[box.id] = _end_one(context, box)
                    if owed[box.id] and not context.tasks.left_s:  # otherwise waiting would change nothing
                        again.append(box)
            waiting = again
    troubles += [trouble for each in owed.values() for trouble in each]
    return [ended[box.id] for box in boxes if box.id in ended]


def _ask_all(context: Context, boxes: Sequence[Box]) -> None:
    """Asks that boxes end, in all clouds at the same time, and does not wait until they have."""

    def ask(names: Sequence[Box]) -> None:
        there = replace(context, tasks=context.tasks.for_another_thread(), tell=say_nothing)
        with there.tasks.within(ASKING_S):
            for box in names:
                _ask_one(there, box)

    by_cloud: dict[str, list[Box]] = {}
    for box in boxes:
        by_cloud.setdefault(str(box.facts.get("cloud")), []).append(box)
    context.tasks.until_done(
        [context.tasks.start(partial(ask, each)) for each in by_cloud.values()], ASKING_S
    )


def _ask_one(context: Context, box: Box) -> None:
    """One pass to end a box; what fails is met again, and told, when its end is waited for."""
    with isolated([], f"box {box.name!r}"):
        taken = context.take(box, by_force=True)
        assert taken is not None  # noqa: S101  (by force, nobody keeps it)
        take_down(context, taken, once=True)


def _end_one(context: Context, box: Box) -> Box:
    try:
        # Also from a process that lives: a pipeline's clean-up runs in another container than its job.
        taken = context.take(box, by_force=True)
        assert taken is not None  # noqa: S101  (by force, nobody keeps it)
        try:
            done = take_down(context, taken)
            if context.state is not None:
                forget(key_folder(context.state, box.id), box.id, nodes=len(box.facts.get("nodes") or [0]))
            refuse_strays(context, done)
        finally:
            context.journal.release(taken)
    except JournalError as error:
        raise ended_unrecorded(context, box, error, budget_s=BUDGET_S) from error
    return done


def ended_unrecorded(context: Context, box: Box, broken: GpucloudError, *, budget_s: float) -> GpucloudError:
    """Ends a box that the journal cannot be told of; what there is to say of it."""
    context.tell("down", f"{broken.message}; ending it all the same")
    try:
        with context.tasks.finishing():
            end_unrecorded(context, box, budget_s=budget_s)
    except GpucloudError as error:
        return error
    broken.message = f"{box.name} was ended, but {broken.message}"
    return broken


def merged(troubles: list[GpucloudError]) -> GpucloudError | None:
    """Several boxes' troubles as one: what is left of each, and one command for all; ``None`` for none."""
    if not troubles:
        return None
    if len(troubles) == 1 and not isinstance(troubles[0], UnforeseenError):
        return troubles[0]
    commands = list(dict.fromkeys(each.owed_command for each in troubles))
    return OwedError(
        "; ".join(each.message for each in troubles),
        hint=troubles[0].hint,
        left=[left for each in troubles for left in each.left],
        owed_command=commands[0] if len(commands) == 1 and commands[0] else "gpucloud down --all --yes",
    )
