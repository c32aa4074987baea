"""``gpucloud commitments``: reads the accounts' commitments, and stores them for ``cost``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.rendering.table import Table
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.errors import CloudError
    from gpucloud.market.commitments import CloudAnswers
    from gpucloud_pricing import Commitment


@lists("commitments", name="id")
def commitments(
    app: App,
    cloud: Annotated[
        list[str] | None,
        typer.Option(
            "--cloud",
            help="Cloud to read, or !name to exclude one. Repeatable.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Read the accounts' commitments: reservations, savings plans, held capacity.

    `cost` uses them from then on, without a call. If a cloud does not answer, its earlier data stays.

    Examples:
        gpucloud commitments
        gpucloud commitments --json
    """
    with app.working(quiet=True) as (client, _):
        found = client.market.commitments(tuple(cloud or ()))
    if app.output.json:
        app.output.document("commitments", found.document())
    else:
        _show(app, found.by_cloud, found.commitments)
    return _code(found.by_cloud)


def _show(app: App, answers: Mapping[str, CloudAnswers], known: Sequence[Commitment]) -> None:
    say = app.output.say
    if known:
        columns: dict[str, Sequence[object]] = {
            "CLOUD": [each.cloud for each in known],
            "REGION": [each.region or "all" for each in known],
            "ZONE": [each.zone for each in known],
            "KIND": [each.kind.replace("_", " ") for each in known],
            "WHAT": [_what_text(each) for each in known],
            "COUNT": [None if each.plan else each.count for each in known],
            "PER HOUR": [
                each.plan and format_money(each.plan.per_hour.amount, each.plan.per_hour.currency)
                for each in known
            ],
            "UNTIL": [each.until or "open" for each in known],
            "AS OF": [each.as_of for each in known],
            "ID": [each.id for each in known],
        }
        app.output.table(Table(columns, right=("COUNT", "PER HOUR"), optional=("ID", "AS OF", "ZONE")))
    else:
        say("No commitment is known.")
    for name, each in answers.items():
        if each.absent is not None:
            say(f"Left out: {name}: {each.absent}")
        for text in _failure_texts(each.failures):
            say(f"Not answered: {name}, {text}")
        for text in each.doubts:
            say(f"{name}: {text}")
    if known:
        say("Next: gpucloud cost counts them.")


def _what_text(commitment: Commitment) -> str | None:
    """Which machines."""
    plan = commitment.plan
    return commitment.instance_type if plan is None else " ".join(filter(None, (plan.family, plan.terms)))


def _failure_texts(failures: Mapping[str, CloudError]) -> list[str]:
    """The inquiries that failed; the same error in many regions is printed once."""
    alike: dict[str | None, list[str]] = {}
    for inquiry, error in sorted(failures.items()):
        alike.setdefault(error.code, []).append(inquiry)
    return [
        first + (f" and {len(others)} more" if others else "") + f": {failures[first].message}"
        for first, *others in alike.values()
    ]


def _code(answers: Mapping[str, CloudAnswers]) -> int:
    """The exit code of the first failure; without a usable cloud, that of missing credentials."""
    failures = [error for each in answers.values() for error in each.failures.values()]
    if failures:
        return failures[0].exit_code
    return 4 if all(each.absent is not None for each in answers.values()) else 0
