"""``gpucloud list``: boxes from the journal, or as the clouds say now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import typer

from gpucloud.cli.boxes import box_document, paying_text, show_boxes
from gpucloud.cli.connection import look
from gpucloud.cli.context import App
from gpucloud.cli.engine import engine, now, open_journal
from gpucloud.cli.unread import say_unread, unread_document, wrong_in
from gpucloud.resources import Resource, Tags


def list_boxes(
    app: App,
    all: Annotated[bool, typer.Option("--all", "-a", help="Deleted and failed boxes too.")] = False,  # noqa: A002
    live: Annotated[
        bool, typer.Option("--live", help="Ask the clouds instead of the journal alone.")
    ] = False,
) -> None:
    """List boxes: state, age, price, cost so far, time left."""
    from gpucloud.inventory.reconcile import is_remains
    from gpucloud.journal.leases import claim
    from gpucloud.journal.lifecycle import Claim

    around: dict[str, Any] = {}
    if live:
        around = _look(app)
    journal = open_journal(app)
    boxes = journal.boxes(owner=app.owner, over=all)
    moment = now()
    if app.output.json:
        app.output.document("list", {"boxes": [box_document(box, moment) for box in boxes], **around})
        return
    if around.get("strangers"):
        columns = ("KIND", "ID", "CLOUD", "REGION", "BOX", "WRONG")
        rows = [[each[column.lower()] for column in columns] for each in around["strangers"]]
        app.output.say("Yours, and in no living box of this journal (another machine's, or a leak):")
        app.output.table(columns, rows)
    if boxes:
        show_boxes(app.output, boxes, moment)
        for box in boxes:
            if not is_remains(box) or claim(box.lease, journal.now()) is Claim.HELD:
                continue
            if box.facts.get("ended_by"):
                app.output.say(
                    f"{box.name} has ended: the next command that changes anything makes sure that nothing "
                    f"is left of it, or: gpucloud down {box.name}"
                )
            else:
                app.output.say(
                    f"{box.name} is what a command left that has ended: the next one that changes anything "
                    f"ends it, or: gpucloud down {box.name}"
                )
        app.output.say(paying_text(boxes))
    else:
        app.output.say("No boxes. Launch one: gpucloud launch --gpu T4")


def _look(app: App) -> dict[str, Any]:
    """Asks the clouds: the journal's boxes by id, and every region for what the journal does not know."""
    from gpucloud.inventory.discovery import begin, strangers, unjudged
    from gpucloud.resources import Search

    with engine(app) as context:
        asked = begin(context, Search(owner=context.owner))
        survey = look(app, context, context.journal.boxes(owner=app.owner), asked)
        say_unread(app, survey)
        unknown = (*strangers(context, survey), *unjudged(survey, context.owner))
        living = {box.id for box in context.journal.boxes(owner=context.owner)}
        return {"strangers": [_stranger(resource, living) for resource in unknown], **unread_document(survey)}


def _stranger(resource: Resource, living: Collection[str]) -> dict[str, Any]:
    box = resource.tags.box if isinstance(resource.tags, Tags) else None
    return {
        "kind": str(resource.ref.kind),
        "id": resource.ref.id,
        "cloud": resource.ref.cloud,
        "region": resource.ref.region,
        "box": box,
        "wrong": "under the tags of a box of which it is no machine" if box in living else wrong_in(resource),
    }
