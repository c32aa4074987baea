"""``gpucloud spend``: what boxes have cost, with those that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.boxes import at_most_text
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.logs import SINCE, read_since
from gpucloud.cli.options import RunId
from gpucloud.cli.output import utc_now
from gpucloud.cli.runs import store_text
from gpucloud.costs.grouping import KEYS, TAG, ChargeGroup, grouped, read_keys, unknown_of
from gpucloud.costs.periods import Granularity
from gpucloud.costs.spend import Spend, limit_mark
from gpucloud.errors import UsageError
from gpucloud.journal.records import Snapshot
from gpucloud.rendering.table import Table
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.stored import RunStore
    from gpucloud.cli.output import Output
    from gpucloud.costs.anomalies import UnusualDay
    from gpucloud.costs.documents import SpendDocument


@lists("boxes", name="name")
def spend(
    app: App,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Leave out earlier costs: {SINCE}.", metavar="TIME")
    ] = None,
    run_id: RunId = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help=f"Add up by {', '.join(KEYS)} or {TAG}NAME; several with commas.",
            metavar="KEYS",
        ),
    ] = None,
    all_owners: Annotated[
        bool, typer.Option("--all-owners", help="Include the boxes of other owners in this journal.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    focus: Annotated[
        bool,
        typer.Option("--focus", help="Print FOCUS 1.2: CSV, one row per resource and charge period."),
    ] = False,
    granularity: Annotated[
        Granularity | None,
        typer.Option("--granularity", help="With --focus: the charge period. [default: day]"),
    ] = None,
    stores: Annotated[
        bool,
        typer.Option(
            "--stores", help="Ask the stores of your runs what they hold, and say its monthly cost."
        ),
    ] = False,
) -> None:
    """Show what boxes have cost, with those that are gone, at the prices of their launch.

    The costs are computed from the journal, not from invoices: discounts and data transfer are not included.
    Periods and months are in UTC.

    Examples:
        gpucloud spend --since 30d
        gpucloud spend --by month,cloud --csv
    """
    _refuse_contradictions({"--json": app.output.json, "--csv": csv, "--focus": focus})
    if focus and by is not None:
        raise UsageError("--focus and --by contradict each other: FOCUS has one row per resource")
    if granularity is not None and not focus:
        raise UsageError("--granularity needs --focus")
    keys = None if by is None else read_keys(by)
    first = None if since is None else read_since(since, utc_now())
    if focus:
        period = granularity or Granularity.DAY
        rows = app.client.costs.focus(since=first, run_id=run_id, all_owners=all_owners, granularity=period)
        _write_focus(app, rows)
        return
    spent = app.client.costs.spend(since=first, run_id=run_id, all_owners=all_owners)
    _answer(app, spent, keys, app.client.runs.stores(run_id=run_id) if stores else None, csv=csv)


def _answer(
    app: App, spent: Spend, keys: Sequence[str] | None, held: Sequence[RunStore] | None, *, csv: bool
) -> None:
    """Writes what was spent, in the form that was asked for, and what stores hold, if they were asked."""
    groups = None if keys is None else grouped(spent, keys)
    if app.output.json:
        of_stores = {} if held is None else {"stores": [each.document() for each in held]}
        app.output.document("spend", {**_document(spent, keys, groups), **of_stores})
    elif csv:
        lines = _charge_rows(spent) if keys is None or groups is None else _group_rows(keys, groups)
        app.output.csv(next(lines), lines)
    elif not spent.boxes:
        app.output.say("No box has cost anything yet.")
    elif keys is None or groups is None:
        app.output.table(spent.table())
        _say_total(app, spent)
    else:
        _show_groups(app, spent, keys, groups)
    if not (app.output.json or csv):
        say_unusual(app.output, spent.unusual_days)
        for store in held or ():
            app.output.say(f"A store holds {store_text(store)}.")


def say_unusual(output: Output, found: Sequence[UnusualDay]) -> None:
    """Names the days that have cost more than is usual."""
    for day in found:
        output.say(f"Unusual: {day.text}.")


def _refuse_contradictions(forms: dict[str, bool]) -> None:
    asked = [name for name, given in forms.items() if given]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} contradict each other")


def _document(
    spent: Spend, keys: Sequence[str] | None, groups: Sequence[ChargeGroup] | None
) -> SpendDocument:
    document = spent.document()
    if keys is not None and groups is not None:
        document["by"], document["groups"] = list(keys), [group.document() for group in groups]
    return document


# --- comma-separated values

CHARGE_COLUMNS = (
    *("box", "id", "run_id", "owner", "cloud", "region", "instance_type", "purchase"),
    *("part", "from", "to", "quantity", "unit", "unit_price", "cost", "currency", "unknown", "at_least"),
)


def _write_focus(app: App, rows: Iterable[Mapping[str, str | None]]) -> None:
    from gpucloud.costs.focus import COLUMNS

    app.output.csv(list(COLUMNS), ([row[name] for name in COLUMNS] for row in rows))


def _charge_rows(spent: Spend) -> Iterator[Sequence[Any]]:
    """A heading, then a row for each charge."""
    yield CHARGE_COLUMNS
    for charge in spent.charges:
        holding, place = charge.holding, charge.holding.place
        run_id, offer = charge.box.run_id if charge.box else None, charge.offer
        yield (
            *(holding.name, holding.id, run_id, holding.owner, place and place.cloud, place and place.region),
            *(offer and offer.instance_type, offer and str(offer.purchase)),
            *(charge.part, rfc3339(charge.start), rfc3339(charge.end)),
            *(f"{round(charge.quantity, 6):f}", charge.unit, charge.unit_price),
            *(_digits(charge.amount), charge.currency, charge.unknown, _digits(charge.least_amount)),
        )


def _digits(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{round(amount, 6):f}"


def _group_rows(keys: Sequence[str], groups: Sequence[ChargeGroup]) -> Iterator[Sequence[Any]]:
    """A heading, then a row for each group and currency; a group without a known cost has one row."""
    yield *keys, "boxes", "cost", "currency", "unknown"
    for group in groups:
        unknown = "; ".join(group.unknown) or None
        money: list[tuple[str | None, str | None]] = [
            (f"{total.amount:f}", total.currency) for total in group.totals
        ] or [(None, None)]
        for cost, currency in money:
            yield *group.values.values(), group.boxes, cost, currency, unknown


# --- for people


def _show_groups(app: App, spent: Spend, keys: Sequence[str], groups: Sequence[ChargeGroup]) -> None:
    names = (*(key.removeprefix(TAG).upper() for key in keys), "BOXES", "COST")
    rows = [(*group.values.values(), group.boxes, _cost_text(group)) for group in groups]
    app.output.table(Table.of_rows(names, rows, right=names[-2:]))
    _say_total(app, spent)


def _say_total(app: App, spent: Spend) -> None:
    unknown = unknown_of(spent.charges)
    sums = _sums_text(spent.totals)
    loose = {charge.holding.name: charge.holding for charge in spent.charges if charge.is_at_most}
    bound = "at least " if unknown and sums else "at most " if loose else ""
    total = f"{bound}{sums or 'nothing'}"
    app.output.say(f"In all: {total}, at the prices of the launch; discounts and traffic are not in it.")
    for reason, boxes in unknown.items():
        app.output.say(f"Not in the sum: {reason} ({', '.join(boxes)}).")
    if loose:
        snapshots = [name for name, each in loose.items() if isinstance(each, Snapshot)]
        if boxes := [name for name in loose if name not in snapshots]:
            app.output.say(at_most_text(boxes))
        if snapshots:
            held = f"a cloud bills what {', '.join(snapshots)} holds, which is at most the size of its disk"
            app.output.say(f"≤: {held}.")


def _cost_text(group: ChargeGroup) -> str:
    """The cost of a group; with "≥" if a part of it is unknown, "≤" if it is a limit, and "?" if all is."""
    sums = _sums_text(group.totals)
    if not group.unknown:
        return limit_mark(group.charges) + (sums or format_money(Decimal(0), "USD"))
    return f"≥ {sums}" if sums else "?"


def _sums_text(totals: Sequence[Money]) -> str:
    return " and ".join(format_money(total.amount, total.currency) for total in totals if total.amount)
