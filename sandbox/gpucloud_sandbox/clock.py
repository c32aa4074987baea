"""The emulated clouds' time: this machine's time plus an offset set through the control API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta

Now = Callable[[], datetime]


def machine_time() -> datetime:
    """This machine's time, in UTC."""
    return datetime.now(UTC)


class Clock:
    """Gives the clouds' time, and can be moved.

    Args:
        now: the time underneath, in UTC.
        offset: how far ahead of it the clouds are.
    """

    def __init__(self, now: Now = machine_time, offset: timedelta = timedelta()) -> None:
        self._now = now
        self.offset = offset

    def now(self) -> datetime:
        """The clouds' time, in UTC."""
        return self._now() + self.offset

    def unmoved(self) -> datetime:
        """This machine's time, in UTC: the callers' clocks are not moved."""
        return self._now()

    def advance(self, by: timedelta) -> None:
        """Moves the clouds' time ahead."""
        self.offset += by

    def reset(self) -> None:
        """Removes the offset."""
        self.offset = timedelta()


def stamp(when: datetime) -> str:
    """A time as the clouds write it: RFC 3339 in UTC, to the millisecond."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def end_of(day: str) -> datetime:
    """When a day ends, in UTC; ``day`` as in ``2027-05-31``.

    Raises:
        ValueError: it is none.
    """
    return datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(), UTC)
