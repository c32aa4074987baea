"""``gpucloud stop``: ends what a box's compute costs, and keeps its disk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App
from gpucloud.costs.amounts import time
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339

if TYPE_CHECKING:
    from gpucloud.boxes.power import PlannedStop
    from gpucloud.cli.documents.boxes import StopDocument
    from gpucloud.cli.timeline import Timeline


def stop(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            help="Delete the stopped box after this time: 12h, 30d. Default: 7d, or what the policy allows.",
            metavar="TIME",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Stop a box: only its disk, and the address that it keeps, are billed until it is started.

    A stopped box may find no capacity when it is started. Exit code 2: this box cannot be stopped. 8: its
    cloud still bills it.

    Examples:
        gpucloud stop trainer
        gpucloud stop trainer --keep 30d --yes
    """
    kept = None if keep is None else time("--keep", keep)
    with app.working() as (client, timeline):
        box = client.boxes.stop(name, keep=kept, confirm=partial(_confirmed, app, timeline, yes))
        living = living_after(client)
    with answering(f"{box.name} is stopped", [box]):
        if app.output.json:
            answer: StopDocument = {"box": box.document()}
            app.output.document("stop", answer)
    until = f" It is deleted at {rfc3339(box.expires_at)}." if box.expires_at else ""
    app.output.say(f"{box.name} is {box.state}.{until} Start it with: gpucloud start {box.name}")
    app.output.say(f"{paying_text(living)} Delete it with: gpucloud down {box.name}")


def _confirmed(app: App, timeline: Timeline, yes: bool, proposal: PlannedStop) -> bool:
    """Lists what is lost, and asks."""
    name = proposal.box.name
    if not yes and not app.output.interactive:
        raise UsageError(
            f"stopping {name} needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    timeline.pause()
    app.output.say(f"Stopping {name} loses: {'; '.join(proposal.lost)}. Its disk stays.")
    agreed = yes or app.output.ask(f"Stop {name}, and delete it at {rfc3339(proposal.keep_until)}?")
    timeline.resume()
    return agreed
