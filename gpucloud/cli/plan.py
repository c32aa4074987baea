"""``gpucloud plan``: what ``launch`` would do, shown or saved. Reads only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.cli.engine import engine
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import duration_text, money_text
from gpucloud.cli.timeline import Timeline
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.plan import MAX_ATTEMPTS
from gpucloud.spec import Spec

if TYPE_CHECKING:
    from gpucloud.plan import Candidate, Plan
    from gpucloud.world import World
    from gpucloud_pricing import Market

PLAN_S = 120.0
"""For all the questions of a plan together: what is not answered by then is planned without."""
LAUNCH_TTL = timedelta(hours=24)
AcceptSnapshot = Annotated[
    bool,
    typer.Option("--accept-snapshot-price", help="Buy on an old price where the cloud names none today."),
]


@takes_spec
def plan(
    app: App,
    spec: Spec,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Save it for `gpucloud launch FILE`.", metavar="FILE"),
    ] = None,
    accept_snapshot_price: AcceptSnapshot = False,
) -> None:
    """Show what launch would do: attempts in order, with prices, and how the box would end."""
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as world:
        made = make(world, spec, accept_snapshot_price=accept_snapshot_price)
    if output is not None:
        try:
            output.write_text(json.dumps(made.as_json(), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot save the plan to {output}: {error.strerror}") from error
    if app.output.json:
        document = made.as_json()
        del document["schema"]
        app.output.document("plan", {**document, "ends": ends(made, spec)})
        return
    show_plan(app, made, spec)
    app.output.say(f"Next: gpucloud launch {output}" if output else "Next: the same with `launch`.")


def make(world: World, spec: Spec, *, accept_snapshot_price: bool) -> Plan:
    """The plan for a spec, at today's prices."""
    from gpucloud.cli.market import load_market
    from gpucloud.quote import make_plan, wish_for

    if not spec.wants_gpu:
        raise UsageError("say which GPU: --gpu T4, --gpu A100:8, or --gpu-memory 24")
    world.tell("plan", "searching the market")
    wish = wish_for(spec, spec_json(spec), accept_snapshot_price=accept_snapshot_price)
    market = load_market(wish.demand, world.cache, partial(world.tell, "prices"))
    with world.waiter.within(PLAN_S):
        made = make_plan(world, market, wish)
    return made if spec.budget is None else _where_a_budget_holds(made, market)


def spec_json(spec: Spec) -> dict[str, Any]:
    """A spec as plain JSON, without what it leaves open, and without the values of its variables."""
    document: dict[str, Any] = json.loads(spec.model_dump_json(exclude_defaults=True))
    if spec.env:  # they may be secrets: whoever launches a saved plan brings them along
        document["env"] = dict.fromkeys(spec.env)
    return document


def read_plan(file: Path) -> Plan:
    """A saved plan.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    from gpucloud.plan import Plan

    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"cannot read the plan {file}: {error}", hint="make one: gpucloud plan -o FILE"
        ) from error
    plan = Plan.from_json(data)
    if not plan.attempts:
        raise NoOfferError(f"the plan {file} has no attempts")
    return plan


def show_plan(app: App, made: Plan, spec: Spec, *, most: int = MAX_ATTEMPTS) -> None:
    """Prints a plan for people: attempts, what speaks against them, what was left out, how it ends."""
    shown = made.attempts[:most]
    rows: list[Sequence[object]] = [
        (
            number,
            price_text(attempt),
            attempt.purchase.replace("_", "-"),
            f"{attempt.gpu_count.normalize():f} {attempt.gpu_model}",
            attempt.cloud,
            attempt.zone or attempt.region,
            attempt.instance_type,
            "today" if attempt.quoted else attempt.as_of.isoformat(),
        )
        for number, attempt in enumerate(shown, start=1)
    ]
    columns = ("TRY", "PER HOUR", "PAID AS", "GPU", "CLOUD", "ZONE", "TYPE", "PRICE OF")
    app.output.table(columns, rows, right=("TRY", "PER HOUR"))
    if len(made.attempts) > len(shown):
        app.output.say(f"{len(made.attempts) - len(shown)} more attempts follow: gpucloud plan shows them.")
    for flag in sorted({flag for attempt in shown for flag in attempt.flags}):
        flagged = sorted({attempt.instance_type for attempt in shown if flag in attempt.flags})
        app.output.say(f"Flagged {flag}: {', '.join(flagged)}")
    for cloud, reason in made.left_out.items():
        app.output.say(f"Left out: {cloud}: {reason}")
    if made.left_out:
        app.output.say("gpucloud check tells how to add what was left out.")
    for cloud, remarks in made.remarks.items():
        for remark in remarks:
            app.output.say(f"On {cloud}: {remark}")
    app.output.say(ends(made, spec))


def price_text(candidate: Candidate) -> str:
    """A price per hour for people, in the cloud's currency, and in USD where that is another one."""
    own = money_text(candidate.price, candidate.currency)
    return own if candidate.currency == "USD" else f"{own} ({money_text(candidate.price_usd)})"


def lifetime(made: Plan, spec: Spec) -> timedelta | None:
    """How long a box of this plan may live: its ttl, or until the budget is spent at the dearest price.

    Raises:
        UsageError: there is a budget, but a price that it must cover is not known.
    """
    from gpucloud.bill import BESIDE
    from gpucloud.cli.market import open_market
    from gpucloud.spec import deadline
    from gpucloud_pricing.billing import billed_disk_gib
    from gpucloud_pricing.demand import HOURS_PER_MONTH

    ttl = spec.ends_after(LAUNCH_TTL)
    if spec.budget is None:
        return ttl
    market = open_market()
    lives: list[timedelta] = []
    for attempt in made.attempts:
        disk, address = (_tariff_usd(market, attempt, kind) for kind in BESIDE)
        if disk is None or address is None:
            raise _no_budget(attempt.place)
        found = deadline(
            ttl=ttl,
            budget_usd=spec.budget,
            compute_usd_per_hour=max(attempt.price_usd, spec.max_price or attempt.price_usd),
            disk_usd_per_hour=disk * billed_disk_gib(attempt.cloud, spec.disk) / HOURS_PER_MONTH,
            address_usd_per_hour=address,
            nodes=spec.nodes,
        )
        lives += [found] if found is not None else []
    return min(lives)


def _where_a_budget_holds(made: Plan, market: Market) -> Plan:
    """The plan without attempts beside whose GPUs something has no known price: the budget must cover all.

    Raises:
        UsageError: none is left.
    """
    from gpucloud.bill import BESIDE

    unknown = {
        attempt: [text for kind, text in BESIDE.items() if _tariff_usd(market, attempt, kind) is None]
        for attempt in made.attempts
    }
    left_out = {
        f"{attempt.cloud} {attempt.region}": f"for a budget; no price is known of {' and '.join(texts)}"
        for attempt, texts in unknown.items()
        if texts
    }
    attempts = tuple(attempt for attempt, texts in unknown.items() if not texts)
    if not attempts:
        raise _no_budget(made.attempts[0].place)
    return replace(made, attempts=attempts, left_out={**made.left_out, **left_out})


def _no_budget(place: str) -> UsageError:
    return UsageError(
        f"a budget cannot be kept on {place}: the price of its disk or its address is not known",
        hint="use --ttl and --max-price, or choose other regions with --region",
    )


def _tariff_usd(market: Market, attempt: Candidate, kind: str) -> Decimal | None:
    from gpucloud_pricing.estimate import tariff_at

    tariff = tariff_at(market.tariffs, attempt.cloud, attempt.region, kind)
    return None if tariff is None else market.usd(tariff.amount, tariff.currency)


def ends(made: Plan, spec: Spec) -> str:
    """How the box would end without us, and what that leaves."""
    life = lifetime(made, spec)
    if life is None:
        return "Ends: never by itself (--ttl none); only `gpucloud down` ends it."
    clouds = {attempt.cloud: made.endings.get(attempt.cloud, "") for attempt in made.attempts}
    how = "; ".join(f"on {cloud} {ending}" for cloud, ending in clouds.items())
    return f"Ends: {duration_text(life)} after launch; {how}."
