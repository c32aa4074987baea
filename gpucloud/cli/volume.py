"""``gpucloud volume``: encrypted disks that outlive boxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.api.texts import money_text, per_day_text, place_text
from gpucloud.api.volume import state_text, where_text
from gpucloud.cli.context import App, completed
from gpucloud.cli.listing import lists
from gpucloud.cli.stored import Yes, confirmed, end_text, sum_per_day_text, whole_gib
from gpucloud.costs.amounts import time
from gpucloud.rendering.texts import duration_text
from gpucloud.resources import rfc3339
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.api.volume import Volume
    from gpucloud.cli.documents.boxes import VolumeAnswerDocument, VolumesDocument
    from gpucloud.cli.timeline import Timeline
    from gpucloud.planning.volume_plan import VolumePlan

Name = Annotated[str, typer.Argument(help="Name or ID of the volume.", metavar="NAME")]


def _place_option(flag: str, text: str, metavar: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, help=text, metavar=metavar, show_default=False)
    return option


def create(
    app: App,
    name: Annotated[str, typer.Argument(help="Name of the volume: 1-40 of a-z, 0-9 and -.", metavar="NAME")],
    size: Annotated[str, typer.Option("--size", help="Size in GiB: 500, 1TB.", metavar="GIB")],
    near: Annotated[str | None, _place_option("--near", "Where this GPU is cheapest: A100:8.", "GPU")] = None,
    cloud: Annotated[str | None, _place_option("--cloud", "The cloud of the volume.", "NAME")] = None,
    region: Annotated[str | None, _place_option("--region", "The region of the volume.", "NAME")] = None,
    zone: Annotated[str | None, _place_option("--zone", "The zone of the volume.", "NAME")] = None,
    keep: Annotated[
        str, typer.Option("--keep", help="Delete it this long after its last use: 12h, 90d.", metavar="TIME")
    ] = "30d",
    yes: Yes = False,
) -> None:
    """Create an encrypted disk that outlives boxes.

    It is billed until it is deleted: by `volume delete`, or after --keep without use. A box can use it only
    in its zone.

    Examples:
        gpucloud volume create data --size 500 --near A100:8
        gpucloud volume create data --size 1TB --region us-east-1 --keep 90d --yes
    """
    kept, gib = time("--keep", keep), whole_gib(size)
    residency = completed(app, Spec(), ("residency",))[0].residency
    with app.working() as (client, timeline):
        volume = client.volumes.create(
            name,
            size_gib=gib,
            near=near,
            cloud=cloud,
            region=region,
            zone=zone,
            residency=residency,
            keep=kept,
            confirm=partial(creation_confirmed, app, timeline, yes),
        )
    answer(app, volume)
    say_ready(app, volume)


@lists("volumes", name="name")
def list_volumes(
    app: App,
    all: Annotated[bool, typer.Option("--all", "-a", help="Include deleted and failed volumes.")] = False,  # noqa: A002
) -> None:
    """List volumes: size, place, last use, price, cost so far, time left.

    Examples:
        gpucloud volume list
        gpucloud volume list --all --json
    """
    volumes = app.client.volumes.list(over=all)
    if app.output.json:
        document: VolumesDocument = {"volumes": [volume.document() for volume in volumes]}
        app.output.document("volumes", document)
    elif volumes:
        app.output.table(volumes.table())
        app.output.say(paying_text_of(volumes))
    else:
        app.output.say("No volumes. Create one: gpucloud volume create data --size 100 --near T4")


def show(app: App, name: Name) -> None:
    """Show one volume.

    Examples:
        gpucloud volume show data
        gpucloud volume show data --json
    """
    volume = app.client.volumes.get(name)
    answer(app, volume)
    if app.output.json:
        return
    app.output.fields(
        {
            "name": volume.name,
            "state": state_text(volume),
            "size": f"{volume.size_gib} GiB",
            "where": where_text(volume),
            "costs": f"{per_day_text(volume.per_hour) or 'an unknown price'} per day",
            "cost so far": money_text(volume.cost_so_far),
            "last used": rfc3339(volume.used_at) if volume.used_at else "never",
            "deleted at": None if volume.is_over else end_text(volume.expires_at),
        }
    )


def delete(app: App, name: Name, yes: Yes = False) -> None:
    """Delete a volume with its data; returns when the cloud confirms that nothing billable is left.

    Examples:
        gpucloud volume delete data
        gpucloud volume delete data --yes
    """
    with app.working() as (client, timeline):
        volume = client.volumes.delete(name, confirm=partial(_deletion_confirmed, app, timeline, yes))
    answer(app, volume)
    app.output.say(f"{volume.name} is {volume.state}: the cloud says that nothing billable is left of it.")


COMMANDS = {"create": create, "list": list_volumes, "show": show, "delete": delete}


def paying_text_of(volumes: Sequence[Volume]) -> str:
    """What volumes cost per day now, and which of them nobody uses, as a sentence."""
    living = [volume for volume in volumes if not volume.is_over]
    idle = [volume.name for volume in living if volume.attached_to is None]
    unused = f"; no box uses {', '.join(idle)}" if idle else ""
    return (
        f"Your volumes cost {sum_per_day_text([volume.per_hour for volume in living])} per day now{unused}."
    )


def answer(app: App, volume: Volume) -> None:
    """Prints the answer of a command on one volume."""
    if app.output.json:
        document: VolumeAnswerDocument = {"volume": volume.document()}
        app.output.document("volume", document)


def say_ready(app: App, volume: Volume) -> None:
    """Says where a new volume is, what it costs, and how it ends."""
    cost = per_day_text(volume.per_hour) or "an unknown price"
    app.output.say(
        f"{volume.name} is ready in {where_text(volume)} and costs {cost} per day. It is deleted at "
        f"{end_text(volume.expires_at)}, or with: gpucloud volume delete {volume.name}"
    )


def creation_confirmed(app: App, timeline: Timeline, yes: bool, plan: VolumePlan) -> bool:
    """Shows what a volume would cost, and asks."""
    place = plan.place
    where = place_text(place.cloud, place.zone or place.region)
    price = money_text(plan.per_day(app.client.billing_of(place.cloud)))
    cost = f"costs {price} per day" if price else "has an unknown price"
    filled = f", filled from snapshot {plan.snapshot.name}" if plan.snapshot else ""
    return confirmed(
        app,
        timeline,
        yes,
        doing=f"creating {plan.name} in {where}",
        said=f"{plan.name}: {plan.size_gib} GiB in {where}, encrypted{filled}, {cost} until it is deleted.",
        question=f"Create {plan.name}, kept {duration_text(plan.keep)} after its last use?",
    )


def _deletion_confirmed(app: App, timeline: Timeline, yes: bool, volume: Volume) -> bool:
    question = f"Delete {volume.name}? All data on it is lost."
    return confirmed(app, timeline, yes, doing=f"deleting {volume.name}", question=question)
