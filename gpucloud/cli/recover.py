"""``gpucloud recover``: the counterpart of a lost state file."""

from __future__ import annotations

from gpucloud.cli.boxes import answering, box_document, paying_text, show_boxes
from gpucloud.cli.context import App
from gpucloud.cli.engine import engine, now, settle_owed
from gpucloud.cli.timeline import Timeline
from gpucloud.cli.unread import say_unjudged, say_unread, unjudged_document, unread_document
from gpucloud.errors import OwedError


def recover(app: App) -> int:
    """Take what is found by tag into the journal, where it is not in it: after the state file was lost.

    A box that lives is listed and used again (its ssh key must still be in the state folder); what is left of
    one is ended by the next command that changes anything. Exit code 8: some regions could not be read, or
    the end of a box could not be set, or something is billed as yours that carries tags which gpucloud never
    wrote.
    """
    from gpucloud.inventory.discovery import begin, finish, unjudged
    from gpucloud.inventory.reconcile import refresh_all
    from gpucloud.inventory.recover import adopt_found
    from gpucloud.resources import Search

    with Timeline(app.output) as timeline, engine(app, timeline.tell) as context:
        context.tell("recover", "looking in every region of every cloud")
        survey = finish(context, begin(context, Search(owner=app.owner)))
        adopted, troubles = adopt_found(context, survey, app.catalog.market)
        for trouble in troubles:
            app.output.say(f"{trouble.message}" + (f"; {trouble.hint}" if trouble.hint else ""))
        for trouble in refresh_all(context, adopted):
            app.output.say(f"Not asked: {trouble.message}")
        settle_owed(app, context)
        boxes = [context.journal.box(box.id) for box in adopted]
        living = context.journal.boxes(owner=app.owner)
    suspects = unjudged(survey, app.owner)
    say_unread(app, survey)
    say_unjudged(app, suspects)
    with answering(f"{len(boxes)} boxes taken into the journal", living):
        if app.output.json:
            around = {**unread_document(survey), **unjudged_document(suspects)}
            app.output.document("recover", {"boxes": [box_document(box, now()) for box in boxes], **around})
        elif boxes:
            show_boxes(app.output, boxes, now())
    app.output.say(f"{len(boxes)} taken into the journal." if boxes else "Nothing that was not known.")
    app.output.say(paying_text(living))
    return OwedError.exit_code if survey.unread or suspects or troubles else 0
