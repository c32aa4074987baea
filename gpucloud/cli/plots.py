"""Draws into files and pages, with matplotlib (the extra ``plot``)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import dates
from matplotlib.figure import Figure

from gpucloud.cli.output import writing
from gpucloud_pricing.figures import number_text
from gpucloud_pricing.history import Span
from gpucloud_pricing.payment import Way, cheapest_by_hours
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Offer

SUFFIXES = (".svg", ".png")
_MATPLOTLIB: Any = matplotlib
_DATES: Any = dates
_TEXT_AS_TEXT = {"svg.fonttype": "none", "svg.hashsalt": "gpucloud"}
_LARGE, _SMALL = (10, 6), (4.7, 3.3)
"""Sizes in inches: of a file, and of a drawing in a page, whose text is as large as the page's on a phone."""

COLOURS = {
    "ink": ("#1b1f24", "#e6edf3"),
    "muted": ("#57606a", "#9aa4af"),
    "grid": ("#d8dee4", "#30363d"),
    "paper": ("#ffffff", "#0d1117"),
    "track": ("#eef1f4", "#1c222a"),
    "link": ("#0550ae", "#79b8ff"),
    "line0": ("#1f6feb", "#58a6ff"),
    "line1": ("#bc4c00", "#f0883e"),
    "line2": ("#1a7f37", "#3fb950"),
    "line3": ("#8250df", "#bc8cff"),
    "line4": ("#0e7490", "#39c5cf"),
    "line5": ("#9a6700", "#d29922"),
}
"""The colours of drawings and pages by role: on light, and on dark."""
_LINES = [light for role, (light, _) in COLOURS.items() if role.startswith("line")]


def theme() -> str:
    """The colours as CSS variables, for light and dark screens; paper is light."""
    light, dark = (
        "".join(f"--{role}: {pair[index]}; " for role, pair in COLOURS.items()) for index in (0, 1)
    )
    return f":root {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"


def draw_trends(
    trends: Mapping[tuple[str, ...], Sequence[Span]],
    start: datetime,
    end: datetime,
    usd: Callable[[Decimal, str], Decimal | None],
    *,
    small: bool = False,
) -> Figure:
    """Draws how prices went, in USD, each as a stair; what was not sold for a while has a gap.

    Args:
        trends: prices by what they are of, oldest first.
        start: where the time begins.
        end: where it ends.
        usd: converts an amount of a currency.
        small: for a page.
    """
    figure, axes = _empty("USD per hour", _SMALL if small else _LARGE)
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
    axes.xaxis.set_major_formatter(_DATES.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    _finish(figure, axes, columns=1 if small else 2)
    return figure


def draw_ways(
    ways: Sequence[Way], name: Callable[[Offer], str], *, asked: Decimal | None = None, small: bool = False
) -> Figure:
    """Draws what a month costs in each way of paying, by its hours; dots where another way gets cheaper.

    Args:
        ways: the ways of paying in one place.
        name: returns the name of a way.
        asked: the hours of a month to mark.
        small: for a page.
    """
    figure, axes = _empty("USD per month and machine", _SMALL if small else _LARGE)
    month = float(HOURS_PER_MONTH)
    for way in ways:
        costs = [float(way.cost(hours)) for hours in (Decimal(0), HOURS_PER_MONTH)]
        axes.plot([0, month], costs, label=name(way.offer), linewidth=1.5)
    for stretch in cheapest_by_hours(ways)[:-1]:
        cost = float(stretch.way.cost(stretch.end))
        axes.plot([float(stretch.end)], [cost], "o", color=COLOURS["ink"][0], markersize=4)
        axes.annotate(
            f"{stretch.end:.0f} h",
            (float(stretch.end), cost),
            (4, -12),
            textcoords="offset points",
            color=COLOURS["ink"][0],
        )
    if asked is not None:
        axes.axvline(float(asked), color=COLOURS["muted"][0], linestyle="--", linewidth=1)
        axes.annotate(
            f"{number_text(asked)} h asked",
            (float(asked), 1),
            (4 if asked < HOURS_PER_MONTH / 2 else -4, -10),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if asked < HOURS_PER_MONTH / 2 else "right",
            color=COLOURS["muted"][0],
        )
    axes.set_xlim(0, month)
    axes.set_xlabel("hours per month")
    _finish(figure, axes, columns=2)
    return figure


def save(figure: Any, file: Path) -> None:
    """Writes a figure: SVG or PNG, by the file's name."""
    with _MATPLOTLIB.rc_context(_TEXT_AS_TEXT), writing("the plot", file):
        figure.savefig(file, dpi=150)


def svg(figure: Any) -> str:
    """A figure as an element of a page, in its colours and font; the same figure gives the same text."""
    text = io.StringIO()
    with _MATPLOTLIB.rc_context(_TEXT_AS_TEXT):
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    written = text.getvalue()
    written = re.sub(r" font-family: [^;\"]*;?", "", written[written.index("<svg") :])
    for role, (light, _) in COLOURS.items():
        written = written.replace(light, f"var(--{role})")
    return re.sub(r"<metadata>.*?</metadata>", "", written, flags=re.DOTALL)


def _empty(unit: str, size: tuple[float, float]) -> tuple[Figure, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes: Any = figure.subplots()  # pyright: ignore[reportUnknownMemberType]
    axes.set_prop_cycle(color=_LINES)
    axes.set_title(unit, loc="left", fontsize="medium", color=COLOURS["muted"][0])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(COLOURS["muted"][0])
    axes.tick_params(length=0, colors=COLOURS["muted"][0])
    axes.xaxis.label.set_color(COLOURS["muted"][0])
    return figure, axes


def _finish(figure: Any, axes: Any, *, columns: int) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("${x:,.10g}")
    axes.grid(visible=True, axis="y", color=COLOURS["grid"][0], linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(
        loc="outside lower left",
        ncols=columns,
        fontsize="medium",
        frameon=False,
        labelcolor=COLOURS["ink"][0],
    )
