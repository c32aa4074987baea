"""``gpucloud launch``: plans, asks, buys, boots, and waits until the GPUs answer over ssh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App, completed
from gpucloud.cli.failure import as_text, is_spec_file, use_file
from gpucloud.cli.options import RunId, SpecFlags, Wait, duration_of
from gpucloud.cli.plan import AcceptSnapshot, limit_text, show_plan
from gpucloud.errors import InterruptedBySignal, UsageError
from gpucloud.rendering.table import Role
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.api.results import Proposal
    from gpucloud.cli.documents.boxes import LaunchDocument
    from gpucloud.cli.documents.errors import FailureDocument
    from gpucloud.cli.timeline import Timeline
    from gpucloud.planning.plan import Plan


def launch(
    app: App,
    spec: SpecFlags,
    plan: Annotated[
        Path | None,
        typer.Argument(help="File of `gpucloud plan --save`. Default: plan now.", metavar="[PLAN]"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    run_id: RunId = None,
    accept_snapshot_price: AcceptSnapshot = False,
    wait: Wait = None,
    keep_on_failure: Annotated[
        bool,
        typer.Option(
            "--keep-on-failure",
            help="Keep the box, billed, until its deadline if its setup fails; see gpucloud setup.",
        ),
    ] = False,
) -> int | None:
    """Launch the cheapest box that starts, and wait until its GPUs answer over ssh.

    Examples:
        gpucloud launch --gpu A100:8 --count 3 --spread region
        gpucloud launch --preset train --name trainer --yes
    """
    wanted = completed(app, spec)[0] if plan is None else _saved(plan, spec)
    if not yes and not app.output.interactive:
        if isinstance(wanted, Spec):
            app.client.market.offers(wanted, why=True)  # a place that does not exist comes first
        raise UsageError("a launch needs confirmation, and there is no terminal to ask on", hint="add --yes")
    with app.working() as (client, timeline):
        try:
            launched = client.launch_all(
                wanted,
                run_id=run_id,
                accept_snapshot_price=accept_snapshot_price,
                keep_on_failure=keep_on_failure,
                wait=duration_of("--wait", wait),
                confirm=None if yes else lambda proposal: _confirmed(app, timeline, proposal),
            )
        except InterruptedBySignal as stop:
            left = f"{stop.message}; nothing of this launch is left"
            raise InterruptedBySignal(left, signum=stop.signum) from stop
        living = living_after(client)
    boxes, failure = launched.boxes, launched.failure
    with answering(" ".join(f"{box.name} is ready" for box in boxes), boxes):
        if app.output.json:
            answer: LaunchDocument = {
                "box": boxes[0].document(),
                "boxes": [box.document() for box in boxes],
                "failure": None if failure is None else cast("FailureDocument", failure.document()["error"]),
                "timeline": timeline.document(),
            }
            app.output.document("launch", answer)
    for box in boxes:
        app.output.say(f"{box.name} is ready: gpucloud ssh {box.name}")
        if box.runs_command:
            app.output.say(f"Its command is running: gpucloud logs {box.name} --job run -f")
    if failure is not None:
        app.output.say(f"Not all boxes are ready: {as_text(failure)}", role=Role.ERROR)
    which = boxes[0].name if len(boxes) == 1 else f"--run-id {boxes[0].run_id}"
    app.output.say(
        f"{paying_text(living)} Delete {'it' if len(boxes) == 1 else 'them'} with: gpucloud down {which}"
    )
    return None if failure is None else failure.exit_code


def _saved(file: Path, flags: Spec) -> Plan:
    """Reads a saved plan. It is launched as it is: spec flags are refused."""
    from gpucloud.planning.launch_plan import read_plan

    if is_spec_file(file.name):
        raise UsageError(f"{file} is a spec file, not a saved plan", hint=use_file("gpucloud launch", file))
    plan = read_plan(file)
    if flags.document():
        given = ", ".join(sorted(flags.document()))
        raise UsageError(f"a saved plan is launched as it is; these flags cannot change it: {given}")
    return plan


def _confirmed(app: App, timeline: Timeline, proposal: Proposal) -> bool:
    """Shows the plan and asks for confirmation."""
    timeline.pause()
    show_plan(app, proposal.plan, proposal.limit, most=5)
    count = proposal.plan.spec.get("count", 1)
    what = "the first attempt that succeeds" if count == 1 else f"{count} boxes"
    agreed = app.output.ask(f"Launch {what}, {limit_text(proposal.limit)}?")
    timeline.resume()
    return agreed
