"""Draws into files and pages, with matplotlib (the extra ``plot``)."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from gpucloud.cli.output import writing
from gpucloud_pricing.demand import HOURS_PER_MONTH
from gpucloud_pricing.history import Span
from gpucloud_pricing.payment import Way, cheapest_by_hours
from gpucloud_pricing.values import Offer

SUFFIXES = (".svg", ".png")
_MATPLOTLIB: Any = matplotlib
_TEXT_AS_TEXT = {"svg.fonttype": "none", "svg.hashsalt": "gpucloud"}


def draw_trends(
    trends: Mapping[tuple[str, ...], Sequence[Span]],
    start: datetime,
    end: datetime,
    usd: Callable[[Decimal, str], Decimal | None],
) -> Figure:
    """Draws how prices went, in USD, each as a stair; what was not sold for a while has a gap.

    Args:
        trends: prices by what they are of, oldest first.
        start: where the time begins.
        end: where it ends.
        usd: converts an amount of a currency.
    """
    figure, axes = _empty("USD per hour")
    for series, spans in trends.items():
        times: list[datetime] = []
        amounts: list[float] = []
        for span in spans:
            amount = usd(span.price.amount, span.price.currency)
            ended = span.ended or end
            if amount is None or ended < start:
                continue
            if times and times[-1] < span.since:
                times.append(span.since)
                amounts.append(float("nan"))
            times += [max(span.since, start), ended]
            amounts += [float(amount)] * 2
        cloud, region, zone, name, purchase, terms = series
        label = " ".join(filter(None, (cloud, zone or region, name, purchase, terms)))
        axes.plot(times, amounts, label=label, linewidth=1.5)
    axes.set_xlim(start, end)
    axes.tick_params("x", rotation=30)
    _finish(figure, axes)
    return figure


def draw_ways(ways: Sequence[Way], name: Callable[[Offer], str]) -> Figure:
    """Draws what a month costs in each way of paying, by its hours; dots where another way gets cheaper.

    Args:
        ways: of one place.
        name: what a way is called.
    """
    figure, axes = _empty("USD per month and box")
    month = float(HOURS_PER_MONTH)
    for way in ways:
        costs = [float(way.cost(hours)) for hours in (Decimal(0), HOURS_PER_MONTH)]
        axes.plot([0, month], costs, label=name(way.offer), linewidth=1.5)
    for stretch in cheapest_by_hours(ways)[:-1]:
        cost = float(stretch.way.cost(stretch.end))
        axes.plot([float(stretch.end)], [cost], "o", color="black", markersize=4)
        axes.annotate(
            f"{stretch.end:.0f} h", (float(stretch.end), cost), (4, -12), textcoords="offset points"
        )
    axes.set_xlim(0, month)
    axes.set_xlabel("hours per month")
    _finish(figure, axes)
    return figure


def save(figure: Any, file: Path) -> None:
    """Writes a figure: SVG or PNG, by the file's name."""
    with _MATPLOTLIB.rc_context(_TEXT_AS_TEXT), writing("the plot", file):
        figure.savefig(file, dpi=150)


def svg(figure: Any) -> str:
    """A figure as an element of a page; the same figure gives the same text."""
    text = io.StringIO()
    with _MATPLOTLIB.rc_context(_TEXT_AS_TEXT):
        figure.savefig(text, format="svg", metadata={"Date": None})
    written = text.getvalue()
    return written[written.index("<svg") :]


def _empty(unit: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes: Any = figure.subplots()  # pyright: ignore[reportUnknownMemberType]
    axes.set_ylabel(unit)
    return figure, axes


def _finish(figure: Any, axes: Any) -> None:
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
