"""``gpucloud down``: ends boxes, and returns when the cloud says that nothing billable is left."""

from __future__ import annotations

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
from gpucloud.lifecycle import BoxState

if TYPE_CHECKING:
    from gpucloud.store import Box
    from gpucloud.survey import Survey
    from gpucloud.world import World

BUDGET_S = 600.0


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
    from gpucloud.survey import unjudged

    survey: Survey | None = None
    troubles: list[GpucloudError] = []
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as world:
        if run_id is not None:
            survey = _take_in(app, world, run_id, troubles)
            say_unjudged(app, unjudged(survey, app.owner))
        boxes = _chosen(world, names or [], run_id)
        if not boxes:
            app.output.say("No box to take down.")
        elif not yes:
            timeline.pause()
            with world.waiter.asking():
                _confirm(app, boxes)
            timeline.resume()
        ended = _end_all(world, boxes, app.paths.state, troubles)
        owed = _merged(troubles)
        if owed is None and world.waiter.signum is None:
            settle_owed(app, world)
        living = world.journal.boxes(owner=app.owner)
    if owed is not None:
        raise owed
    if world.waiter.signum is not None:
        raise InterruptedBySignal("everything asked for was taken down", signum=world.waiter.signum)
    suspects = unjudged(survey, app.owner) if survey else ()
    with answering(f"taken down: {' '.join(box.name for box in ended) or 'nothing'}", ()):
        if app.output.json:
            boxes_seen = [box_document(box, now()) for box in ended]
            app.output.document("down", {"boxes": boxes_seen, **unjudged_document(suspects)})
    for box in ended:
        app.output.say(f"{box.name} is {box.state}: the cloud says that nothing billable is left of it.")
    app.output.say(paying_text(living))
    return OwedError.exit_code if suspects or (survey and survey.unread) else 0


def _take_in(app: App, world: World, run_id: str, troubles: list[GpucloudError]) -> Survey:
    """Writes down what another machine launched for this run; gives what was found of it."""
    from gpucloud.adopt import adopt_box
    from gpucloud.cli.market import open_market
    from gpucloud.isolation import isolated
    from gpucloud.model import Search
    from gpucloud.survey import begin, by_box, finish

    world.tell("down", f"looking for run {run_id} in every region of every cloud")
    survey = finish(world, begin(world, Search(run=run_id)))
    say_unread(app, survey)
    boxes = by_box(survey.things)
    market = open_market() if boxes else None
    for owner, things in boxes:
        if market is not None and owner == world.owner:
            with isolated(troubles, f"{things[0].ref.kind} {things[0].ref.id}"):
                adopt_box(world, things, BoxState.DELETING, market)
        else:
            what = f"{things[0].ref.kind} {things[0].ref.id}"
            app.output.say(
                f"Left alone: {what} is of this run, of owner {owner}; if that is you: GPUCLOUD_OWNER={owner}"
            )
    return survey


def _chosen(world: World, names: list[str], run_id: str | None) -> list[Box]:
    if names:
        return list(
            {box.id: box for name in names if (box := find_box(world.journal, world.owner, name))}.values()
        )
    boxes = world.journal.boxes(owner=world.owner)
    return [box for box in boxes if run_id is None or box.run_id == run_id]


def _confirm(app: App, boxes: list[Box]) -> None:
    what = ", ".join(box.name for box in boxes)
    if not app.output.interactive:
        raise UsageError(f"not taking down {what} without a yes", hint="add --yes")
    if not app.output.ask(f"Take down {what}? Everything on the disks is lost."):
        raise UsageError("nothing was taken down")


def _end_all(world: World, boxes: list[Box], state: Path, troubles: list[GpucloudError]) -> list[Box]:
    """Ends every box; one that cannot be ended does not keep the others."""
    from gpucloud.isolation import isolated
    from gpucloud.store import JournalError

    ended: list[Box] = []
    for number, box in enumerate(boxes):
        # After a signal there is one minute for all of them.
        with (
            isolated(troubles, f"box {box.name!r}"),
            world.waiter.within(world.waiter.left_s / (len(boxes) - number)),
        ):
            try:
                ended.append(_end_one(world, box, state))
            except JournalError as error:
                raise ended_unrecorded(world, box, error, budget_s=BUDGET_S) from error
    return ended


def _end_one(world: World, box: Box, state: Path) -> Box:
    from gpucloud.lifecycle import OVER
    from gpucloud.ssh import forget
    from gpucloud.ssh_keys import key_folder
    from gpucloud.survey import refuse_strays
    from gpucloud.teardown import take_down

    if box.state in OVER:
        return box
    world.tell("down", f"ending {box.name}")
    # Also from a process that lives: a pipeline's clean-up runs in another container than its job.
    taken = world.take(box, by_force=True)
    assert taken is not None  # noqa: S101  (by force, nobody keeps it)
    try:
        with world.waiter.finishing():
            done = take_down(world, taken, budget_s=BUDGET_S, ends_as=BoxState.DELETED)
        forget(key_folder(state, box.id), box.id, nodes=len(box.facts.get("nodes") or [0]))
        with world.waiter.finishing():
            refuse_strays(world, done)
    finally:
        world.journal.release(taken)
    return done


def _merged(troubles: list[GpucloudError]) -> GpucloudError | None:
    """Several boxes' troubles as one: what is left of each, and one command for all; ``None`` for none."""
    from gpucloud.isolation import UnforeseenError

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
