"""``gpucloud cost --html``: one page that needs nothing besides itself, for a screen, a phone or paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gpucloud.cli import market as shown
from gpucloud.cli.cost_tables import AMOUNTS, at, cost_columns, figure_text, spot_text, usage_text
from gpucloud.cli.output import time_text, writing
from gpucloud.costs.comparison import Comparison, month_of
from gpucloud.market.history import series_of
from gpucloud.market.search import paid_text
from gpucloud_pricing.payment import cheapest_by_hours

if TYPE_CHECKING:
    from gpucloud.market.catalog import Catalog
    from gpucloud_pricing.history import Span

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 0 auto;
  max-width: 70rem; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; } .wide svg { min-width: 34rem; width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #d8dee4; text-align: left; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
details { margin: .4rem 0; } summary { cursor: pointer; } small, footer { color: #57606a; }
@media print {
  body { max-width: none; padding: 0; font-size: 11px; } table { font-size: 9px; }
  .wide { overflow: visible; } .wide svg { min-width: 0; max-height: 40vh; }
  th, td { padding: .15rem .3rem; white-space: normal; } h2, tr, svg { break-inside: avoid; }
}
"""

_NUMBERS = frozenset({*AMOUNTS, "HOURS", "BOXES", "MONTH", "FROM", "TO"})
"""Columns of numbers."""


def write_report(
    file: Path, comparison: Comparison, catalog: Catalog, plots: ModuleType, when: datetime
) -> None:
    """Writes the page.

    Args:
        file: where to.
        comparison: what it is about.
        catalog: the history of prices.
        plots: what draws.
        when: the time of the report.
    """
    parts = [
        _heading(comparison),
        *_ways_to_pay(comparison),
        *_crossings(comparison, plots),
        *_mixes(comparison),
        *_history(comparison, catalog, plots, when),
        *_figures(comparison),
        _footer(comparison, when),
    ]
    title = escape(_title(comparison))
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )
    with writing("the report", file):
        file.write_text(page, encoding="utf-8")


def _title(comparison: Comparison) -> str:
    usage = comparison.usage
    gpus = ", ".join(dict.fromkeys(shown.gpu_text(offer) for offer in comparison.offers))
    hours = "a month" if comparison.assumed else f"{usage.hours.normalize():f} hours"
    boxes = f"{usage.nodes} boxes with " if usage.nodes > 1 else ""
    return f"{boxes}{gpus} for {hours}"


def _heading(comparison: Comparison) -> str:
    best = comparison.best
    told = "No way of paying that can be launched has a known cost."
    if best is not None:
        told = (
            f"Cheapest that can be launched: <strong>{escape(shown.total_text(best.expected_total))}"
            f"</strong>, {escape(paid_text(best.offer))}, {escape(at(best.offer))}."
        )
    return f"<h1>{escape(_title(comparison))}</h1>\n<p>{told}</p>"


def _ways_to_pay(comparison: Comparison) -> Iterable[str]:
    columns = {
        name: cells
        for name, cells in cost_columns(comparison).items()
        if any(cell is not None for cell in cells)
    }
    yield "<h2>Ways of paying</h2>"
    yield _table(list(columns), list(zip(*columns.values(), strict=True)), numbers=_NUMBERS)
    for estimate in comparison.estimates:
        if estimate.spot is not None:
            yield f"<p>Spot, {escape(at(estimate.offer))}: {escape(spot_text(estimate.spot))}.</p>"
    reasons = {why for e in comparison.estimates for part, why in e.unknown.items() if part in e.parts}
    if reasons:
        yield f"<p>≥ and ?: {escape('; '.join(sorted(reasons)))}.</p>"


def _crossings(comparison: Comparison, plots: ModuleType) -> Iterable[str]:
    """Which way is cheapest for how many hours a month, in each place that has several."""
    for ways in comparison.lasting():
        yield f"<h2>By hours per month: {escape(at(ways[0].offer))}</h2>"
        stretches = cheapest_by_hours(ways)
        rows = [(f"{s.start:.0f} h", f"{s.end:.0f} h", paid_text(s.way.offer)) for s in stretches]
        yield _table(("FROM", "TO", "CHEAPEST"), rows, numbers=_NUMBERS)
        yield f'<div class="wide">{plots.svg(plots.draw_ways(ways, paid_text))}</div>'


def _mixes(comparison: Comparison) -> Iterable[str]:
    for shares in comparison.mixes():
        cost = shown.total_text(month_of(shares))
        yield f"<h2>Cheapest mix: {escape(at(shares[0].way.offer))}, {escape(cost)} per month</h2>"
        rows = [
            (
                share.layer.machines,
                f"{share.layer.hours:.0f}",
                paid_text(share.way.offer),
                shown.total_text(share.cost),
            )
            for share in shares
        ]
        yield _table(("BOXES", "HOURS", "PAID AS", "MONTH"), rows, numbers=_NUMBERS)


def _history(comparison: Comparison, catalog: Catalog, plots: ModuleType, when: datetime) -> Iterable[str]:
    """How the prices of what is compared went, as far as they were asked for."""
    trends: dict[tuple[str, ...], Sequence[Span]] = {}
    if catalog.history_file is not None:
        with catalog.history() as kept:
            for offer in comparison.offers:
                wanted = offer.quote and series_of(offer.quote)
                spans = kept.spans((offer.kind,), purchases=(offer.purchase,), regions=(offer.region,))
                found = [span for span in spans if series_of(span.price) == wanted]
                if wanted and found:
                    trends[wanted] = found
    yield "<h2>How these prices went</h2>"
    if not trends:
        yield "<p>They have not been asked for yet: <code>gpucloud prices refresh</code>.</p>"
        return
    start = min(spans[0].since for spans in trends.values())
    drawn = plots.draw_trends(trends, start, when, comparison.market.usd)
    yield f'<div class="wide">{plots.svg(drawn)}</div>'


def _figures(comparison: Comparison) -> Iterable[str]:
    """How each figure came about."""
    yield "<h2>Where the figures come from</h2>"
    for estimate in comparison.estimates:
        rows: list[tuple[object, ...]] = []
        for figure in comparison.figures(estimate):
            rows.append((figure.part, figure_text(figure), figure.formula, "", ""))
            for row in figure.rows:
                what = f"{row.amount.normalize():f} {row.currency}: {row.what}"
                rows.append(("", "", what, row.as_of or "no date", row.source))
        name = f"{at(estimate.offer)} {paid_text(estimate.offer)}"
        table = _table(("PART", "USD", "HOW", "OF", "SOURCE"), rows, numbers=frozenset({"USD"}))
        yield f"<details><summary>{escape(name)}</summary>{table}</details>"
    used = dict.fromkeys(_sources(comparison))
    rows = [
        (source.id, f"{source.repository} {source.path}", source.licence)
        for name in used
        if (source := comparison.market.sources.get(name))
    ]
    yield _table(("SOURCE", "WHERE", "LICENCE"), rows)


def _sources(comparison: Comparison) -> Iterable[str]:
    for estimate in comparison.estimates:
        for figure in comparison.figures(estimate):
            yield from (row.source for row in figure.rows)


def _footer(comparison: Comparison, when: datetime) -> str:
    rates = comparison.market.rates_of(comparison.offers)
    told = [
        usage_text(comparison.usage),
        "List prices before tax, in USD. A commitment owes its whole term, used or not.",
        *(f"1 {r.base} = {r.rate} {r.quote}, the reference rate of {r.as_of}." for r in rates),
        f"Made by gpucloud cost --html at {time_text(when)}.",
    ]
    return f"<footer><p>{escape(' '.join(told))}</p></footer>"


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: frozenset[str] = frozenset()
) -> str:
    classes = [' class="number"' if heading in numbers else "" for heading in headings]

    def line(tag: str, cells: Iterable[object]) -> str:
        written = (
            f"<{tag}{css}>{escape('' if cell is None else str(cell))}</{tag}>"
            for css, cell in zip(classes, cells, strict=True)
        )
        return f"<tr>{''.join(written)}</tr>"

    body = "\n".join(line("td", row) for row in rows)
    return (
        f'<div class="wide"><table>\n<thead>{line("th", headings)}</thead>\n'
        f"<tbody>{body}</tbody>\n</table></div>"
    )
