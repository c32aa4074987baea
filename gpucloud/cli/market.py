"""How the commands before buying write offers, prices and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from gpucloud.cli.output import Output, refuse_unwritable
from gpucloud.cli.palette import Cell, Role
from gpucloud.errors import UsageError
from gpucloud.market.search import way_text
from gpucloud_pricing import Offer, Rate, format_count, format_money
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.rules import caution

Columns = Mapping[str, Sequence[object]]
"""A table by columns: heading to cells."""

_UNIT_HEADINGS = {"gpu": "PER GPU", "memory": "PER GIB", "bandwidth": "PER TB/S"}
_PER_TFLOPS = "PER TFLOPH"
UNIT_HEADINGS = (*_UNIT_HEADINGS.values(), _PER_TFLOPS)
"""The headings of columns of what work costs per hour."""

_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def load_plots(flag: str, files: Sequence[Path] = ()) -> ModuleType:
    """What draws: :mod:`gpucloud.cli.plots`, an extra.

    Raises:
        UsageError: it is not installed, draws no such files, or a file cannot be written.
    """
    try:
        from gpucloud.cli import plots
    except ImportError as error:
        raise UsageError(f"{flag} needs matplotlib: {error}", hint="pip install 'gpucloud[plot]'") from error
    for file in files:
        if file.suffix not in plots.SUFFIXES:
            raise UsageError(f"{flag}: {file} is neither FILE.svg nor FILE.png")
        refuse_unwritable("the plot", file)
    return plots


def draw_into(
    output: Output, figure: object, files: Sequence[Path], plots: ModuleType, what: str = ""
) -> None:
    """Writes a figure to files, and says so; ``what`` is in it.

    Raises:
        UsageError: a file cannot be written.
    """
    for file in files:
        plots.save(figure, file)
        output.say(f"Drawn: {file}{what and f', {what}'}")


def span_text(first: object, last: object) -> str:
    """``X to Y``; ``X`` where both are the same."""
    return " to ".join(dict.fromkeys((str(first), str(last))))


def read_age(text: str | None, flag: str = "--max-age") -> timedelta | None:
    """An age like ``90d``, ``8w``, ``6m``, ``2y``.

    Raises:
        UsageError: it is none.
    """
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,4})([dwmy])", text.strip().lower())
    if match is None:
        raise UsageError(f"{flag}: {text!r} is not an age; allowed: 90d, 8w, 6m, 2y")
    return timedelta(days=int(match[1]) * _DAYS[match[2]])


def usd_text(amount: Decimal | None) -> str:
    """USD for people; ``unknown`` where no price is known."""
    return "unknown" if amount is None else format_money(amount)


def gpu_text(offer: Offer) -> str:
    """The GPUs: ``8 A100 80GB``."""
    memory = f"{offer.gpu_memory_gib.normalize():f}GB"
    return f"{format_count(offer.gpu_count)} {offer.gpu_model} {memory}"


def zones_text(zones: Iterable[str | None]) -> str | None:
    """Zones of one region in short: ``use2-az1,2,3``; ``None`` where none is known."""
    names = sorted(zone for zone in zones if zone)
    if not names:
        return None
    ends = [re.fullmatch(r"(.*?)([0-9]+|[a-z])", name) for name in names]
    heads = {end[1] for end in ends if end}
    if len(names) > 1 and len(heads) == 1 and all(ends):
        return f"{heads.pop()}{','.join(end[2] for end in ends if end)}"
    return ",".join(names)


def flags_cell(offer: Offer) -> Cell | None:
    """The flags; a commitment is one to buy."""
    flags = [flag.replace("_", " ") for flag in offer.flags] + (["to buy"] if offer.to_buy else [])
    return Cell(", ".join(flags), Role.STALE if caution(offer.flags) else None) if flags else None


def paid_cell(purchase: str, terms: str = "") -> Cell:
    """A way of paying with its terms."""
    return Cell(way_text(purchase, terms), Role.SPOT if purchase == Purchase.SPOT else None)


def price_cells(prices: Sequence[Decimal | None]) -> list[Cell]:
    """Prices in USD; the cheapest ones are marked if others are higher."""
    known = {price for price in prices if price is not None}
    cheapest = min(known) if len(known) > 1 else None
    return [Cell(usd_text(p), Role.CHEAPEST if p is not None and p == cheapest else None) for p in prices]


def unit_heading(measure: str) -> str:
    """The heading of a column of what work costs per hour."""
    return _UNIT_HEADINGS.get(measure, _PER_TFLOPS)


def total_text(amount: Decimal | None) -> str:
    """A total for people: whole dollars from a thousand on; ``?`` where it is not known."""
    if amount is None:
        return "?"
    return f"${amount:,.0f}" if amount >= 1000 else f"${amount:,.2f}"


def own_price_text(offer: Offer) -> str | None:
    """The price in the currency that the cloud bills in, where that is not USD."""
    price = offer.price
    return None if price is None or price.currency == "USD" else format_money(price.amount, price.currency)


def show_table(
    output: Output, columns: Columns, *, right: Iterable[str], optional: Iterable[str] = ()
) -> None:
    """Prints a table by columns: see :meth:`gpucloud.cli.output.Output.table`."""
    rows = list(zip(*columns.values(), strict=True))
    output.table(list(columns), rows, right=list(right), optional=list(optional))


def at(offer: Offer) -> str:
    """The place and the type of an offer: cloud, region, type."""
    return f"{offer.cloud} {offer.region} {offer.instance_type}"


def rate_notes(rates: Iterable[Rate], offers: Iterable[Offer]) -> Iterator[str]:
    """The exchange rates at which the foreign ones of these offers' prices are compared."""
    foreign = {offer.quote.currency for offer in offers if offer.quote}
    for rate in rates:
        if rate.quote in foreign:
            yield f"1 {rate.base} = {rate.rate} {rate.quote}, the reference rate of {rate.as_of}."


def doubt_notes(offers: Iterable[Offer], measure: str) -> Iterator[str]:
    """Which figures of these offers' GPUs may be wrong, and why."""
    from gpucloud_pricing.work import figure_of

    figures = [(offer, figure_of(offer.kind, measure)) for offer in offers]
    doubts = {(o.gpu_model, o.gpu_memory_gib, f.doubt) for o, f in figures if f and f.doubt}
    for model, memory, doubt in sorted(doubts):
        yield f"{measure} of {model} {memory.normalize():f}GB is doubtful: {doubt}."
