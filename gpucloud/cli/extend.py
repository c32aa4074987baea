"""``gpucloud extend``: a new end for a box."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, box_document
from gpucloud.cli.context import App
from gpucloud.cli.engine import connect, engine, find_box, now, settle_owed
from gpucloud.cli.plan import refuse_short
from gpucloud.cli.timeline import Timeline
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339

if TYPE_CHECKING:
    from gpucloud.journal.store import Box
    from gpucloud.runtime.context import Context


def extend(
    app: App,
    name: Annotated[str, typer.Argument(help="The box's name or id.")],
    ttl: Annotated[
        str, typer.Option("--ttl", help="When it ends, from now: 90m, 12h, 2d, none.", metavar="TIME")
    ],
) -> None:
    """Move the end of a box, later or sooner: with its cloud, on the box, and in the journal."""
    lives = _duration(ttl)
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as context:
        settle_owed(app, context)
        box = _extended(app, context, find_box(context.journal, app.owner, name), lives)
    with answering(f"the end of {box.name} was moved", [box]):
        if app.output.json:
            app.output.document("extend", {"box": box_document(box, now())})
    if lives is None:
        app.output.say(f"{box.name} has no end any more: only `gpucloud down {box.name}` ends it.")
    else:
        assert box.expires_at is not None  # noqa: S101  (it was just set)
        app.output.say(f"{box.name} ends at {rfc3339(box.expires_at)}{_at_most(box, lives)}.")


def _duration(text: str) -> timedelta | None:
    from gpucloud.spec.fields import end

    try:
        lives = end(text)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error
    if isinstance(lives, str):
        return None
    refuse_short(lives, "--ttl")
    return lives


def _at_most(box: Box, lives: timedelta) -> str:
    """What the box may cost until then, for people."""
    if box.price_per_hour is None:
        return ""
    cost = box.price_per_hour * len(box.facts["nodes"]) * int(lives.total_seconds()) / 3600
    return f"; until then its machines cost up to {cost:.2f} {box.facts['price']['currency']}"


def _extended(app: App, context: Context, box: Box, lives: timedelta | None) -> Box:
    """The box with its new end. Its nodes are reached first: nothing is moved where one is out of reach."""
    from gpucloud.boxes.bring_up import targets
    from gpucloud.boxes.extend import check_movable
    from gpucloud.boxes.extend import extend as move
    from gpucloud.boxes.ingress import reach
    from gpucloud.inventory.reconcile import refresh
    from gpucloud.planning.clock_check import begin_reading, refuse_wrong, told
    from gpucloud.ssh.keys import key_folder

    check_movable(context, box)
    taken = context.take(box)
    if taken is None:
        raise UsageError(
            f"another gpucloud works on box {box.name!r}", hint="see what it does: gpucloud list"
        )
    try:
        asked = begin_reading(context, context.clouds.usable(taken.facts["cloud"]))
        refresh(context, taken)
        seen = context.journal.held(taken)
        check_movable(context, seen)
        refuse_wrong(told(context, asked))
        nodes = targets(seen, key_folder(app.paths.state, box.id), connect(app))
        for node in nodes:
            reach(context, seen, node)
        expires_at = None if lives is None else context.clock().replace(microsecond=0) + lives
        return move(context, seen, nodes, expires_at)
    finally:
        context.journal.release(taken)
