"""``gpucloud list``: boxes from the journal, or as the clouds say now."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucloud.cli.boxes import box_document, paying_text, show_boxes
from gpucloud.cli.context import App
from gpucloud.cli.engine import engine, now, open_journal


def list_boxes(
    app: App,
    all: Annotated[bool, typer.Option("--all", "-a", help="Deleted and failed boxes too.")] = False,  # noqa: A002
    live: Annotated[
        bool, typer.Option("--live", help="Ask the clouds instead of the journal alone.")
    ] = False,
) -> None:
    """List boxes: state, age, price, cost so far, time left."""
    if live:
        from gpucloud.errors import GpucloudError
        from gpucloud.recover import refresh

        with engine(app) as world:
            for box in world.journal.boxes(owner=app.owner):
                try:
                    refresh(world, box)
                except GpucloudError as error:
                    app.output.say(f"{box.name}: not asked: {error.message}")
            boxes = world.journal.boxes(owner=app.owner, over=all)
    else:
        boxes = open_journal(app).boxes(owner=app.owner, over=all)
    moment = now()
    if app.output.json:
        app.output.document("list", {"boxes": [box_document(box, moment) for box in boxes]})
        return
    if boxes:
        show_boxes(app.output, boxes, moment)
        app.output.say(paying_text(boxes))
    else:
        app.output.say("No boxes. Launch one: gpucloud launch --gpu T4")
