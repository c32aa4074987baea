"""Compares this machine's clock with a cloud's: deadlines are computed by ours, and enforced by theirs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpucloud.clouds.abilities import Checkup
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import CloudError, UsageError
from gpucloud.resources import rfc3339
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call, TimedOutError

SKEW_FAILS = timedelta(minutes=5)
"""From this difference on nothing is bought, and clouds refuse signed requests (AWS from 5 minutes)."""
CLOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The time by a cloud's clock, and by ours directly before the call and after it."""

    cloud: str
    before: datetime
    theirs: datetime
    after: datetime

    @property
    def skew(self) -> timedelta:
        """The least difference of the clocks: the answer may have been delayed."""
        return max(self.before - self.theirs, self.theirs - self.after, timedelta())

    @property
    def text(self) -> str:
        """Both times, for people."""
        way = "ahead of" if self.before > self.theirs else "behind"
        return (
            f"this machine's clock ({rfc3339(self.after)}) is {self.skew.total_seconds():.0f} s {way}"
            f" that of {self.cloud} ({rfc3339(self.theirs)})"
        )


def server_time(cloud: Cloud) -> datetime | None:
    """The cloud's clock; ``None`` if this cloud does not tell it."""
    return cloud.ask(Checkup, "ask for the time", lambda checkup: checkup.server_time(), lacking=None)


def begin_reading(context: Context, cloud: Cloud) -> Call:
    """Starts to ask a cloud for the time; for :func:`reading_of`."""

    def read() -> ClockReading | None:
        before = context.clock()
        theirs = server_time(cloud)
        if theirs is None:
            return None
        return ClockReading(cloud=cloud.name, before=before, theirs=theirs, after=context.clock())

    return context.tasks.start(read)


def reading_of(context: Context, asked: Call) -> ClockReading | None:
    """The reading of a cloud's clock; ``None`` if the cloud did not report its time."""
    try:
        reading: ClockReading | None = context.tasks.wait(asked, CLOCK_TIMEOUT_S)
    except (CloudError, ImportError, TimedOutError):
        return None
    return reading


def refuse_wrong(context: Context, reading: ClockReading | None) -> None:
    """Refuses to compute deadlines by a wrong clock: a box would end while it boots, or much too late.

    Raises:
        UsageError: this machine's clock or the cloud's is off by more than :data:`SKEW_FAILS`.
    """
    if reading is not None and reading.skew > SKEW_FAILS:
        raise UsageError(
            f"{reading.text}; nothing was changed",
            hint=f"{context.mend_clock}; then check again: gpucloud check",
        )
