"""What is spent: now, this month, by day, cloud, GPU and owner, and on what nobody uses. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.costs.forecast import forecast, new_by_day
from gpucloud.costs.grouping import KEYS
from gpucloud.costs.spend import Charge, PerHour, first_of_month, first_of_next_month
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Volume
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.dashboard.documents import (
        DayDocument,
        IdleDocument,
        IdleItemDocument,
        MonthDocument,
        ShareDocument,
        SpendingDocument,
    )
    from gpucloud_pricing.documents import MoneyDocument

DAYS = 30
"""The number of days of past spending that are shown."""
FRESH = timedelta(minutes=15)
"""How old a guard's report may be to say how a box is used now."""
PLACES = 6
Rates = Mapping[str, PerHour]
"""The spending per hour now of each living holding, by its id."""


def by_currency(amounts: Iterable[Money]) -> list[MoneyDocument]:
    """The sum of each currency, without those that are zero: amounts in several are never added up."""
    return _documents(_sums(amounts))


def _sums(amounts: Iterable[Money]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for money in amounts:
        sums[money.currency] += money.amount
    return sums


def _documents(sums: Mapping[str, Decimal]) -> list[MoneyDocument]:
    return [
        Money(amount=round(amount, PLACES), currency=currency).document()
        for currency, amount in sorted(sums.items())
        if amount
    ]


# --- now


def burn(living: Sequence[Holding], rates: Rates) -> tuple[list[MoneyDocument], list[str]]:
    """The spending per hour now, and the names of the holdings of which a part is unknown."""
    found = [(box.name, rates[box.id]) for box in living]
    unknown = [name for name, rate in found if None in (rate.compute, rate.disk, rate.address, rate.snapshot)]
    return by_currency(each for _, rate in found for each in rate.known), unknown


def month(
    holdings: Sequence[Holding],
    rates: Rates,
    charges: Sequence[Charge],
    begun: datetime | None,
    now: datetime,
) -> MonthDocument:
    """The spending of this month so far, and the forecast of the whole month.

    A holding is committed until its own end; one without, or past it, until the end of the month.

    Args:
        holdings: all, also those that ended.
        rates: of those that live.
        charges: of all of them, within days: :func:`gpucloud.costs.anomalies.charges_by_day`.
        begun: when the journal was; ``None`` for an empty one.
        now: the moment.
    """
    start, end = first_of_month(now), first_of_next_month(now)
    of_month = [charge for charge in charges if charge.start >= start]
    spent = [money for charge in of_month if (money := _known(charge))]
    costs = _Costs()
    for charge in charges:
        if money := _known(charge):
            costs.add(charge.holding.id, money)
    coming: list[Money] = []
    for holding in holdings:
        if holding.id not in rates:
            continue
        until = holding.expires_at
        ends = until if until is not None and now < until < end and not holding.is_in_use else end
        hours = Decimal((ends - now) // timedelta(seconds=1)) / 3600
        for each in rates[holding.id].known:
            committed = Money(amount=each.amount * hours, currency=each.currency)
            costs.add(holding.id, committed)
            coming.append(committed)
    known = _sums([*spent, *coming])
    found = {
        currency: forecast(amount, new_by_day(holdings, costs.of(currency), begun, now), end - now)
        for currency, amount in known.items()
    }
    return {
        "start": start.date().isoformat(),
        "spent": by_currency(spent),
        "forecast": _documents({currency: each.amount for currency, each in found.items()}),
        "low": _documents({currency: each.low for currency, each in found.items()}),
        "high": _documents({currency: each.high for currency, each in found.items()}),
        "flat": any(each.is_flat for each in found.values()),
        "unknown": list(dict.fromkeys(charge.holding.name for charge in of_month if charge.unknown)),
    }


class _Costs:
    """What each box costs, in each currency."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)

    def add(self, box: str, money: Money) -> None:
        self._sums[box, money.currency] += money.amount

    def of(self, currency: str) -> Callable[[Holding], Decimal]:
        return lambda box: self._sums.get((box.id, currency), Decimal(0))


# --- the past


def spending(charges: Sequence[Charge], now: datetime) -> SpendingDocument:
    """The spending of the last days, and that of this month by cloud, GPU and owner.

    Args:
        charges: each within one day (in UTC).
        now: the end.
    """
    start = first_of_month(now)
    of_month = [charge for charge in charges if charge.start >= start]
    return {
        "days": _days(charges, now),
        "cloud": _shares(of_month, "cloud"),
        "gpu": _shares(of_month, "gpu"),
        "owner": _shares(of_month, "owner"),
    }


def _days(charges: Sequence[Charge], now: datetime) -> list[DayDocument]:
    amounts: dict[str, list[Money]] = defaultdict(list)
    for charge in charges:
        if money := _known(charge):
            amounts[charge.start.date().isoformat()].append(money)
    days = [(now - timedelta(days=back)).date().isoformat() for back in range(DAYS - 1, -1, -1)]
    return [{"day": day, "amounts": by_currency(amounts[day])} for day in days]


def _shares(charges: Sequence[Charge], key: str) -> list[ShareDocument]:
    """The sums by the value of a key, the largest first."""
    amounts: dict[str | None, list[Money]] = defaultdict(list)
    for charge in charges:
        if money := _known(charge):
            amounts[KEYS[key](charge)].append(money)
    sums = {name: by_currency(each) for name, each in amounts.items()}
    return [
        {"name": name, "amounts": found}
        for name, found in sorted(sums.items(), key=lambda each: _largest(each[1]), reverse=True)
        if found
    ]


def _largest(amounts: Sequence[MoneyDocument]) -> Decimal:
    """The largest amount in any currency, for an order alone."""
    return max((Decimal(each["amount"]) for each in amounts), default=Decimal(0))


def _known(charge: Charge) -> Money | None:
    amount = charge.amount
    return None if amount is None else Money(amount=amount, currency=charge.currency)


# --- what nobody uses


def idle(living: Sequence[Holding], rates: Rates, now: datetime) -> IdleDocument:
    """What of ready boxes their GPUs do not use; all of stopped boxes, and of volumes without a box."""
    items: list[IdleItemDocument] = []
    unknown: list[str] = []
    wasted: list[Money] = []
    for box in living:
        rate = rates[box.id]
        unused = isinstance(box, Volume) and not box.is_in_use
        if unused or box.state is BoxState.STOPPED:
            what = "volume" if unused else "stopped"
            lost, used, idle_s = rate.known, None, None
        elif isinstance(box, Box) and box.nodes and box.state is BoxState.READY:
            what, (used, idle_s, _) = "box", use(box, now)
            if used is None or rate.compute is None:
                unknown.append(box.name)
                continue
            share = 1 - Decimal(str(used)) / 100
            lost = (Money(amount=rate.compute.amount * share, currency=rate.compute.currency),)
        else:
            continue
        if any(each.amount for each in lost):
            wasted += lost
            items.append(
                {
                    "id": box.id,
                    "what": what,
                    "name": box.name,
                    "gpu_percent": used,
                    "idle_s": idle_s,
                    "per_hour": by_currency(lost),
                }
            )
    items.sort(key=lambda item: _largest(item["per_hour"]), reverse=True)
    return {"per_hour": by_currency(wasted), "items": items, "unknown": unknown}


def use(box: Box, now: datetime) -> tuple[float | None, float | None, datetime | None]:
    """The mean use of a box's GPUs in per cent, for how long it was idle, and when its guards said so.

    The use is ``None`` where a guard has not reported lately: what was, is not known to be.
    """
    reports = [guard for guard in box.guards if guard]
    if not reports or len(reports) < len(box.nodes):
        return None, None, None
    at = datetime.fromtimestamp(min(each.at for each in reports), now.tzinfo)
    percents = [percent for each in reports for percent in each.gpu_percent]
    fresh = abs(now - at) <= FRESH and percents and all(each.gpu_percent for each in reports)
    return (
        round(sum(percents) / len(percents), 1) if fresh else None,
        min(each.idle_s for each in reports),
        at,
    )
