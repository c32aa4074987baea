"""``gpucloud prices refresh``: asks the clouds for their prices."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.options import SpecFlags
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import counted
from gpucloud.runtime.events import Event, PricesAnswered, Sink

if TYPE_CHECKING:
    from gpucloud.market.documents import PricesRefreshDocument
    from gpucloud.market.refresh import Refreshed
    from gpucloud_pricing.history import Change
    from gpucloud_pricing.tariff_history import TariffChange

SHOWN = 10
"""How many changed prices to show one by one."""


@lists("clouds", name="cloud")
def refresh(
    app: App,
    spec: SpecFlags,
    anew: Annotated[
        bool, typer.Option("--anew", help="Do not resume an interrupted refresh; send every query again.")
    ] = False,
) -> int:
    """Refresh prices from the clouds: all, or those of --gpu, --cloud and --region. Buys nothing.

    Tariffs (disks, addresses, data transfer, snapshots) and the exchange rate are refreshed too.

    If a cloud does not answer, its earlier prices stay. An interrupted refresh is resumed.

    Examples:
        gpucloud prices refresh
        gpucloud prices refresh --gpu A100 --cloud aws
    """
    with app.working(quiet=True) as (client, timeline), _progress(app) as show:

        def on_event(event: Event) -> None:
            timeline.show(event)
            show(event)

        client.on_event = on_event
        results = client.prices.refresh(spec, anew=anew)
    if app.output.json:
        answer: PricesRefreshDocument = {
            "clouds": [{"cloud": name, **result.document()} for name, result in sorted(results.items())]
        }
        app.output.document("prices-refresh", answer)
    else:
        _show(app, results)
    return _code(results)


@contextmanager
def _progress(app: App) -> Generator[Sink]:
    """Bars on a terminal; a line at each tenth elsewhere."""
    if not app.output.styled(sys.stderr):
        tenths: Counter[str] = Counter()

        def tell(event: Event) -> None:
            if isinstance(event, PricesAnswered) and event.answered * 10 // event.asked > tenths[event.cloud]:
                tenths[event.cloud] = event.answered * 10 // event.asked
                app.output.say(event.text)

        yield tell
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(event: Event) -> None:
            if isinstance(event, PricesAnswered):
                if event.cloud not in tasks:
                    tasks[event.cloud] = bars.add_task(event.cloud, total=event.asked)
                bars.update(tasks[event.cloud], completed=event.answered)

        yield advance


def _show(app: App, results: Mapping[str, Refreshed]) -> None:
    rows = [(name, result) for name, result in sorted(results.items()) if result.absent is None]
    columns: dict[str, list[object]] = {
        "CLOUD": [name for name, _ in rows],
        "ANSWERED": [f"{result.answered} of {result.asked}" for _, result in rows],
        "PRICES": [result.prices for _, result in rows],
        "NEW": [result.new for _, result in rows],
        "MOVED": [len(result.moved) for _, result in rows],
        "GONE": [result.gone for _, result in rows],
        "TARIFFS": [result.tariffs for _, result in rows],
        "SET ASIDE": [len(result.set_aside) for _, result in rows],
    }
    if rows:
        app.output.table(Table(columns, right=list(columns)[1:]))
    say = app.output.say
    moved = [change for _, result in rows for change in result.moved]
    for change in sorted(moved, key=lambda change: change.share, reverse=True)[:SHOWN]:
        say(f"Moved: {_change_text(change)}")
    if len(moved) > SHOWN:
        say(f"{len(moved) - SHOWN} more moved: gpucloud prices diff")
    moved_tariffs = [change for _, result in rows for change in result.moved_tariffs]
    for tariff in moved_tariffs[:SHOWN]:
        say(f"Moved: {_tariff_change_text(tariff)}")
    if len(moved_tariffs) > SHOWN:
        say(f"{len(moved_tariffs) - SHOWN} more tariffs moved: all are in --json")
    for name, result in rows:
        if result.skipped:
            say(f"{name}: {counted(result.skipped, 'answer')} came from the interrupted refresh before.")
        for reason, count in Counter(each.reason for each in result.set_aside).most_common():
            say(f"Set aside: {name}: {count} × {reason}")
        for inquiry, error in result.failures.items():
            say(f"Not answered: {name}, {inquiry}: {error.message}")
    for name, result in sorted(results.items()):
        if result.absent is not None:
            say(f"Left out: {name}: {result.absent}")


def _tariff_change_text(change: TariffChange) -> str:
    before, after = change.before, change.after
    words = (after.cloud, after.region, after.kind.replace("_", "-"), after.to and f"to {after.to}")
    was, is_ = (f"{each.amount.normalize():f} {each.currency}" for each in (before, after))
    return f"{' '.join(filter(None, words))}: {was} → {is_} per {after.unit.replace('_', '-')}"


def _change_text(change: Change) -> str:
    price = change.price
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
