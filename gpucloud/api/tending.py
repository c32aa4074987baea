"""One pass over all boxes and runs of an owner: settles, tends runs, replaces boxes with faulty hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucloud.api.fetching import priced
from gpucloud.api.replacing import Replacer, to_look_after
from gpucloud.api.results import TendedBox, Tending
from gpucloud.api.running import Attempts, wanted_of_run
from gpucloud.ending.reconcile import refresh_all, settle
from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER
from gpucloud.runs.checkpoints import CheckpointSettings
from gpucloud.runs.code import forget_code, prune
from gpucloud.runs.orphaned import save_orphaned
from gpucloud.runs.results import NotFetchedError
from gpucloud.runs.tend import Did, NotHereError, Tended, Tender, end_boxes
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud.spec.file import load_spec

if TYPE_CHECKING:
    from gpucloud.api.session import Session

SETTLE_S = 60.0
"""How long to wait until what is owed is settled; the next look goes on with the rest."""


def tend(session: Session, context: Context, variables: Mapping[str, str]) -> Tending:
    """See :meth:`Tend.once`."""
    boxes = context.journal.boxes(owner=context.owner)
    troubles = refresh_all(context, [box for box in boxes if box.state in {BoxState.READY, BoxState.STOPPED}])
    runs = context.journal.runs(owner=context.owner)
    save_orphaned(context)
    troubles += settle(context, budget_s=SETTLE_S)
    with isolated(troubles, "boxes of runs that are over"):
        end_boxes(
            context, [box for box in context.journal.boxes(owner=context.owner) if _is_left(context, box)]
        )
    buyer = _Buyer(session, context, variables)
    done: list[Tended] = []
    for found in runs:
        run = context.journal.run(found.id)
        with isolated(troubles, f"run {run.run_id!r}"):
            try:
                done.append(Tender(context, buyer.buy).tend(run))
            except NotFetchedError as error:
                raise priced(error, session) from error.__cause__
            if done[-1].did is Did.ENDED:
                forget_code(context, run)
    with isolated(troubles, "the code of runs that are over"):
        prune(context)
    looked: list[TendedBox] = []
    for box in to_look_after(context):
        with isolated(troubles, f"box {box.name!r}"):
            looked.append(Replacer(session, context).tend(box))
    return Tending(runs=tuple(done), boxes=tuple(looked), troubles=tuple(troubles))


@dataclass(frozen=True, slots=True)
class _Buyer:
    """Buys boxes for runs that were begun by other processes."""

    session: Session
    context: Context
    variables: Mapping[str, str]

    def buy(self, run: Run, kept: CheckpointSettings | None) -> Box:
        """A box for the next attempt of a run.

        Raises:
            NotHereError: a variable or a file of the run is missing here.
            GpucloudError: as :meth:`Attempts.buy`.
        """
        try:
            wanted = wanted_of_run(
                load_spec(None, dict(run.work.spec)),
                self.variables,
                run.run_id,
                accept_snapshot_price=run.work.accept_snapshot_price,
                frozen=run.work.code is not None,
            )
        except UsageError as error:
            raise NotHereError(run.run_id, error) from error
        return Attempts(self.session, self.context, wanted).buy(run, kept)


def _is_left(context: Context, box: Box) -> bool:
    """Whether a box was left by a process that died after it had written the end of its run."""
    if box.run_id is None or box.state is not BoxState.READY or not context.may_take(box.lease):
        return False
    runs = context.journal.runs_named(context.owner, box.run_id)
    over = [run for run in runs if run.state in RUNS_OVER and run.unattended and not run.keeps_box]
    return any(box.id in {each.box for each in run.attempts} for run in over)
