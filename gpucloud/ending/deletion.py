"""Deletes the resources of a box: all that nothing depends on, at the same time.

A deletion request is safe to repeat. Each observation is journalled, so that another process can continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import DeletionGraph
from gpucloud.errors import GpucloudError
from gpucloud.journal.events import DeleteAsked, Gone, GoneOnce, OfResource, named
from gpucloud.journal.lifecycle import (
    CONSISTENCY_WINDOW,
    Phase,
    RecoveryStep,
    Sighting,
    reconcile,
    seen_state,
)
from gpucloud.journal.records import Holding, ResourceRow
from gpucloud.resources import Machine, Ref, Resource
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call


def delete_what_is_free(
    context: Context, holding: Holding, cloud: Cloud, rows: Sequence[ResourceRow]
) -> GpucloudError | None:
    """Requests or confirms the deletion of one region's resources that no other resource depends on.

    Returns:
        The last error, if any.
    """
    graph = cloud.deletion
    place = {kind: number for number, kind in enumerate(graph.order)}
    newest_first = list(reversed(rows))
    newest_first.sort(key=lambda row: place.get(row.ref.kind, len(place)))
    left = {row.ref: row for row in newest_first if row.ref.id}
    tried: set[Ref] = set()
    refused: set[Ref] = set()
    trouble: GpucloudError | None = None
    while True:
        # A resource with dependents is checked once its deletion was requested: most are deleted with these.
        due = [
            row
            for row in left.values()
            if row.ref not in tried and (row.state != "made" or not is_held(graph, row.ref, left, refused))
        ]
        if not due:
            return trouble
        tried.update(row.ref for row in due)
        again: list[Ref] = []
        calls = context.tasks.run_all([_step(context, cloud, row) for row in due])
        for row, call in zip(due, calls, strict=True):
            try:
                answer: Resource | None = _answer(cloud, row.ref, call)
            except GpucloudError as error:
                trouble = error
                refused.add(row.ref)
                continue
            if row.state == "made":
                _note_asked(context, holding, cloud, row, rows)
            elif not is_held(graph, row.ref, left, refused):  # else it may be about to go with its dependents
                match _learned(context, holding, row, answer):
                    case RecoveryStep.CLOSE | RecoveryStep.LOOK_AGAIN:
                        del left[row.ref]
                    case RecoveryStep.DELETE:
                        again.append(row.ref)
                    case _:
                        pass
        trouble = ask_to_delete(context, cloud, again) or trouble


def is_held(graph: DeletionGraph, ref: Ref, there: Iterable[Ref], refused: Collection[Ref]) -> bool:
    """Whether another resource prevents the deletion; of its own kind, a newer one that was not refused.

    Args:
        graph: which kinds depend on which.
        ref: the resource.
        there: all that exist, newest first.
        refused: those whose deletion was refused just now.
    """
    there = list(there)
    newer = takewhile(lambda other: other != ref, there) if graph.holds_itself(ref.kind) else ()
    return any(other.kind is ref.kind and other not in refused for other in newer) or any(
        other.kind in graph.holders(ref.kind) for other in there
    )


def _answer(cloud: Cloud, ref: Ref, call: Call) -> Any:
    """The result of a call after the wait for it.

    Raises:
        GpucloudError: the call still runs, or its error.
    """
    if not call.done:
        raise GpucloudError(f"{cloud.name} {ref.region}: no answer within the remaining time")
    return call.value()


def ask_to_delete(context: Context, cloud: Cloud, refs: Collection[Ref]) -> GpucloudError | None:
    """Requests several deletions once, at the same time; returns the last refusal, if any."""
    trouble: GpucloudError | None = None
    deletions = [partial(cloud.delete, ref, once=True) for ref in refs]
    for ref, call in zip(refs, context.tasks.run_all(deletions) if refs else (), strict=True):
        try:
            _answer(cloud, ref, call)
        except GpucloudError as error:
            trouble = error
    return trouble


def _step(context: Context, cloud: Cloud, row: ResourceRow) -> Callable[[], Resource | None]:
    """The next call for one resource: request its deletion, or check whether it is gone."""
    if row.state == "made":
        # A deletion request is safe to repeat and right for whatever exists, so no check comes first.
        return partial(cloud.delete, row.ref, once=not row.ref.kind.billable)
    if _is_gone_for_now(context, row):
        return lambda: None
    return partial(cloud.get, row.ref)


def _is_gone_for_now(context: Context, row: ResourceRow) -> bool:
    """Whether a resource was absent so recently that a second check would prove nothing."""
    return row.state == "gone_once" and context.clock() - row.at < CONSISTENCY_WINDOW


def _note_asked(
    context: Context, holding: Holding, cloud: Cloud, row: ResourceRow, rows: Sequence[ResourceRow]
) -> None:
    """Journals the deletion request of a resource, and of those that the cloud deletes with it."""
    _note(context, holding, DeleteAsked, row)
    along = cloud.deletion.takes_along.get(row.ref.kind, ())
    for other in rows:
        if other.ref.kind in along and other.state == "made":
            _note(context, holding, DeleteAsked, other)


def _learned(context: Context, holding: Holding, row: ResourceRow, answer: Resource | None) -> RecoveryStep:
    """Journals the result of a check; returns what to do next."""
    if _is_gone_for_now(context, row):
        return RecoveryStep.LOOK_AGAIN
    seen = Sighting.ABSENT if answer is None else seen_state(answer.state)
    phase = Phase.GONE_ONCE if row.state == "gone_once" else Phase.DELETE_ASKED
    action = reconcile(phase, seen, age=context.clock() - row.at)
    if action is RecoveryStep.CLOSE:
        ended_at = answer.ended_at if isinstance(answer, Machine) else None
        context.journal.write(holding, Gone(resource=named(row.ref, row.name), ended_at=ended_at))
    if action is RecoveryStep.LOOK_AGAIN:
        _note(context, holding, GoneOnce, row)
    return action


def _note(context: Context, holding: Holding, event: type[OfResource], row: ResourceRow) -> None:
    context.journal.write(holding, event(resource=named(row.ref, row.name)))
