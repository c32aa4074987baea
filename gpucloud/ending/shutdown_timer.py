"""The cloud's timer that ends machines: set as soon as their ids are known, at launch or at recovery."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpucloud.clouds.cloud import Cloud
from gpucloud.journal.events import Made, Seen, named
from gpucloud.journal.facts import Facts
from gpucloud.journal.records import Box
from gpucloud.resources import End, Machine
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
    note = partial(note_timers, context, box)
    known = context.journal.box(box.id).timers
    try:
        made = context.tasks.run(partial(cloud.ensure_end, machines, end, known, note), ARM_TIMEOUT_S)
    except TimedOutError as error:
        raise cloud.late(f"could not set the timer that ends the box: {error}") from error
    for ref in made:
        context.journal.write(box, Made(resource=named(ref)))


def note_timers(context: Context, box: Box, timers: Sequence[str]) -> None:
    """Writes down which timers of the cloud end a box: all that are in force."""
    context.journal.write(box, Seen(facts=Facts(timers=tuple(timers))))
