"""``gpucloud prices history`` and ``diff``: how prices went, from what refreshes have kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import time_text, utc_now
from gpucloud.errors import UsageError
from gpucloud.market.search import way_text
from gpucloud.spec.model import Spec
from gpucloud_pricing import format_money
from gpucloud_pricing.price_course import course, moments, sparkline

if TYPE_CHECKING:
    from gpucloud.market.history import PriceCourses
    from gpucloud_pricing.history import Change

ROWS = 20
"""How many things a table shows unless ``--limit`` says more."""
POINTS = 24
"""How many moments a line of characters shows."""


@takes_spec
def history(
    app: App,
    spec: Spec,
    since: Annotated[
        str | None, typer.Option("--since", help="Only the last 30d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="At most this many, the cheapest now.", metavar="N")
    ] = ROWS,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw it: FILE.svg or FILE.png.", metavar="FILE")
    ] = None,
) -> None:
    """Show how prices went since they were first asked for. Asks no cloud."""
    age = shown.read_age(since, flag="--since")
    plots = None if plot is None else shown.load_plots("--plot", plot)
    now = utc_now()
    found = app.client.prices.history(spec, since=None if age is None else now - age, limit=limit)
    if app.output.json:
        app.output.document("prices-history", found.document())
    else:
        _show(app, found, now)
    if plot is not None and plots is not None:
        plots.save(plots.draw_courses(found.series, found.since, now, app.client.catalog.shipped.usd), plot)
        app.output.say(f"Drawn: {plot}")


def _show(app: App, found: PriceCourses, end: datetime) -> None:
    at = moments(found.since, end, POINTS)
    rows: list[tuple[object, ...]] = []
    for spans in found.series.values():
        price = spans[-1].price
        values = course(spans, at)
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
                way_text(price.purchase, price.terms),
            )
        )
    names = ("NOW", "LOWEST", "HIGHEST", "CHANGE", "COURSE", "WHERE", "TYPE", "PAID AS")
    columns: dict[str, Sequence[object]] = dict(zip(names, zip(*rows, strict=True), strict=True))
    shown.show_table(app.output, columns, right=names[:4], optional=("PAID AS", "LOWEST", "HIGHEST"))
    app.output.say(
        f"Per hour, from {time_text(found.since)} to {time_text(end)}; each course has its own scale."
    )


def _percent(before: Decimal, after: Decimal) -> str:
    return f"{(after / before - 1) * 100:+.1f} %"


@takes_spec
def diff(
    app: App,
    spec: Spec,
    before: Annotated[str, typer.Argument(help="A day or a moment: 2026-11-01, 2026-11-01T12:00:00Z.")],
    after: Annotated[str | None, typer.Argument(help="Likewise; now if absent.")] = None,
) -> None:
    """Show which prices were others at two moments. Asks no cloud."""
    found = app.client.prices.changes(
        spec, before=_moment(before), after=None if after is None else _moment(after)
    )
    if app.output.json:
        app.output.document("prices-diff", found.document())
        return
    _show_changes(app, found.changes)
    app.output.say(f"{len(found.changes)} of {found.compared} prices differ.")


def _moment(text: str) -> datetime:
    """A moment; a day begins at midnight in UTC.

    Raises:
        UsageError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is neither a day nor a moment: 2026-11-01, 2026-11-01T12:00Z") from None
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
                way_text(price.purchase, price.terms),
            )
        )
    names = ("BEFORE", "AFTER", "CHANGE", "WHERE", "TYPE", "PAID AS")
    if rows:
        columns: dict[str, Sequence[object]] = dict(zip(names, zip(*rows, strict=True), strict=True))
        shown.show_table(app.output, columns, right=names[:3])
