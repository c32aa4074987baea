"""``gpucloud spend``: what boxes have cost, with those that are gone."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.logs import SINCE, read_since
from gpucloud.cli.market import show_table
from gpucloud.cli.options import RunId
from gpucloud.cli.output import duration_text, time_text, utc_now
from gpucloud.costs.focus import COLUMNS, rows
from gpucloud.costs.spend import PARTS, Charge, Spend
from gpucloud.errors import UsageError
from gpucloud_pricing import format_money


def spend(
    app: App,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Leave out earlier costs: {SINCE}.", metavar="TIME")
    ] = None,
    run_id: RunId = None,
    focus: Annotated[
        bool, typer.Option("--focus", help="Print comma-separated values in the FOCUS 1.2 format.")
    ] = False,
) -> None:
    """Show what boxes have cost, with those that are gone, at the prices of their launch.

    The costs are computed from the journal, not from invoices: discounts and data transfer are not included.
    """
    if focus and app.output.json:
        raise UsageError("--focus and --json contradict each other")
    spent = app.client.spend(since=None if since is None else read_since(since, utc_now()), run_id=run_id)
    if focus:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(spent.charges))
    elif app.output.json:
        app.output.document("spend", spent.document())
    elif spent.boxes:
        _show(app, spent)
    else:
        app.output.say("No box has cost anything yet.")


def _show(app: App, spent: Spend) -> None:
    table: list[tuple[object, ...]] = []
    for each in spent.boxes:
        box, found = each.box, each.charges
        where = f"{box.place.cloud} {box.place.region}" if box.place else None
        parts = [_part_text(found, part) for part in PARTS]
        times = (time_text(found[0].start), duration_text(found[-1].end - found[0].start))
        kind, paid = (box.offer.instance_type, box.offer.purchase) if box.offer else (None, "?")
        table.append((box.name, *times, where, kind, paid.replace("_", "-"), *parts))
    names = ("BOX", "FROM", "FOR", "WHERE", "TYPE", "PAID AS", *(part.upper() for part in PARTS))
    columns: dict[str, Sequence[object]] = dict(zip(names, zip(*table, strict=True), strict=True))
    show_table(app.output, columns, right=("FOR", *names[-3:]), optional=("PAID AS", "TYPE", "FROM"))
    sums = " and ".join(format_money(total.amount, total.currency) for total in spent.totals if total.amount)
    app.output.say(
        f"In all: {sums or 'nothing'}, at the prices of the launch; discounts and traffic are not in it."
    )
    if any(charge.amount is None for charge in spent.charges):
        app.output.say("?: no price is known; it is left out of the sum.")


def _part_text(found: Sequence[Charge], part: str) -> str:
    """What one part has cost in all months; ``?`` where that is not known."""
    of_part = [charge for charge in found if charge.part == part]
    amounts = [charge.amount for charge in of_part]
    if None in amounts:
        return "?"
    return format_money(sum(filter(None, amounts), Decimal(0)), of_part[0].currency)
