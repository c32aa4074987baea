"""``gpucloud commitments``: asks the accounts what they have paid for already, and keeps it for ``cost``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.cli.market import show_table
from gpucloud.cli.output import money_text
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.errors import CloudError
    from gpucloud.market.commitments import Told
    from gpucloud_pricing import Commitment


def commitments(
    app: App,
    cloud: Annotated[
        list[str] | None,
        typer.Option("--cloud", help="Repeatable; !x leaves out.", metavar="NAME", show_default=False),
    ] = None,
) -> int:
    """Ask the accounts what they have paid for already: reservations, savings plans, held capacity.

    `cost` counts it from then on, without asking. What a cloud does not answer stays as old as it was.
    """
    from gpucloud.market.commitments import ask_commitments

    with app.working(quiet=True) as (client, _), client.operation() as context:
        wanted = _wanted(context.clouds.names(), tuple(cloud or ()))
        with app.client.catalog.history() as history:
            told = ask_commitments(context, history, wanted)
            known = [each for each in history.commitments() if each.cloud in wanted]
    if app.output.json:
        app.output.document(
            "commitments",
            {
                "commitments": [_document(each) for each in known],
                "clouds": [_told_document(name, each) for name, each in told.items()],
            },
        )
    else:
        _show(app, told, known)
    return _code(told)


def _wanted(names: Sequence[str], patterns: tuple[str, ...]) -> list[str]:
    """The clouds to ask.

    Raises:
        UsageError: a pattern names none.
    """
    from gpucloud_pricing.places import BadPlaceError, admits, knows

    known = frozenset(names)
    for pattern in patterns:
        if not knows(known, pattern):
            raise UsageError(f"--cloud: {BadPlaceError('clouds', pattern, known)}")
    return [name for name in names if not patterns or admits(patterns, frozenset({name}))]


def _document(commitment: Commitment) -> dict[str, Any]:
    """A commitment for JSON."""
    plan = commitment.plan
    return {
        "cloud": commitment.cloud,
        "kind": commitment.kind,
        "id": commitment.id,
        "region": commitment.region,
        "zone": commitment.zone,
        "instance_type": commitment.instance_type,
        "count": None if plan else commitment.count,
        "savings_plan": plan
        and {
            "per_hour": plan.per_hour.document(),
            "purchase": plan.purchase,
            "terms": plan.terms,
            "family": plan.family,
        },
        "until": commitment.until and commitment.until.isoformat(),
        "as_of": commitment.as_of.isoformat(),
        "source": commitment.source,
    }


def _told_document(name: str, told: Told) -> dict[str, Any]:
    return {
        "cloud": name,
        "account": told.account,
        "inquiries": len(told.answers) + len(told.failures),
        "answered": len(told.answers),
        "failures": [
            {
                "inquiry": inquiry,
                "class": str(error.error_class),
                "message": error.message,
                "code": error.code,
                "request_id": error.request_id,
            }
            for inquiry, error in told.failures.items()
        ],
        "doubts": told.doubts,
        "left_out": told.absent,
    }


def _show(app: App, told: Mapping[str, Told], known: Sequence[Commitment]) -> None:
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
                each.plan and money_text(each.plan.per_hour.amount, each.plan.per_hour.currency)
                for each in known
            ],
            "UNTIL": [each.until or "open" for each in known],
            "TOLD": [each.as_of for each in known],
            "ID": [each.id for each in known],
        }
        show_table(app.output, columns, right=("COUNT", "PER HOUR"), optional=("ID", "TOLD", "ZONE"))
    else:
        say("No commitment is known.")
    for name, each in told.items():
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
    """What was not answered; the same refusal in many regions is said once."""
    alike: dict[str | None, list[str]] = {}
    for inquiry, error in sorted(failures.items()):
        alike.setdefault(error.code, []).append(inquiry)
    return [
        first + (f" and {len(others)} more" if others else "") + f": {failures[first].message}"
        for first, *others in alike.values()
    ]


def _code(told: Mapping[str, Told]) -> int:
    """The first failure's; with no cloud to ask, that of missing credentials."""
    failures = [error for each in told.values() for error in each.failures.values()]
    if failures:
        return failures[0].exit_code
    return 4 if all(each.absent is not None for each in told.values()) else 0
