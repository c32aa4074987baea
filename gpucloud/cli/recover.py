"""``gpucloud recover``: the counterpart of a lost state file."""

from __future__ import annotations

from gpucloud.cli.boxes import answering, paying_text, show_boxes
from gpucloud.cli.context import App
from gpucloud.cli.unread import say_unjudged, say_unread, unjudged_document, unread_document
from gpucloud.errors import OwedError


def recover(app: App) -> int:
    """Take what is found by tag into the journal, where it is not in it: after the state file was lost.

    A box that lives is listed and used again (its ssh key must still be in the state folder); what is left of
    one is ended by the next command that changes anything. Exit code 8: some regions could not be read, or
    the end of a box could not be set, or something is billed as yours that carries tags which gpucloud never
    wrote.
    """
    with app.working() as (client, _):
        found = client.recover()
    say_unread(app, found.searched)
    say_unjudged(app, found.searched)
    with answering(f"{len(found.boxes)} boxes taken into the journal", found.living):
        if app.output.json:
            around = {**unread_document(found.searched), **unjudged_document(found.searched)}
            app.output.document("recover", {"boxes": [box.document() for box in found.boxes], **around})
        elif found.boxes:
            show_boxes(app.output, found.boxes)
    count = len(found.boxes)
    app.output.say(f"{count} taken into the journal." if count else "Nothing that was not known.")
    app.output.say(paying_text(found.living))
    return 0 if found.searched.whole and not found.troubles else OwedError.exit_code
