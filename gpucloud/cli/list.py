"""``gpucloud list``: boxes as the journal, or with --live the clouds, show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.api.box import is_at_most, is_bound
from gpucloud.cli.boxes import at_most_text, bound_text, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.unread import say_unread, search_code, unread_documents, wrong_in
from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import HALTING
from gpucloud.rendering.table import Table
from gpucloud.rendering.tabular import Listing
from gpucloud.resources import Resource, Tags

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.results import Looked
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.api.volume import Volume
    from gpucloud.cli.documents.searches import ListDocument, UntrackedDocument


@lists("boxes", name="name")
def list_boxes(
    app: App,
    all: Annotated[bool, typer.Option("--all", "-a", help="Include deleted and failed boxes.")] = False,  # noqa: A002
    live: Annotated[
        bool, typer.Option("--live", help="Also read the clouds, not the journal alone.")
    ] = False,
    all_kinds: Annotated[
        bool, typer.Option("--all-kinds", help="Also list volumes and snapshots: all that is billed.")
    ] = False,
    all_owners: Annotated[
        bool, typer.Option("--all-owners", help="With --live: also show the resources of other owners.")
    ] = False,
) -> int:
    """List boxes: state, age, price, cost so far, time left.

    Exit code with --live: 8 if some regions could not be read, 4 if no cloud could be asked.

    Examples:
        gpucloud list
        gpucloud list --all --live
    """
    if all_owners and not live:
        raise UsageError("--all-owners needs --live: the journal has your own boxes only")
    layout = app.output.layout
    if all_kinds and (layout.columns or layout.sort_by):
        raise UsageError("--columns and --sort-by shape one table; --all-kinds prints several")
    looked = None
    if live:
        with app.working(quiet=True) as (client, _):
            looked = client.resources.look(all_owners=all_owners)
        say_unread(app, looked.searched)
    boxes = app.client.list(over=all)
    volumes = app.client.volumes.list(over=all) if all_kinds else None
    snapshots = app.client.snapshots.list(over=all) if all_kinds else ()
    untracked = _untracked(looked) if looked else []
    if app.output.json:
        answer: ListDocument = {"boxes": [box.document() for box in boxes]}
        if volumes is not None:
            answer["volumes"] = [volume.document() for volume in volumes]
            answer["snapshots"] = [snapshot.document() for snapshot in snapshots]
        if looked:
            answer["strangers"] = untracked
            answer["unread"] = unread_documents(looked.searched)
            answer["left_out"] = dict(looked.searched.left_out)
        app.output.document("list", answer)
    else:
        _show_untracked(app, untracked, all_owners=all_owners)
        _show_boxes(app, boxes)
        if any(box.results_of for box in boxes):
            from gpucloud.cli.runs import say_kept

            say_kept(app, app.client.runs.list())
        _show_volumes(app, volumes or ())
        _show_snapshots(app, snapshots)
    return search_code(looked.searched if looked else None)


def _show_untracked(app: App, untracked: Sequence[Mapping[str, Any]], *, all_owners: bool) -> None:
    if not untracked:
        return
    columns = ("KIND", "ID", "CLOUD", "REGION", "OWNER", "BOX", "WRONG")
    rows = [[each[column.lower()] for column in columns] for each in untracked]
    whose = "Resources" if all_owners else "Your resources"
    app.output.say(
        f"{whose} that belong to no living box of yours in this journal (launched elsewhere, or leaked):"
    )
    app.output.table(Table.of_rows(columns, rows))


def _show_volumes(app: App, volumes: Sequence[Volume]) -> None:
    if volumes:
        from gpucloud.cli.volume import paying_text_of

        app.output.line("")
        app.output.table(Listing(volumes).table())
        app.output.say(paying_text_of(volumes))


def _show_snapshots(app: App, snapshots: Sequence[Snapshot]) -> None:
    if snapshots:
        from gpucloud.cli.snapshot import paying_text_of

        app.output.line("")
        app.output.table(Listing(snapshots).table())
        app.output.say(paying_text_of(snapshots))


def _show_boxes(app: App, boxes: Sequence[Box]) -> None:
    if not boxes:
        app.output.say("No boxes. Launch one: gpucloud launch --gpu T4")
        return
    app.output.table(Listing(boxes).table())
    for box in boxes:
        if box.abandoned:
            app.output.say(_abandoned_text(box))
    if loose := [box.name for box in boxes if is_at_most(box)]:
        app.output.say(at_most_text(loose))
    if bound := [box for box in boxes if box.nodes and not box.is_over and is_bound(box)]:
        app.output.say(bound_text(bound))
    app.output.say(paying_text(boxes))


def _abandoned_text(box: Box) -> str:
    if box.ended_by:
        return (
            f"{box.name} has ended; the next launch, down or sweep deletes what is left of it. "
            f"Now: gpucloud down {box.name}"
        )
    verb, command = ("stops", "stop") if box.state in HALTING else ("deletes", "down")
    return (
        f"{box.name} was left unfinished by a command that ended; the next launch, down or sweep {verb} it. "
        f"Now: gpucloud {command} {box.name}"
    )


def _untracked(looked: Looked) -> list[UntrackedDocument]:
    living = {box.id for box in looked.boxes}
    unknown = (*looked.untracked, *looked.searched.unjudged)
    return [_untracked_document(resource, living) for resource in unknown]


def _untracked_document(resource: Resource, living: Collection[str]) -> UntrackedDocument:
    tags = resource.tags if isinstance(resource.tags, Tags) else None
    box = tags.box if tags else None
    return {
        "kind": str(resource.ref.kind),
        "id": resource.ref.id,
        "cloud": resource.ref.cloud,
        "region": resource.ref.region,
        "owner": tags.owner if tags else None,
        "box": box,
        "wrong": "has the tags of a box, but is not one of its machines"
        if box in living
        else wrong_in(resource),
    }
