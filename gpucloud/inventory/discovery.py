"""What the clouds hold with gpucloud's tags, whatever the journal says. Changes nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from gpucloud.boxes.resolution import is_second_machine
from gpucloud.errors import CloudError, GpucloudError, OwedError, UsageError, is_absent
from gpucloud.journal.lifecycle import BoxState, Owed
from gpucloud.journal.records import Box
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
"""As the region of what could not be read: all of the cloud's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found, and where nothing may be concluded.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a survey waits for clouds that do not answer, in seconds since its start, except ``news_s``.

    Attributes:
        first_s: for a cloud that has not answered at all.
        whole_s: for one that has answered and is still searching.
        news_s: for either, since the last answer of any cloud: they share this machine's processor, and
            loading their SDKs takes longer than most clouds take to answer.
    """

    first_s: float = 30.0
    whole_s: float = 120.0
    news_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Asked:
    """The calls of a search in one cloud: its account, its time, and its resources."""

    account: Call
    clock: Call
    search: Call

    @property
    def calls(self) -> tuple[Call, ...]:
        """All that is waited for."""
        return self.account, self.clock, self.search


def begin(
    context: Context, search: Search, regions: Mapping[str, Sequence[str] | None] | None = None
) -> Mapping[str, Asked]:
    """Starts to look in every cloud, all at once; :func:`finish` waits.

    Args:
        context: clouds, journal, clock and progress of this call.
        search: what to look for.
        regions: the clouds to look in, and the regions of each, ``None`` for every one; every region of all
            clouds, where not given.
    """
    wanted = dict.fromkeys(context.clouds.names()) if regions is None else regions
    searches = {
        name: replace(search, regions=None if places is None else tuple(places))
        for name, places in wanted.items()
    }
    return {name: _ask(context, name, each) for name, each in searches.items()}


def finish(context: Context, asked: Mapping[str, Asked], patience: Patience = Patience()) -> Survey:
    """What was found. A cloud that does not answer keeps the others waiting no longer than ``patience``."""
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
                left_out[name] = error.message
    blind = {(region.cloud, region.region) for region in unread}
    seen = tuple(resource for resource in resources if (resource.ref.cloud, resource.ref.region) not in blind)
    return Survey(
        resources=seen, unread=tuple(unread), left_out=left_out, clocks=clocks, suspects=tuple(suspects)
    )


def strangers(context: Context, survey: Survey) -> Sequence[Resource]:
    """What is billed but belongs to no living box of this journal."""
    living = {box.id: box for box in context.journal.boxes(owner=context.owner)}
    found: list[Resource] = []
    for resource in survey.resources:
        box = living.get(resource.tags.box) if isinstance(resource.tags, Tags) else None
        if resource.ref.kind.billable and (box is None or not_of_its_box(box, resource)):
            found.append(resource)
    return found


def not_of_its_box(box: Box, resource: Resource) -> bool:
    """Whether a machine carries the tags of a box that is ready, and is none of its nodes."""
    return box.state is BoxState.READY and is_second_machine(box, resource)


def begin_strays(context: Context, box: Box) -> Mapping[str, Asked]:
    """Starts to look for what carries the tags of a box, wherever it had anything."""
    places: dict[str, set[str]] = defaultdict(set)
    for row in context.journal.resources(box.id, present=False):
        places[row.ref.cloud].add(row.ref.region)
    search = Search(owner=box.owner, box=box.id)
    return begin(context, search, {cloud: sorted(names) for cloud, names in places.items()})


def refuse_strays(context: Context, box: Box, asked: Mapping[str, Asked]) -> None:
    """Refuses to call a box gone while anything billable that the journal does not know carries its tags.

    Nothing of it is ended: a deletion takes the journal's word besides the tags.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: nothing that the journal knows of it is billed.
        asked: from :func:`begin_strays`.

    Raises:
        OwedError: something does, or a place of the box could not be searched.
    """
    known = {row.ref for row in context.journal.resources(box.id, present=False)}
    survey = finish(context, asked)
    strays = [
        resource
        for resource in (*survey.resources, *survey.suspects)
        if resource.ref.kind.billable and resource.state is not State.STOPPING and resource.ref not in known
    ]
    words = [
        f"{resource.ref.kind} {resource.ref.id} in {resource.ref.cloud} {resource.ref.region}"
        for resource in strays
    ]
    blind = [f"{each.cloud} {each.region} could not be searched: {each.error}" for each in survey.unread]
    if not strays and not blind:
        return
    said = [f"these carry its tags and are not in the journal: {', '.join(words)}"] if words else []
    raise OwedError(
        f"{box.name!r} is {box.state}; {'; '.join(said + blind)}",
        hint="look at them before you end them: gpucloud sweep --dry-run",
        left=[Owed(ref=each.ref, name="", price_per_hour=None, currency=None).as_dict() for each in strays],
        owed_command="gpucloud sweep --yes",
    )


def refuse_taken_name(context: Context, name: str, survey: Survey) -> None:
    """Refuses a name that a machine of this owner has in a cloud under a box that the journal does not know.

    Raises:
        UsageError: the name is taken.
    """
    called = box_name(cloud_name(name, ""))
    for resource in survey.resources:
        if not isinstance(resource, Machine) or box_name(resource.name) != called:
            continue
        if isinstance(resource.tags, Tags) and not context.journal.known([resource.tags.box]):
            raise UsageError(
                f"a box named {name!r} exists already and is not in this journal: {resource.ref.id} in "
                f"{resource.ref.cloud} {resource.ref.region}",
                hint="add it to the journal: gpucloud recover; or choose another --name",
            )


def is_of(owner: str, resource: Resource) -> bool:
    """Whether a thing is tagged as this owner's, whatever its other tags say."""
    return Search(owner=owner).admits(resource.tags)


def unjudged(survey: Survey, owner: str) -> Sequence[Resource]:
    """What is billed as an owner's and cannot be told to be anything: its tags are not gpucloud's own."""
    return [resource for resource in survey.suspects if resource.ref.kind.billable and is_of(owner, resource)]


def by_box(resources: Iterable[Resource]) -> list[tuple[str, list[Resource]]]:
    """What carries gpucloud's tags, box by box, each with its owner."""
    groups: dict[tuple[str, str], list[Resource]] = {}
    for resource in resources:
        if isinstance(resource.tags, Tags):
            groups.setdefault((resource.tags.box, resource.tags.owner), []).append(resource)
    return [(owner, found) for (_, owner), found in groups.items()]


def _ask(context: Context, name: str, search: Search) -> Asked:
    return Asked(
        account=context.tasks.start(lambda: context.clouds.usable(name).account()),
        clock=context.tasks.start(partial(_clock_of, context, name)),
        search=context.tasks.start(lambda: context.clouds.usable(name).find(search)),
    )


def _wait(context: Context, asked: Collection[Asked], patience: Patience) -> None:
    """Waits until all have answered, or those that have not are to be waited for no longer."""
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


def _has_answered(asked: Asked) -> bool:
    """Whether a cloud has said who we are."""
    return asked.account.done and asked.account.error is None


def _clock_of(context: Context, name: str) -> datetime | None:
    """What a cloud says the time is; ``None`` where it does not say."""
    with suppress(CloudError):
        return context.clouds.usable(name).server_time()
    return None
