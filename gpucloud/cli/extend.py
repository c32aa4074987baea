"""``gpucloud extend``: a new deadline for a box."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering
from gpucloud.cli.context import App
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339

if TYPE_CHECKING:
    from gpucloud.api.box import Box


def extend(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    ttl: Annotated[
        str, typer.Option("--ttl", help="Time to live from now: 90m, 12h, 2d, or none.", metavar="TIME")
    ],
) -> None:
    """Change a box's deadline, later or sooner: in the cloud, on the box, and in the journal."""
    lives = _duration(ttl)
    with app.working() as (client, _):
        box = client.extend(name, lives)
    with answering(f"the deadline of {box.name} was changed", [box]):
        if app.output.json:
            app.output.document("extend", {"box": box.document()})
    if lives is None or box.expires_at is None:
        app.output.say(f"{box.name} has no deadline now; delete it with `gpucloud down {box.name}`.")
    else:
        app.output.say(f"{box.name} ends at {rfc3339(box.expires_at)}{_at_most(box, lives)}.")


def _duration(text: str) -> timedelta | None:
    from gpucloud.spec.fields import end

    try:
        lives = end(text)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error
    return None if isinstance(lives, str) else lives


def _at_most(box: Box, lives: timedelta) -> str:
    """What the box may cost until then, as text."""
    if box.price is None:
        return ""
    cost = box.price.amount * len(box.nodes) * int(lives.total_seconds()) / 3600
    return f"; until then its nodes cost up to {cost:.2f} {box.price.currency}"
