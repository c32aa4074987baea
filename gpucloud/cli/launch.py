"""``gpucloud launch``: plans, asks, buys, boots, and waits until the GPUs answer over ssh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, box_document, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.engine import connect, engine, now
from gpucloud.cli.options import RunId, takes_spec
from gpucloud.cli.plan import AcceptSnapshot, most_of, read_plan, refuse_short, show_plan, spec_json
from gpucloud.cli.provision import Buyer, Deal, environment_of, refuse_impossible
from gpucloud.cli.timeline import Timeline
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import forget
from gpucloud.ssh.keys import key_folder

if TYPE_CHECKING:
    from gpucloud.journal.store import Box
    from gpucloud.planning.plan import Plan
    from gpucloud.runtime.context import Context


@takes_spec
def launch(
    app: App,
    spec: Spec,
    plan: Annotated[
        Path | None, typer.Argument(help="A plan saved by `gpucloud plan -o`.", metavar="[PLAN]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    run_id: RunId = None,
    accept_snapshot_price: AcceptSnapshot = False,
) -> None:
    """Launch the cheapest box that will start, and wait until its GPUs answer over ssh."""
    saved = read_plan(plan) if plan is not None else None
    if saved is not None:
        spec = _spec_of(saved, spec)
    refuse_impossible(spec)
    environment = environment_of(spec)
    if not yes and not app.output.interactive:
        raise UsageError("not buying without a yes: there is no terminal to ask on", hint="add --yes")
    proxy_command = connect(app)
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as context:
        buyer = Buyer(
            app,
            context,
            spec,
            run_id,
            proxy_command,
            environment,
            accept_snapshot_price=accept_snapshot_price,
        )
        buyer.settle_first()
        deal = buyer.deal(saved)
        if not yes:
            timeline.pause()
            deal = _agreed(app, context, spec, deal)
            timeline.resume()
        box = buyer.buy(deal)
        if spec.run:
            _start(app, context, box, spec.run, environment)
        context.journal.release(box)
        box = context.journal.box(box.id)
        living = context.journal.boxes(owner=app.owner)
    with answering(f"{box.name} is ready", [box]):
        if app.output.json:
            steps = [{"step": step, "at_s": round(at, 3)} for step, at in timeline.steps]
            app.output.document("launch", {"box": box_document(box, now()), "timeline": steps})
    app.output.say(f"{box.name} is ready: gpucloud ssh {box.name}")
    if spec.run:
        app.output.say(f"Its command runs: gpucloud logs {box.name} --job -f")
    app.output.say(f"{paying_text(living)} End it with: gpucloud down {box.name}")


def _spec_of(saved: Plan, flags: Spec) -> Spec:
    """The saved plan's own spec: a plan is done exactly, so no flag may change it."""
    from gpucloud.spec.file import load_spec

    if spec_json(flags):
        given = ", ".join(sorted(spec_json(flags)))
        raise UsageError(f"a saved plan is launched as it is; it cannot be changed by: {given}")
    return load_spec(None, dict(saved.spec))


def _agreed(app: App, context: Context, spec: Spec, deal: Deal) -> Deal:
    """Shows what would be bought and asks for a yes.

    Raises:
        UsageError: the answer was a no, or came too late for the end that was named.
    """
    show_plan(app, deal.plan, spec, most=5)
    with context.tasks.asking():
        most = most_of(deal.plan, spec, deal.end, app.catalog.market)
        agreed = app.output.ask(f"Launch the first that starts, {most.text}?")
    if not agreed:
        raise UsageError("nothing was launched")
    answered = now()
    if deal.end is not None:
        refuse_short(deal.end - answered, "--ttl")
    return replace(deal, agreed_at=answered)


def _start(app: App, context: Context, box: Box, command: str, environment: Mapping[str, str]) -> None:
    """Starts the spec's command; where that fails, the box is of no use."""
    from gpucloud.boxes.bring_up import targets
    from gpucloud.boxes.launch import abandon
    from gpucloud.ssh.job import script_of, start

    keys = key_folder(app.paths.state, box.id)
    first = targets(box, keys, connect(app))[0]
    context.tell("job", command.splitlines()[0])
    try:
        context.tasks.run(partial(start, first, script_of(command, environment)))
    except BaseException as error:
        abandon(context, box, error)
        forget(keys, box.id, nodes=len(box.facts["nodes"]))
        raise
