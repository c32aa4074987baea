"""Where each figure of an estimate comes from: what was multiplied, and rows with their dates and sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from gpucloud_pricing.demand import HOURS_PER_MONTH
from gpucloud_pricing.estimate import Estimate, Usage, find_tariff, paid_hours, quantities
from gpucloud_pricing.market import Market
from gpucloud_pricing.values import Price, Tariff, usd_document

_UNITS = {"disk_gb_month": "GiB and month", "public_ip_hour": "hour", "egress_gb": "GiB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the data: an amount, what it is of, and where it was read.

    ``as_of`` is ``None`` where the source states no date; ``source`` is an id of the market's sources.
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
    """A part of an estimate in USD, how it was computed, and from what. ``amount`` is ``None`` if unknown."""

    part: str
    amount: Decimal | None
    formula: str
    rows: tuple[Row, ...]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "part": self.part,
            "amount": None if self.amount is None else usd_document(round(self.amount, 4)),
            "formula": self.formula,
            "rows": [row.document() for row in self.rows],
        }


def figures(market: Market, estimate: Estimate, usage: Usage) -> list[Figure]:
    """The parts of an estimate, with what each rests on; what is not known has the reason in its place."""
    return [_compute(market, estimate, usage), *_beside(market, estimate, usage), *_interruptions(estimate)]


def _compute(market: Market, estimate: Estimate, usage: Usage) -> Figure:
    offer = estimate.offer
    quote = offer.quote
    if quote is None or estimate.compute is None:
        return Figure(
            part="compute", amount=None, formula=estimate.unknown.get("compute", "unknown"), rows=()
        )
    rows = [_price_row(quote)]
    rates, price = _in_usd(market, quote.amount, quote.currency)
    if quote.discount:
        price += f" x {_number(1 - quote.discount)} (own discount)"
    formula = f"{price} x {_number(paid_hours(offer, usage))} h x {usage.nodes}"
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


def _beside(market: Market, estimate: Estimate, usage: Usage) -> Iterator[Figure]:
    offer = estimate.offer
    for part, (kind, quantity) in quantities(usage, usage.billed_hours).items():
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
                formula=f"{price} x {_quantity(part, usage, quantity)}",
                rows=(_row(tariff), *rates),
            )


def _interruptions(estimate: Estimate) -> Iterator[Figure]:
    band = estimate.offer.interruption
    if estimate.spot is None or band is None or estimate.expected_total is None:
        return
    row = Row(
        what=f"taken back within a month: {band.low} to {band.high} %, the middle counts",
        amount=Decimal(band.low + band.high) / 2,
        currency="%",
        as_of=band.as_of,
        source=band.source,
    )
    hours = round(Decimal(estimate.spot.outlook.expected), 4)
    yield Figure(
        part="expected_total",
        amount=estimate.expected_total,
        formula=f"the same for {_number(hours)} h, as interruptions repeat work",
        rows=(row,),
    )


def _in_usd(market: Market, amount: Decimal, currency: str) -> tuple[tuple[Row, ...], str]:
    """The row of the exchange rate, where one is needed, and the amount as a formula writes it."""
    rate = market.rate(currency)
    if currency == "USD" or rate is None:
        return (), f"{amount:f} {currency}"
    what = f"{rate.base} in {rate.quote}"
    row = Row(what=what, amount=rate.rate, currency=rate.quote, as_of=rate.as_of, source=rate.source)
    return (row,), f"{amount:f} {currency} / {rate.rate:f}"


def _quantity(part: str, usage: Usage, quantity: Decimal) -> str:
    if part == "disk":
        hours = _number(usage.billed_hours)
        return f"{usage.disk_gib} GiB x {hours} h x {usage.nodes} / {HOURS_PER_MONTH} h"
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
