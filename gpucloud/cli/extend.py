"""``gpucloud extend``: a new deadline for a box."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering
from gpucloud.cli.context import App
from gpucloud.cli.output import utc_now
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.cli.documents.boxes import ExtendDocument
    from gpucloud.cli.timeline import Timeline


def extend(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    ttl: Annotated[
        str,
        typer.Option(
            "--ttl",
            help="Time to live from now: 90m, 12h, 2d, or none. +1h adds to the deadline.",
            metavar="TIME",
        ),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before the deadline becomes earlier.")
    ] = False,
) -> None:
    """Change a box's deadline, later or sooner: in the cloud, on the box, and in the journal.

    Examples:
        gpucloud extend trainer --ttl 12h
        gpucloud extend trainer --ttl none
    """
    add = ttl.strip().startswith("+")
    lives = _duration(ttl.strip().removeprefix("+"))
    if add and lives is None:
        raise UsageError(f"--ttl: {ttl!r} is not a time to add; allowed: +1h, or none")
    with app.working() as (client, timeline):
        confirm = None if yes else partial(_confirmed, app, timeline, name)
        box = client.boxes.extend(name, lives, add=add, confirm=confirm)
    with answering(f"the deadline of {box.name} was changed", [box]):
        if app.output.json:
            answer: ExtendDocument = {"box": box.document()}
            app.output.document("extend", answer)
    if lives is None or box.expires_at is None:
        app.output.say(f"{box.name} has no deadline now; delete it with `gpucloud down {box.name}`.")
    else:
        app.output.say(f"{box.name} ends at {rfc3339(box.expires_at)}{_at_most(box)}.")


def _duration(text: str) -> timedelta | None:
    from gpucloud.spec.fields import end

    try:
        lives = end(text)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error
    return None if isinstance(lives, str) else lives


def _confirmed(app: App, timeline: Timeline, name: str, old: datetime | None, new: datetime) -> bool:
    """Asks before a box ends earlier than it would have."""
    was = f"instead of {rfc3339(old)}" if old else "instead of never"
    if not app.output.interactive:
        raise UsageError(
            f"{name} would end earlier, at {rfc3339(new)} {was}; that needs confirmation",
            hint=f"add --yes; to add time: gpucloud extend {name} --ttl +1h",
        )
    timeline.pause()
    agreed = app.output.ask(f"End {name} at {rfc3339(new)} {was}?")
    timeline.resume()
    return agreed


def _at_most(box: Box) -> str:
    """What the box may cost until its deadline, as text."""
    if box.price is None or box.expires_at is None:
        return ""
    left_s = int((box.expires_at - utc_now()).total_seconds())
    cost = box.price.amount * len(box.nodes) * left_s / 3600
    return f"; until then its nodes cost up to {format_money(cost, box.price.currency)}"
