"""``gpucloud recover``: restores the journal from the clouds after the state file was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucloud.cli.boxes import answering, paying_text, show_boxes
from gpucloud.cli.context import App
from gpucloud.cli.unread import say_unjudged, say_unread, unjudged_documents, unread_documents
from gpucloud.errors import OwedError

if TYPE_CHECKING:
    from gpucloud.cli.documents import RecoverDocument


def recover(app: App) -> int:
    """Restore boxes that are missing from the journal, found by their tags: after the state file was lost.

    A running box can be used again if its ssh key is still in the state folder; remains of a box are deleted
    by the next launch, down or sweep. Exit code 8: some regions could not be read, a deadline could not be
    set, or some resources have your owner tag and other tags that gpucloud never writes.
    """
    with app.working() as (client, _):
        found = client.recover()
    say_unread(app, found.searched)
    say_unjudged(app, found.searched)
    with answering(f"{len(found.boxes)} boxes restored to the journal", found.living):
        if app.output.json:
            answer: RecoverDocument = {
                "boxes": [box.document() for box in found.boxes],
                "unread": unread_documents(found.searched),
                "left_out": dict(found.searched.left_out),
                "unjudged": unjudged_documents(found.searched),
            }
            app.output.document("recover", answer)
        elif found.boxes:
            show_boxes(app.output, found.boxes)
    count = len(found.boxes)
    app.output.say(
        f"{count} boxes restored to the journal."
        if count
        else "No boxes to restore: the journal has them all."
    )
    app.output.say(paying_text(found.living))
    return 0 if found.searched.whole and not found.troubles else OwedError.exit_code
