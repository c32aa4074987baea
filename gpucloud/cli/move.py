"""``gpucloud move``: a box like this one in another place, with its files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.api.texts import money_text, per_day_text, place_text
from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.plan import limit_text, show_plan
from gpucloud.costs.amounts import number
from gpucloud.errors import UsageError
from gpucloud.rendering.texts import duration_text
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.box import Box
    from gpucloud.api.client import Client
    from gpucloud.api.moving import Move, TravellingVolume
    from gpucloud.api.volume import Volume
    from gpucloud.cli.documents.boxes import MoveDocument
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
    home folder, without keys and caches. Its volumes come along as new ones: within their region by a
    snapshot, to other places file by file; the old volumes stay, and are billed until you delete them. Both
    boxes are billed until the old one is deleted. A move that fails leaves the old box as it was, and
    nothing new.

    Examples:
        gpucloud move trainer --to azure
        gpucloud move trainer --to us-west-2 --path results --yes
    """
    limit = None if max_price is None else number("--max-price", max_price)
    _refuse_outside(paths or ())
    if not yes and not app.output.interactive:
        raise UsageError(
            f"moving {name} needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    with app.working() as (client, timeline):
        confirm = None if yes else partial(_confirmed, app, timeline)
        old_volumes = volumes_of(client, client.get(name))
        box = client.boxes.move(name, to, paths=paths or (), max_price=limit, confirm=confirm)
        deleted = _old_deleted(app, client, timeline, name, box, yes=yes)
        living = living_after(client)
        old_volumes = [client.volumes.get(each.id) for each in old_volumes]
        volumes = volumes_of(client, box)
    with answering(f"{box.name} is ready", [box]):
        if app.output.json:
            answer: MoveDocument = {
                "box": box.document(),
                "old": deleted.document(),
                "volumes": [each.document() for each in volumes],
                "old_volumes": [each.document() for each in old_volumes],
            }
            app.output.document("move", answer)
    _say_moved(app, name, box, deleted, old_volumes)
    app.output.say(paying_text(living))


def _say_moved(app: App, name: str, box: Box, old: Box, old_volumes: Sequence[Volume]) -> None:
    """Says where a box is now, and what is still billed at its old place."""
    app.output.say(f"{name} has moved to {box.cloud} {box.region} as {box.name}: gpucloud ssh {box.name}")
    if not old.is_over:
        app.output.say(f"{name} is still billed. Delete it with: gpucloud down {name}")
    for volume in old_volumes:
        app.output.say(kept_text(volume))


def _refuse_outside(paths: Sequence[str]) -> None:
    """Refuses paths that are not below the home folder.

    Raises:
        UsageError: one is not.
    """
    for path in paths:
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise UsageError(f"--path {path!r} is not below the home folder", hint="--path results")


def volumes_of(client: Client, box: Box) -> list[Volume]:
    """The volumes that a box uses."""
    return [each for each in client.volumes.list() if each.attached_to == box.name]


def kept_text(volume: Volume) -> str:
    """That an old volume stays, what it costs, and how it is deleted."""
    cost = per_day_text(volume.per_hour)
    return (
        f"{volume.name} is kept with what was on it, and costs {cost or 'an unknown amount'} per day."
        f" Delete it with: gpucloud volume delete {volume.name}"
    )


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
    for taken in proposal.volumes:
        app.output.say(_volume_text(app, taken))
        app.output.say(kept_text(app.client.volumes.get(taken.move.volume.id)))
    limit = limit_text(proposal.purchase.limit)
    agreed = app.output.ask(f"Launch {proposal.name} at the first attempt that succeeds, {limit}?")
    timeline.resume()
    return agreed


def _volume_text(app: App, taken: TravellingVolume) -> str:
    """A volume that comes along: where it will be, how its data gets there, and what that costs."""
    move, plan = taken.move, taken.plan
    place = plan.place
    cost = money_text(plan.per_day(app.client.billing_of(place.cloud)))
    if taken.gib is None:
        copy = money_text(move.copy.most_per_day)
        limit = f"at most {copy}" if copy else "an unknown amount"
        how = f"filled from a snapshot, which costs {limit} per day and is deleted at the end"
    else:
        how = f"filled file by file with {taken.gib:.2f} GiB"
    return (
        f"{move.volume.name} is copied to {plan.name}, mounted at {move.path}: {plan.size_gib} GiB in"
        f" {place_text(place.cloud, place.zone or place.region)}, {how}; it costs"
        f" {cost or 'an unknown amount'} per day, and is kept {duration_text(plan.keep)} after its last use."
    )


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
