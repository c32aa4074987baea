"""``gpucloud down``: deletes boxes, and returns when the cloud confirms that nothing billable is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.options import RunId
from gpucloud.cli.unread import say_unjudged, say_unread, search_code, unjudged_documents
from gpucloud.errors import UsageError
from gpucloud.journal.errors import UnreachableError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.resources import Tags

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.results import Searched
    from gpucloud.cli.documents.searches import DownDocument, OfOthersDocument
    from gpucloud.cli.timeline import Timeline


def down(
    app: App,
    names: Annotated[
        list[str] | None, typer.Argument(help="Names or IDs of boxes.", metavar="NAME...")
    ] = None,
    run_id: RunId = None,
    all: Annotated[bool, typer.Option("--all", help="Delete all your boxes.")] = False,  # noqa: A002
    with_results: Annotated[
        bool,
        typer.Option("--with-results", help="With --run-id: also a box that is kept for files of its run."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> int:
    """Delete boxes; returns when the cloud confirms that nothing billable is left.

    With --run-id, boxes are also searched for in every cloud, so any machine can delete them. Files that the
    run has left are copied first; a box whose files cannot be copied stays, with exit code 8. Exit code 4
    means that no cloud could be asked, 8 also that some regions could not be read, or that the run has boxes
    of another owner and GPUCLOUD_OWNER is not set.

    Examples:
        gpucloud down trainer
        gpucloud down --all --yes
    """
    if with_results and run_id is None:
        raise UsageError("--with-results is for the boxes of a run: add --run-id")
    with app.working() as (client, timeline):
        done = client.down(
            names or (),
            run_id=run_id,
            every=all,
            with_results=with_results,
            confirm=None if yes else lambda boxes: _confirmed(app, timeline, boxes),
        )
    if done.searched:
        say_unread(app, done.searched)
        say_unjudged(app, done.searched)
    with answering(f"deleted: {' '.join(box.name for box in done.boxes) or 'nothing'}", ()):
        if app.output.json:
            answer: DownDocument = {
                "boxes": [box.document() for box in done.boxes],
                "unjudged": unjudged_documents(done.searched),
                "of_others": _of_others(done.searched),
            }
            app.output.document("down", answer)
    for box in done.boxes:
        how = "has failed" if box.state is BoxState.FAILED else f"is {box.state}"
        app.output.say(f"{box.name} {how}: the cloud says that nothing billable is left of it.")
    app.output.say(paying_text(done.living))
    if all:
        _say_kept(app)
    left = done.searched is not None and (done.searched.unjudged or done.searched.of_others)
    return search_code(done.searched, owed=bool(left))


def _of_others(searched: Searched | None) -> list[OfOthersDocument]:
    return [
        {
            "kind": str(each.ref.kind),
            "id": each.ref.id,
            "cloud": each.ref.cloud,
            "region": each.ref.region,
            "owner": each.tags.owner if isinstance(each.tags, Tags) else None,
        }
        for each in (searched.of_others if searched else ())
    ]


def _say_kept(app: App) -> None:
    """Names what outlives boxes."""
    try:
        kept = [f"volume {each.name}" for each in app.client.volumes.list()]
        kept += [f"snapshot {each.name}" for each in app.client.snapshots.list()]
    except UnreachableError:
        app.output.say("Volumes and snapshots are not known without the journal.")
        return
    if kept:
        app.output.say(f"Kept, and billed until deleted: {', '.join(kept)}.")


def _confirmed(app: App, timeline: Timeline, boxes: Sequence[Box]) -> bool:
    what = ", ".join(box.name for box in boxes)
    if not app.output.interactive:
        raise UsageError(
            f"deleting {what} needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    timeline.pause()
    runs = ", ".join(box.results_of for box in boxes if box.results_of)
    lost = f" Results of run {runs} are not fetched." if runs else ""
    agreed = app.output.ask(f"Delete {what}? All data on the disks is lost.{lost}")
    timeline.resume()
    return agreed
