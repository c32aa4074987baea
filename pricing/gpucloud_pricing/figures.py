"""The origin of each figure of an estimate: its formula, and the rows of data with dates and sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.estimate import Estimate, on_demand_price, place_of
from gpucloud_pricing.gpus import format_count
from gpucloud_pricing.interruptions import SpotEstimate
from gpucloud_pricing.market import Market
from gpucloud_pricing.purchases import HOURS_PER_MONTH, KINDS, Billed
from gpucloud_pricing.spot_traces import JOINT_LOSSES, JOINT_PERCENT, OWN_JOURNAL, TRACES, V100_HOURS
from gpucloud_pricing.tariffs import EVERYWHERE, Tariff, TariffCost, caveats
from gpucloud_pricing.terms import DAY, Bill, Usage, parts_of, run_hours
from gpucloud_pricing.values import Experience, Interruption, Offer, Price, usd_document

if TYPE_CHECKING:
    from gpucloud_pricing.documents import FigureDocument, MoneyDocument, RowDocument

_UNITS = {
    "gib_month": "GiB and month",
    "gb_month": "GiB and month",
    "gb": "GiB",
    "hour": "hour",
    "disk_month": "disk of this class and month",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """A row of the data: an amount, its subject and its source.

    ``as_of`` is ``None`` if the source has no date; ``source`` is an id of the market's sources.
    """

    what: str
    amount: Decimal
    currency: str
    as_of: date | None
    source: str

    def document(self) -> RowDocument:
        """For JSON."""
        return {
            "what": self.what,
            "amount": f"{self.amount:f}",
            "currency": self.currency,
            "as_of": self.as_of.isoformat() if self.as_of else None,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A part of an estimate, with its formula and its rows of data.

    ``amount`` is ``None`` if unknown; ``unit`` is ``USD``, ``h``, ``%``, ``USD/h`` for a unit of work, or
    ``USD/1M`` for a million tokens.
    """

    part: str
    amount: Decimal | None
    formula: str
    rows: tuple[FigureRow, ...]
    unit: str = "USD"

    def document(self) -> FigureDocument:
        """For JSON."""
        return {
            "part": self.part,
            "amount": self._amount(),
            "formula": self.formula,
            "rows": [row.document() for row in self.rows],
        }

    def _amount(self) -> MoneyDocument | float | None:
        if self.amount is None:
            return None
        match self.unit:
            case "h":
                return float(round(self.amount, 1 if self.amount >= 100 else 4))
            case "%":
                return float(round(self.amount, 2))
            case "USD":
                return usd_document(round(self.amount, 4))
            case _:
                return usd_document(self.amount)


def transfer_figure(
    market: Market,
    name: str,
    tariff: TariffCost | None,
    amount: Decimal | None,
    share: tuple[Decimal, Decimal],
) -> Figure:
    """How the cost of a transfer is computed.

    Args:
        market: the exchange rates.
        name: what is sent, for people.
        tariff: the cost of all data that is priced together; ``None`` if unknown.
        amount: the cost of the transfer, in USD; ``None`` if unknown.
        share: the size of the transfer, and of all data that is priced together.
    """
    if tariff is None or amount is None:
        return Figure(part=name, amount=None, formula="no transfer price is known", rows=())
    tariffs = dict.fromkeys(item.tariff for item in tariff.items)
    rates, _ = _in_usd(market, Decimal(0), tariff.currency)
    gib, together = share
    formula = _in_steps(market, tariff)
    if gib != together:
        formula = (
            f"{number_text(gib)} of {number_text(together)} GiB that leave the cloud, together {formula}"
        )
    return Figure(
        part=name,
        amount=amount,
        formula="; ".join([formula, *caveats(tariffs)]),
        rows=(*(row for tariff in tariffs for row in _rows(tariff)), *rates),
    )


def figures(market: Market, estimate: Estimate) -> list[Figure]:
    """The parts of an estimate with formulas and rows; an unknown part has the reason instead."""
    usage = estimate.usage
    if usage is None:
        return [Figure(part="compute", amount=None, formula=estimate.unknown["compute"], rows=())]
    return [
        *_computation(estimate.offer, usage),
        _compute(market, estimate, usage),
        *_beside(market, estimate, usage),
        *_total(estimate),
        *_upfront(market, estimate),
        *_break_even(market, estimate),
        *_interruptions(estimate, usage),
        *_range(estimate, usage),
    ]


def _computation(offer: Offer, usage: Usage) -> Iterator[Figure]:
    """The hours of work, if they follow from the rate of the GPUs."""
    work, kind = usage.computation, offer.kind
    if work is None:
        return
    from gpucloud_pricing.computation import MFU_SOURCE, USUAL_MFU, peak_of

    precision, peak = peak_of(kind)
    what = f"peak rate of {kind.gpu_model} in {precision.upper()}, dense"
    source = "; ".join(filter(None, (peak.source, peak.doubt)))
    rate = FigureRow(what=what, amount=peak.value, currency="TFLOPS", as_of=None, source=source)
    whence = MFU_SOURCE if work.mfu == USUAL_MFU else "your own"
    share = FigureRow(
        what="share of the peak rate", amount=work.mfu, currency="MFU", as_of=None, source=whence
    )
    gpus = f"{format_count(kind.gpu_count)} GPU x {usage.nodes}"
    formula = (
        f"{work.flop:g} FLOP / ({number_text(peak.value)}e12 x {gpus} x {number_text(work.mfu)} x 3600 s)"
    )
    yield Figure(part="hours", amount=usage.hours, formula=formula, rows=(rate, share), unit="h")


def _compute(market: Market, estimate: Estimate, usage: Usage) -> Figure:
    offer, bill = estimate.offer, estimate.bill
    quote = offer.quote
    if quote is None or bill is None:
        return Figure(
            part="compute", amount=None, formula=estimate.unknown.get("compute", "unknown"), rows=()
        )
    rows = [_price_row(quote)]
    rates, amounts = _in_usd(market, quote.amount, quote.currency)
    if bill.terms:
        billed = _terms(market, quote, bill)
        by_the_hour = on_demand_price(market, place_of(offer)) if bill.hours else None
        if by_the_hour is not None:
            rows.append(_price_row(by_the_hour))
            other_rates, other = _in_usd(market, by_the_hour.amount, by_the_hour.currency)
            rates = tuple(dict.fromkeys((*rates, *other_rates)))
            other = _discounted(other, by_the_hour)
            billed = f"({billed} + {other} x {number_text(bill.hours)} h on demand)"
    else:
        billed = f"{_discounted(amounts, quote)} x {number_text(bill.hours)} h"
    formula = f"{billed} x {bill.machines}"
    if bill.machines != usage.nodes:
        formula += f"; the smallest block for {usage.nodes} machines"
    if not bill.terms and bill.hours != usage.hours:
        formula += f"; {_hours(offer, usage)}"
    if quote.derivation:
        formula += f"; {quote.amount:f} {quote.currency} = {quote.derivation.formula}"
        rows += map(_price_row, quote.derivation.prices)
    return Figure(part="compute", amount=estimate.compute, formula=formula, rows=(*rows, *rates))


def _total(estimate: Estimate) -> Iterator[Figure]:
    """The sum of the known parts."""
    if estimate.total is not None:
        known = [name for name, amount in estimate.parts.items() if amount]
        yield Figure(part="total", amount=estimate.total, formula=" + ".join(known) or "nothing", rows=())


def _terms(market: Market, quote: Price, bill: Bill) -> str:
    """The terms of a bill: as the cloud prices them, or their hours."""
    times = "" if bill.terms == 1 else f"{bill.terms} x "
    kind = KINDS[quote.purchase]
    if not kind.prepaid or not quote.upfront:
        _, price = _in_usd(market, quote.amount, quote.currency)
        return f"{_discounted(price, quote)} x {times}{number_text(bill.term_hours)} h"
    _, price = _in_usd(market, quote.upfront, quote.currency)
    if kind.billed is Billed.IN_BLOCKS:
        return f"{_discounted(price, quote)} x {number_text(bill.term_hours / DAY)} days"
    unit = "month" if bill.term_hours == HOURS_PER_MONTH else "year"
    return f"{_discounted(price, quote)} x {bill.terms} {unit}{'' if bill.terms == 1 else 's'}"


def _discounted(price: str, quote: Price) -> str:
    return f"{price} x {number_text(1 - quote.discount)} (own discount)" if quote.discount else price


def _price_row(price: Price) -> FigureRow:
    words = (price.instance_type, price.purchase.replace("_", "-"), price.terms, price.zone or price.region)
    return FigureRow(
        what=f"{' '.join(filter(None, words))}, per hour",
        amount=price.amount,
        currency=price.currency,
        as_of=price.as_of,
        source=price.source,
    )


def _upfront(market: Market, estimate: Estimate) -> Iterator[Figure]:
    """The upfront part of a commitment."""
    quote, bill = estimate.offer.quote, estimate.bill
    if quote is None or bill is None or not estimate.upfront:
        return
    by_the_day = KINDS[quote.purchase].billed is Billed.IN_BLOCKS
    sold = "a block of a day" if by_the_day else quote.terms or quote.purchase.replace("_", "-")
    row = replace(_price_row(quote), what=f"{sold}: at once", amount=quote.upfront)
    rates, price = _in_usd(market, quote.upfront, quote.currency)
    times = f" x {number_text(bill.term_hours / DAY)}" if by_the_day else ""
    formula = f"{_discounted(price, quote)}{times} x {bill.machines}"
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
    text = " + ".join(f"{number_text(hours)} h {what}" for what, hours in told.items() if hours)
    if sum(told.values()) == run_hours(offer, usage):
        return text
    return f"{text}, each start billed for {offer.kind.billing.minimum_s} s at least"


def _range(estimate: Estimate, usage: Usage) -> Iterator[Figure]:
    """The low and the high total."""
    if estimate.spot is not None:
        spot = estimate.spot
        low = f"the same for {spot.low:.4f} h; at the low rate, one of twenty cases takes no longer"
        high = f"the same for {spot.high or 0:.4f} h; at the high rate, one of twenty cases takes longer"
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
    for name, part in parts_of(market, offer, usage, run_hours(offer, usage)).items():
        amount = estimate.parts[name]
        if part.quantity == 0:
            yield Figure(part=name, amount=amount, formula="none", rows=())
        elif part.price is None or amount is None:
            yield Figure(part=name, amount=None, formula=estimate.unknown.get(name, "unknown"), rows=())
        else:
            rates, _ = _in_usd(market, Decimal(0), part.price.currency)
            tariffs = dict.fromkeys(item.tariff for item in part.price.items)
            if name == "egress":
                formula = _in_steps(market, part.price)
            else:
                formula = _by_quantity(market, name, offer, usage, part.price)
            yield Figure(
                part=name,
                amount=amount,
                formula="; ".join([formula, *caveats(tariffs)]),
                rows=(*(row for tariff in tariffs for row in _rows(tariff)), *rates),
            )


def _interruptions(estimate: Estimate, usage: Usage) -> Iterator[Figure]:
    """The chance of an interruption and what it is derived from, and the expected total."""
    spot, expected = estimate.spot, estimate.expected_total
    if spot is None or expected is None:
        return
    row, one = _evidence(spot)
    chance, rate, work = spot.chance, spot.hazard, spot.outlook.expected - spot.outlook.lost
    together = f"; {usage.nodes} nodes: at least the rate of one, at most {usage.nodes} times that"
    yield Figure(
        part="interruption_percent",
        amount=Decimal(chance.middle) * 100,
        formula=(
            f"1 - e^(-{rate.middle:.3g} x {work:.4g} h), {chance.low:.2%} to {chance.high:.2%}: {one}"
            f"{together if usage.nodes > 1 else ''}; neither bound is guaranteed"
        ),
        rows=(row, *_measured(usage)),
        unit="%",
    )
    yield Figure(
        part="expected_total",
        amount=expected,
        formula=(
            f"the same for {spot.outlook.expected:.4f} h: with the work repeated after interruptions, at the"
            " middle rate"
        ),
        rows=(),
    )


def _evidence(spot: SpotEstimate) -> tuple[FigureRow, str]:
    """The row of data of a rate of interruptions, and how the rate of one machine follows from it."""
    evidence = spot.evidence
    if isinstance(evidence, Experience):
        hours = f"{evidence.hours:.0f} machine-hours"
        row = FigureRow(
            what=f"your own interruptions in {hours} on spot since {evidence.since}",
            amount=Decimal(evidence.interruptions),
            currency="machines",
            as_of=evidence.until,
            source=OWN_JOURNAL.id,
        )
        return row, f"({evidence.interruptions} + 1/2) / {hours}, bounds from the gamma distribution"
    row = FigureRow(
        what=f"reclaimed in the trailing month: {band_text(evidence)}",
        amount=Decimal(evidence.low + evidence.high) / 2,
        currency="%",
        as_of=evidence.as_of,
        source=evidence.source,
    )
    return row, (
        f"low {evidence.low} % of machine-months, high {evidence.high} % of machines that run as long as this"
        " work, middle between the two; of what the band is a share is unpublished"
    )


def band_text(band: Interruption) -> str:
    """A band for people: ``5-10 %``; one up to 100 % has no upper end."""
    if band.low == 0:
        return f"under {band.high} %"
    return f"over {band.low} %" if band.high == 100 else f"{band.low}-{band.high} %"


def _measured(usage: Usage) -> Iterator[FigureRow]:
    """What was measured of interruptions: for comparison, no part of the figure."""
    least, most = V100_HOURS
    yield FigureRow(
        what=f"to {most} h on average between interruptions of V100 on AWS, 2022-23; not in the figure",
        amount=Decimal(str(least)),
        currency="h",
        as_of=None,
        source=TRACES.id,
    )
    if usage.nodes > 1:
        yield FigureRow(
            what="of joint interruptions came within three minutes; not in the figure",
            amount=Decimal(JOINT_PERCENT),
            currency="%",
            as_of=None,
            source=JOINT_LOSSES.id,
        )


def _in_usd(market: Market, amount: Decimal, currency: str) -> tuple[tuple[FigureRow, ...], str]:
    """The row of the exchange rate, if needed, and the amount for a formula."""
    rate = market.rate(currency)
    if currency == "USD" or rate is None:
        return (), f"{amount:f} {currency}"
    what = f"{rate.base} in {rate.quote}"
    row = FigureRow(what=what, amount=rate.rate, currency=rate.quote, as_of=rate.as_of, source=rate.source)
    return (row,), f"{amount:f} {currency} / {rate.rate:f}"


def _by_quantity(market: Market, name: str, offer: Offer, usage: Usage, cost: TariffCost) -> str:
    """The formula of a part with one price per unit."""
    tariff = cost.items[0].tariff
    _, price = _in_usd(market, tariff.amount, tariff.currency)
    hours = number_text(run_hours(offer, usage))
    if name == "address":
        return f"{price} x {hours} h x {usage.nodes}"
    disk = offer.kind.billing.disk_gib(usage.disk_gib)
    gib = f"{disk if name == 'disk' else usage.snapshot_gib} GiB"
    if name == "disk" and disk != usage.disk_gib:
        gib += f" (the size as which {usage.disk_gib} GiB are billed)"
    if tariff.unit == "disk_month" and tariff.tier_to is not None:
        price += f" / {tariff.tier_to:f} GiB"
    months = f"{price} x {gib} x {hours} h x {usage.nodes} / {HOURS_PER_MONTH} h"
    iops = offer.kind.billing.iops
    return f"{months}, with {iops}" if name == "disk" and iops else months


def _in_steps(market: Market, cost: TariffCost) -> str:
    """The formula of a part that is priced in steps."""
    steps = [
        f"{number_text(item.quantity)} GiB x {_in_usd(market, item.price, item.tariff.currency)[1]}"
        if item.price
        else f"{number_text(item.quantity)} GiB free"
        for item in cost.items
        if item.quantity
    ]
    text = " + ".join(steps)
    if cost.times != 1:
        text = f"({text}) x {number_text(cost.times)} months, sent evenly"
    return f"{text}; steps and free amounts are per account and month, as if nothing else used them"


def _rows(tariff: Tariff) -> Iterator[FigureRow]:
    """The row of a tariff, and of a second source that states another amount."""
    where = "everywhere" if tariff.region == EVERYWHERE else tariff.region
    bounds = ""
    if tariff.unit in {"gb", "gb_month"} and (tariff.tier_from or tariff.tier_to):
        above = f"from {tariff.tier_from:f}" if tariff.tier_from else ""
        below = f"up to {tariff.tier_to:f}" if tariff.tier_to else ""
        bounds = f", {' '.join(filter(None, (above, below)))} GiB a month"
    what = f"{tariff.sku}{bounds}, per {_UNITS[tariff.unit]}, {where}"
    yield FigureRow(
        what=what, amount=tariff.amount, currency=tariff.currency, as_of=tariff.as_of, source=tariff.source
    )
    if (other := tariff.other) is not None:
        yield FigureRow(
            what=f"not used, another source of: {what}",
            amount=other.amount,
            currency=other.currency,
            as_of=other.as_of,
            source=other.source,
        )


def number_text(value: Decimal) -> str:
    """A number of hours, GiB or days for people, to at most four decimals: ``72``, ``0.3333``."""
    return f"{round(value, 4).normalize():f}"
