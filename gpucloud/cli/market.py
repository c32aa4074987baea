"""How the commands before buying write offers, prices and tables."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from gpucloud.cli.output import Output
from gpucloud.errors import UsageError
from gpucloud_pricing import (
    Offer,
    Rate,
    format_count,
    format_money,
)

Columns = Mapping[str, Sequence[object]]
"""A table by columns: heading to cells."""

_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def load_plots(flag: str, file: Path | None = None) -> ModuleType:
    """What draws: :mod:`gpucloud.cli.plots`, an extra.

    Raises:
        UsageError: it is not installed, or draws no such file.
    """
    try:
        from gpucloud.cli import plots
    except ImportError as error:
        raise UsageError(f"{flag} needs matplotlib: {error}", hint="pip install 'gpucloud[plot]'") from error
    if file is not None and file.suffix not in plots.SUFFIXES:
        raise UsageError(f"{flag}: {file} is neither FILE.svg nor FILE.png")
    return plots


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


def flags_text(offer: Offer) -> str | None:
    """The flags; a commitment is one to buy."""
    flags = [flag.replace("_", " ") for flag in offer.flags] + (["to buy"] if offer.to_buy else [])
    return ", ".join(flags) or None


def unit_heading(measure: str) -> str:
    """The heading of a column of what work costs per hour."""
    return {"gpu": "PER GPU", "memory": "PER GIB"}.get(measure, "PER TFLOPH")


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
    """Prints a table without the columns that have nothing to say.

    On a terminal, ``optional`` columns are left out one after the other until the rest fits its width.
    """
    kept = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
    if sys.stdout.isatty():
        for name in optional:
            if _width(kept) > shutil.get_terminal_size().columns:
                kept.pop(name, None)
    output.table(list(kept), list(zip(*kept.values(), strict=True)), right=[r for r in right if r in kept])


def _width(columns: Columns) -> int:
    """How wide a table is on a terminal: the widest cells and three characters between columns."""
    return sum(max(map(len, [name, *map(str, cells)])) + 3 for name, cells in columns.items())


def say_rates(output: Output, rates: Iterable[Rate], offers: Iterable[Offer]) -> None:
    """Says at which rates the foreign ones of these offers' prices were compared."""
    foreign = {offer.quote.currency for offer in offers if offer.quote}
    for rate in rates:
        if rate.quote in foreign:
            output.say(f"1 {rate.base} = {rate.rate} {rate.quote}, the reference rate of {rate.as_of}.")
