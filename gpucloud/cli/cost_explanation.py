"""``gpucloud cost --explain``: how each figure is computed, with the rows of data behind it."""

from __future__ import annotations

from collections.abc import Iterable

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.cost_notes import all_notes
from gpucloud.costs.comparison import Comparison, CostVerdict, verdict_of
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud_pricing import Market
from gpucloud_pricing.figures import Figure


def show_figures(app: App, comparison: Comparison) -> None:
    """How each figure came about, down to the rows that it rests on."""
    line = app.output.sentence
    used: set[str] = set()
    for estimate in comparison.estimates:
        offer = estimate.offer
        line("")
        line(f"{shown.at(offer)} {paid_text(offer)}")
        used |= show_rows(app, comparison.figures(estimate))
    _show_saving(app, comparison, verdict_of(comparison))
    line("")
    for note in all_notes(comparison):
        app.output.sentence(note)
    show_sources(app, comparison.market, used)


def show_rows(app: App, figures: Iterable[Figure]) -> set[str]:
    """Some figures with their formulas and rows; returns the ids of the sources."""
    used: set[str] = set()
    for figure in figures:
        head = f"  {figure.part:<17}{figure_text(figure):>12}  "
        app.output.sentence(f"{head}{figure.formula}", indent=len(head) - 2)
        for row in figure.rows:
            what = f"{row.amount.normalize():f} {row.currency}: {row.what}"
            app.output.sentence(f"{'':<{len(head)}}{what}; {row.as_of or 'no date'}, {row.source}", indent=2)
            used.add(row.source)
    return used


def show_sources(app: App, market: Market, used: Iterable[str]) -> None:
    """Where sources are."""
    app.output.line("")
    for name in sorted(used):
        source = market.sources.get(name)
        if source is not None:
            app.output.sentence(f"{name}: {source.repository} {source.path} ({source.licence})", indent=2)


def figure_text(figure: Figure) -> str:
    """What was computed, for people."""
    if figure.amount is not None and figure.unit in {"h", "%"}:
        digits = 0 if figure.unit == "h" and figure.amount >= 100 else 2
        return f"{figure.amount:.{digits}f} {figure.unit}"
    return shown.total_text(figure.amount) if figure.unit == "USD" else cells.usd_text(figure.amount)


def _show_saving(app: App, comparison: Comparison, verdict: CostVerdict | None) -> None:
    """The difference that the verdict names."""
    if verdict is None or verdict.spot is None or verdict.saving is None:
        return
    text = cells.usd_text if comparison.assumed else shown.total_text
    now, spot = (f"{shown.at(each.offer)} {paid_text(each.offer)}" for each in (verdict.now, verdict.spot))
    costs = f"{text(verdict.cost)} - {text(verdict.cost - verdict.saving)}"
    app.output.line("")
    app.output.sentence(f"saving{text(verdict.saving):>25}  {costs}: {now} less {spot}")
