"""``gpucloud prices refresh``: asks the clouds for their prices."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.cli.market import price_document, show_table
from gpucloud.cli.options import takes_spec
from gpucloud.errors import NoOfferError
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.places import admits, region_names

if TYPE_CHECKING:
    from gpucloud.market.refresh import Refreshed, Wanted
    from gpucloud_pricing.history import Change

SHOWN = 10
"""How many prices that moved are shown one by one."""


@takes_spec
def refresh(
    app: App,
    spec: Spec,
    anew: Annotated[
        bool, typer.Option("--anew", help="Ask everything, also what was just answered before a break.")
    ] = False,
) -> int:
    """Ask the clouds for their prices, all or those that --gpu, --cloud and --region name. Buys nothing.

    What a cloud does not answer stays as old as it was. A refresh that was cut off goes on where it stopped.
    """
    from gpucloud.market.refresh import refresh as ask

    market = app.client.catalog.shipped
    with app.working(quiet=True) as (client, _), client.operation() as context:
        wanted = wanted_of(market, spec, context.clouds.names())
        with app.client.catalog.history() as history, _progress(app) as progress:
            results = ask(context, market, history, wanted, anew=anew, progress=progress)
    if app.output.json:
        documents = [_document(name, result) for name, result in sorted(results.items())]
        app.output.document("prices-refresh", {"clouds": documents})
    else:
        _show(app, results)
    return _code(results)


def wanted_of(market: Market, spec: Spec, clouds: Sequence[str]) -> dict[str, Wanted]:
    """What to ask each cloud that the spec admits."""
    from gpucloud.market.catalog import check_places
    from gpucloud.market.refresh import Wanted

    demand = spec.demand()
    check_places(market, demand)
    types: dict[str, list[str]] = defaultdict(list)
    for kind in market.with_gpus(demand.gpus if spec.wants_gpu else ()):
        if kind.cloud in clouds and admits(demand.clouds, frozenset({kind.cloud})):
            types[kind.cloud].append(kind.name)
    if not types:
        raise NoOfferError("no cloud that can be asked has such a GPU", hint="see all: gpucloud offers")
    regions = {
        cloud: [
            region.name
            for region in market.regions.values()
            if region.cloud == cloud and admits(demand.regions, region_names(region))
        ]
        for cloud in types
    }
    return {
        cloud: Wanted(instance_types=sorted(names), regions=regions[cloud] if demand.regions else None)
        for cloud, names in types.items()
        if regions[cloud]
    }


@contextmanager
def _progress(app: App) -> Generator[Callable[[str, int, int], None]]:
    """Bars on a terminal; a line at each tenth elsewhere."""
    if not app.output.styled(sys.stderr):
        tenths: Counter[str] = Counter()

        def tell(cloud: str, answered: int, asked: int) -> None:
            tenth = answered * 10 // asked
            if tenth > tenths[cloud]:
                tenths[cloud] = tenth
                app.output.say(f"{cloud}: {answered} of {asked} inquiries answered")

        yield tell
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(cloud: str, answered: int, asked: int) -> None:
            if cloud not in tasks:
                tasks[cloud] = bars.add_task(cloud, total=asked)
            bars.update(tasks[cloud], completed=answered)

        yield advance


def _document(cloud: str, result: Refreshed) -> dict[str, Any]:
    return {
        "cloud": cloud,
        "inquiries": result.asked,
        "answered": result.answered,
        "resumed": result.skipped,
        "prices": result.prices,
        "new": result.new,
        "moved": [_change_document(change) for change in result.moved],
        "gone": result.gone,
        "set_aside": [asdict(each) for each in result.set_aside],
        "failures": [
            {
                "inquiry": name,
                "class": str(error.error_class),
                "message": error.message,
                "code": error.code,
                "request_id": error.request_id,
            }
            for name, error in result.failures.items()
        ],
        "left_out": result.absent,
    }


def _change_document(change: Change) -> dict[str, Any]:
    price = change.after or change.before
    assert price is not None  # noqa: S101  (a change is of something)
    return {
        **price_document(price),
        "before": change.before and change.before.money.document(),
        "after": change.after and change.after.money.document(),
    }


def _show(app: App, results: Mapping[str, Refreshed]) -> None:
    rows = [(name, result) for name, result in sorted(results.items()) if result.absent is None]
    columns: dict[str, list[object]] = {
        "CLOUD": [name for name, _ in rows],
        "ANSWERED": [f"{result.answered} of {result.asked}" for _, result in rows],
        "PRICES": [result.prices for _, result in rows],
        "NEW": [result.new for _, result in rows],
        "MOVED": [len(result.moved) for _, result in rows],
        "GONE": [result.gone for _, result in rows],
        "SET ASIDE": [len(result.set_aside) for _, result in rows],
    }
    if rows:
        show_table(app.output, columns, right=list(columns)[1:])
    say = app.output.say
    moved = [change for _, result in rows for change in result.moved]
    for change in sorted(moved, key=_weight, reverse=True)[:SHOWN]:
        say(f"Moved: {_change_text(change)}")
    if len(moved) > SHOWN:
        say(f"{len(moved) - SHOWN} more moved: gpucloud prices diff")
    for name, result in rows:
        if result.skipped:
            say(f"{name}: {result.skipped} inquiries had been answered before the last refresh was cut off.")
        for reason, count in Counter(each.reason for each in result.set_aside).most_common():
            say(f"Set aside: {name}: {count} × {reason}")
        for inquiry, error in result.failures.items():
            say(f"Not answered: {name}, {inquiry}: {error.message}")
    for name, result in sorted(results.items()):
        if result.absent is not None:
            say(f"Left out: {name}: {result.absent}")


def _weight(change: Change) -> float:
    """By how much a price moved, as a share of what it was."""
    if change.before is None or change.after is None:
        return 0.0
    return abs(float(change.after.amount / change.before.amount) - 1)


def _change_text(change: Change) -> str:
    price = change.after or change.before
    assert price is not None  # noqa: S101  (a change is of something)
    words = (price.cloud, price.zone or price.region, price.instance_type, price.purchase, price.terms)
    was = change.before and f"{change.before.amount.normalize():f}"
    now_ = change.after and f"{change.after.amount.normalize():f}"
    return f"{' '.join(filter(None, words))}: {was or 'not sold'} → {now_ or 'not sold'} {price.currency}/h"


def _code(results: Mapping[str, Refreshed]) -> int:
    """The first failure's; with no cloud to ask, that of missing credentials."""
    failures = [error for result in results.values() for error in result.failures.values()]
    if failures:
        return failures[0].exit_code
    return 4 if all(result.absent is not None for result in results.values()) else 0
