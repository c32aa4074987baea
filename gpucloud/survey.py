"""What the clouds hold with gpucloud's tags, whatever the journal says. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from gpucloud.errors import CloudError, ErrorClass
from gpucloud.lifecycle import OVER
from gpucloud.model import Found, Search, State, Thing, Unread
from gpucloud.waiter import Call, TimedOutError
from gpucloud.world import World

SURVEY_TIMEOUT_S = 120.0

EVERYWHERE = "*"
"""As the region of what could not be read: all of the cloud's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found, and where nothing may be concluded.

    Attributes:
        things: everything that was looked for and is not gone, in the regions that could be read as a whole:
            who sees the disk of a box and not its machine would take it for a remain.
        unread: the other regions; of a cloud that did not answer at all, ``*``.
        left_out: clouds that are not set up here and of which the journal knows nothing, with the reason.
        clocks: the time that each cloud that answered says it is.
    """

    things: tuple[Thing, ...]
    unread: tuple[Unread, ...]
    left_out: Mapping[str, str]
    clocks: Mapping[str, datetime]


@dataclass(frozen=True, slots=True)
class _Look:
    found: Found
    clock: datetime | None


def begin(
    world: World, search: Search, regions: Mapping[str, Sequence[str]] | None = None
) -> Mapping[str, Call]:
    """Starts to look in every cloud, all at once; :func:`finish` waits.

    Args:
        world: the outside.
        search: what to look for.
        regions: the clouds to look in, and the regions of each; every region of all, where not given.
    """
    if regions is None:
        return {
            name: world.waiter.start(partial(_look, world, name, search)) for name in world.clouds.names()
        }
    return {
        name: world.waiter.start(partial(_look, world, name, replace(search, regions=tuple(places))))
        for name, places in regions.items()
    }


def finish(world: World, calls: Mapping[str, Call]) -> Survey:
    """What was found."""
    used = {row.ref.cloud for row in world.journal.things()}
    things: list[Thing] = []
    unread: list[Unread] = []
    left_out: dict[str, str] = {}
    clocks: dict[str, datetime] = {}
    for name, call in calls.items():
        try:
            look: _Look = world.waiter.wait(call, SURVEY_TIMEOUT_S)
        except (ImportError, CloudError, TimedOutError) as error:
            reason = f"its SDK is not installed ({error})" if isinstance(error, ImportError) else str(error)
            if name in used or not is_absent(error):
                unread.append(Unread(cloud=name, region=EVERYWHERE, error=reason))
            else:
                left_out[name] = reason
        else:
            things += [thing for thing in look.found.things if thing.state is not State.GONE]
            unread += look.found.unread
            clocks[name] = look.clock or world.clock()
    blind = {(region.cloud, region.region) for region in unread}
    seen = tuple(thing for thing in things if (thing.ref.cloud, thing.ref.region) not in blind)
    return Survey(things=seen, unread=tuple(unread), left_out=left_out, clocks=clocks)


def strangers(world: World, survey: Survey) -> Sequence[Thing]:
    """What is billed but belongs to no living box of this journal."""
    living = {box.id for box in world.journal.boxes(owner=world.owner) if box.state not in OVER}
    return [
        thing
        for thing in survey.things
        if thing.ref.kind.billable and (thing.tags is None or thing.tags.box not in living)
    ]


def by_box(things: Iterable[Thing]) -> list[tuple[str, list[Thing]]]:
    """What carries gpucloud's tags, box by box, each with its owner."""
    groups: dict[tuple[str, str], list[Thing]] = {}
    for thing in things:
        if thing.tags is not None:
            groups.setdefault((thing.tags.box, thing.tags.owner), []).append(thing)
    return [(owner, found) for (_, owner), found in groups.items()]


def is_absent(error: Exception) -> bool:
    """Whether a cloud is not set up here: no SDK, or no credentials to be refused."""
    if isinstance(error, CloudError):
        return error.error_class is ErrorClass.AUTH and not error.sent
    return isinstance(error, ImportError)


def _look(world: World, name: str, search: Search) -> _Look:
    cloud = world.clouds[name]
    cloud.account()  # without credentials every region would be asked in vain
    clock = None
    with suppress(CloudError):
        clock = cloud.server_time()
    return _Look(cloud.find(search), clock)
