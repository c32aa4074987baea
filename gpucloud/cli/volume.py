"""``gpucloud volume``: encrypted disks that outlive boxes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.market import show_table
from gpucloud.cli.output import duration_text
from gpucloud.costs.amounts import size as size_of
from gpucloud.costs.amounts import time
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.volume import Volume
    from gpucloud.cli.documents import VolumeAnswerDocument, VolumesDocument
    from gpucloud.cli.output import Output
    from gpucloud.cli.timeline import Timeline
    from gpucloud.planning.volume_plan import VolumePlan

HOURS_PER_DAY = 24
HIDDEN_FIRST = ("AGE", "SO FAR", "USED", "WHERE")
"""The columns that a narrow terminal does without."""

Name = Annotated[str, typer.Argument(help="Name or ID of the volume.", metavar="NAME")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


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
    """
    kept, gib = time("--keep", keep), _whole_gib(size)
    with app.working() as (client, timeline):
        volume = client.create_volume(
            name,
            size_gib=gib,
            near=near,
            cloud=cloud,
            region=region,
            zone=zone,
            keep=kept,
            confirm=partial(_confirmed, app, timeline, yes),
        )
    _answer(app, volume)
    cost = _per_day_text(volume) or "an unknown price"
    app.output.say(
        f"{volume.name} is ready in {where_text(volume)} and costs {cost} per day. It is deleted at "
        f"{_end_text(volume)}, or with: gpucloud volume delete {volume.name}"
    )


@lists("volumes", name="name")
def list_volumes(
    app: App,
    all: Annotated[bool, typer.Option("--all", "-a", help="Include deleted and failed volumes.")] = False,  # noqa: A002
) -> None:
    """List volumes: size, place, last use, price, cost so far, time left."""
    volumes = app.client.volumes(over=all)
    if app.output.json:
        answer: VolumesDocument = {"volumes": [volume.document() for volume in volumes]}
        app.output.document("volumes", answer)
    elif volumes:
        show_volumes(app.output, volumes)
        app.output.say(paying_text_of(volumes))
    else:
        app.output.say("No volumes. Create one: gpucloud volume create data --size 100 --near T4")


def show(app: App, name: Name) -> None:
    """Show one volume."""
    volume = app.client.volume(name)
    _answer(app, volume)
    if app.output.json:
        return
    for label, text in (
        ("Name", volume.name),
        ("State", state_text(volume)),
        ("Size", f"{volume.size_gib} GiB"),
        ("Where", where_text(volume)),
        ("Costs", f"{_per_day_text(volume) or 'an unknown price'} per day"),
        ("So far", volume.cost_so_far and _money(volume.cost_so_far.amount, volume.cost_so_far.currency)),
        ("Last used", rfc3339(volume.used_at) if volume.used_at else "never"),
        ("Deleted at", None if volume.is_over else _end_text(volume)),
    ):
        if text:
            app.output.line(f"{label:<10}  {text}")


def _whole_gib(text: str) -> int:
    size = size_of("--size", text)
    if size != int(size):
        raise UsageError(f"--size: {text!r} is not allowed; allowed: whole GiB, such as 500 or 1TB")
    return int(size)


def delete(app: App, name: Name, yes: Yes = False) -> None:
    """Delete a volume with its data; returns when the cloud confirms that nothing billable is left."""
    with app.working() as (client, timeline):
        volume = client.delete_volume(name, confirm=partial(_deletion_confirmed, app, timeline, yes))
    _answer(app, volume)
    app.output.say(f"{volume.name} is {volume.state}: the cloud says that nothing billable is left of it.")


COMMANDS = {"create": create, "list": list_volumes, "show": show, "delete": delete}


def show_volumes(output: Output, volumes: Sequence[Volume]) -> None:
    """Prints volumes as a table."""
    now = datetime.now(UTC)
    columns: dict[str, Sequence[object]] = {
        "NAME": [volume.name for volume in volumes],
        "STATE": [state_text(volume) for volume in volumes],
        "GIB": [volume.size_gib for volume in volumes],
        "WHERE": [where_text(volume) for volume in volumes],
        "PER DAY": [_per_day_text(volume) for volume in volumes],
        "SO FAR": [
            volume.cost_so_far and _money(volume.cost_so_far.amount, volume.cost_so_far.currency)
            for volume in volumes
        ],
        "AGE": [duration_text(now - volume.created_at) for volume in volumes],
        "USED": [_used_text(volume, now) for volume in volumes],
        "LEFT": [_left_text(volume, now) for volume in volumes],
    }
    show_table(output, columns, right=("GIB", "PER DAY", "SO FAR", "AGE", "LEFT"), optional=HIDDEN_FIRST)


def paying_text_of(volumes: Sequence[Volume]) -> str:
    """What volumes cost per day now, and which of them nobody uses, as a sentence."""
    living = [volume for volume in volumes if not volume.is_over]
    idle = [volume.name for volume in living if volume.attached_to is None]
    unused = f"; no box uses {', '.join(idle)}" if idle else ""
    return f"Your volumes cost {_sum_per_day_text(living)} per day now{unused}."


def state_text(volume: Volume) -> str:
    """The state of a volume: which box uses it, and what needs attention."""
    if volume.attached_to:
        return f"used by {volume.attached_to}"
    return f"{volume.state} (overdue)" if volume.overdue else str(volume.state)


def where_text(volume: Volume) -> str:
    """The place of a volume."""
    return " ".join(filter(None, (volume.cloud, volume.zone or volume.region)))


def _left_text(volume: Volume, now: datetime) -> str | None:
    if volume.is_over or volume.expires_at is None:
        return None
    return duration_text(max(volume.expires_at - now, timedelta()))


def _end_text(volume: Volume) -> str:
    return rfc3339(volume.expires_at) if volume.expires_at else "no time"


def _used_text(volume: Volume, now: datetime) -> str:
    return f"{duration_text(now - volume.used_at)} ago" if volume.used_at else "never"


def _per_day_text(volume: Volume) -> str | None:
    price = None if volume.is_over else volume.per_hour
    return None if price is None else _money(price.amount * HOURS_PER_DAY, price.currency)


def _sum_per_day_text(living: Sequence[Volume]) -> str:
    """What volumes cost per day, in each currency; "at least" if the price of one is unknown."""
    sums: dict[str, Decimal] = {}
    for price in filter(None, (volume.per_hour for volume in living)):
        sums[price.currency] = sums.get(price.currency, Decimal(0)) + price.amount * HOURS_PER_DAY
    costs = " and ".join(_money(amount, currency) for currency, amount in sorted(sums.items()))
    if any(volume.per_hour is None for volume in living):
        return f"at least {costs}" if costs else "an unknown amount"
    return costs or "nothing"


def _money(amount: Decimal, currency: str) -> str:
    return format_money(amount, currency)


def _answer(app: App, volume: Volume) -> None:
    if app.output.json:
        answer: VolumeAnswerDocument = {"volume": volume.document()}
        app.output.document("volume", answer)


def _confirmed(app: App, timeline: Timeline, yes: bool, plan: VolumePlan) -> bool:
    """Shows what a volume would cost, and asks."""
    place = plan.place
    where = f"{place.cloud} {place.zone or place.region}"
    if not yes and not app.output.interactive:
        raise UsageError(
            f"creating {plan.name} in {where} needs confirmation, and there is no terminal to ask on",
            hint="add --yes",
        )
    timeline.pause()
    price = plan.per_day(app.client.billing_of(place.cloud))
    cost = f"costs {_money(price.amount, price.currency)} per day" if price else "has an unknown price"
    app.output.say(f"{plan.name}: {plan.size_gib} GiB in {where}, encrypted, {cost} until it is deleted.")
    agreed = yes or app.output.ask(f"Create {plan.name}, kept {duration_text(plan.keep)} after its last use?")
    timeline.resume()
    return agreed


def _deletion_confirmed(app: App, timeline: Timeline, yes: bool, volume: Volume) -> bool:
    if not yes and not app.output.interactive:
        raise UsageError(
            f"deleting {volume.name} needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    timeline.pause()
    agreed = yes or app.output.ask(f"Delete {volume.name}? All data on it is lost.")
    timeline.resume()
    return agreed
