"""``gpucloud cost --html``: one self-contained page, for a screen, a phone or paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gpucloud.cli import market as shown
from gpucloud.cli.cost_explanation import figure_text
from gpucloud.cli.cost_notes import all_notes, notes, range_text, usage_text, verdict_text, work_text
from gpucloud.cli.cost_tables import AMOUNTS, cost_columns, expected_text, running_text
from gpucloud.cli.output import time_text, writing
from gpucloud.costs.comparison import Comparison, verdict_of, worth_showing
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud.market.history import series_of
from gpucloud_pricing.estimate import Estimate, hourly, place_of
from gpucloud_pricing.payment import Way, cheapest_by_hours, month_of
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.source_links import link_to

if TYPE_CHECKING:
    from gpucloud.market.catalog import Catalog
    from gpucloud_pricing.history import Span

STYLE = Path(__file__).with_name("cost_report.css")
_NUMBERS = frozenset({*AMOUNTS, "HOURS", "MACHINES", "MONTH", "FROM", "TO"})
"""Columns of numbers."""


def write_report(
    file: Path, comparison: Comparison, catalog: Catalog, plots: ModuleType, when: datetime, places: int
) -> None:
    """Writes the page.

    Args:
        file: the file to write.
        comparison: the comparison.
        catalog: the history of prices.
        plots: the module that draws.
        when: the time of the report.
        places: the number of places to show for each cloud and way of paying.

    Raises:
        UsageError: the file cannot be written.
    """
    estimates = worth_showing(comparison, places, all_terms=False)
    parts = [
        f"<h1>{escape(_title(comparison))}</h1>",
        f'<p class="verdict">{escape(verdict_text(comparison))}</p>',
        *_costs(comparison, estimates),
        *_commitments(comparison, plots),
        *_mixes(comparison),
        *_history(comparison, estimates, catalog, plots, when),
        *_figures(comparison),
        _footer(comparison, when),
    ]
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(_title(comparison))}</title>\n"
        f"<style>\n{plots.theme()}{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )
    with writing("the report", file):
        file.write_text(page, encoding="utf-8")


def _title(comparison: Comparison) -> str:
    usage = comparison.usage
    gpus = ", ".join(dict.fromkeys(cells.gpu_text(offer) for offer in comparison.offers))
    boxes = f"{usage.nodes} boxes with " if usage.nodes > 1 else ""
    return f"{boxes}{gpus} for {work_text(comparison)}"


def _costs(comparison: Comparison, estimates: Sequence[Estimate]) -> Iterator[str]:
    """A bar for each option, and the table of their parts."""
    unit = "per hour" if comparison.assumed else f"for {work_text(comparison)}"
    yield f"<h2>What it costs {unit}</h2>"
    yield _bars(comparison, estimates)
    yield from (f"<p>{escape(note)}</p>" for note in list(notes(comparison, estimates))[:-1])
    columns = {
        name: cells
        for name, cells in cost_columns(comparison, estimates).items()
        if any(cell is not None for cell in cells)
    }
    table = _table(list(columns), list(zip(*columns.values(), strict=True)), numbers=_NUMBERS)
    yield f"<details><summary>The parts of each option</summary>{table}</details>"


def _bars(comparison: Comparison, estimates: Sequence[Estimate]) -> str:
    """The options as bars of one scale, each with its range."""
    amounts = [_amounts(comparison, estimate) for estimate in estimates]
    widest = max((high for _, _, high in amounts if high is not None), default=Decimal(0)) or Decimal(1)
    rows: list[str] = []
    for estimate, (low, amount, high) in zip(estimates, amounts, strict=True):
        offer = estimate.offer
        bar = ""
        if amount is not None and low is not None and high is not None:
            sizes = {"amount": amount, "low": low, "high": high}
            size = ";".join(f"--{name}:{part / widest * 100:.2f}%" for name, part in sizes.items())
            bar = f'<span class="{offer.purchase.replace("_", "-")}" style="{size}"><i></i></span>'
        if comparison.assumed:
            text, between = running_text(*hourly(comparison.market, offer, comparison.usage)), None
        else:
            text, between = expected_text(estimate), range_text(estimate)
        flags = cells.flags_cell(offer)
        rows.append(
            f"<li><b>{escape(paid_text(offer))}</b> <em>{escape(text)}</em>"
            f"<small>{escape(shown.at(offer))}{escape(f', {flags}' if flags else '')}</small>"
            f"<small>{escape(between or '')}</small>"
            f'<div class="bar">{bar}</div></li>'
        )
    return f'<ol class="bars">{"".join(rows)}</ol>'


def _amounts(
    comparison: Comparison, estimate: Estimate
) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    """The low, the expected and the high cost of an option; without hours, its cost per hour."""
    if comparison.assumed:
        hour, _ = hourly(comparison.market, estimate.offer, comparison.usage)
        return hour, hour, hour
    amount = estimate.cost
    low = amount if estimate.low_total is None else estimate.low_total
    return low, amount, amount if estimate.high_total is None else estimate.high_total


def _commitments(comparison: Comparison, plots: ModuleType) -> Iterator[str]:
    """From how many hours a month which way of paying is the cheapest, in the place of the verdict."""
    ways = _ways_of_verdict(comparison)
    if ways is None:
        return
    yield f"<h2>When a commitment pays: {escape(shown.at(ways[0].offer))}</h2>"
    rows = [(f"{s.start:.0f} h", f"{s.end:.0f} h", paid_text(s.way.offer)) for s in cheapest_by_hours(ways)]
    hours = None if comparison.assumed else comparison.hours_on(ways[0].offer)
    asked = None if hours is None else min(hours, HOURS_PER_MONTH)
    yield f"<figure>{plots.svg(plots.draw_ways(ways, paid_text, asked=asked, small=True))}</figure>"
    yield _table(("FROM", "TO", "CHEAPEST IN A MONTH"), rows, numbers=_NUMBERS)


def _ways_of_verdict(comparison: Comparison) -> Sequence[Way] | None:
    """The ways of paying in one place: that of the verdict, or else the first that has several."""
    places = comparison.lasting()
    verdict = verdict_of(comparison)
    if verdict is not None:
        here = [ways for ways in places if place_of(ways[0].offer) == place_of(verdict.now.offer)]
        places = [*here, *places]
    return next(iter(places), None)


def _mixes(comparison: Comparison) -> Iterator[str]:
    for shares in comparison.mixes():
        cost = shown.total_text(month_of(shares))
        yield f"<h2>Cheapest mix: {escape(shown.at(shares[0].way.offer))}, {escape(cost)} per month</h2>"
        rows = [
            (
                share.layer.machines,
                f"{share.layer.hours:.0f}",
                paid_text(share.way.offer),
                shown.total_text(share.cost),
            )
            for share in shares
        ]
        yield _table(("MACHINES", "HOURS", "PAID AS", "MONTH"), rows, numbers=_NUMBERS)


def _history(
    comparison: Comparison,
    estimates: Sequence[Estimate],
    catalog: Catalog,
    plots: ModuleType,
    when: datetime,
) -> Iterator[str]:
    """The history of the prices of some options, as far as it is known."""
    trends: dict[tuple[str, ...], Sequence[Span]] = {}
    if catalog.history_file is not None:
        with catalog.history() as kept:
            for offer in (estimate.offer for estimate in estimates):
                wanted = offer.quote and series_of(offer.quote)
                spans = kept.spans((offer.kind,), purchases=(offer.purchase,), regions=(offer.region,))
                found = [span for span in spans if series_of(span.price) == wanted]
                if wanted and found:
                    trends[wanted] = found
    yield "<h2>How prices went</h2>"
    if not trends:
        yield "<p>No prices were asked for yet: <code>gpucloud prices refresh</code>.</p>"
        return
    start = min(spans[0].since for spans in trends.values())
    drawn = plots.draw_trends(trends, start, when, comparison.market.usd, small=True)
    yield f"<figure>{plots.svg(drawn)}</figure>"


def _figures(comparison: Comparison) -> Iterator[str]:
    """How each figure is computed, and the sources with links."""
    yield "<h2>Where each figure comes from</h2>"
    used: dict[str, None] = {}
    for estimate in comparison.estimates:
        rows: list[tuple[object, ...]] = []
        for figure in comparison.figures(estimate):
            rows.append((figure.part, figure_text(figure), figure.formula, "", ""))
            for row in figure.rows:
                what = f"{row.amount.normalize():f} {row.currency}: {row.what}"
                rows.append(("", "", what, row.as_of or "no date", row.source))
                used[row.source] = None
        name = f"{shown.at(estimate.offer)} {paid_text(estimate.offer)}"
        table = _table(
            ("PART", "USD", "FORMULA AND DATA", "AS OF", "SOURCE"), rows, numbers=frozenset({"USD"})
        )
        yield f"<details><summary>{escape(name)}</summary>{table}</details>"
    yield "<h3>Sources</h3><dl>"
    for source in (found for name in used if (found := comparison.market.sources.get(name))):
        where = escape(f"{source.repository} {source.path}".strip())
        link = link_to(source)
        if link is not None:
            where = f'<a href="{escape(link, quote=True)}" rel="noreferrer">{where}</a>'
        licence = escape(f" ({source.licence})") if source.licence else ""
        yield f"<dt>{escape(source.id)}</dt><dd>{where}{licence}</dd>"
    yield "</dl>"


def _footer(comparison: Comparison, when: datetime) -> str:
    told = [
        usage_text(comparison.usage),
        "List prices before tax, in USD.",
        *all_notes(comparison),
        f"Made by gpucloud cost --html at {time_text(when)}.",
    ]
    return f"<footer>{''.join(f'<p>{escape(each)}</p>' for each in told)}</footer>"


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: frozenset[str] = frozenset()
) -> str:
    """A table; each cell knows its heading, so that a narrow screen can show rows as lists."""

    def line(cells: Iterable[object]) -> str:
        written = (
            f'<td data-name="{escape(heading)}"{" class=number" if heading in numbers else ""}>'
            f"{escape('' if cell is None else str(cell))}</td>"
            for heading, cell in zip(headings, cells, strict=True)
        )
        return f"<tr>{''.join(written)}</tr>"

    head = "".join(
        f"<th{' class=number' if heading in numbers else ''}>{escape(heading)}</th>" for heading in headings
    )
    body = "\n".join(map(line, rows))
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>\n</table>"
