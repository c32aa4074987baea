"""``gpucloud launch``: plans, asks, buys, boots, and waits until the GPUs answer over ssh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.options import RunId, takes_spec
from gpucloud.cli.plan import AcceptSnapshot, limit_text, show_plan
from gpucloud.errors import UsageError
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.api.results import Proposal
    from gpucloud.cli.timeline import Timeline
    from gpucloud.planning.plan import Plan


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
    wanted = spec if plan is None else _saved(plan, spec)
    if not yes and not app.output.interactive:
        raise UsageError("not buying without a yes: there is no terminal to ask on", hint="add --yes")
    with app.working() as (client, timeline):
        box = client.launch(
            wanted,
            run_id=run_id,
            accept_snapshot_price=accept_snapshot_price,
            confirm=None if yes else lambda proposal: _confirmed(app, timeline, proposal),
        )
        living = client.boxes()
    with answering(f"{box.name} is ready", [box]):
        if app.output.json:
            app.output.document("launch", {"box": box.document(), "timeline": timeline.document()})
    app.output.say(f"{box.name} is ready: gpucloud ssh {box.name}")
    if box.runs_command:
        app.output.say(f"Its command runs: gpucloud logs {box.name} --job -f")
    app.output.say(f"{paying_text(living)} End it with: gpucloud down {box.name}")


def _saved(file: Path, flags: Spec) -> Plan:
    """A saved plan, which is done exactly: no flag may change it."""
    from gpucloud.planning.launch_plan import read_plan

    plan = read_plan(file)
    if flags.document():
        given = ", ".join(sorted(flags.document()))
        raise UsageError(f"a saved plan is launched as it is; it cannot be changed by: {given}")
    return plan


def _confirmed(app: App, timeline: Timeline, proposal: Proposal) -> bool:
    """Shows what would be bought and asks for a yes."""
    timeline.pause()
    show_plan(app, proposal.plan, proposal.limit, most=5)
    agreed = app.output.ask(f"Launch the first that starts, {limit_text(proposal.limit)}?")
    timeline.resume()
    return agreed
