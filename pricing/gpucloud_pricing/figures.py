"""The origin of each figure of an estimate: its formula, and the rows of data with dates and sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from gpucloud_pricing.demand import CAPACITY_BLOCK, HOURS_PER_MONTH
from gpucloud_pricing.estimate import (
    Estimate,
    Usage,
    find_tariff,
    on_demand_price,
    paid_hours,
    place_of,
    quantities,
    run_hours,
    upfront_terms,
)
from gpucloud_pricing.market import Market
from gpucloud_pricing.values import Offer, Price, Tariff, usd_document

_UNITS = {
    "disk_gb_month": "GiB and month",
    "public_ip_hour": "hour",
    "egress_gb": "GiB",
    "snapshot_gb_month": "GiB and month",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the data: an amount, its subject and its source.

    ``as_of`` is ``None`` if the source has no date; ``source`` is an id of the market's sources.
    """

    what: str
    amount: Decimal
    currency: str
    as_of: date | None
    source: str

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "what": self.what,
            "amount": f"{self.amount:f}",
            "currency": self.currency,
            "as_of": self.as_of and self.as_of.isoformat(),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A part of an estimate, with its formula and its rows of data.

    ``amount`` is ``None`` if unknown; ``unit`` is ``USD``, ``h``, or ``USD/h`` for a unit of work.
    """

    part: str
    amount: Decimal | None
    formula: str
    rows: tuple[Row, ...]
    unit: str = "USD"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "part": self.part,
            "amount": self._amount(),
            "formula": self.formula,
            "rows": [row.document() for row in self.rows],
        }

    def _amount(self) -> Any:
        if self.amount is None:
            return None
        match self.unit:
            case "h":
                return float(round(self.amount, 1))
            case "USD":
                return usd_document(round(self.amount, 4))
            case _:
                return usd_document(self.amount)


def figures(market: Market, estimate: Estimate, usage: Usage) -> list[Figure]:
    """The parts of an estimate with formulas and rows; an unknown part has the reason instead."""
    return [
        _compute(market, estimate, usage),
        *_beside(market, estimate, usage),
        *_upfront(market, estimate, usage),
        *_break_even(market, estimate),
        *_interruptions(estimate),
        *_range(estimate, usage),
    ]


def _compute(market: Market, estimate: Estimate, usage: Usage) -> Figure:
    offer = estimate.offer
    quote = offer.quote
    if quote is None or estimate.compute is None:
        return Figure(
            part="compute", amount=None, formula=estimate.unknown.get("compute", "unknown"), rows=()
        )
    rates, price = _in_usd(market, quote.amount, quote.currency)
    if quote.discount:
        price += f" x {_number(1 - quote.discount)} (own discount)"
    formula = f"{price} x {_number(paid_hours(offer, usage))} h x {usage.nodes}"
    if paid_hours(offer, usage) == run_hours(offer, usage) != usage.hours:
        formula += f"; {_hours(offer, usage)}"
    rows = [_price_row(quote)]
    if quote.derivation:
        formula += f"; {quote.amount:f} {quote.currency} = {quote.derivation.formula}"
        rows += map(_price_row, quote.derivation.prices)
    return Figure(part="compute", amount=estimate.compute, formula=formula, rows=(*rows, *rates))


def _price_row(price: Price) -> Row:
    words = (price.instance_type, price.purchase.replace("_", "-"), price.terms, price.zone or price.region)
    return Row(
        what=f"{' '.join(filter(None, words))}, per hour",
        amount=price.amount,
        currency=price.currency,
        as_of=price.as_of,
        source=price.source,
    )


def _upfront(market: Market, estimate: Estimate, usage: Usage) -> Iterator[Figure]:
    """The upfront part of a commitment."""
    quote = estimate.offer.quote
    if quote is None or not estimate.upfront:
        return
    row = replace(
        _price_row(quote), what=f"{quote.terms or 'a block of a day'}: at once", amount=quote.upfront
    )
    rates, price = _in_usd(market, quote.upfront, quote.currency)
    if quote.discount:
        price += f" x {_number(1 - quote.discount)} (own discount)"
    times = f" x {_number(upfront_terms(estimate.offer, usage))}" if quote.purchase == CAPACITY_BLOCK else ""
    formula = f"{price}{times} x {usage.nodes}"
    yield Figure(part="upfront", amount=estimate.upfront, formula=formula, rows=(row, *rates))


def _break_even(market: Market, estimate: Estimate) -> Iterator[Figure]:
    """The hours per month from which a commitment costs less than paying by the hour."""
    hours, quote = estimate.break_even_hours, estimate.offer.quote
    by_the_hour = on_demand_price(market, place_of(estimate.offer))
    if hours is None or quote is None or by_the_hour is None:
        return
    (rates, price), (other_rates, other) = (
        _in_usd(market, p.amount, p.currency) for p in (quote, by_the_hour)
    )
    rows = dict.fromkeys((_price_row(quote), _price_row(by_the_hour), *rates, *other_rates))
    formula = f"{price} x {HOURS_PER_MONTH} h / ({other})"
    if quote.discount or by_the_hour.discount:
        formula += ", both after own discounts"
    yield Figure(part="break_even_hours", amount=hours, formula=formula, rows=tuple(rows), unit="h")


def _hours(offer: Offer, usage: Usage) -> str:
    """The parts of a machine's hours."""
    told = {
        "work": usage.hours,
        "boot": Decimal(usage.boot_s) / 3600,
        "idle tail": Decimal(usage.idle_s) / 3600,
        "failed attempts": Decimal(usage.failed_attempts * usage.boot_s) / 3600,
    }
    text = " + ".join(f"{_number(hours)} h {what}" for what, hours in told.items() if hours)
    if sum(told.values()) == run_hours(offer, usage):
        return text
    return f"{text}, each start billed for {offer.kind.billing.minimum_s} s at least"


def _range(estimate: Estimate, usage: Usage) -> Iterator[Figure]:
    """The low and the high total."""
    if estimate.spot is not None:
        seen = estimate.spot.outlook
        low = f"the same for {seen.low:.4f} h; one of twenty cases takes less"
        high = f"the same for {seen.high:.4f} h; one of twenty cases takes more"
    else:
        low = "the same without idle time and failed attempts"
        high = f"the same with {usage.boot_limit_s // 60} min for each boot, the longest allowed"
    for part, amount, formula in (
        ("low_total", estimate.low_total, low),
        ("high_total", estimate.high_total, high),
    ):
        if amount is not None and estimate.low_total != estimate.high_total:
            yield Figure(part=part, amount=amount, formula=formula, rows=())


def _beside(market: Market, estimate: Estimate, usage: Usage) -> Iterator[Figure]:
    offer = estimate.offer
    for part, (kind, quantity) in quantities(offer, usage, run_hours(offer, usage)).items():
        amount = estimate.parts[part]
        tariff = find_tariff(market.tariffs, offer, kind)
        if quantity == 0:
            yield Figure(part=part, amount=amount, formula="none", rows=())
        elif tariff is None or amount is None:
            yield Figure(part=part, amount=None, formula=estimate.unknown.get(part, "unknown"), rows=())
        else:
            rates, price = _in_usd(market, tariff.amount, tariff.currency)
            yield Figure(
                part=part,
                amount=amount,
                formula=f"{price} x {_quantity(part, offer, usage, quantity)}",
                rows=(_row(tariff), *rates),
            )


def _interruptions(estimate: Estimate) -> Iterator[Figure]:
    band = estimate.offer.interruption
    if estimate.spot is None or band is None or estimate.expected_total is None:
        return
    row = Row(
        what=f"interrupted within a month: {band.low} to {band.high} %, the middle is used",
        amount=Decimal(band.low + band.high) / 2,
        currency="%",
        as_of=band.as_of,
        source=band.source,
    )
    hours = round(Decimal(estimate.spot.outlook.expected), 4)
    yield Figure(
        part="expected_total",
        amount=estimate.expected_total,
        formula=f"the same for {_number(hours)} h: with the work repeated after interruptions",
        rows=(row,),
    )


def _in_usd(market: Market, amount: Decimal, currency: str) -> tuple[tuple[Row, ...], str]:
    """The row of the exchange rate, if needed, and the amount for a formula."""
    rate = market.rate(currency)
    if currency == "USD" or rate is None:
        return (), f"{amount:f} {currency}"
    what = f"{rate.base} in {rate.quote}"
    row = Row(what=what, amount=rate.rate, currency=rate.quote, as_of=rate.as_of, source=rate.source)
    return (row,), f"{amount:f} {currency} / {rate.rate:f}"


def _quantity(part: str, offer: Offer, usage: Usage, quantity: Decimal) -> str:
    if part in {"disk", "snapshots"}:
        disk = offer.kind.billing.disk_gib(usage.disk_gib)
        gib = f"{disk if part == 'disk' else usage.snapshot_gib} GiB"
        if part == "disk" and disk != usage.disk_gib:
            gib += f" (the size as which {usage.disk_gib} GiB are billed)"
        months = f"{gib} x {_number(run_hours(offer, usage))} h x {usage.nodes} / {HOURS_PER_MONTH} h"
        iops = offer.kind.billing.iops
        return f"{months}, with {iops}" if part == "disk" and iops else months
    return f"{_number(quantity)} {'h' if part == 'address' else 'GiB'}"


def _row(tariff: Tariff) -> Row:
    where = "everywhere" if tariff.region == "*" else tariff.region
    return Row(
        what=f"{tariff.sku}, per {_UNITS[tariff.kind]}, {where}",
        amount=tariff.amount,
        currency=tariff.currency,
        as_of=tariff.as_of,
        source=tariff.source,
    )


def _number(value: Decimal) -> str:
    return f"{round(value, 4).normalize():f}"
