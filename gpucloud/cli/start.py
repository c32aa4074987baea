"""``gpucloud start``: buys the machine of a stopped box again, at today's price."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App
from gpucloud.costs.amounts import number
from gpucloud.errors import UsageError
from gpucloud.resources import rfc3339
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.boxes.power import Start
    from gpucloud.cli.documents.boxes import StartDocument
    from gpucloud.cli.timeline import Timeline


def start(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    ttl: Annotated[
        str | None,
        typer.Option(
            "--ttl",
            help="Time to live from now: 90m, 12h, none. Default: that of its launch.",
            metavar="TIME",
        ),
    ] = None,
    max_price: Annotated[
        str | None,
        typer.Option(
            "--max-price",
            help="Limit in USD per hour. Default: the one of its launch or last start.",
            metavar="USD",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Start a stopped box at today's price, and wait until its GPUs answer over ssh.

    It is always the same machine type in the same zone. Exit code 5: there is no capacity now. 7: it costs
    more than the limit. In both cases the box stays stopped.

    Examples:
        gpucloud start trainer
        gpucloud start trainer --ttl 8h --max-price 1.20 --yes
    """
    limit = None if max_price is None else number("--max-price", max_price)
    lives = None if ttl is None else _lives(ttl)
    with app.working() as (client, timeline):
        confirm = partial(_confirmed, app, timeline, yes)
        box = client.boxes.start(name, ttl=lives, max_price=limit, confirm=confirm)
        living = living_after(client)
    with answering(f"{box.name} is ready", [box]):
        if app.output.json:
            answer: StartDocument = {"box": box.document()}
            app.output.document("start", answer)
    app.output.say(f"{box.name} is ready: gpucloud ssh {box.name}")
    app.output.say(f"{paying_text(living)} Stop it with: gpucloud stop {box.name}")


def _lives(text: str) -> timedelta | Literal["none"]:
    from gpucloud.spec.fields import end

    try:
        return end(text)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error


def _confirmed(app: App, timeline: Timeline, yes: bool, proposal: Start) -> bool:
    """Shows the price, and asks."""
    name, price = proposal.box.name, proposal.price
    if not yes and not app.output.interactive:
        raise UsageError(
            f"starting {name} needs confirmation, and there is no terminal to ask on", hint="add --yes"
        )
    cost = f"{format_money(price.amount, price.currency)} per hour" if price else "nothing new for compute"
    most = f", at most {format_money(proposal.ceiling_usd)}" if proposal.ceiling_usd is not None else ""
    until = f"until {rfc3339(proposal.end)}" if proposal.end else "without a deadline"
    timeline.pause()
    app.output.say(f"{name} costs {cost} now{most}, beside its disk and address; it would run {until}.")
    agreed = yes or app.output.ask(f"Start {name}?")
    timeline.resume()
    return agreed
