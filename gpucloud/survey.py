"""What the clouds hold of this owner, whatever the journal says. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gpucloud.errors import CloudError
from gpucloud.lifecycle import OVER
from gpucloud.model import Found, Search, State, Thing, Unread
from gpucloud.waiter import Call, TimedOutError
from gpucloud.world import World

SURVEY_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found, and where nothing may be concluded.

    Attributes:
        things: everything that carries this owner's tags and is not gone.
        unread: regions that could not be read.
        left_out: clouds that could not be asked at all, with the reason.
    """

    things: tuple[Thing, ...]
    unread: tuple[Unread, ...]
    left_out: Mapping[str, str]


def begin(world: World) -> Mapping[str, Call]:
    """Starts to look in every region of every installed cloud, all at once; :func:`finish` waits."""
    return {name: world.waiter.start(partial(_look, world, name)) for name in world.clouds.names()}


def finish(world: World, calls: Mapping[str, Call]) -> Survey:
    """What was found."""
    things: list[Thing] = []
    unread: list[Unread] = []
    left_out: dict[str, str] = {}
    for name, call in calls.items():
        try:
            found: Found = world.waiter.wait(call, SURVEY_TIMEOUT_S)
        except ImportError as error:
            left_out[name] = f"its SDK is not installed ({error})"
        except (CloudError, TimedOutError) as error:
            left_out[name] = str(error)
        else:
            things += [thing for thing in found.things if thing.state is not State.GONE]
            unread += found.unread
    return Survey(things=tuple(things), unread=tuple(unread), left_out=left_out)


def strangers(world: World, survey: Survey) -> Sequence[Thing]:
    """What is billed but belongs to no living box of this journal."""
    living = {box.id for box in world.journal.boxes(owner=world.owner) if box.state not in OVER}
    return [
        thing
        for thing in survey.things
        if thing.ref.kind.billable and (thing.tags is None or thing.tags.box not in living)
    ]


def _look(world: World, name: str) -> Found:
    cloud = world.clouds[name]
    cloud.account()  # without credentials every region would be asked in vain
    return cloud.find(Search(owner=world.owner))
