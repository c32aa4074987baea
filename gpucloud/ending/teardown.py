"""Deletes boxes until the cloud confirms that nothing billable is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from gpucloud.ending.pending import SAY_EVERY_S, incomplete_error, pending_deletions, say_waiting
from gpucloud.ending.settlement import settle_box
from gpucloud.errors import RULES, CloudError, ErrorClass, GpucloudError, Next
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.lifecycle import OVER, BoxState, PendingDeletion
from gpucloud.journal.records import Box, H, Holding
from gpucloud.resources import Machine, Ref, ResourceKind
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S

TAKE_DOWN_S = 300.0
TIDY_S = 15.0
FOLLOW_EVERY_S = 0.2


def take_down(
    context: Context,
    box: H,
    *,
    budget_s: float = math.inf,
    once: bool = False,
    ends_as: BoxState = BoxState.DELETED,
    when_unbilled: Callable[[], object] = lambda: None,
) -> H:
    """Deletes a box that this process holds, and waits until the cloud confirms it.

    Where another process takes the box over to delete it, this one waits for that; if the other process dies,
    this one continues.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, its lease taken.
        budget_s: how long to wait for confirmation.
        once: do not wait at all; the caller comes back.
        ends_as: ``deleted``, or ``failed`` for a launch that never became ready.
        when_unbilled: called once nothing billable is left, before the wait for resources that cost nothing.

    Returns:
        The box in its final state.

    Raises:
        CleanupIncompleteError: something may still be billed; the journal has it, the next command continues.
        StaleWriterError: another process has taken the box over, and does not delete it.
    """
    with context.tasks.within(budget_s):
        while True:
            try:
                box = context.journal.held(box)
                if box.state in OVER:
                    return box
                return _take_down(context, box, once=once, ends_as=ends_as, when_unbilled=when_unbilled)
            except StaleWriterError:
                if once:
                    raise
                box = _taken_back(context, box)


def _taken_back(context: Context, box: H) -> H:
    """A box that another process has taken over to delete it, once it is deleted or ours again.

    Raises:
        CleanupIncompleteError: neither within the budget.
        StaleWriterError: the other process does not delete it.
    """
    context.tell("down", f"another process is deleting {box.name!r}; waiting for it")
    while True:
        now = context.journal.now_of(box)
        if now.state in OVER:
            return now
        if now.state is not BoxState.DELETING:
            context.journal.held(box)
        taken = context.take(box)
        if taken is not None:
            return taken
        if not context.tasks.left_s:
            raise incomplete_error(box, pending_deletions(context.journal, box), None)
        context.tasks.pause(FOLLOW_EVERY_S)


def _take_down(
    context: Context, box: H, *, once: bool, ends_as: BoxState, when_unbilled: Callable[[], object]
) -> H:
    if box.state is not BoxState.DELETING:
        if context.before_end is not None and isinstance(box, Box):
            context.before_end(context, box)
        _write_state(context, box, BoxState.DELETING)
    until_gone(context, box, lambda: _pass(context, box), once=once)
    if not once:
        when_unbilled()
        _tidy(context, box)
    _write_state(context, box, ends_as)
    return context.journal.held(box)


def _pass(context: Context, holding: Holding) -> tuple[list[PendingDeletion], GpucloudError | None]:
    trouble = settle_box(context, holding)
    return pending_deletions(context.journal, holding), trouble


def end_machines(context: Context, holding: Holding, *, budget_s: float) -> None:
    """Deletes a box's machines and what goes with them, and waits until they are gone; the box remains.

    Raises:
        CleanupIncompleteError: that could not be confirmed.
    """
    end_resources(
        context, holding, lambda ref: ref.kind.billable or ref.kind is ResourceKind.NIC, budget_s=budget_s
    )


def end_machine(context: Context, box: Box, node: int, *, budget_s: float) -> None:
    """Deletes the machine of one node and what its cloud shows as its parts, and waits until they are gone.

    What the box's other nodes stand on remains, and so does an address that was made for the node alone.

    Raises:
        CloudError: the cloud did not answer, or refused; nothing was deleted.
        CleanupIncompleteError: the end could not be confirmed.
    """
    ref = box.machine(node)
    shown = context.tasks.run(partial(context.clouds.usable(ref.cloud).get, ref), CALL_TIMEOUT_S)
    own = {ref, *(shown.parts if isinstance(shown, Machine) else ())}
    end_resources(context, box, own.__contains__, budget_s=budget_s)


def end_resources(
    context: Context, holding: Holding, chosen: Callable[[Ref], bool], *, budget_s: float
) -> None:
    """Deletes some of a box's resources, and waits until they are gone; the box remains.

    Raises:
        CleanupIncompleteError: that could not be confirmed of something billable.
    """

    def end() -> tuple[list[PendingDeletion], GpucloudError | None]:
        trouble = settle_box(context, holding, chosen)
        return [
            item
            for item in pending_deletions(context.journal, holding)
            if not item.ref.id or chosen(item.ref)
        ], trouble

    with context.tasks.within(budget_s):
        until_gone(context, holding, end)


def until_gone(
    context: Context,
    holding: Holding,
    end: Callable[[], tuple[list[PendingDeletion], GpucloudError | None]],
    *,
    once: bool = False,
) -> None:
    """Repeats a pass until nothing billable is left, or the budget of the tasks is spent.

    Args:
        context: clouds, journal, clock and progress of this call.
        holding: the box.
        end: one pass: returns what may still be billed, and the last error.
        once: make one pass only.

    Raises:
        CleanupIncompleteError: something may still be billed at the end of the budget, or the error is final.
    """
    pause_s, said = 0.05, context.clock()
    while True:
        left, trouble = end()
        if not left:
            return
        if once or not context.tasks.left_s or _is_final(trouble):
            raise incomplete_error(holding, left, trouble)
        if (context.clock() - said).total_seconds() >= SAY_EVERY_S:
            said = context.clock()
            say_waiting(context, left, trouble)
        context.tasks.pause(pause_s)
        pause_s = min(pause_s * 1.5, 5.0)


def _tidy(context: Context, holding: Holding) -> None:
    """Waits a while for resources that cost nothing: networks and security groups count against quotas.

    The next changing command checks what is left after that.
    """
    pause_s = 0.02
    with context.tasks.within(TIDY_S):
        while context.tasks.signum is None and context.tasks.left_s:
            if all(row.state == "gone_once" for row in context.journal.resources(holding.id)):
                return
            if _is_final(settle_box(context, holding)):
                return
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.5, 2.0)


def _is_final(trouble: GpucloudError | None) -> bool:
    """Whether waiting is useless: the cloud repeats this error until a person changes something."""
    if not isinstance(trouble, CloudError):
        return False
    return RULES[ErrorClass(trouble.error_class)].next in {Next.LEAVE_CLOUD, Next.STOP}


def _write_state(context: Context, holding: Holding, state: BoxState) -> None:
    context.journal.write(holding, StateChanged(state=state))
