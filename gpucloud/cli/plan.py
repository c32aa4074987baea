"""``gpucloud plan``: shows or saves what ``launch`` would do. Reads only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App, completed
from gpucloud.cli.listing import lists
from gpucloud.cli.options import SpecFlags
from gpucloud.cli.output import refuse_unwritable, time_text, writing
from gpucloud.rendering.texts import counted, duration_text
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.planning.data_source import DataSource
    from gpucloud.planning.documents import PlanDocument
    from gpucloud.planning.lifetime import CostLimit
    from gpucloud.planning.plan import Candidate, Plan

AcceptSnapshot = Annotated[
    bool,
    typer.Option("--accept-snapshot-price", help="Use the shipped price where the cloud quotes none today."),
]


@lists("attempts", name="instance_type")
def plan(
    app: App,
    spec: SpecFlags,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Save the plan for `gpucloud launch FILE`.", metavar="FILE"),
    ] = None,
    accept_snapshot_price: AcceptSnapshot = False,
) -> None:
    """Show what a launch would do: attempts in order, prices, and what ends the box.

    Examples:
        gpucloud plan --gpu T4 --spot
        gpucloud plan -f box.yaml --save plan.json
    """
    if save is not None:
        refuse_unwritable("the plan", save)
    spec, defaults = completed(app, spec)
    with app.working() as (client, _):
        made = client.plan(spec, accept_snapshot_price=accept_snapshot_price)
        limit = client.market.cost_limit(made)
    if save is not None:
        with writing("the plan", save):
            save.write_text(json.dumps(made.as_json(), indent=2) + "\n", encoding="utf-8")
    if app.output.json:
        answer: PlanDocument = {
            **made.document(),
            "ends": ends_text(made, limit),
            "at_most": limit.document(),
            "defaults": defaults,
            "preset": {"name": spec.preset, "fields": spec.preset_document()} if spec.preset else None,
            "data": [each.document() for each in made.data],
        }
        app.output.document("plan", answer)
        return
    show_plan(app, made, limit)
    if spec.on_unhealthy == "replace":
        from gpucloud.runs.replacement import WHO_REPLACES

        app.output.say(WHO_REPLACES)
    app.output.say(f"Costs {limit_text(limit)}.")
    app.output.say(
        f"Next: gpucloud launch {save}" if save else "Next: gpucloud launch with the same options."
    )


def show_plan(app: App, made: Plan, limit: CostLimit, *, most: int | None = None) -> None:
    """Prints a plan: attempts, their flags, the clouds left out, and what ends the box."""
    from gpucloud.planning.plan import CHEAPEST, table_of
    from gpucloud.planning.spread import spread_text

    shown = made.attempts[: most or CHEAPEST]
    app.output.table(table_of(shown))
    if further := made.attempts[len(shown) :]:
        app.output.say(further_text(further))
    if text := spread_text(made.spec, made.attempts):
        app.output.say(text)
    for source in made.data:
        app.output.say(f"Data: {data_text(source)}")
    for flag in sorted({flag for attempt in shown for flag in attempt.flags}):
        flagged = sorted({attempt.instance_type for attempt in shown if flag in attempt.flags})
        app.output.say(f"Flagged {flag}: {', '.join(flagged)}")
    for what, reason in made.left_out.items():
        app.output.say(f"Left out: {what}: {reason}")
    if any(" " not in what for what in made.left_out):  # whole clouds, not a part of one
        app.output.say("gpucloud check says how to set these clouds up.")
    for remark in made.remarks.get(shown[0].cloud, ()) if shown else ():  # of others, --json tells
        app.output.say(f"On {shown[0].cloud}: {remark}")
    app.output.say(ends_text(made, limit))


def further_text(further: Sequence[Candidate]) -> str:
    """What a table of attempts leaves out: ``9 more attempts, up to $1.20 per node-hour: 9 aws spot``."""
    ways = Counter(f"{each.cloud} {each.purchase.replace('_', '-')}" for each in further)
    parts = ", ".join(f"{number} {way}" for way, number in sorted(ways.items()))
    most = format_money(max(each.price_usd for each in further))
    more = counted(len(further), "more attempt")
    return f"{more}, up to {most} per node-hour: {parts} (gpucloud plan --json shows all)."


def data_text(source: DataSource) -> str:
    """A data set with its size and its traffic: ``s3://lab/set at /data: 3 files, 1.0 GiB, ...``."""
    size, cost, region = source.size, source.traffic, source.place.region
    held = "of an unknown size"
    if size is not None:
        held = f"{'' if size.whole else 'at least '}{counted(size.files, 'file')}, {source.gib:.1f} GiB"
    traffic = "traffic at an unknown price"
    if cost is not None:
        paid = f"traffic {format_money(cost.amount)}, without requests"
        traffic = paid if cost.amount else "traffic free in its own region"
    return f"{source.wanted.url} at {source.wanted.path}: {held}, from {region}, {traffic}"


def limit_text(limit: CostLimit) -> str:
    """The most that a plan may cost: ``up to $1.10 per hour for 2 nodes, everything included, ...``."""
    parts = [f"up to {format_money(limit.usd_per_hour)} per hour for {limit.nodes} node"]
    parts[0] += "s" if limit.nodes > 1 else ""
    unknown = " and ".join(limit.unknown)
    parts.append(f"without {unknown} where their price is unknown" if unknown else "everything included")
    parts += [f"until {time_text(limit.until)}" if limit.until else "until you end it"]
    return ", ".join(parts)


def ends_text(made: Plan, limit: CostLimit) -> str:
    """What ends the box if gpucloud does nothing more, and what stays billed then."""
    if limit.lives is None:
        return "Ends: never by itself (--ttl none); delete it with `gpucloud down`."
    clouds = {attempt.cloud: made.endings.get(attempt.cloud, "") for attempt in made.attempts}
    how = "; ".join(f"on {cloud} {ending}" for cloud, ending in clouds.items())
    return f"Ends: {duration_text(limit.lives)} after launch; {how}."
