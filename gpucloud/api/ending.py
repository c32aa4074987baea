"""Ends boxes and runs: finds them, asks, deletes them, settles what is pending."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from gpucloud.api.fetching import bring_home
from gpucloud.api.run import Run, find_run
from gpucloud.boxes.connection import find_holding
from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.bring_up import targets
from gpucloud.ending.down import end_all, merged
from gpucloud.ending.recover import take_in_run
from gpucloud.ending.stand_in import take_in
from gpucloud.errors import GpucloudError, InterruptedBySignal, UsageError
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.records import Box as JournalBox
from gpucloud.journal.runs import RUNS_OVER
from gpucloud.resources import BOX_ID, State
from gpucloud.runs.code import forget_code
from gpucloud.runs.first_step import settle_first
from gpucloud.runs.orphaned import save_orphaned
from gpucloud.runs.record import cancel
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.attachments import free_unused

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.ending.discovery import DiscoveryResult

ConfirmDown = Callable[[Sequence[JournalBox]], bool]
"""Confirms or refuses the deletion of these boxes."""


def down(
    session: Session,
    context: Context,
    names: Sequence[str],
    run_id: str | None,
    confirm: ConfirmDown | None,
    *,
    with_results: bool,
) -> tuple[list[JournalBox], DiscoveryResult | None]:
    """See :meth:`gpucloud.Client.down`; without names and without a run, all of the owner's boxes.

    Returns:
        The boxes that were deleted; and what the clouds hold, if a run was searched for.
    """
    troubles: list[GpucloudError] = []
    discovery: DiscoveryResult | None = None
    if session.stands_in:
        discovery = take_in(context, lambda: session.catalog.market, troubles, remains=True)
    elif run_id is not None:
        discovery, found = take_in_run(context, run_id, lambda: session.catalog.market)
        troubles += found
    boxes = _chosen(context, names, run_id)
    if not boxes:
        context.notice("down", "No boxes to delete.")
    living = [box for box in boxes if box.state not in OVER]
    if living and confirm is not None:
        with context.tasks.asking():
            agreed = confirm(living)
        if not agreed:
            raise UsageError("nothing was deleted")
    kept: Mapping[str, GpucloudError] = {}
    if run_id is not None and not with_results:
        save_orphaned(context, run_id)
        kept = bring_home(session, context, run_id)
        troubles += kept.values()
        boxes = [context.journal.now_of(box) for box in boxes if box.id not in kept]
        living = [box for box in boxes if box.state not in OVER]
    if not names:
        _cancel_runs(context, run_id, but=kept)
    if context.tasks.signum is None:
        keep_logs(context, _reachable(context, living))
    ended = end_all(context, boxes, troubles)
    free_unused(context)
    owed = merged(troubles)
    if owed is None and context.tasks.signum is None:
        settle_first(context)
    if owed is not None:
        raise owed
    if context.tasks.signum is not None:
        raise InterruptedBySignal("stopped; everything asked for was deleted", signum=context.tasks.signum)
    return list(ended), discovery


def _chosen(context: Context, names: Sequence[str], run_id: str | None) -> list[JournalBox]:
    journal, owner = context.journal, context.owner
    if names:
        found = [find_holding(journal, owner, name, JournalBox) for name in names]
        return list({box.id: box for box in found}.values())
    return [box for box in journal.boxes(owner=owner) if run_id is None or box.run_id == run_id]


def cancel_run(session: Session, context: Context, run_id: str, confirm: Callable[[Run], bool] | None) -> Run:
    """See :meth:`Runs.cancel`."""
    run = find_run(session, run_id)
    if confirm is not None and run.state not in RUNS_OVER:
        with context.tasks.asking():
            agreed = confirm(Run.read(run, session, context.clock()))
        if not agreed:
            raise UsageError("nothing was cancelled")
    cancel(context, run)
    troubles: list[GpucloudError] = []
    boxes = context.journal.known(JournalBox, {each.box for each in run.attempts if each.box})
    end_all(context, [box for box in boxes if box.state not in OVER], troubles)
    owed = merged(troubles)
    if owed is not None:
        raise owed
    forget_code(context, run)
    return Run.read(context.journal.run(run.id), session, context.clock())


def _cancel_runs(context: Context, run_id: str | None, but: Collection[str]) -> None:
    """Cancels the run of this id, or all: nothing is bought for them when their boxes are gone.

    Those whose boxes stay are left alone.
    """
    for run in context.journal.runs(owner=context.owner):
        if run_id in {None, run.run_id} and run.box not in but:
            cancel(context, run)


def _reachable(context: Context, boxes: Sequence[JournalBox]) -> list[Target]:
    """The nodes of boxes that should answer this machine, which has their keys."""
    found: list[Target] = []
    if context.state is None:
        return found
    for box in boxes:
        if not BOX_ID.fullmatch(box.id):
            continue  # its deletion says so
        keys = key_folder(context.state, box.id)
        if box.state is BoxState.READY and box.ended_by is None and (keys / "id_ed25519").exists():
            nodes = targets(box, keys, context.proxy_command)
            found += [node for node in nodes if box.nodes[node.node].state is State.RUNNING]
    return found
