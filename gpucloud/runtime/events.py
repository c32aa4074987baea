"""Progress as typed events for one callback: a timeline on a terminal, a log, a metric.

Every command imports this module. Making a dataclass costs half a millisecond, so an event without fields of
its own is a plain subclass with the fields of its parent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """Something happened.

    Attributes:
        step: the step of the contract's timeline.
        text: one line for people.
        box: the name of the box that it is about; ``None`` for what is about no box, or about several.
    """

    step: str
    text: str
    box: str | None = field(default=None, kw_only=True)


class Progress(Event):
    """A step started or progressed."""


class Noticed(Event):
    """A notice that is printed even if progress is not; nothing is wrong."""


@dataclass(frozen=True)
class Warned(Event):
    """Something was left undone or is not known, and the command went on; ``hint`` says what to do."""

    hint: str | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Event):
    """The create call of an attempt is about to be made. ``price`` is per hour and node, in ``currency``."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    price: Decimal
    currency: str


@dataclass(frozen=True, kw_only=True)
class AttemptRefused(Event):
    """An attempt failed, and the next one is tried. ``code`` is the cloud's, ``error_class`` ours."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    error_class: str
    code: str | None


@dataclass(frozen=True, kw_only=True)
class MachinesCreated(Event):
    """The cloud has made the machines with these ids, and the journal has them; they may not run yet."""

    ids: tuple[str, ...]


class BootStep(Event):
    """The first boot of a machine has reached a step, by the machine's own log."""


@dataclass(frozen=True, kw_only=True)
class PricesAnswered(Event):
    """A cloud has answered one more query of a price refresh: ``answered`` of ``asked``."""

    cloud: str
    answered: int
    asked: int


class JobStarted(Event):
    """A command starts on a box; its output arrives until :class:`JobEnded`."""


class JobEnded(Event):
    """The output of the command has ended, or the connection to it was lost."""


Sink = Callable[[Event], None]
"""Receives events, in the thread of their origin."""


def unfailing(sink: Sink) -> Sink:
    """The same sink; what it raises is logged, and ends nothing: a closed window keeps no box alive."""

    def receive(event: Event) -> None:
        try:
            sink(event)
        except Exception as error:
            _log.warning("%s was not told: %s", type(event).__name__, error, exc_info=_is_unexpected(error))

    return receive


def _is_unexpected(error: Exception) -> bool:
    """Whether a traceback helps: where a stream is closed, it does not."""
    return not isinstance(error, OSError)


def ignore(event: Event) -> None:
    """Ignores an event."""
