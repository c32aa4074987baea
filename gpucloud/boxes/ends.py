"""What ends machines from outside: one step after they are known, however they were found out."""

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
    """Has the cloud end machines of a box when they should end, and writes down what does it.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: whose machines they are; the journal knows their ids.
        cloud: theirs.
        machines: all of one region.
        end: when they end, and what the cloud needs for it.

    Raises:
        CloudError: one of them would have no end. It is there all the same.
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
