"""The store of a run: its size, its cost per month, and its deletion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.api.run import find_run
from gpucloud.errors import UsageError
from gpucloud.journal.records import Run as JournalRun
from gpucloud.journal.runs import RUNS_OVER
from gpucloud.planning.data_source import GIB
from gpucloud.runs.checkpoints import CheckpointSettings, locate
from gpucloud.runs.stored_sets import StoredRun, delete_run, stored_run
from gpucloud.runtime.context import Context
from gpucloud.spec.file import load_spec
from gpucloud_pricing.tariffs import object_cost
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.costs.documents import RunStoreDocument

READ_S = 60.0
DELETE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStore:
    """What the store of a run holds.

    Attributes:
        url: the folder of the run.
        attempts: how many attempts have something there.
        sets: how many sets of checkpoints there are, of all attempts.
        objects: how many objects they, the logs and the results are.
        size_bytes: the size of these.
        others: how many objects are there that gpucloud has not written, and leaves alone.
        per_month: what gpucloud's objects cost per month, without requests; ``None`` if that is not known.
    """

    url: str
    attempts: int
    sets: int
    objects: int
    size_bytes: int
    others: int
    per_month: Money | None

    def document(self) -> RunStoreDocument:
        """What the store holds, of the JSON documents."""
        return {
            "url": self.url,
            "attempts": self.attempts,
            "sets": self.sets,
            "objects": self.objects,
            "size_bytes": self.size_bytes,
            "others": self.others,
            "per_month": None if self.per_month is None else self.per_month.document(),
        }


def store_of_run(session: Session, context: Context, run_id: str) -> RunStore | None:
    """See :meth:`Runs.store`."""
    settings = _settings(context, find_run(session, run_id))
    return None if settings is None else _told(session, settings, _read(context, settings))


def stores(session: Session, context: Context, run_id: str | None) -> list[RunStore]:
    """See :meth:`Runs.stores`."""
    runs = context.journal.runs(owner=context.owner, over=True)
    chosen = {run.run_id: run for run in runs if run_id in {None, run.run_id}}  # of several, the newest
    found: list[RunStore] = []
    for each in chosen.values():
        settings = _settings(context, each)
        if settings is not None and (held := _read(context, settings)).objects:
            found.append(_told(session, settings, held))
    return found


def delete_store_of_run(
    session: Session, context: Context, run_id: str, confirm: Callable[[RunStore], bool] | None
) -> RunStore:
    """See :meth:`Runs.delete_store`."""
    run = find_run(session, run_id)
    if run.state not in RUNS_OVER:
        hint = f"end it first: gpucloud runs cancel {run_id}"
        raise UsageError(f"run {run_id!r} is {run.state}: its next box needs its checkpoints", hint=hint)
    settings = _settings(context, run)
    if settings is None:
        raise UsageError(f"run {run_id!r} has no checkpoints: it had no --checkpoint-to")
    found = _read(context, settings)
    told = _told(session, settings, found)
    if confirm is not None and found.objects:
        with context.tasks.asking():
            agreed = confirm(told)
        if not agreed:
            raise UsageError("nothing was deleted")
    cloud = context.clouds[settings.cloud]
    context.tasks.run(partial(delete_run, cloud, settings.place, settings.attempts, found.objects), DELETE_S)
    return told


def _settings(context: Context, run: JournalRun) -> CheckpointSettings | None:
    return locate(context, load_spec(None, dict(run.work.spec)), run.run_id)


def _read(context: Context, settings: CheckpointSettings) -> StoredRun:
    cloud = context.clouds[settings.cloud]
    return context.tasks.run(partial(stored_run, cloud, settings.place, settings.attempts), READ_S)


def _told(session: Session, settings: CheckpointSettings, found: StoredRun) -> RunStore:
    gib = Decimal(found.size_bytes) / GIB
    cost = object_cost(session.catalog.market.tariffs, (settings.cloud, settings.place.region), gib)
    return RunStore(
        url=settings.url,
        attempts=found.attempts,
        sets=found.sets,
        objects=len(found.objects),
        size_bytes=found.size_bytes,
        others=found.others,
        per_month=None if cost is None else Money(amount=cost.amount, currency=cost.currency),
    )
