"""Finds unwanted resources with gpucloud's tags, and ends them.

The cloud is read before the journal: so a box launched meanwhile is never taken for an unknown one. One
function makes the list; before anything is ended the list is made again, and only resources on both lists,
by id, are ended, through the journal like any other box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gpucloud.ending.discovery import DiscoveryResult, begin, finish, not_of_its_box
from gpucloud.ending.reconcile import catch_up
from gpucloud.ending.recover import adopt_box, age_of, is_retained
from gpucloud.ending.teardown import end_resources, take_down
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.events import Made, named
from gpucloud.journal.lifecycle import HANDED_OVER, LAUNCHING, OVER, BoxState, Lease
from gpucloud.journal.records import Holding
from gpucloud.resources import Machine, Ref, Resource, Search, Tags
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud_pricing import Market

OLD_ENOUGH = timedelta(minutes=15)
REMOVAL_S = 600.0


class SweepReason(StrEnum):
    """Why something is on the list."""

    PAST_DEADLINE = "past_deadline"
    REMAINS = "remains"  # of a launch that failed, or of a box that has ended
    NOT_IN_JOURNAL = "not_in_journal"
    YOUNG = "young"  # not in the journal either, but another process may be about to write it down
    OTHER_OWNER = "other_owner"
    NOT_OF_ITS_BOX = "not_of_its_box"  # carries the tags of a box that is ready, and is none of its machines
    BAD_TAGS = "bad_tags"  # of this owner, under tags that gpucloud never wrote


UNWANTED = frozenset(
    {SweepReason.PAST_DEADLINE, SweepReason.REMAINS, SweepReason.NOT_IN_JOURNAL, SweepReason.NOT_OF_ITS_BOX}
)
"""These may be ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """One resource that no living box of this journal accounts for.

    ``record`` is what the journal has of its box; ``None`` for a box that it does not know.
    """

    resource: Resource
    reason: SweepReason
    record: Holding | None = None

    @property
    def unwanted(self) -> bool:
        """Whether it may be ended."""
        return self.reason in UNWANTED

    @property
    def box(self) -> str | None:
        """The box whose tags it carries."""
        return self.resource.tags.box if isinstance(self.resource.tags, Tags) else None


def judge(
    discovery: DiscoveryResult,
    holdings: Mapping[str, Holding],
    *,
    mine: Search,
    older_than: timedelta,
    may_take: Callable[[Lease | None], bool],
) -> list[Find]:
    """The resources that no living box accounts for, and why. Pure.

    Args:
        discovery: the resources in the clouds.
        holdings: the journal's records of the boxes that were found, read after the discovery.
        mine: admits what has a tag of the owner whose resources may be ended.
        older_than: the age from which a resource that is not in the journal counts as a leak.
        may_take: whether no process works on a box with this lease.
    """
    by_box: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for resource in discovery.resources:
        by_box[resource.ref.cloud, resource.tags.box if isinstance(resource.tags, Tags) else ""].append(
            resource
        )
    finds = [
        Find(
            resource=resource,
            reason=SweepReason.BAD_TAGS if mine.admits(resource.tags) else SweepReason.OTHER_OWNER,
        )
        for resource in discovery.suspects
    ]
    for (cloud, box_id), resources in by_box.items():
        box, now = holdings.get(box_id), discovery.clocks[cloud]
        age = age_of(resources, now)
        kept = box is None and is_retained(resources, now)
        for resource in resources:
            if not mine.admits(resource.tags):
                reason: SweepReason | None = SweepReason.OTHER_OWNER
                if box is not None and Search(owner=box.owner).admits(resource.tags):  # a team's journal
                    wanted = _of_known(resource, box, now, free=may_take(box.lease)) is None
                    reason = None if wanted else SweepReason.OTHER_OWNER
            elif kept:  # until its deadline, also by a journal that is elsewhere
                reason = None
            elif box is None:
                old = not older_than or age is None or age >= older_than
                reason = _of_untracked(resource, now, old=old)
            else:
                reason = _of_known(resource, box, now, free=may_take(box.lease))
            if reason is not None:
                finds.append(Find(resource=resource, reason=reason, record=box))
    return finds


def _of_untracked(resource: Resource, now: datetime, *, old: bool) -> SweepReason:
    end = resource.tags.ends_at if isinstance(resource.tags, Tags) else None
    if end is not None and end < now:
        return SweepReason.PAST_DEADLINE
    return SweepReason.NOT_IN_JOURNAL if old else SweepReason.YOUNG


def _of_known(resource: Resource, holding: Holding, now: datetime, *, free: bool) -> SweepReason | None:
    """Why a resource of a box in the journal is not wanted; ``None`` if it is."""
    if holding.state in OVER:
        return SweepReason.REMAINS
    if not free or holding.is_in_use:
        return None
    if holding.is_remains:
        return SweepReason.REMAINS
    if not_of_its_box(holding, resource):
        return SweepReason.NOT_OF_ITS_BOX
    if holding.expires_at is not None and holding.expires_at < now:
        return SweepReason.PAST_DEADLINE
    place, ref = holding.place, resource.ref
    elsewhere = place is None or (ref.cloud, ref.region) != (place.cloud, place.region)
    return SweepReason.REMAINS if elsewhere else None  # left by an attempt of its launch in another place


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The unwanted resources, and the places about which nothing may be concluded."""

    finds: tuple[Find, ...]
    discovery: DiscoveryResult


def look(context: Context, *, owner: str, older_than: timedelta) -> Sweep:
    """Makes the list: reads the clouds first, then the journal."""
    return _listed(context, finish(context, begin(context, Search())), context.search(owner), older_than)


def look_again(context: Context, first: Sweep, *, owner: str, older_than: timedelta) -> Sweep:
    """Makes the list again: the resources that are still unwanted, in the same places, under the same ids."""
    wanted = [find for find in first.finds if find.unwanted]
    regions: dict[str, set[str]] = defaultdict(set)
    for find in wanted:
        regions[find.resource.ref.cloud].add(find.resource.ref.region)
    places = {cloud: sorted(names) for cloud, names in regions.items()}
    mine = context.search(owner)
    again = _listed(context, finish(context, begin(context, mine, places)), mine, older_than)
    refs = {find.resource.ref for find in wanted}
    still = tuple(find for find in again.finds if find.unwanted and find.resource.ref in refs)
    return replace(again, finds=still)


def _listed(context: Context, discovery: DiscoveryResult, mine: Search, older_than: timedelta) -> Sweep:
    found = {resource.tags.box for resource in discovery.resources if isinstance(resource.tags, Tags)}
    discovery = _but_damaged(context, discovery, found)
    told = {box.id for box in catch_up(context, context.journal.known(Holding, found), [])}
    boxes = {box.id: box for box in context.journal.known(Holding, found)}
    in_doubt = {box.id for box in boxes.values() if box.state in LAUNCHING} - told
    finds = judge(discovery, boxes, mine=mine, older_than=older_than, may_take=context.may_take)
    return Sweep(finds=tuple(find for find in finds if find.box not in in_doubt), discovery=discovery)


def _but_damaged(context: Context, discovery: DiscoveryResult, found: Collection[str]) -> DiscoveryResult:
    """Leaves out boxes that the journal has, and of which nothing can be read: they are not unknown."""
    read = {box.id for box in context.journal.known(Holding, found)}
    damaged = context.journal.damaged.keys() - read
    left = [
        each for each in discovery.resources if not (isinstance(each.tags, Tags) and each.tags.box in damaged)
    ]
    return replace(discovery, resources=tuple(left))


def end(context: Context, finds: Sequence[Find], market: Market) -> list[GpucloudError]:
    """Ends what was found, box by box; one that cannot be ended does not hold up the others.

    Returns:
        One error per box that is still owed.

    Raises:
        InterruptedBySignal: a signal came; the box under way was finished, the next ones were not started.
    """
    by_box: dict[str, list[Find]] = defaultdict(list)
    for find in finds:
        assert isinstance(find.resource.tags, Tags)  # noqa: S101  (else it would be nobody's)
        by_box[find.resource.tags.box].append(find)
    troubles: list[GpucloudError] = []
    for box_id, found in by_box.items():
        context.tasks.check()
        with isolated(troubles, f"box {box_id}"):
            _end_box(context, box_id, found, market)
    return troubles


def _end_box(context: Context, box_id: str, finds: Sequence[Find], market: Market) -> None:
    resources = [find.resource for find in finds]
    adopted = adopt_box(context, resources, BoxState.DELETING, market)
    box = adopted or context.journal.holding(Holding, box_id)
    taken = context.take(box)
    if taken is None:
        raise UsageError(f"another process works on box {box.name!r}", hint="wait for it, then repeat")
    reasons = dict.fromkeys(find.reason.replace("_", " ") for find in finds)
    context.tell("down", f"deleting {box.name}: {', '.join(reasons)}")
    try:
        refs = _refs(resources)
        for ref in refs:
            context.journal.write(taken, Made(resource=named(ref)))
        whole = taken.state not in OVER and (taken.is_remains or _is_over(taken, finds))
        with context.tasks.finishing():
            if whole:
                take_down(context, taken, budget_s=REMOVAL_S)
            else:
                end_resources(context, taken, lambda ref: ref in refs, budget_s=REMOVAL_S)
    finally:
        context.journal.release(taken)


def _is_over(holding: Holding, finds: Sequence[Find]) -> bool:
    """Whether the whole box is past its deadline, not only one of its resources in the wrong place."""
    return any(find.reason is SweepReason.PAST_DEADLINE for find in finds) and holding.state in HANDED_OVER


def _refs(resources: Iterable[Resource]) -> set[Ref]:
    refs: set[Ref] = set()
    for resource in resources:
        refs.add(resource.ref)
        if isinstance(resource, Machine):
            refs.update(resource.parts)
    return refs
