"""``gpucloud setup``: the set-up of a box once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App

if TYPE_CHECKING:
    from gpucloud.cli.documents.boxes import SetupDocument


def setup(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
) -> None:
    """Repeat the setup of a box, and make the box ready.

    For a box that `launch --keep-on-failure` kept: repeats the steps of the first boot, the files of --sync,
    the setup commands, and the test of the GPUs, and starts the command of --run. On a box that is ready,
    files are not copied again, and no command is started. The variables of --env are those of the launch:
    they are on the box, in ~/.gpucloud/env.

    Exits with 8 if the setup fails again: the box stays, and is billed until its deadline.

    Examples:
        gpucloud setup trainer
        gpucloud setup trainer --json
    """
    with app.working() as (client, timeline):
        box = client.boxes.setup(name)
        living = living_after(client)
    with answering(f"{box.name} is ready", [box]):
        if app.output.json:
            answer: SetupDocument = {"box": box.document(), "timeline": timeline.document()}
            app.output.document("setup", answer)
    app.output.say(f"{box.name} is ready: gpucloud ssh {box.name}")
    app.output.say(f"{paying_text(living)} Delete it with: gpucloud down {box.name}")
