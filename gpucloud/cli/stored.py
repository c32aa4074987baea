"""What ``volume`` and ``snapshot`` share: prices per day, deadlines, questions before a change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.api.texts import HOURS_PER_DAY
from gpucloud.cli.context import App
from gpucloud.costs.amounts import size as size_of
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.cli.timeline import Timeline

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def whole_gib(text: str) -> int:
    """The value of ``--size``.

    Raises:
        UsageError: it is no size in whole GiB.
    """
    size = size_of("--size", text)
    if size != int(size):
        raise UsageError(f"--size: {text!r} is not allowed; allowed: whole GiB, such as 500 or 1TB")
    return int(size)


def sum_per_day_text(per_hour: Sequence[Money | None]) -> str:
    """The sum of prices per hour as one per day, in each currency; "at least" if one of them is unknown."""
    sums: dict[str, Decimal] = {}
    for price in filter(None, per_hour):
        sums[price.currency] = sums.get(price.currency, Decimal(0)) + price.amount * HOURS_PER_DAY
    costs = " and ".join(format_money(amount, currency) for currency, amount in sorted(sums.items()))
    if None in per_hour:
        return f"at least {costs}" if costs else "an unknown amount"
    return costs or "nothing"


def end_text(expires_at: datetime | None) -> str:
    """A deadline."""
    return rfc3339(expires_at) if expires_at else "no time"


def confirmed(app: App, timeline: Timeline, yes: bool, *, doing: str, question: str, said: str = "") -> bool:
    """Asks before something is bought or lost.

    Args:
        app: the program.
        timeline: the progress, which pauses meanwhile.
        yes: whether the user has agreed before.
        doing: what is about to be done: "deleting data".
        question: what is asked.
        said: what is shown before, also if nothing is asked.

    Raises:
        UsageError: there is nobody to ask.
    """
    if not yes and not app.output.interactive:
        raise UsageError(f"{doing} needs confirmation, and there is no terminal to ask on", hint="add --yes")
    timeline.pause()
    if said:
        app.output.say(said)
    agreed = yes or app.output.ask(question)
    timeline.resume()
    return agreed
