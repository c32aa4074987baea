"""``gpucloud recover``: restores the journal from the clouds after the state file was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucloud.cli.boxes import answering, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.unread import (
    say_unjudged,
    say_unread,
    search_code,
    unjudged_documents,
    unread_documents,
)
from gpucloud.rendering.tabular import Listing
from gpucloud.rendering.texts import counted

if TYPE_CHECKING:
    from gpucloud.api.results import Recovered
    from gpucloud.cli.documents.searches import RecoverDocument


def recover(app: App) -> int:
    """Restore boxes, volumes and snapshots that the journal lacks, found by their tags in the clouds.

    A running box can be used again if its ssh key is still in the state folder; remains of a box are deleted
    by the next launch, down or sweep.

    Exit code 4: no cloud could be asked. 8: some regions could not be read, a deadline could not be set, or
    some resources have your owner tag and other tags that gpucloud never writes.

    Examples:
        gpucloud recover
        gpucloud recover --json
    """
    with app.working() as (client, _):
        found = client.resources.recover()
    say_unread(app, found.searched)
    say_unjudged(app, found.searched)
    done = f"{_counted(found)} restored to the journal"
    with answering(done, found.living):
        if app.output.json:
            answer: RecoverDocument = {
                "boxes": [box.document() for box in found.boxes],
                "volumes": [volume.document() for volume in found.volumes],
                "snapshots": [snapshot.document() for snapshot in found.snapshots],
                "unread": unread_documents(found.searched),
                "left_out": dict(found.searched.left_out),
                "unjudged": unjudged_documents(found.searched),
            }
            app.output.document("recover", answer)
        else:
            if found.boxes:
                app.output.table(Listing(found.boxes).table())
            if found.volumes:
                app.output.table(Listing(found.volumes).table())
            if found.snapshots:
                app.output.table(Listing(found.snapshots).table())
    if found.boxes or found.volumes or found.snapshots:
        app.output.say(f"{done}.")
    elif not found.searched.nowhere:
        app.output.say("No boxes to restore: the journal has them all.")
    app.output.say(paying_text(found.living))
    return search_code(found.searched, owed=bool(found.troubles or found.searched.unjudged))


def _counted(found: Recovered) -> str:
    kinds = (("box", found.boxes), ("volume", found.volumes), ("snapshot", found.snapshots))
    counts = [counted(len(them), kind) for kind, them in kinds if them]
    return " and ".join(counts) or counted(0, "box")
