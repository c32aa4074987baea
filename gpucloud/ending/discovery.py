"""Finds the resources with gpucloud's tags in the clouds, independently of the journal. Changes nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from gpucloud.ending.resolution import is_second_machine
from gpucloud.errors import CleanupIncompleteError, CloudError, GpucloudError, UsageError, absence, is_absent
from gpucloud.journal.lifecycle import HANDED_OVER, PendingDeletion
from gpucloud.journal.records import Holding
from gpucloud.planning.access import server_time
from gpucloud.resources import (
    Machine,
    Resource,
    Search,
    SearchResult,
    State,
    Tags,
    UnreadableRegion,
    box_name,
    cloud_name,
)
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud.runtime.tasks import Call

POLL_S = 0.1

EVERYWHERE = "*"
"""The region of an ``unread`` entry that stands for every region of a cloud."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryResult:
    """The resources that were found, and the places about which nothing may be concluded.

    Attributes:
        resources: every matching resource that is not gone, in the regions that were read completely: the
            disk of a box without its machine would look like a leftover.
        unread: the regions that could not be read; ``*`` for a cloud that did not answer at all.
        left_out: clouds that are not set up here and have no resource in the journal, with the reason.
        clocks: the time by each cloud that answered.
        suspects: other matches, in any region, with tags that gpucloud never wrote.
    """

    resources: tuple[Resource, ...]
    unread: tuple[UnreadableRegion, ...]
    left_out: Mapping[str, str]
    clocks: Mapping[str, datetime]
    suspects: tuple[Resource, ...] = ()

    def has_read(self, cloud: str, region: str) -> bool:
        """Whether what is not among the resources of a region is not there."""
        blind = {(each.cloud, each.region) for each in self.unread}
        return cloud in self.clocks and not blind & {(cloud, region), (cloud, EVERYWHERE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPolicy:
    """How long a search waits for clouds that do not answer, in seconds; except ``news_s``, from its start.

    Attributes:
        first_s: for a cloud that has not answered at all.
        whole_s: for one that has answered and is still searching.
        news_s: for either, from the last answer of any cloud: they share this machine's processor, and
            loading their SDKs takes longer than most clouds take to answer.
    """

    first_s: float = 30.0
    whole_s: float = 120.0
    news_s: float = 5.0


@dataclass(frozen=True, slots=True)
class PendingQuery:
    """The calls of a search in one cloud: its account, its time, and its resources."""

    account: Call
    clock: Call
    search: Call

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls of the search."""
        return self.account, self.clock, self.search


def begin(
    context: Context, search: Search, regions: Mapping[str, Sequence[str] | None] | None = None
) -> Mapping[str, PendingQuery]:
    """Starts to search every cloud, all at the same time; :func:`finish` waits.

    Args:
        context: clouds, journal, clock and progress of this call.
        search: the resources to search for.
        regions: the clouds to search, and the regions of each, ``None`` for every one; every region of all
            clouds by default.
    """
    wanted = dict.fromkeys(context.clouds.names()) if regions is None else regions
    searches = {
        name: replace(search, regions=None if places is None else tuple(places))
        for name, places in wanted.items()
    }
    return {name: _ask(context, name, each) for name, each in searches.items()}


def finish(
    context: Context, asked: Mapping[str, PendingQuery], patience: WaitPolicy = WaitPolicy()
) -> DiscoveryResult:
    """Waits for the search. A cloud that does not answer delays the others no longer than ``patience``."""
    _wait(context, asked.values(), patience)
    used = {row.ref.cloud for row in context.journal.resources()}
    resources: list[Resource] = []
    suspects: list[Resource] = []
    unread: list[UnreadableRegion] = []
    left_out: dict[str, str] = {}
    clocks: dict[str, datetime] = {}
    for name, each in asked.items():
        troubles: list[GpucloudError] = []
        with isolated(troubles, name):
            context.tasks.wait(each.account, 0.0)
            found: SearchResult = context.tasks.wait(each.search, 0.0)
            clocks[name] = context.tasks.wait(each.clock, 0.0) or context.clock()
            resources += [resource for resource in found.resources if resource.state is not State.GONE]
            suspects += [resource for resource in found.suspects if resource.state is not State.GONE]
            unread += found.unread
        for error in troubles:
            if name in used or not is_absent(error):
                unread.append(UnreadableRegion(cloud=name, region=EVERYWHERE, error=error.message))
            else:
                left_out[name] = absence(error)
    blind = {(region.cloud, region.region) for region in unread}
    seen = tuple(resource for resource in resources if (resource.ref.cloud, resource.ref.region) not in blind)
    return DiscoveryResult(
        resources=seen, unread=tuple(unread), left_out=left_out, clocks=clocks, suspects=tuple(suspects)
    )


def untracked(context: Context, discovery: DiscoveryResult) -> Sequence[Resource]:
    """The billed resources that belong to no living box or volume of this journal."""
    living = {box.id: box for box in context.journal.holdings(Holding, owner=context.owner)}
    found: list[Resource] = []
    for resource in discovery.resources:
        box = living.get(resource.tags.box) if isinstance(resource.tags, Tags) else None
        if resource.ref.kind.billable and (box is None or not_of_its_box(box, resource)):
            found.append(resource)
    return found


def not_of_its_box(holding: Holding, resource: Resource) -> bool:
    """Whether a machine carries the tags of a box of its owner, and is none of its nodes."""
    return holding.state in HANDED_OVER and is_second_machine(holding, resource)


def begin_strays(context: Context, holding: Holding) -> Mapping[str, PendingQuery]:
    """Starts to search for resources with the tags of a box, in every place where it had any."""
    places: dict[str, set[str]] = defaultdict(set)
    for row in context.journal.resources(holding.id, present=False):
        places[row.ref.cloud].add(row.ref.region)
    search = Search(owner=holding.owner, box=holding.id)
    return begin(context, search, {cloud: sorted(names) for cloud, names in places.items()})


def refuse_strays(context: Context, holding: Holding, asked: Mapping[str, PendingQuery]) -> None:
    """Refuses to report a box as gone while a billable resource with its tags is not in the journal.

    None of these resources is deleted: a deletion requires an entry in the journal as well as the tags.

    Args:
        context: clouds, journal, clock and progress of this call.
        holding: a box of which the journal has nothing billed.
        asked: from :func:`begin_strays`.

    Raises:
        CleanupIncompleteError: there is such a resource, or a place of the box could not be searched.
    """
    known = {row.ref for row in context.journal.resources(holding.id, present=False)}
    discovery = finish(context, asked)
    strays = [
        resource
        for resource in (*discovery.resources, *discovery.suspects)
        if resource.ref.kind.billable and resource.state is not State.STOPPING and resource.ref not in known
    ]
    words = [
        f"{resource.ref.kind} {resource.ref.id} in {resource.ref.cloud} {resource.ref.region}"
        for resource in strays
    ]
    blind = [f"{each.cloud} {each.region} could not be searched: {each.error}" for each in discovery.unread]
    if not strays and not blind:
        return
    said = [f"these carry its tags and are not in the journal: {', '.join(words)}"] if words else []
    raise CleanupIncompleteError(
        f"{holding.name!r} is {holding.state}; {'; '.join(said + blind)}",
        hint="look at them before you end them: gpucloud sweep --dry-run",
        left=[
            PendingDeletion(ref=each.ref, name="", price_per_hour=None, currency=None).as_dict()
            for each in strays
        ],
        owed_command="gpucloud sweep --yes",
    )


def refuse_taken_name(context: Context, name: str, discovery: DiscoveryResult) -> None:
    """Refuses a name that a machine of this owner has in a cloud, for a box that is not in the journal.

    Raises:
        UsageError: the name is taken.
    """
    called = box_name(cloud_name(name, ""))
    for resource in discovery.resources:
        if not isinstance(resource, Machine) or box_name(resource.name) != called:
            continue
        if isinstance(resource.tags, Tags) and not context.journal.known(Holding, [resource.tags.box]):
            raise UsageError(
                f"a box named {name!r} exists already and is not in this journal: {resource.ref.id} in "
                f"{resource.ref.cloud} {resource.ref.region}",
                hint="add it to the journal: gpucloud recover; or choose another --name",
            )


def unjudged(discovery: DiscoveryResult, mine: Search) -> Sequence[Resource]:
    """The billed resources of an owner that belong to no box for certain: gpucloud never wrote such tags.

    Args:
        discovery: what was found.
        mine: admits what has the owner's tag.
    """
    suspects = [resource for resource in discovery.suspects if resource.ref.kind.billable]
    return [resource for resource in suspects if mine.admits(resource.tags)]


def by_box(resources: Iterable[Resource]) -> list[tuple[str, list[Resource]]]:
    """The resources with gpucloud's tags by box, each box with its owner."""
    groups: dict[tuple[str, str], list[Resource]] = {}
    for resource in resources:
        if isinstance(resource.tags, Tags):
            groups.setdefault((resource.tags.box, resource.tags.owner), []).append(resource)
    return [(owner, found) for (_, owner), found in groups.items()]


def _ask(context: Context, name: str, search: Search) -> PendingQuery:
    return PendingQuery(
        account=context.tasks.start(lambda: context.clouds.usable(name).account()),
        clock=context.tasks.start(partial(_clock_of, context, name)),
        search=context.tasks.start(lambda: context.clouds.usable(name).find(search)),
    )


def _wait(context: Context, asked: Collection[PendingQuery], patience: WaitPolicy) -> None:
    """Waits until all clouds have answered, or ``patience`` with the rest is over."""
    began = news_at = time.monotonic()
    known = 0
    while True:
        missing = [call for each in asked for call in each.calls if not call.done]
        news = sum(len(each.calls) for each in asked) - len(missing)
        now = time.monotonic()
        if news > known:
            known, news_at = news, now
        heard = any(_has_answered(each) for each in asked if not all(call.done for call in each.calls))
        limit_s = patience.whole_s if heard else patience.first_s
        if now >= max(began + limit_s, news_at + patience.news_s):
            return
        if context.tasks.until_done(missing, POLL_S) or not context.tasks.left_s:
            return


def _has_answered(asked: PendingQuery) -> bool:
    """Whether a cloud has answered with our identity."""
    return asked.account.done and asked.account.error is None


def _clock_of(context: Context, name: str) -> datetime | None:
    """The time by a cloud; ``None`` if it does not report one."""
    with suppress(CloudError):
        return server_time(context.clouds.usable(name))
    return None
