"""Which clouds a plan can use: by their accounts, and by this machine's clock."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import Checkup, Preflight
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import (
    CloudError,
    ErrorClass,
    GpucloudError,
    NoOfferError,
    UsageError,
    absence,
    is_absent,
)
from gpucloud.resources import rfc3339
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call, TimedOutError

NEXT = "sign in, then run `gpucloud check`; without an account, add --sandbox"


def no_credentials(clouds: Sequence[Cloud]) -> CloudError:
    """The error for clouds that all lack credentials, with the shortest way to get them for each.

    Args:
        clouds: the clouds that were asked, at least one.
    """
    names = [cloud.name for cloud in clouds]
    listed = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    ways = [f"{cloud.name}: {way}" for cloud in clouds if (way := _shortest_way(cloud))]
    error = CloudError(
        f"no credentials for {listed}: nothing was bought",
        error_class=ErrorClass.AUTH,
        cloud=names[0],
        hint="\n".join((NEXT, *ways)),
        sent=False,
    )
    if len(names) > 1:
        error.cloud = None  # not one cloud's failure
    return error


def _shortest_way(cloud: Cloud) -> str:
    """The first way that the provider names; ``gpucloud check`` shows all."""
    checkup = cloud.ability(Checkup)
    return "" if checkup is None else checkup.credentials_hint.partition(";")[0]


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


ANSWER_TIMEOUT_S = 30.0
ACCOUNT_TIMEOUT_S = 15.0
LAST_CHANCE_S = 2.0
"""The timeout for a cloud that has not answered so far: its SDK may still have been loading."""


@dataclass(frozen=True, slots=True)
class CloudAccess:
    """Which clouds can be used. A cloud is asked once, and only when one of its offers is considered.

    Attributes:
        to_buy: whether a wrong clock of this machine is refused; otherwise it is only reported.
        left_out: the clouds that cannot be used, with the reason.
        refusals: the errors of the clouds about our credentials.
        silent: the clouds that did not answer.
        remarks: for each cloud that was asked, how its boxes differ from the default.
    """

    context: Context
    to_buy: bool = False
    remarks: dict[str, Call] = field(default_factory=dict[str, Call])
    usable: set[str] = field(default_factory=set[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    refusals: list[CloudError] = field(default_factory=list[CloudError])
    silent: list[str] = field(default_factory=list[str])

    def ask(self, clouds: Iterable[str]) -> bool:
        """Asks the clouds that were not asked before, all at the same time; True if one cannot be used.

        Raises:
            UsageError: the plan is to be bought, and this machine's clock differs from that of a cloud.
        """
        asked: dict[str, Call] = {}
        clocks: dict[str, Call] = {}
        before = len(self.left_out)
        for name in sorted(set(clouds) - self.usable - set(self.left_out)):
            try:
                cloud = self.context.clouds[name]
                asked[name] = self.context.silent.get(name) or self.context.tasks.start(cloud.account)
                clocks[name] = begin_reading(self.context, cloud)
                self.remarks[name] = self.context.tasks.start(partial(_remarks, cloud))
            except KeyError:
                self.left_out[name] = "gpucloud cannot launch on this cloud yet"
            except ImportError as error:
                self.left_out[name] = f"its SDK is not installed ({error}): pip install 'gpucloud[{name}]'"
        with self.context.tasks.within(ACCOUNT_TIMEOUT_S):
            for name, call in asked.items():
                try:
                    self.context.tasks.wait(
                        call, LAST_CHANCE_S if self.context.is_unresponsive(name) else math.inf
                    )
                    self.usable.add(name)
                except CloudError as error:
                    self.left_out[name] = absence(error)
                    self.refusals.append(error)
                except TimedOutError as error:
                    self.left_out[name] = str(error)
                    self.silent.append(name)
                except ImportError as error:
                    self.left_out[name] = str(error)
        usable = [clock for name, clock in clocks.items() if name in self.usable]
        for reading in [reading_of(self.context, clock) for clock in usable]:
            if self.to_buy:
                refuse_wrong(self.context, reading)
            elif reading is not None and reading.skew > SKEW_FAILS:
                self.context.tell("clock", f"{reading.text}: correct it before a launch")
        return len(self.left_out) > before

    def said_of(self, clouds: Iterable[str]) -> dict[str, list[str]]:
        """How boxes of these clouds differ from the default; empty for a cloud that did not answer."""
        said = {name: list(answer_of(self.context, self.remarks[name])) for name in clouds}
        return {name: remarks for name, remarks in said.items() if remarks}

    def nobody(self) -> GpucloudError:
        """The error that explains why no cloud is left."""
        wrong = [error for error in self.refusals if not is_absent(error)]
        if wrong:
            return wrong[0]
        if self.refusals and not self.silent:
            absent = sorted(str(error.cloud) for error in self.refusals)
            return no_credentials([self.context.clouds[name] for name in absent])
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
        text = f"no cloud that offers this can be used: {reasons}"
        if self.silent:
            return CloudError(
                text,
                error_class=ErrorClass.SERVER,
                cloud=self.silent[0],
                hint="try again later; or allow other clouds with --cloud",
            )
        return NoOfferError(text, hint="try gpucloud without an account: gpucloud --sandbox")


def _remarks(cloud: Cloud) -> Sequence[str]:
    return cloud.ask(Preflight, "read the account", lambda preflight: preflight.remarks(), lacking=())


def answer_of(context: Context, call: Call) -> Sequence[Any]:
    """What a started call found; nothing, and a word of it, where its cloud does not answer."""
    try:
        answer: Sequence[Any] = context.tasks.wait(call, ANSWER_TIMEOUT_S)
    except (CloudError, TimedOutError) as error:
        context.tell("quote", f"no answer: {error}")
        return ()
    return answer
