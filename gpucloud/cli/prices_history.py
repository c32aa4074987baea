"""``gpucloud prices history`` and ``diff``: the history of prices, as stored by refreshes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.options import SpecFlags
from gpucloud.cli.output import time_text, utc_now
from gpucloud.errors import UsageError
from gpucloud.market import cells
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import counted
from gpucloud_pricing import format_money
from gpucloud_pricing.price_trend import moments, sparkline, trend

if TYPE_CHECKING:
    from gpucloud.market.history import PriceTrends
    from gpucloud_pricing.history import Change

ROWS = 20
"""How many prices a table shows by default."""
POINTS = 24
"""How many moments a sparkline shows."""


@lists("series", name="instance_type")
def history(
    app: App,
    spec: SpecFlags,
    since: Annotated[
        str | None, typer.Option("--since", help="Leave out older prices: 30d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", min=1, help="Maximum number of prices, the cheapest now.", metavar="N"),
    ] = ROWS,
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            "--plot", help="Also plot the prices: FILE.svg or FILE.png; repeatable.", metavar="FILE"
        ),
    ] = None,
) -> None:
    """Show the history of prices since the first refresh. Makes no call.

    Examples:
        gpucloud prices history --gpu A100:8 --spot
        gpucloud prices history --gpu T4 --since 30d
    """
    age = shown.read_age(since, flag="--since")
    plots = shown.load_plots("--plot", plot) if plot else None
    now = utc_now()
    found = app.client.prices.history(spec, since=None if age is None else now - age, limit=limit)
    if app.output.json:
        app.output.document("prices-history", found.document())
    else:
        _show(app, found, now)
    if plot and plots is not None:
        figure = plots.draw_trends(found.series, found.since, now, app.client.catalog.shipped.usd)
        shown.draw_into(app.output, figure, plot, plots)


def _show(app: App, found: PriceTrends, end: datetime) -> None:
    at = moments(found.since, end, POINTS)
    rows: list[tuple[object, ...]] = []
    for spans in found.series.values():
        price = spans[-1].price
        values = trend(spans, at)
        known = [value for value in values if value is not None] or [price.amount]
        within = [span.price.amount for span in found.within(spans)]
        rows.append(
            (
                format_money(price.amount, price.currency),
                format_money(min(within), price.currency),
                format_money(max(within), price.currency),
                _percent(known[0], price.amount),
                sparkline(values),
                f"{price.cloud} {price.zone or price.region}",
                price.instance_type,
                cells.paid_cell(price.purchase, price.terms),
            )
        )
    names = ("NOW", "LOWEST", "HIGHEST", "CHANGE", "TREND", "WHERE", "TYPE", "PAID AS")
    app.output.table(Table.of_rows(names, rows, right=names[:4], optional=("PAID AS", "LOWEST", "HIGHEST")))
    app.output.say(
        f"Per hour, from {time_text(found.since)} to {time_text(end)}; each trend has its own scale."
    )
    if found.known > len(found.series):
        app.output.say(
            f"The {len(found.series)} cheapest of {found.known} prices; all: --limit {found.known}"
        )


def _percent(before: Decimal, after: Decimal) -> str:
    return f"{(after / before - 1) * 100:+.1f} %"


@lists("changes", name="instance_type")
def diff(
    app: App,
    spec: SpecFlags,
    before: Annotated[
        str, typer.Argument(help="A day or a time: 2026-11-01, 2026-11-01T12:00:00Z.", metavar="BEFORE")
    ],
    after: Annotated[
        str | None, typer.Argument(help="A later day or time. Default: now.", metavar="AFTER")
    ] = None,
) -> None:
    """Show which prices changed between two moments. Makes no call.

    Examples:
        gpucloud prices diff 2026-11-01
        gpucloud prices diff 2026-10-01 2026-11-01 --gpu A100
    """
    found = app.client.prices.changes(
        spec, before=_moment(before), after=None if after is None else _moment(after)
    )
    if app.output.json:
        app.output.document("prices-diff", found.document())
        return
    _show_changes(app, found.changes)
    differ = "differs" if len(found.changes) == 1 else "differ"
    app.output.say(f"{len(found.changes)} of {counted(found.compared, 'price')} {differ}.")


def _moment(text: str) -> datetime:
    """A moment; a day begins at midnight in UTC.

    Raises:
        UsageError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is neither a day nor a time; allowed: 2026-11-01, 2026-11-01T12:00Z"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _show_changes(app: App, changes: Sequence[Change]) -> None:
    rows: list[tuple[object, ...]] = []
    for change in changes:
        before, after, price = change.before, change.after, change.price
        rows.append(
            (
                before and format_money(before.amount, before.currency),
                after and format_money(after.amount, after.currency),
                _percent(before.amount, after.amount) if before and after else "gone" if before else "new",
                f"{price.cloud} {price.zone or price.region}",
                price.instance_type,
                cells.paid_cell(price.purchase, price.terms),
            )
        )
    names = ("BEFORE", "AFTER", "CHANGE", "WHERE", "TYPE", "PAID AS")
    if rows:
        app.output.table(Table.of_rows(names, rows, right=names[:3]))
