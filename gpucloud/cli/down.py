"""``gpucloud down``: ends boxes, and returns when the cloud says that nothing billable is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.options import RunId
from gpucloud.cli.unread import say_unjudged, say_unread, unjudged_document
from gpucloud.errors import OwedError, UsageError

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.cli.timeline import Timeline


def down(
    app: App,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or ids of boxes.", metavar="NAME...")
    ] = None,
    run_id: RunId = None,
    all: Annotated[bool, typer.Option("--all", help="Every box of yours.")] = False,  # noqa: A002
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Take boxes down; returns when the cloud itself says that nothing billable is left.

    With --run-id they are also looked for in every cloud: the machine that launched them is not needed.
    """
    with app.working() as (client, timeline):
        done = client.down(
            names or (),
            run_id=run_id,
            every=all,
            confirm=None if yes else lambda boxes: _confirmed(app, timeline, boxes),
        )
    if done.searched:
        say_unread(app, done.searched)
        say_unjudged(app, done.searched)
    with answering(f"taken down: {' '.join(box.name for box in done.boxes) or 'nothing'}", ()):
        if app.output.json:
            boxes = [box.document() for box in done.boxes]
            app.output.document("down", {"boxes": boxes, **unjudged_document(done.searched)})
    for box in done.boxes:
        app.output.say(f"{box.name} is {box.state}: the cloud says that nothing billable is left of it.")
    app.output.say(paying_text(done.living))
    return OwedError.exit_code if done.searched and not done.searched.whole else 0


def _confirmed(app: App, timeline: Timeline, boxes: Sequence[Box]) -> bool:
    what = ", ".join(box.name for box in boxes)
    if not app.output.interactive:
        raise UsageError(f"not taking down {what} without a yes", hint="add --yes")
    timeline.pause()
    agreed = app.output.ask(f"Take down {what}? Everything on the disks is lost.")
    timeline.resume()
    return agreed
