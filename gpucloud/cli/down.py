"""``gpucloud down``: ends boxes, and returns when the cloud says that nothing billable is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, box_document, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.engine import engine, find_box, now, settle_owed
from gpucloud.cli.options import RunId
from gpucloud.cli.timeline import Timeline
from gpucloud.cli.unread import say_unjudged, say_unread, unjudged_document
from gpucloud.errors import GpucloudError, InterruptedBySignal, OwedError, UsageError
from gpucloud.journal.lifecycle import BoxState

if TYPE_CHECKING:
    from gpucloud.inventory.discovery import Survey
    from gpucloud.journal.store import Box
    from gpucloud.runtime.context import Context


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
    if sum((bool(names), run_id is not None, all)) != 1:
        raise UsageError("say which boxes: names, or --run-id, or --all", hint="see yours: gpucloud list")
    from gpucloud.inventory.discovery import unjudged
    from gpucloud.inventory.down import end_all, merged

    survey: Survey | None = None
    troubles: list[GpucloudError] = []
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as context:
        if run_id is not None:
            survey = _take_in(app, context, run_id, troubles)
            say_unjudged(app, unjudged(survey, app.owner))
        boxes = _chosen(context, names or [], run_id)
        if not boxes:
            app.output.say("No box to take down.")
        elif not yes:
            timeline.pause()
            with context.tasks.asking():
                _confirm(app, boxes)
            timeline.resume()
        ended = end_all(context, boxes, troubles)
        owed = merged(troubles)
        if owed is None and context.tasks.signum is None:
            settle_owed(app, context)
        living = context.journal.boxes(owner=app.owner)
    if owed is not None:
        raise owed
    if context.tasks.signum is not None:
        raise InterruptedBySignal("everything asked for was taken down", signum=context.tasks.signum)
    suspects = unjudged(survey, app.owner) if survey else ()
    with answering(f"taken down: {' '.join(box.name for box in ended) or 'nothing'}", ()):
        if app.output.json:
            boxes_seen = [box_document(box, now()) for box in ended]
            app.output.document("down", {"boxes": boxes_seen, **unjudged_document(suspects)})
    for box in ended:
        app.output.say(f"{box.name} is {box.state}: the cloud says that nothing billable is left of it.")
    app.output.say(paying_text(living))
    return OwedError.exit_code if suspects or (survey and survey.unread) else 0


def _take_in(app: App, context: Context, run_id: str, troubles: list[GpucloudError]) -> Survey:
    """Writes down what another machine launched for this run; gives what was found of it."""
    from gpucloud.inventory.discovery import begin, by_box, finish
    from gpucloud.inventory.recover import adopt_box
    from gpucloud.resources import Search
    from gpucloud.runtime.isolation import isolated

    context.tell("down", f"looking for run {run_id} in every region of every cloud")
    survey = finish(context, begin(context, Search(run=run_id)))
    say_unread(app, survey)
    boxes = by_box(survey.resources)
    for owner, resources in boxes:
        if owner == context.owner:
            with isolated(troubles, f"{resources[0].ref.kind} {resources[0].ref.id}"):
                adopt_box(context, resources, BoxState.DELETING, app.catalog.market)
        else:
            what = f"{resources[0].ref.kind} {resources[0].ref.id}"
            app.output.say(
                f"Left alone: {what} is of this run, of owner {owner}; if that is you: GPUCLOUD_OWNER={owner}"
            )
    return survey


def _chosen(context: Context, names: list[str], run_id: str | None) -> list[Box]:
    if names:
        return list(
            {
                box.id: box for name in names if (box := find_box(context.journal, context.owner, name))
            }.values()
        )
    boxes = context.journal.boxes(owner=context.owner)
    return [box for box in boxes if run_id is None or box.run_id == run_id]


def _confirm(app: App, boxes: list[Box]) -> None:
    what = ", ".join(box.name for box in boxes)
    if not app.output.interactive:
        raise UsageError(f"not taking down {what} without a yes", hint="add --yes")
    if not app.output.ask(f"Take down {what}? Everything on the disks is lost."):
        raise UsageError("nothing was taken down")
