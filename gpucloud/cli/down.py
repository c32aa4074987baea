"""``gpucloud down``: ends boxes, and returns when the cloud says that nothing billable is left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, box_document, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.engine import ended_unrecorded, engine, find_box, now, settle_owed
from gpucloud.cli.options import RunId
from gpucloud.cli.timeline import Timeline
from gpucloud.cli.unread import say_unjudged, say_unread, unjudged_document
from gpucloud.errors import GpucloudError, InterruptedBySignal, OwedError, UsageError
from gpucloud.journal.lifecycle import BoxState

if TYPE_CHECKING:
    from gpucloud.inventory.discovery import Survey
    from gpucloud.journal.store import Box
    from gpucloud.runtime.context import Context

BUDGET_S = 600.0
"""How long the ends of all boxes are waited for."""
TURN_S = 30.0
"""How long one of several is waited for before it is the turn of the next."""
ASKING_S = 20.0
"""How long several boxes are asked to end before any is waited for."""


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
        ended = _end_all(context, boxes, app.paths.state, troubles)
        owed = _merged(troubles)
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


def _end_all(context: Context, boxes: list[Box], state: Path, troubles: list[GpucloudError]) -> list[Box]:
    """Ends every box; one that cannot be ended does not keep the others.

    Each is asked to end before any is waited for, and they are waited for in turns: what hangs takes no time
    from the others. There is one budget for all, and after a signal one minute.
    """
    from gpucloud.journal.lifecycle import OVER
    from gpucloud.runtime.isolation import isolated

    waiting = [box for box in boxes if box.state not in OVER]
    over = [box for box in boxes if box.state in OVER]
    ended: dict[str, Box] = {box.id: box for box in over}
    owed: dict[str, list[GpucloudError]] = {}
    if waiting:
        context.tell("down", f"ending {', '.join(box.name for box in waiting)}")
    with context.tasks.finishing(), context.tasks.within(BUDGET_S):
        if len(waiting) > 1:
            _ask_all(context, waiting)
        while waiting and context.tasks.left_s:
            again: list[Box] = []
            for number, box in enumerate(waiting):
                owed[box.id] = []
                share_s = context.tasks.left_s / (len(waiting) - number)
                with context.tasks.within(min(share_s, TURN_S) if len(waiting) > 1 else share_s):
                    with isolated(owed[box.id], f"box {box.name!r}"):
                        ended[box.id] = _end_one(context, box, state)
                    if owed[box.id] and not context.tasks.left_s:  # otherwise waiting would change nothing
                        again.append(box)
            waiting = again
    troubles += [trouble for each in owed.values() for trouble in each]
    return [ended[box.id] for box in boxes if box.id in ended]


def _ask_all(context: Context, boxes: Sequence[Box]) -> None:
    """Asks that boxes end, in all clouds at the same time, and does not wait until they have."""
    from dataclasses import replace

    from gpucloud.runtime.context import say_nothing

    def ask(names: Sequence[Box]) -> None:
        there = replace(context, tasks=context.tasks.for_another_thread(), tell=say_nothing)
        with there.tasks.within(ASKING_S):
            for box in names:
                _ask_one(there, box)

    by_cloud: dict[str, list[Box]] = {}
    for box in boxes:
        by_cloud.setdefault(str(box.facts.get("cloud")), []).append(box)
    context.tasks.until_done(
        [context.tasks.start(partial(ask, each)) for each in by_cloud.values()], ASKING_S
    )


def _ask_one(context: Context, box: Box) -> None:
    """One pass to end a box; what fails is met again, and told, when its end is waited for."""
    from gpucloud.boxes.teardown import take_down
    from gpucloud.runtime.isolation import isolated

    with isolated([], f"box {box.name!r}"):
        taken = context.take(box, by_force=True)
        assert taken is not None  # noqa: S101  (by force, nobody keeps it)
        take_down(context, taken, once=True)


def _end_one(context: Context, box: Box, state: Path) -> Box:
    from gpucloud.boxes.teardown import take_down
    from gpucloud.inventory.discovery import refuse_strays
    from gpucloud.journal.store import JournalError
    from gpucloud.ssh.client import forget
    from gpucloud.ssh.keys import key_folder

    try:
        # Also from a process that lives: a pipeline's clean-up runs in another container than its job.
        taken = context.take(box, by_force=True)
        assert taken is not None  # noqa: S101  (by force, nobody keeps it)
        try:
            done = take_down(context, taken)
            forget(key_folder(state, box.id), box.id, nodes=len(box.facts.get("nodes") or [0]))
            refuse_strays(context, done)
        finally:
            context.journal.release(taken)
    except JournalError as error:
        raise ended_unrecorded(context, box, error, budget_s=BUDGET_S) from error
    return done


def _merged(troubles: list[GpucloudError]) -> GpucloudError | None:
    """Several boxes' troubles as one: what is left of each, and one command for all; ``None`` for none."""
    from gpucloud.runtime.isolation import UnforeseenError

    if not troubles:
        return None
    if len(troubles) == 1 and not isinstance(troubles[0], UnforeseenError):
        return troubles[0]
    commands = list(dict.fromkeys(each.owed_command for each in troubles))
    return OwedError(
        "; ".join(each.message for each in troubles),
        hint=troubles[0].hint,
        left=[left for each in troubles for left in each.left],
        owed_command=commands[0] if len(commands) == 1 and commands[0] else "gpucloud down --all --yes",
    )
