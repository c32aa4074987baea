"""What is worth a message to people: events of the journal and states of boxes, as notices. Pure functions.

A text names box, cloud, money, reason and the next command; no address and no command line of a user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from gpucloud.costs.anomalies import UnusualDay
from gpucloud.costs.budgets import Standing, period, used_text
from gpucloud.journal.events import (
    JournalEvent,
    RunAttempted,
    RunEnded,
    RunLost,
    RunNotFetched,
    Seen,
    StateChanged,
)
from gpucloud.journal.facts import GuardReport
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Run, StoredEvent
from gpucloud.journal.runs import Loss, RunState
from gpucloud.market.anomalies import PriceAnomaly
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money
from gpucloud_pricing.values import Money

ENDING_WITHIN = timedelta(minutes=30)
FAULTS = ("hardware", "gpus", "ecc")
"""What a guard reports of hardware; its other faults are programs', or a full disk."""


class Occasion(StrEnum):
    """What a notice is about."""

    READY = "ready"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # its cloud takes, or took, a box back
    RESTARTED = "restarted"
    ENDING = "ending"  # in half an hour
    ENDED = "ended"
    OVERDUE = "overdue"
    LEFT_BEHIND = "left-behind"  # something may still be billed
    NOT_FETCHED = "not-fetched"  # a box is kept for files of a run that could not be copied
    SICK = "sick"  # a guard reports faulty hardware
    PRICE = "price"  # an offer has fallen below a limit, or a price is unusual
    BUDGET = "budget"  # used to one of its percentages
    SPEND = "spend"  # a day has cost more than is usual
    TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message. Of the same ``key``, each channel gets one; ``command`` is what to do next."""

    key: str
    occasion: Occasion
    text: str
    at: datetime
    box: str | None = None
    run: str | None = None
    cloud: str | None = None
    cost: Money | None = None
    command: str | None = None

    @property
    def line(self) -> str:
        """The text, with the command."""
        return f"{self.text} Next: {self.command}" if self.command else self.text

    def document(self) -> dict[str, Any]:
        """``gpucloud.notice/v1``."""
        return {
            "schema": "gpucloud.notice/v1",
            "id": self.key,
            "occasion": str(self.occasion),
            "text": self.text,
            "at": rfc3339(self.at),
            "box": self.box,
            "run": self.run,
            "cloud": self.cloud,
            "cost": self.cost.document() if self.cost else None,
            "command": self.command,
        }


def of_box_event(stored: StoredEvent, box: Box, cost: Money | None) -> Notice | None:
    """The notice for an event of a box; ``None`` for one that is worth none.

    Args:
        stored: the event.
        box: the box as it is now.
        cost: what it has cost so far.
    """
    told = _told(stored.event, box, cost)
    if told is None:
        return None
    occasion, text, command = told
    # Several processes may see, and write, that a cloud took a box back: it does that once.
    key = _interruption(box) if occasion is Occasion.INTERRUPTED else stored.id
    return _of_box(box, key, occasion, text, stored.at, cost=cost, command=command)


def _told(event: JournalEvent, box: Box, cost: Money | None) -> tuple[Occasion, str, str | None] | None:
    name = box.name
    match event:
        case StateChanged(state=BoxState.READY, facts=facts) if facts.setup_error:
            return Occasion.FAILED, f"The setup of {name} failed; it is kept.", f"gpucloud setup {name}"
        case StateChanged(state=BoxState.READY, facts=facts) if facts.measured is not None:
            return Occasion.READY, f"{name} is ready{_what(box)}.", f"gpucloud ssh {name}"
        case StateChanged(state=BoxState.FAILED):
            return Occasion.FAILED, f"{name} has failed; nothing of it is billed.", None
        case StateChanged(state=BoxState.DELETED):
            why = f", by {box.ended_by}" if box.ended_by else ""
            return Occasion.ENDED, f"{name} has ended{why}{_cost_text(cost)}.", None
        case Seen(state=BoxState.INTERRUPTED) | StateChanged(state=BoxState.INTERRUPTED):
            return Occasion.INTERRUPTED, f"{box.cloud} has taken {name} back.", None
        case _:
            return None


def of_run_event(
    stored: StoredEvent, run: Run, cost: Money | None, last: Box | None = None, rate: Money | None = None
) -> Notice | None:
    """The notice for an event of a run; ``None`` for one that is worth none. Slots of engines have none.

    Args:
        stored: the event.
        run: the run as it is now.
        cost: what its boxes have cost so far.
        last: its last box; ``None`` without one.
        rate: what that costs per hour, if it is known.
    """
    if run.work.slots is not None:
        return None
    name = f"Run {run.run_id}"
    key, command = stored.id, f"gpucloud runs show {run.run_id}"
    match stored.event:
        case RunLost(attempt=attempt) if attempt.loss is Loss.CAPACITY:
            if _follows_none(run, attempt.at):
                return None
            occasion, text = Occasion.INTERRUPTED, f"{name} waits for a box: there is no capacity."
        case RunLost(attempt=attempt):
            occasion, text = Occasion.INTERRUPTED, f"{name} has lost its box ({attempt.loss})."
        case RunAttempted(box=box) if len(run.attempts) > 1 and box != run.attempts[0].box:
            if _follows_none(run, stored.at):
                return None
            occasion, text = Occasion.RESTARTED, f"{name} is started again on another box."
        case RunEnded(state=RunState.ENDED, exit_code=code):
            occasion, text = Occasion.ENDED, f"{name} has ended with exit code {code}{_cost_text(cost)}."
        case RunNotFetched() if last is not None:  # each try in vain writes why: that is told once
            key, command = f"{run.id}:not-fetched", f"gpucloud runs fetch {run.run_id}"
            until = f"until {rfc3339(last.expires_at)}" if last.expires_at else "without a deadline"
            price = f", for {format_money(rate.amount, rate.currency)} per hour" if rate else ""
            kept = f"{last.name} ({last.cloud}) is kept {until}{price}"
            occasion, text = Occasion.NOT_FETCHED, f"Results of run {run.run_id} are not fetched; {kept}."
        case RunEnded(state=RunState.FAILED, failure=failure):
            why = f" ({failure.error_class})" if failure else ""
            occasion, text = Occasion.FAILED, f"{name} has failed{why}{_cost_text(cost)}."
        case _:
            return None
    return Notice(
        key=key,
        occasion=occasion,
        text=text,
        at=stored.at,
        run=run.run_id,
        cost=cost,
        command=command,
    )


def _follows_none(run: Run, at: datetime) -> bool:
    """Whether the attempt before the one of this time got no box: the next one is no news."""
    before = [each for each in run.attempts if each.at < at]
    return bool(before) and before[-1].loss is Loss.CAPACITY


def of_state(holding: Holding, owed: int, now: datetime) -> Iterator[Notice]:
    """The notices for what a holding is, whatever happened to it.

    Args:
        holding: a living box, volume or snapshot.
        owed: how much of it may still be billed, though it should be gone.
        now: the time.
    """
    name = holding.name
    if owed:
        things = "1 thing" if owed == 1 else f"{owed} things"
        text = f"{things} of {name} ({holding.cloud}) may still be billed."
        yield _of_box(holding, f"{holding.id}:left", Occasion.LEFT_BEHIND, text, now, command=holding.removal)
    if not isinstance(holding, Box) or holding.state is not BoxState.READY:
        return
    if holding.expires_at is not None:
        key, left = f"{holding.id}:{rfc3339(holding.expires_at)}", holding.expires_at - now
        if left < timedelta(0):
            text = f"{name} ({holding.cloud}) has passed its deadline by {_minutes(-left)}."
            yield _of_box(holding, f"{key}:over", Occasion.OVERDUE, text, now, command=holding.removal)
        elif left < ENDING_WITHIN < holding.expires_at - holding.created_at:
            text = f"{name} ({holding.cloud}) ends in {_minutes(left)}."
            command = f"gpucloud extend {name} --ttl 2h"
            yield _of_box(holding, f"{key}:soon", Occasion.ENDING, text, now, command=command)
    for number, guard in enumerate(holding.guards):
        if guard is not None:
            yield from _of_guard(holding, number, guard, now)


def _of_guard(box: Box, node: int, guard: GuardReport, now: datetime) -> Iterator[Notice]:
    name = box.name
    if guard.taken_back_at is not None:
        text = f"{box.cloud} takes {name} back."
        yield _of_box(box, _interruption(box), Occasion.INTERRUPTED, text, now)
    for what in FAULTS:
        if what in guard.health:
            text = f"{name} ({box.cloud}) has faulty hardware: {what}: {guard.health[what]}."
            command = f"gpucloud show {name} --live"
            yield _of_box(box, f"{box.id}:{node}:{what}", Occasion.SICK, text, now, command=command)


def _interruption(box: Box) -> str:
    return f"{box.id}:interrupted"


def of_price(key: str, offer: str, at: datetime, *, cloud: str) -> Notice:
    """The notice for an offer that has fallen below the limit; ``offer`` is in words."""
    text = f"Below the limit: {offer}."
    return Notice(key=key, occasion=Occasion.PRICE, text=text, at=at, cloud=cloud)


def of_unusual_price(anomaly: PriceAnomaly, at: datetime) -> Notice:
    """The notice for a price that is not as it should be."""
    return Notice(
        key=f"price:{anomaly.key}",
        occasion=Occasion.PRICE,
        text=f"{anomaly.text}.",
        at=at,
        cloud=anomaly.price.cloud,
    )


def of_budget(standing: Standing, now: datetime) -> Notice | None:
    """The notice for the highest percentage of a budget that is reached; ``None`` if none is.

    There is one for each percentage, amount and period (or run).
    """
    if standing.reached is None:
        return None
    name, terms = standing.budget.name, standing.budget.terms
    start, _ = period(terms.per, now)
    when = standing.run or (start.date().isoformat() if start else "total")
    return Notice(
        key=f"budget:{name}:{terms.amount}:{when}:{standing.reached}",
        occasion=Occasion.BUDGET,
        text=f"{used_text(standing)}.",
        at=now,
        run=standing.run,
        command=f"gpucloud budget show {name}",
    )


def of_unusual_day(day: UnusualDay, now: datetime) -> Notice:
    """The notice for a day that has cost more than is usual."""
    return Notice(
        key=f"spend:{day.day}",
        occasion=Occasion.SPEND,
        text=f"{day.text}.",
        at=now,
        command=f"gpucloud spend --since {day.day}",
    )


def of_money(standings: Iterable[Standing], unusual: Iterable[UnusualDay], now: datetime) -> list[Notice]:
    """The notices for budgets and for unusual days."""
    budgets = filter(None, (of_budget(each, now) for each in standings))
    return [*budgets, *(of_unusual_day(day, now) for day in unusual)]


def a_test(key: str, at: datetime) -> Notice:
    """The notice of ``notify test``."""
    return Notice(key=key, occasion=Occasion.TEST, text="A test of gpucloud: notices arrive here.", at=at)


def _of_box(
    holding: Holding,
    key: str,
    occasion: Occasion,
    text: str,
    at: datetime,
    *,
    cost: Money | None = None,
    command: str | None = None,
) -> Notice:
    return Notice(
        key=key,
        occasion=occasion,
        text=text,
        at=at,
        box=holding.name,
        run=holding.run_id if isinstance(holding, Box) else None,
        cloud=holding.cloud or None,
        cost=cost,
        command=command,
    )


def _what(box: Box) -> str:
    """Where a box is and what it costs, behind its name."""
    if box.place is None or box.offer is None or box.price is None:
        return ""
    price = format_money(box.price.amount, box.price.currency)
    return f" on {box.cloud} {box.place.region}: {box.offer.instance_type}, {price} per hour and node"


def _cost_text(cost: Money | None) -> str:
    return f"; it has cost {format_money(cost.amount, cost.currency)}" if cost else ""


def _minutes(span: timedelta) -> str:
    minutes = max(int(span.total_seconds() // 60), 1)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
