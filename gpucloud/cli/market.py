"""What the commands before buying share: ages, plots, notes about rates and doubtful figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType

from gpucloud.cli.output import Output, refuse_unwritable
from gpucloud.errors import UsageError
from gpucloud_pricing import Offer, Rate

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


def percent_text(share: float) -> str:
    """A share in percent, with two digits: ``0.42``, ``2``, ``91``; ``100`` where it rounds to that."""
    percent = share * 100
    return f"{percent:.2g}" if percent < 99.5 else "100"


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


def total_text(amount: Decimal | None) -> str:
    """A total for people: whole dollars from a thousand on; ``?`` where it is not known."""
    if amount is None:
        return "?"
    return f"${amount:,.0f}" if amount >= 1000 else f"${amount:,.2f}"


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
