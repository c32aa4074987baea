"""The cloud's timer that ends machines: set as soon as their ids are known, at launch or at recovery."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from gpucloud.clouds.abilities import Deadlines, KnownTimers
from gpucloud.clouds.cloud import Cloud
from gpucloud.journal.events import Made, Seen, named
from gpucloud.journal.facts import Facts
from gpucloud.journal.records import Box
from gpucloud.resources import End, Machine, Ref
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError

ARM_TIMEOUT_S = 180.0


def ensure_end(context: Context, box: Box, cloud: Cloud, machines: Sequence[Machine], end: End) -> None:
    """Sets the cloud's timers that end machines of a box, and journals the timers.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box of the machines; the journal has their ids.
        cloud: the cloud of the machines.
        machines: all of one region.
        end: when they end, and the identities that the cloud needs for it.

    Raises:
        CloudError: one of them has no timer. It keeps running.
    """
    known = KnownTimers(context.journal.box(box.id).timers, partial(note_timers, context, box))

    def arm() -> Sequence[Ref]:
        return cloud.ask(
            Deadlines,
            "set the timer that ends the box",
            lambda deadlines: deadlines.ensure_end(machines, end, known.all, known.learn),
            lacking=(),
        )

    try:
        made = context.tasks.run(arm, ARM_TIMEOUT_S)
    except TimedOutError as error:
        raise cloud.late(f"could not set the timer that ends the box: {error}") from error
    for ref in made:
        context.journal.write(box, Made(resource=named(ref)))


def move_timers(
    cloud: Cloud, resources: Sequence[Ref], expires_at: datetime | None, known: KnownTimers
) -> Sequence[str]:
    """Moves the cloud's own deadline of resources, and their tags; returns the timers in force."""
    return cloud.ask(
        Deadlines,
        "move the deadline of the box",
        lambda deadlines: deadlines.extend(resources, expires_at, known.all, known.learn),
        lacking=(),
    )


def note_timers(context: Context, box: Box, timers: Sequence[str]) -> None:
    """Writes down which timers of the cloud end a box: all that are in force."""
    context.journal.write(box, Seen(facts=Facts(timers=tuple(timers))))
