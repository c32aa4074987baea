"""``gpucloud prices history`` and ``diff``: how prices went, from what refreshes have kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import money_text, time_text, utc_now
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Demand, InstanceType, Market, Price
from gpucloud_pricing.places import admits, region_names
from gpucloud_pricing.price_course import course, moments, sparkline

if TYPE_CHECKING:
    from gpucloud_pricing.history import PriceHistory, Span

ROWS = 20
"""How many things a table shows unless ``--limit`` says more."""
POINTS = 24
"""How many moments a line of characters shows."""

Series = tuple[str, str, str, str, str, str]
"""What has one price at a time: cloud, region, zone, type, way of paying, terms."""


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
    market = app.client.catalog.shipped
    with app.client.catalog.history() as kept:
        courses = _cheapest(market, kept, spec.demand(), limit)
    first = min(spans[0].since for spans in courses.values())
    start = first if age is None else max(first, utc_now() - age)
    if app.output.json:
        app.output.document(
            "prices-history",
            {"since": time_text(start), "series": [_document(spans, start) for spans in courses.values()]},
        )
    else:
        _show(app, courses, start)
    if plot is not None and plots is not None:
        plots.save(plots.draw_courses(courses, start, utc_now(), market.usd), plot)
        app.output.say(f"Drawn: {plot}")


def _kinds(market: Market, demand: Demand) -> list[InstanceType]:
    from gpucloud.market.catalog import check_places

    check_places(market, demand)
    return [kind for kind in market.with_gpus(demand.gpus) if admits(demand.clouds, frozenset({kind.cloud}))]


def _regions(market: Market, demand: Demand) -> list[str] | None:
    if not demand.regions:
        return None
    return sorted(
        {region.name for region in market.regions.values() if admits(demand.regions, region_names(region))}
    )


def _cheapest(market: Market, kept: PriceHistory, demand: Demand, limit: int) -> dict[Series, list[Span]]:
    """The things that are cheapest now, each with its prices, oldest first.

    Raises:
        NoOfferError: none has ever been asked for.
    """
    in_force = kept.spans(
        _kinds(market, demand),
        purchases=demand.purchases,
        regions=_regions(market, demand),
        current=True,
    )
    if not in_force:
        raise NoOfferError(
            "no price of this kind has been asked for yet", hint="ask now: gpucloud prices refresh"
        )
    in_force.sort(key=lambda span: market.usd(span.price.amount, span.price.currency) or Decimal("Infinity"))
    found: dict[Series, list[Span]] = {}
    for span in in_force[:limit]:
        price = span.price
        kind = market.types[price.cloud, price.instance_type]
        spans = kept.spans((kind,), purchases=(price.purchase,), regions=(price.region,))
        found[series_of(price)] = [each for each in spans if series_of(each.price) == series_of(price)]
    return found


def series_of(price: Price) -> Series:
    """What a price is of."""
    where = (price.cloud, price.region, price.zone or "", price.instance_type)
    return (*where, price.purchase, price.terms)


def _document(spans: Sequence[Span], start: datetime) -> dict[str, Any]:
    return {
        **shown.price_document(spans[-1].price),
        "spans": [
            {
                "amount": span.price.money.document(),
                "since": time_text(span.since),
                "seen": time_text(span.seen),
                "ended": span.ended and time_text(span.ended),
            }
            for span in spans
            if span.ended is None or span.ended >= start
        ],
    }


def _show(app: App, courses: Mapping[Series, Sequence[Span]], start: datetime) -> None:
    end = utc_now()
    at = moments(start, end, POINTS)
    rows: list[tuple[object, ...]] = []
    for spans in courses.values():
        price = spans[-1].price
        values = course(spans, at)
        known = [value for value in values if value is not None] or [price.amount]
        within = [span.price.amount for span in spans if span.ended is None or span.ended >= start]
        rows.append(
            (
                money_text(price.amount, price.currency),
                money_text(min(within), price.currency),
                money_text(max(within), price.currency),
                _percent(known[0], price.amount),
                sparkline(values),
                f"{price.cloud} {price.zone or price.region}",
                price.instance_type,
                shown.way_text(price.purchase, price.terms),
            )
        )
    names = ("NOW", "LOWEST", "HIGHEST", "CHANGE", "COURSE", "WHERE", "TYPE", "PAID AS")
    columns: dict[str, Sequence[object]] = dict(zip(names, zip(*rows, strict=True), strict=True))
    shown.show_table(app.output, columns, right=names[:4], optional=("PAID AS", "LOWEST", "HIGHEST"))
    app.output.say(f"Per hour, from {time_text(start)} to {time_text(end)}; each course has its own scale.")


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
    first, last = _moment(before), utc_now() if after is None else _moment(after)
    if first >= last:
        raise UsageError(f"{before} is not before {after or 'now'}")
    market = app.client.catalog.shipped
    demand = spec.demand()
    purchases = demand.purchases if "purchase" in spec.model_fields_set else None
    kinds = _kinds(market, demand if spec.wants_gpu else Demand(clouds=demand.clouds))
    with app.client.catalog.history() as kept:
        then, today = (
            {
                series_of(span.price): span.price
                for span in kept.spans(
                    kinds, purchases=purchases, regions=_regions(market, demand), at=moment
                )
            }
            for moment in (first, last)
        )
    changes = [
        (then.get(series), today.get(series))
        for series in sorted(then.keys() | today.keys())
        if _amount(then.get(series)) != _amount(today.get(series))
    ]
    changes.sort(key=_weight, reverse=True)
    if app.output.json:
        app.output.document(
            "prices-diff",
            {
                "from": time_text(first),
                "to": time_text(last),
                "changes": [
                    {
                        **shown.price_document(next(filter(None, change[::-1]))),
                        "before": change[0] and change[0].money.document(),
                        "after": change[1] and change[1].money.document(),
                    }
                    for change in changes
                ],
            },
        )
        return
    _show_changes(app, changes)
    app.output.say(f"{len(changes)} of {len(then.keys() | today.keys())} prices are others.")


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


def _amount(price: Price | None) -> tuple[Decimal, Decimal] | None:
    return None if price is None else (price.amount, price.upfront)


def _weight(change: tuple[Price | None, Price | None]) -> Decimal:
    """By how much a price moved, as a share of what it was; what came or went counts most."""
    before, after = change
    return Decimal("Infinity") if before is None or after is None else abs(after.amount / before.amount - 1)


def _show_changes(app: App, changes: Iterable[tuple[Price | None, Price | None]]) -> None:
    rows: list[tuple[object, ...]] = []
    for before, after in changes:
        price = after or before
        if price is None:
            continue
        rows.append(
            (
                before and money_text(before.amount, before.currency),
                after and money_text(after.amount, after.currency),
                _percent(before.amount, after.amount) if before and after else "gone" if before else "new",
                f"{price.cloud} {price.zone or price.region}",
                price.instance_type,
                shown.way_text(price.purchase, price.terms),
            )
        )
    names = ("BEFORE", "AFTER", "CHANGE", "WHERE", "TYPE", "PAID AS")
    if rows:
        columns: dict[str, Sequence[object]] = dict(zip(names, zip(*rows, strict=True), strict=True))
        shown.show_table(app.output, columns, right=names[:3])
