"""A sweep as one call: search, confirm, search again, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from gpucloud.api.box import read_boxes
from gpucloud.api.results import Searched, Swept
from gpucloud.ending.reconcile import refresh_all
from gpucloud.ending.stand_in import take_in
from gpucloud.ending.sweep import OLD_ENOUGH, Find, end, look, look_again
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.resources import Resource, Tags
from gpucloud.runs.first_step import save_first, settle_first
from gpucloud.runtime.context import Context

if TYPE_CHECKING:
    from gpucloud.api.session import Session

ConfirmSweep = Callable[[Sequence[Find], Searched], bool]


def sweep(
    session: Session,
    context: Context,
    owner: str,
    older_than: timedelta | None,
    *,
    dry_run: bool,
    confirm: ConfirmSweep | None,
) -> Swept:
    """See :meth:`Resources.sweep`."""
    age = OLD_ENOUGH if older_than is None else older_than
    troubles: list[GpucloudError] = []
    if session.stands_in:  # else every living box would be one that no journal knows
        take_in(context, lambda: session.catalog.market, troubles, remains=False)
    context.tell("sweep", "looking in every region of every cloud")
    first = look(context, owner=owner, older_than=age)
    searched = Searched.of(first.discovery, context.search(owner))
    unwanted = [find for find in first.finds if find.unwanted]
    still: Sequence[Find] = ()
    if confirm is not None:
        with context.tasks.asking():
            agreed = confirm(first.finds, searched)
        if unwanted and not dry_run and not agreed:
            raise UsageError("nothing was deleted")
    if unwanted and not dry_run:
        save_first(context)
        second = look_again(context, first, owner=owner, older_than=age)
        searched = replace(searched, unread=(*searched.unread, *second.discovery.unread))
        still = second.finds
        troubles += end(context, still, session.catalog.market)
    if not dry_run:
        settle_first(context)
    at_rest = [box for box in context.journal.boxes(owner=owner) if box.state is BoxState.STOPPED]
    for unread in refresh_all(context, at_rest):  # somebody may have started one
        context.warn("look", f"No answer: {unread.message}")
    tagged = {tags.box for find in first.finds if (tags := tags_of(find.resource))}
    rows = context.journal.resources_of(tagged)
    gone = frozenset(row.ref for row in rows if row.state in {"gone", "gone_once"})
    return Swept(
        finds=tuple(first.finds),
        ended=frozenset() if dry_run else gone,
        left=tuple(
            each for each in still if each.resource.ref.kind.billable and each.resource.ref not in gone
        ),
        tried=len(still),
        troubles=troubles,
        searched=searched,
        living=tuple(read_boxes(session)),
    )


def tags_of(resource: Resource) -> Tags | None:
    """The tags of a resource, if gpucloud can have written them."""
    return resource.tags if isinstance(resource.tags, Tags) else None
