"""``gpucloud budget``: what may be spent, and what is left of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.spend import say_unusual
from gpucloud.costs.forecast import LEAST_DAYS
from gpucloud.errors import UsageError
from gpucloud.journal.budgets import BudgetAction, Match, Per, Terms
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import counted
from gpucloud.spec.fields import shown
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.cli.documents.team import BudgetListDocument, BudgetSetDocument
    from gpucloud.costs.budgets import Standing

_KEYS = ("owner", "cloud", "gpu", "tag")
_MOST_DIGITS = 12
"""Before and after the point. More is no amount of money, and overflows where it is multiplied."""
Name = Annotated[str, typer.Argument(help="Name of the budget.", metavar="NAME")]


def set_budget(
    app: App,
    name: Name,
    amount: Annotated[str, typer.Argument(help="What may be spent; none removes it.", metavar="AMOUNT")],
    currency: Annotated[str, typer.Option("--currency", help="Of the amount.", metavar="CODE")] = "USD",
    per: Annotated[
        Per | None,
        typer.Option("--per", help="Its period; days and months are in UTC.", show_default=False),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            "--match",
            help="Count only owner=, cloud=, gpu= or tag=NAME:VALUE. Repeatable: one value of each key.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    warn: Annotated[
        str, typer.Option("--warn", help="Percentages at which a launch warns.", metavar="LIST")
    ] = "50,80,100",
    action: Annotated[
        BudgetAction,
        typer.Option("--action", help="What happens to what would exceed it; down also ends boxes."),
    ] = BudgetAction.REFUSE,
) -> None:
    """Set a budget, or remove it: AMOUNT none.

    A launch counts what was spent in the period, what living boxes will cost until their end, and the most
    that it may cost itself. If that is more than the budget, nothing is bought: exit code 7. So it is with a
    later end, a start, a volume and a snapshot. With --action down, a box ends when the budget is used up
    instead. Boxes of all owners in the journal count, unless matched.

    Examples:
        gpucloud budget set lab 500 --per month
        gpucloud budget set h100 80 --per day --match gpu=H100 --action warn
    """
    if amount == "none":
        app.client.budgets.remove(name)
        _answer(app, name, None)
        return
    if per is None:
        raise UsageError("a budget needs --per", hint=f"gpucloud budget set {name} {amount} --per month")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
        raise UsageError(
            f"the name {name!r} is not allowed", hint="use small letters, digits and hyphens, at most 40"
        )
    terms = Terms(
        amount=_read_amount(amount),
        currency=currency.upper(),
        per=per,
        match=_read_match(match or ()),
        warn=_read_percentages(warn),
        action=action,
    )
    _answer(app, name, app.client.budgets.set(name, terms))


@lists("budgets", name="name")
def list_budgets(app: App) -> None:
    """List the budgets with what is spent, committed by living boxes, and left, and their forecasts.

    Examples:
        gpucloud budget list
        gpucloud budget list --json
    """
    found = app.client.budgets.list()
    unusual = app.client.costs.unusual_days(all_owners=True) if found else []
    if app.output.json:
        answer: BudgetListDocument = {
            "budgets": [each.document() for each in found],
            "unusual_days": [day.document() for day in unusual],
        }
        app.output.document("budget-list", answer)
    elif not found:
        app.output.say("There is no budget. Set one: gpucloud budget set NAME AMOUNT --per month")
    else:
        _show(app, found)
        say_unusual(app.output, unusual)


def show(app: App, name: Name) -> None:
    """Show one budget: what it counts, what is left, and the forecast of its period.

    Examples:
        gpucloud budget show lab
        gpucloud budget show lab --json
    """
    found = app.client.budgets.show(name)
    if app.output.json:
        app.output.document("budget-show", {"budget": found.document()})
    else:
        _show(app, [found])


def _answer(app: App, name: str, now: Standing | None) -> None:
    if app.output.json:
        answer: BudgetSetDocument = {"name": name, "budget": now.document() if now else None}
        app.output.document("budget-set", answer)
    elif now is None:
        app.output.say(f"The budget {name} is removed.")
    else:
        _show(app, [now])


def _show(app: App, found: Sequence[Standing]) -> None:
    columns: dict[str, Sequence[object]] = {
        "BUDGET": [each.budget.name for each in found],
        "PER": [_per_text(each) for each in found],
        "FOR": [_match_text(each.budget.terms.match) for each in found],
        "AMOUNT": [_money(each, each.budget.terms.amount) for each in found],
        "SPENT": [_money(each, each.spent) for each in found],
        "COMMITTED": [_money(each, each.committed) for each in found],
        "LEFT": [_money(each, each.left) for each in found],
        "FORECAST": [_forecast_text(each) for each in found],
        "IF EXCEEDED": [str(each.budget.terms.action) for each in found],
        "BY": [each.budget.by for each in found],
    }
    right = ("AMOUNT", "SPENT", "COMMITTED", "LEFT", "FORECAST")
    app.output.table(Table(columns, right=right, optional=("BY", "IF EXCEEDED", "FOR")))
    flat = [each for each in found if each.forecast and each.forecast.is_flat]
    if flat and flat[0].forecast:
        names, days = ", ".join(each.budget.name for each in flat), counted(flat[0].forecast.days, "day")
        known = f"the journal knows {days}, and needs {LEAST_DAYS}"
        app.output.say(f"The forecast of {names} expects no new boxes: {known}.")
    for each in found:
        for text in each.unknown:
            app.output.say(f"Not counted in {each.budget.name}: {text}.")


def _per_text(standing: Standing) -> str:
    """The period; of a budget of each run, also the run that has used most of it."""
    per = str(standing.budget.terms.per)
    return f"{per} (most: {standing.run})" if standing.run else per


def _forecast_text(standing: Standing) -> str | None:
    """Of the whole period, with its range; ``None`` without an end."""
    found = standing.forecast
    if found is None:
        return None
    amount, low, high = (_money(standing, each) for each in (found.amount, found.low, found.high))
    return amount if found.is_flat else f"{amount} ({low}–{high})"


def _match_text(match: Match) -> str:
    tags = [f"{name}:{value}" for name, value in match.tags]
    return ", ".join((*match.owners, *match.clouds, *match.gpus, *tags)) or "all"


def _money(standing: Standing, amount: Decimal) -> str:
    return format_money(amount, standing.budget.terms.currency)


# --- what is typed


def _read_amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0 or abs(amount.adjusted()) > _MOST_DIGITS:
        raise UsageError(f"the amount {shown(text)} is not allowed", hint="use a number above 0, or none")
    return amount


def _read_match(texts: Sequence[str]) -> Match:
    found: dict[str, list[str]] = {name: [] for name in _KEYS}
    for text in texts:
        key, _, value = text.partition("=")
        if key not in found or not value or (key == "tag" and ":" not in value):
            raise UsageError(
                f"--match {text}: this is not allowed",
                hint="use owner=ID, cloud=NAME, gpu=MODEL or tag=NAME:VALUE",
            )
        found[key].append(value)
    tags = [value.partition(":") for value in found["tag"]]
    return Match(
        owners=tuple(found["owner"]),
        clouds=tuple(found["cloud"]),
        gpus=tuple(found["gpu"]),
        tags=tuple((name, value) for name, _, value in tags),
    )


def _read_percentages(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"(\d{1,2}|100)(,(\d{1,2}|100))*", text):
        hint = "use percentages from 0 to 100 with commas: 50,80,100"
        raise UsageError(f"--warn {text!r} is not allowed", hint=hint)
    return tuple(sorted(set(map(int, text.split(",")))))


COMMANDS = {"set": set_budget, "list": list_budgets, "show": show}
