"""Draws into files, with matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from gpucloud_pricing.history import Span


def draw_courses(
    file: Path,
    courses: Mapping[tuple[str, ...], Sequence[Span]],
    start: datetime,
    end: datetime,
    usd: Callable[[Decimal, str], Decimal | None],
) -> None:
    """Draws how prices went, in USD, each as a stair; what was not sold for a while has a gap.

    Args:
        file: SVG or PNG, by its name.
        courses: prices by what they are of, oldest first.
        start: where the time begins.
        end: where it ends.
        usd: converts an amount of a currency.
    """
    figure: Any = Figure(figsize=(10, 6), layout="constrained")
    axes: Any = figure.subplots()
    for series, spans in courses.items():
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
    axes.set_ylim(bottom=0)
    axes.set_ylabel("USD per hour")
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    figure.autofmt_xdate()
    figure.savefig(file, dpi=150)
