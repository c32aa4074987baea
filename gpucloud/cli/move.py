"""``gpucloud move``: a box like this one in another place, with its files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.plan import limit_text, show_plan
from gpucloud.costs.amounts import number
from gpucloud.errors import UsageError
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.client import Client
    from gpucloud.api.moving import Move
    from gpucloud.cli.documents import MoveDocument
    from gpucloud.cli.timeline import Timeline


def move(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    to: Annotated[
        str,
        typer.Option("--to", help="Where: a cloud, a region or a zone.", metavar="PLACE", show_default=False),
    ],
    paths: Annotated[
        list[str] | None,
        typer.Option(
            "--path",
            help="File or folder below the home folder to copy. Repeatable. Default: all of it.",
            metavar="PATH",
        ),
    ] = None,
    max_price: Annotated[
        str | None,
        typer.Option(
            "--max-price", help="Limit in USD per hour. Default: that of the old box.", metavar="USD"
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; delete the old box at the end.")
    ] = False,
) -> None:
    """Launch a box like this one in another place, copy its files there, and delete the old one.

    The new box has a name of its own, and the time and budget that are left. The files are those of the
    home folder, without keys and caches; other disks are not copied. Both boxes are billed until the old one
    is deleted. A move that fails leaves the old box as it was, and nothing new.
    """
    limit = None if max_price is None else number("--max-price", max_price)
    for path in paths or ():
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise UsageError(f"--path {path!r} is not below the home folder", hint="--path results")
    if not yes and not app.output.interactive:
        raise UsageError(
            f"moving {name} needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    with app.working() as (client, timeline):
        confirm = None if yes else partial(_confirmed, app, timeline)
        box = client.move(name, to, paths=paths or (), max_price=limit, confirm=confirm)
        deleted = _old_deleted(app, client, timeline, name, box, yes=yes)
        living = client.boxes()
    with answering(f"{box.name} is ready", [box]):
        if app.output.json:
            answer: MoveDocument = {"box": box.document(), "old": deleted.document()}
            app.output.document("move", answer)
    app.output.say(f"{name} has moved to {box.cloud} {box.region} as {box.name}: gpucloud ssh {box.name}")
    if not deleted.is_over:
        app.output.say(f"{name} is still billed. Delete it with: gpucloud down {name}")
    app.output.say(paying_text(living))


def _confirmed(app: App, timeline: Timeline, proposal: Move) -> bool:
    """Shows what the new box and the copy cost, and asks."""
    timeline.pause()
    show_plan(app, proposal.purchase.plan, proposal.purchase.limit, most=5)
    transfer = proposal.transfer
    cost = "an unknown amount" if transfer is None else format_money(transfer.amount, transfer.currency)
    app.output.say(
        f"{proposal.gib:.2f} GiB are copied; leaving {proposal.box.cloud} costs {cost}."
        f" {proposal.box.name} is billed until you delete it."
    )
    limit = limit_text(proposal.purchase.limit)
    agreed = app.output.ask(f"Launch {proposal.name} at the first attempt that succeeds, {limit}?")
    timeline.resume()
    return agreed


def _old_deleted(app: App, client: Client, timeline: Timeline, name: str, new: Box, *, yes: bool) -> Box:
    """The old box, which is deleted if the user says so."""
    if not yes:
        timeline.pause()
        agreed = app.output.ask(f"{new.name} is ready with the files. Delete {name} now?")
        timeline.resume()
        if not agreed:
            return client.get(name)
    old = client.get(name)
    client.down([old.id])
    return client.get(old.id)
