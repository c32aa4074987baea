"""``gpucloud prices``: what is known, how old it is and where it comes from; its commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.prices_history import diff, history
from gpucloud.cli.prices_refresh import refresh
from gpucloud.cli.prices_watch import watch
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import counted

if TYPE_CHECKING:
    from gpucloud.market.overview import PriceOverview


@lists("groups", name="source")
def show(app: App) -> None:
    """Show how many prices are known, how old they are and their sources. Makes no call.

    Examples:
        gpucloud prices show
        gpucloud prices show --json
    """
    known = app.client.prices.overview()
    if app.output.json:
        app.output.document("prices", known.document())
        return
    _show_groups(app, known)
    app.output.line("")
    _show_tariffs(app, known)
    say, line = app.output.say, app.output.sentence
    line("")
    for source in known.sources:
        line(f"{source.id}: {source.repository} {source.path} ({source.licence})")
    for rate in known.rates:
        line(f"1 {rate.base} = {rate.rate} {rate.quote}, {rate.as_of} ({rate.source})")
    refreshed = f"{known.live} from refreshes here, the rest" if known.live else "all"
    say(f"{counted(known.prices, 'price')}, {refreshed} from the snapshot in this version of gpucloud.")
    for reason, count in known.set_aside.items():
        say(f"Refused at the last refresh: {count} × {reason}")
    say("Next: gpucloud prices refresh")


def _show_groups(app: App, known: PriceOverview) -> None:
    groups = known.groups
    columns: dict[str, Sequence[object]] = {
        "CLOUD": [group.cloud for group in groups],
        "PAID AS": [group.purchase.replace("_", "-") for group in groups],
        "PRICES": [group.prices for group in groups],
        "REGIONS": [group.regions for group in groups],
        "TYPES": [group.types for group in groups],
        "PRICES OF": [group.newest for group in groups],
        "DAYS OLD": [group.age_days for group in groups],
        "SOURCE": [group.source for group in groups],
    }
    numbers = ("TYPES", "REGIONS", "DAYS OLD")
    app.output.table(Table(columns, right=("PRICES", *numbers), optional=numbers))


def _show_tariffs(app: App, known: PriceOverview) -> None:
    groups = known.tariffs
    columns: dict[str, Sequence[object]] = {
        "CLOUD": [group.cloud for group in groups],
        "TARIFF": [group.kind.replace("_", "-") for group in groups],
        "TARIFFS": [group.tariffs for group in groups],
        "REGIONS": [group.regions or "all" for group in groups],
        "TARIFFS OF": [group.newest or "no date" for group in groups],
        "SOURCE": [group.source for group in groups],
    }
    app.output.table(Table(columns, right=("TARIFFS", "REGIONS"), optional=("REGIONS",)))


COMMANDS = {"show": show, "refresh": refresh, "history": history, "diff": diff, "watch": watch}
