"""What the commands before buying share: refusals, and how an offer is written."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from gpucloud.cli.output import Output, money_text
from gpucloud.errors import GpucloudError, NoOfferError, PriceError, UsageError
from gpucloud.spec.file import flag_of
from gpucloud_pricing import (
    Explanation,
    Market,
    Offer,
    Price,
    Rate,
    Relaxation,
    format_count,
)

MEASURES = {
    "gpu-price": "gpu",
    "gpu-memory-price": "memory",
    "fp64-price": "fp64",
    "fp32-price": "fp32",
    "tf32-price": "tf32",
    "fp16-price": "fp16",
    "fp8-price": "fp8",
}
"""What work is measured in where ``--sort`` goes by what it costs; see :mod:`gpucloud_pricing.work`."""

Columns = Mapping[str, Sequence[object]]
"""A table by columns: heading to cells."""

_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_RULE_FLAGS = {
    "cloud": "--cloud",
    "region": "--region",
    "zone": "--zone",
    "purchase": "the way of paying",
    "partition": "the partition left out",
    "opt_in_zone": "the opt-in zones left out",
}


def today() -> date:
    """The day against which prices are old and types are retired."""
    return datetime.now(UTC).date()


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
        raise UsageError(f"{flag}: {text!r} is no age; allowed: 90d, 8w, 6m, 2y")
    return timedelta(days=int(match[1]) * _DAYS[match[2]])


def nothing_matches(explanation: Explanation) -> GpucloudError:
    """Why there is no answer: a price limit alone (exit 7), or anything else (exit 3), and what to relax."""
    only_price = next((r for r in explanation.relaxations if r.rule == "max_price"), None)
    if only_price:
        return PriceError(
            f"every matching offer costs more than the limit; the cheapest is {offer_text(only_price.best)}",
            hint="raise --max-price",
        )
    hints = [relaxation_text(relaxation) for relaxation in explanation.relaxations[:3]]
    return NoOfferError("no offer matches", hint="; ".join(hints) or "see all reasons with --why")


def relaxation_text(relaxation: Relaxation) -> str:
    """What leaving out one demand would bring, in one line."""
    what, best = rule_text(relaxation.rule), offer_text(relaxation.best)
    return f"without {what}: {relaxation.offers} more, the best {best}"


def rule_text(rule: str) -> str:
    """A rule in the user's terms: the flag that it belongs to."""
    return _RULE_FLAGS.get(rule, flag_of(rule))


def offer_text(offer: Offer) -> str:
    """An offer in one line."""
    where = " ".join(part for part in (offer.cloud, offer.region, offer.zone) if part)
    return f"{usd_text(offer.price_usd)}/h {where} {offer.instance_type} {paid_text(offer)}"


def usd_text(amount: Decimal | None) -> str:
    """USD for people; ``unknown`` where no price is known."""
    return "unknown" if amount is None else money_text(amount)


def paid_text(offer: Offer) -> str:
    """The way of paying as flags write it, ``on-demand``, and what else belongs to it: ``all upfront``."""
    return way_text(offer.purchase, offer.terms)


def way_text(purchase: str, terms: str) -> str:
    """See :func:`paid_text`."""
    return ", ".join(filter(None, (purchase.replace("_", "-"), terms)))


def price_document(price: Price) -> dict[str, str | None]:
    """What a price is of, for JSON; what it is stands beside it."""
    return {
        "cloud": price.cloud,
        "region": price.region,
        "zone": price.zone,
        "instance_type": price.instance_type,
        "purchase": price.purchase,
        "terms": price.terms or None,
        "source": price.source,
    }


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


def work_order(offer: Offer, measure: str) -> tuple[bool, bool, Decimal]:
    """What an hour of work costs, as a key to sort by: unknown ones last, doubtful ones before them."""
    from gpucloud_pricing.work import price_for

    price = price_for(offer, measure)
    return price is None, bool(offer.flags), price or Decimal(0)


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
    return None if price is None or price.currency == "USD" else money_text(price.amount, price.currency)


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


def say_rates(output: Output, rates: Iterable[Rate]) -> None:
    """Says at which rates foreign prices were compared."""
    for rate in rates:
        output.say(f"1 {rate.base} = {rate.rate} {rate.quote}, the reference rate of {rate.as_of}.")


def rates_of(market: Market, offers: Iterable[Offer]) -> list[Rate]:
    """The reference rates that these offers' prices in USD rest on."""
    currencies = dict.fromkeys(offer.quote.currency for offer in offers if offer.quote)
    return [rate for currency in currencies if (rate := market.rate(currency))]


def rates_document(rates: Iterable[Rate]) -> list[dict[str, str]]:
    """Reference rates for JSON."""
    return [
        {"base": r.base, "quote": r.quote, "rate": f"{r.rate}", "as_of": f"{r.as_of}", "source": r.source}
        for r in rates
    ]
