"""Waiting for capacity: a launch is tried again, until it succeeds or the wait is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from gpucloud.errors import GpucloudError
from gpucloud.planning.waiting import may_pass, pause_after
from gpucloud.resources import rfc3339
from gpucloud.runtime.context import Context


class NothingNowError(GpucloudError):
    """Nothing can be bought now, which another moment may change; otherwise as its cause."""

    def __init__(self, cause: GpucloudError) -> None:
        super().__init__(cause.message, hint=cause.hint, attempts=cause.attempts)
        self.error_class, self.exit_code = cause.error_class, cause.exit_code
        self.cloud, self.code, self.request_id = cause.cloud, cause.code, cause.request_id


@dataclass(slots=True)
class Wait:
    """The rounds of one launch.

    Attributes:
        context: the clock and progress of this call.
        lasts: for how long other rounds are made after the first; ``None`` for none.
        rounds: how many have failed.
        until: when the wait is over; ``None`` before the first failure.
    """

    context: Context
    lasts: timedelta | None
    rounds: int = 0
    until: datetime | None = None

    def pause_after(self, error: GpucloudError) -> None:
        """Sleeps until the next round.

        Args:
            error: the failure of the last one.

        Raises:
            GpucloudError: the failure: it will not pass, or the wait is over.
            InterruptedBySignal: a signal came.
        """
        if self.lasts is None or not may_pass(error, waiting=self.until is not None):
            raise error
        now = self.context.clock()
        self.rounds += 1
        self.until = self.until or now + self.lasts
        if now >= self.until:
            error.message = f"{error.message}; {self.rounds} rounds until {rfc3339(self.until)} found nothing"
            raise error
        pause_s = min(pause_after(self.rounds, capacity=True), (self.until - now).total_seconds())
        self.context.notice(
            "wait", f"{error.message}; trying again in {pause_s:.0f} s, until {rfc3339(self.until)}"
        )
        self.context.tasks.pause(pause_s)
