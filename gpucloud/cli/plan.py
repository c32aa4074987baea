"""``gpucloud plan``: what ``launch`` would do, shown or saved. Reads only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucloud.cli.context import App
from gpucloud.cli.engine import engine
from gpucloud.cli.options import takes_spec
from gpucloud.cli.output import duration_text, money_text, time_text, writing
from gpucloud.cli.timeline import Timeline
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.journal.lifecycle import LEAST_LIFE
from gpucloud.planning.plan import MAX_ATTEMPTS
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.market.catalog import Catalog
    from gpucloud.planning.plan import Candidate, Plan
    from gpucloud.runtime.context import Context
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
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as context:
        made = make(context, app.catalog, spec, accept_snapshot_price=accept_snapshot_price)
    market = app.catalog.market
    at_most = most_of(made, spec, _end(made, spec, market), market)
    if output is not None:
        with writing("the plan", output):
            output.write_text(json.dumps(made.as_json(), indent=2) + "\n", encoding="utf-8")
    if app.output.json:
        document = made.as_json()
        del document["schema"]
        app.output.document(
            "plan", {**document, "ends": ends(made, spec, market), "at_most": at_most.as_json()}
        )
        return
    show_plan(app, made, spec)
    app.output.say(f"Costs {at_most.text}.")
    app.output.say(f"Next: gpucloud launch {output}" if output else "Next: the same with `launch`.")


def make(
    context: Context, catalog: Catalog, spec: Spec, *, accept_snapshot_price: bool, to_buy: bool = False
) -> Plan:
    """The plan for a spec, at today's prices; ``to_buy`` as in :class:`gpucloud.planning.planner.Wish`.

    Raises:
        GpucloudError: see :func:`gpucloud.planning.planner.make_plan`.
        UsageError: its box would end before it can be used.
    """
    from gpucloud.planning.planner import make_plan, wish_for

    if not spec.wants_gpu:
        raise UsageError("say which GPU: --gpu T4, --gpu A100:8, or --gpu-memory 24")
    refuse_short(spec.ends_after(LAUNCH_TTL), "--ttl")
    context.tell("plan", "searching the market")
    wish = wish_for(spec, spec_json(spec), accept_snapshot_price=accept_snapshot_price, to_buy=to_buy)
    market = catalog.market_for(wish.demand)
    with context.tasks.within(PLAN_S):
        made = make_plan(context, market, wish)
    if spec.budget is not None:
        made = _where_a_budget_holds(made, market)
        refuse_short(lifetime(made, spec, market), "--budget")
    return made


def refuse_short(lives: timedelta | None, flag: str) -> None:
    """Refuses a life in which no box boots: it would be paid for and end before it can be used.

    Raises:
        UsageError: it is shorter than :data:`gpucloud.journal.lifecycle.LEAST_LIFE`.
    """
    if lives is not None and lives < LEAST_LIFE:
        raise UsageError(
            f"{flag}: a box that lives {duration_text(lives)} ends before it has booted;"
            f" the least is {duration_text(LEAST_LIFE)}",
            hint=f"give it more: {flag}",
        )


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
    from gpucloud.planning.plan import Plan

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
    app.output.say(ends(made, spec, app.catalog.market))


def price_text(candidate: Candidate) -> str:
    """A price per hour for people, in the cloud's currency, and in USD where that is another one."""
    own = money_text(candidate.price, candidate.currency)
    return own if candidate.currency == "USD" else f"{own} ({money_text(candidate.price_usd)})"


def lifetime(made: Plan, spec: Spec, market: Market) -> timedelta | None:
    """How long a box of this plan may live: its ttl, or until the budget is spent at the dearest price.

    Raises:
        UsageError: there is a budget, but a price that it must cover is not known.
    """
    from gpucloud.spec.model import deadline

    ttl = spec.ends_after(LAUNCH_TTL)
    if spec.budget is None:
        return ttl
    lives: list[timedelta] = []
    for attempt in made.attempts:
        disk, address = _beside_usd_per_hour(market, attempt, spec.disk).values()
        if disk is None or address is None:
            raise _no_budget(attempt.place)
        found = deadline(
            ttl=ttl,
            budget_usd=spec.budget,
            compute_usd_per_hour=attempt.ceiling_usd,
            disk_usd_per_hour=disk,
            address_usd_per_hour=address,
            nodes=spec.nodes,
        )
        lives += [found] if found is not None else []
    return min(lives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Most:
    """The most that a plan may come to: its dearest attempt at its ceiling, all nodes.

    ``usd_per_hour`` holds compute, disks and addresses, but for those in ``unknown``, whose price is not
    known for some attempt. ``until`` is ``None`` where nothing ends the box.
    """

    usd_per_hour: Decimal
    nodes: int
    unknown: tuple[str, ...]
    until: datetime | None

    @property
    def text(self) -> str:
        """For people: ``up to $1.10 per hour for 2 nodes, disks and addresses included, until TIME``."""
        known = [name for name in BESIDE_BOXES.values() if name not in self.unknown]
        parts = [f"up to {money_text(self.usd_per_hour)} per hour for {self.nodes} node"]
        parts[0] += "s" if self.nodes > 1 else ""
        parts += [f"{' and '.join(known)} included"] if known else []
        parts += [f"plus {' and '.join(self.unknown)} of unknown price"] if self.unknown else []
        parts += [f"until {time_text(self.until)}" if self.until else "until you end it"]
        return ", ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """For documents."""
        amount = {"amount": format(self.usd_per_hour, "f"), "currency": "USD"}
        until = time_text(self.until) if self.until else None
        return {"per_hour": amount, "nodes": self.nodes, "without": list(self.unknown), "until": until}


BESIDE_BOXES = {"disk_gb_month": "disks", "public_ip_hour": "addresses"}
"""What is billed beside the compute, of several boxes."""
MOST_STEP = Decimal("0.0001")


def most_of(made: Plan, spec: Spec, until: datetime | None, market: Market) -> Most:
    """The most that a plan may come to. What is held is paid for already: its compute is no new spending."""
    from gpucloud.resources import Purchase

    sums: list[Decimal] = []
    unknown: set[str] = set()
    for attempt in made.attempts:
        held = attempt.purchase is Purchase.RESERVED
        beside = _beside_usd_per_hour(market, attempt, spec.disk)
        unknown |= {BESIDE_BOXES[kind] for kind, price in beside.items() if price is None}
        sums.append(sum(filter(None, beside.values()), Decimal(0) if held else attempt.ceiling_usd))
    return Most(
        usd_per_hour=(max(sums) * spec.nodes).quantize(MOST_STEP, rounding=ROUND_UP),
        nodes=spec.nodes,
        unknown=tuple(name for name in BESIDE_BOXES.values() if name in unknown),
        until=until,
    )


def _end(made: Plan, spec: Spec, market: Market) -> datetime | None:
    """When a box of a plan would end if it were launched now."""
    lives = lifetime(made, spec, market)
    return None if lives is None else made.created_at + lives


def _where_a_budget_holds(made: Plan, market: Market) -> Plan:
    """The plan without attempts beside whose GPUs something has no known price: the budget must cover all.

    Raises:
        UsageError: none is left.
    """
    from gpucloud.costs.resource_prices import BESIDE

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


def _beside_usd_per_hour(market: Market, attempt: Candidate, disk_gib: int) -> dict[str, Decimal | None]:
    """What one node's disk and address cost, by kind of tariff; ``None`` where that is not known."""
    from gpucloud_pricing.billing import billed_disk_gib
    from gpucloud_pricing.demand import HOURS_PER_MONTH

    disk = _tariff_usd(market, attempt, "disk_gb_month")
    return {
        "disk_gb_month": disk and disk * billed_disk_gib(attempt.cloud, disk_gib) / HOURS_PER_MONTH,
        "public_ip_hour": _tariff_usd(market, attempt, "public_ip_hour"),
    }


def _tariff_usd(market: Market, attempt: Candidate, kind: str) -> Decimal | None:
    from gpucloud_pricing.estimate import tariff_at

    tariff = tariff_at(market.tariffs, attempt.cloud, attempt.region, kind)
    return None if tariff is None else market.usd(tariff.amount, tariff.currency)


def ends(made: Plan, spec: Spec, market: Market) -> str:
    """How the box would end without us, and what that leaves."""
    life = lifetime(made, spec, market)
    if life is None:
        return "Ends: never by itself (--ttl none); only `gpucloud down` ends it."
    clouds = {attempt.cloud: made.endings.get(attempt.cloud, "") for attempt in made.attempts}
    how = "; ".join(f"on {cloud} {ending}" for cloud, ending in clouds.items())
    return f"Ends: {duration_text(life)} after launch; {how}."
