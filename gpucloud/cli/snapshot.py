"""``gpucloud snapshot``: copies of volumes and of stopped boxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.api.snapshot import state_text
from gpucloud.api.texts import money_text, per_day_text, place_text
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.stored import Yes, confirmed, end_text, sum_per_day_text, whole_gib
from gpucloud.cli.volume import answer as answer_volume
from gpucloud.cli.volume import creation_confirmed, say_ready
from gpucloud.costs.amounts import time
from gpucloud.rendering.texts import duration_text
from gpucloud.resources import rfc3339

if TYPE_CHECKING:
    from gpucloud.api.snapshot import Snapshot
    from gpucloud.cli.documents.boxes import SnapshotAnswerDocument, SnapshotsDocument
    from gpucloud.cli.timeline import Timeline
    from gpucloud.planning.snapshot_plan import SnapshotPlan

Name = Annotated[str, typer.Argument(help="Name or ID of the snapshot.", metavar="NAME")]


def create(
    app: App,
    name: Annotated[
        str, typer.Argument(help="Name of the snapshot: 1-40 of a-z, 0-9 and -.", metavar="NAME")
    ],
    of: Annotated[
        str, typer.Option("--of", help="The volume, or the stopped box, to copy.", metavar="VOLUME|BOX")
    ],
    keep: Annotated[
        str, typer.Option("--keep", help="Delete it after this time: 12h, 90d.", metavar="TIME")
    ] = "30d",
    yes: Yes = False,
) -> None:
    """Copy a volume as it is now, also while a box uses it; or the root disk of a stopped box.

    A box that uses the volume runs its --checkpoint command before, and writes what is not on the disk yet. A
    copy of a root disk boots other boxes: `launch --image NAME`. The snapshot is billed for what it holds
    until it is deleted: by `snapshot delete`, or after --keep.

    Examples:
        gpucloud snapshot create monday --of data
        gpucloud snapshot create my-image --of trainer --keep 90d --yes
    """
    kept = time("--keep", keep)
    with app.working() as (client, timeline):
        snapshot = client.snapshots.create(
            name, of=of, keep=kept, confirm=partial(_confirmed, app, timeline, yes)
        )
    _answer(app, snapshot)
    cost = per_day_text(snapshot.most_per_hour)
    restore = f"Make a volume of it: gpucloud snapshot restore {snapshot.name} --to NAME"
    launch = f"Boot a box from it: gpucloud launch --image {snapshot.name}"
    app.output.say(
        f"{snapshot.name} holds {snapshot.of} as it was now, and costs "
        f"{f'at most {cost}' if cost else 'an unknown amount'} per day. It is deleted at "
        f"{end_text(snapshot.expires_at)}. {launch if snapshot.bootable else restore}"
    )


@lists("snapshots", name="name")
def list_snapshots(
    app: App,
    all: Annotated[bool, typer.Option("--all", "-a", help="Include deleted and failed snapshots.")] = False,  # noqa: A002
) -> None:
    """List snapshots: volume or box, size, place, price, time left.

    Examples:
        gpucloud snapshot list
        gpucloud snapshot list --all --json
    """
    snapshots = app.client.snapshots.list(over=all)
    if app.output.json:
        document: SnapshotsDocument = {"snapshots": [snapshot.document() for snapshot in snapshots]}
        app.output.document("snapshots", document)
    elif snapshots:
        app.output.table(snapshots.table())
        app.output.say(paying_text_of(snapshots))
    else:
        app.output.say(
            "No snapshots. Copy a volume or a stopped box: gpucloud snapshot create NAME --of NAME"
        )


def show(app: App, name: Name) -> None:
    """Show one snapshot.

    Examples:
        gpucloud snapshot show monday
        gpucloud snapshot show monday --json
    """
    snapshot = app.client.snapshots.get(name)
    _answer(app, snapshot)
    if app.output.json:
        return
    cost = per_day_text(snapshot.most_per_hour)
    app.output.fields(
        {
            "name": snapshot.name,
            "state": state_text(snapshot),
            "box" if snapshot.bootable else "volume": snapshot.of,
            "size": f"at most {snapshot.size_gib} GiB",
            "where": place_text(snapshot.cloud, snapshot.region),
            "costs": f"at most {cost} per day" if cost else "an unknown price per day",
            "cost so far": (so_far := money_text(snapshot.most_so_far)) and f"at most {so_far}",
            "created at": rfc3339(snapshot.created_at),
            "deleted at": None if snapshot.is_over else end_text(snapshot.expires_at),
        }
    )


def restore(
    app: App,
    name: Name,
    to: Annotated[str, typer.Option("--to", help="Name of the new volume.", metavar="VOLUME")],
    near: Annotated[
        str | None,
        typer.Option("--near", help="Where this GPU is cheapest: A100:8.", metavar="GPU", show_default=False),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            "--zone",
            help="A zone of the snapshot's region. Default: that of its volume.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", help="Size in GiB. Default: that of its volume.", metavar="GIB", show_default=False
        ),
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", help="Delete the volume this long after its last use.", metavar="TIME")
    ] = "30d",
    yes: Yes = False,
) -> None:
    """Create a volume with the data of a snapshot, in any zone of its region.

    The snapshot stays. The new volume may be larger; its file system keeps its size.

    Examples:
        gpucloud snapshot restore monday --to data-2
        gpucloud snapshot restore monday --to data-2 --zone use1-az2 --yes
    """
    kept, gib = time("--keep", keep), None if size is None else whole_gib(size)
    with app.working() as (client, timeline):
        volume = client.snapshots.restore(
            name,
            volume=to,
            near=near,
            zone=zone,
            size_gib=gib,
            keep=kept,
            confirm=partial(creation_confirmed, app, timeline, yes),
        )
    answer_volume(app, volume)
    say_ready(app, volume)


def delete(app: App, name: Name, yes: Yes = False) -> None:
    """Delete a snapshot; returns when the cloud confirms that nothing billable is left.

    Volumes and boxes that were made of it stay.

    Examples:
        gpucloud snapshot delete monday
        gpucloud snapshot delete monday --yes
    """
    with app.working() as (client, timeline):
        snapshot = client.snapshots.delete(name, confirm=partial(_deletion_confirmed, app, timeline, yes))
    _answer(app, snapshot)
    app.output.say(
        f"{snapshot.name} is {snapshot.state}: the cloud says that nothing billable is left of it."
    )


COMMANDS = {"create": create, "list": list_snapshots, "show": show, "restore": restore, "delete": delete}


def paying_text_of(snapshots: Sequence[Snapshot]) -> str:
    """What snapshots cost per day at the most, as a sentence."""
    costs = sum_per_day_text([snapshot.most_per_hour for snapshot in snapshots if not snapshot.is_over])
    if costs == "nothing" or "unknown" in costs:
        return f"Your snapshots cost {costs} per day now."
    return f"Your snapshots cost {costs} per day now, if they hold all that their disks can."


def _answer(app: App, snapshot: Snapshot) -> None:
    if app.output.json:
        document: SnapshotAnswerDocument = {"snapshot": snapshot.document()}
        app.output.document("snapshot", document)


def _confirmed(app: App, timeline: Timeline, yes: bool, plan: SnapshotPlan) -> bool:
    """Shows what a snapshot would cost, and asks."""
    where, price = place_text(plan.place.cloud, plan.place.region), money_text(plan.most_per_day)
    cost = f"costs at most {price} per day" if price else "has an unknown price"
    return confirmed(
        app,
        timeline,
        yes,
        doing=f"copying {plan.source.name}",
        said=f"{plan.name}: a copy of {plan.source.name} in {where}, encrypted, {cost} until it is deleted.",
        question=f"Create {plan.name}, kept for {duration_text(plan.keep)}?",
    )


def _deletion_confirmed(app: App, timeline: Timeline, yes: bool, snapshot: Snapshot) -> bool:
    question = f"Delete {snapshot.name}? What only it holds is lost."
    return confirmed(app, timeline, yes, doing=f"deleting {snapshot.name}", question=question)
