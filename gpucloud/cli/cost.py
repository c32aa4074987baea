"""``gpucloud cost``: estimates before buying, every way of paying side by side."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.cli.options import takes_spec
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.spec import Spec
from gpucloud_pricing import PURCHASES, Demand, Market, Offer
from gpucloud_pricing.estimate import (
    HOURS_PER_MONTH,
    Estimate,
    Usage,
    compare,
    hourly,
    on_demand_prices,
    usage_document,
    ways,
)

PERIODS = {"hour": Decimal(1), "day": Decimal(24), "month": HOURS_PER_MONTH}
_USAGE = "What for"


@takes_spec
def cost(
    app: App,
    spec: Spec,
    *,
    hours: Annotated[
        str | None,
        typer.Option("--hours", help="Hours of work; if absent: hour, day, month.", rich_help_panel=_USAGE),
    ] = None,
    egress: Annotated[
        str, typer.Option("--egress", help="GiB sent to the internet, in all.", rich_help_panel=_USAGE)
    ] = "0",
    boot: Annotated[
        int, typer.Option("--boot", min=0, help="Minutes paid before work begins.", rich_help_panel=_USAGE)
    ] = 5,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Places to compare per way of paying.", metavar="N")
    ] = 1,
    max_age: Annotated[
        str | None, typer.Option("--max-age", help="Leave out older prices: 90d, 8w, 6m, 2y.", metavar="AGE")
    ] = None,
    hidden: Annotated[
        bool, typer.Option("--include-hidden", help="Also retired and not publicly sold types.")
    ] = False,
) -> None:
    """Estimate every way of paying, side by side: compute, disk, address, egress, boot and idle time."""
    usage = _usage(spec, hours=hours, egress=egress, boot_minutes=boot)
    demand = _demand(spec, max_age, include_hidden=hidden)
    market = shown.load_market(demand)
    found = market.search(demand, shown.today())
    if not found:
        raise shown.nothing_matches(market.explain(demand, shown.today()))
    chosen = ways(found, demand.purchases, limit)
    estimates = compare(market, chosen, usage, on_demand_prices(market, chosen))
    if not any(estimate.total is not None for estimate in estimates):
        raise NoOfferError("no price is known for what matches", hint="see it with `gpucloud offers`")
    if app.output.json:
        _write_document(app, market, usage, estimates, assumed=hours is None)
    elif hours is None:
        _show_periods(app, market, usage, estimates)
    else:
        _show(app, usage, estimates)
    if not app.output.json:
        _say_notes(app, market, usage, estimates)


def _usage(spec: Spec, *, hours: str | None, egress: str, boot_minutes: int) -> Usage:
    idle = spec.idles_out_after()
    return Usage(
        hours=HOURS_PER_MONTH if hours is None else _amount("--hours", hours, least=Decimal("0.01")),
        nodes=spec.nodes,
        disk_gib=spec.disk,
        egress_gib=_amount("--egress", egress, least=Decimal(0)),
        boot_s=boot_minutes * 60,
        idle_s=0 if idle is None else int(idle.total_seconds()),
    )


def _amount(flag: str, text: str, *, least: Decimal) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not least <= amount <= 1_000_000:
        raise UsageError(f"{flag}: {text!r} is not allowed; allowed: a number from {least} to 1000000")
    return amount


def _demand(spec: Spec, max_age: str | None, *, include_hidden: bool) -> Demand:
    """The spec's demand; unless ways of paying are named, all of them."""
    from dataclasses import replace

    demand = spec.demand(max_age=shown.read_age(max_age), include_hidden=include_hidden)
    return demand if "purchase" in spec.model_fields_set else replace(demand, purchases=PURCHASES)


def _write_document(
    app: App, market: Market, usage: Usage, estimates: Sequence[Estimate], *, assumed: bool
) -> None:
    options = [estimate.document() for estimate in estimates]
    if assumed:
        for option, estimate in zip(options, estimates, strict=True):
            option["running"] = _running(market, estimate.offer, usage)
    rates = shown.rates_of(market, [estimate.offer for estimate in estimates])
    used = {**usage_document(usage), "hours_assumed": assumed}
    app.output.document("cost", {"usage": used, "options": options, "rates": shown.rates_document(rates)})


def _running(market: Market, offer: Offer, usage: Usage) -> dict[str, Any]:
    """What a running box costs per hour, day and month, without boot and egress."""
    per_hour, _ = hourly(market, offer, nodes=usage.nodes, disk_gib=usage.disk_gib)
    return {
        name: None if per_hour is None else {"amount": f"{round(per_hour * period, 4):f}", "currency": "USD"}
        for name, period in PERIODS.items()
    }


def _place(offer: Offer) -> str:
    return f"{offer.cloud} {offer.region}"


def _part(estimate: Estimate, name: str) -> str:
    return shown.total_text(estimate.parts[name])


def _show(app: App, usage: Usage, estimates: Sequence[Estimate]) -> None:
    offers = [estimate.offer for estimate in estimates]
    columns: dict[str, Sequence[object]] = {
        "PAID AS": [shown.paid_text(o) for o in offers],
        "EXPECTED": [_total_text(e.expected_total, e) for e in estimates],
        "TOTAL": [_total_text(e.total, e) for e in estimates],
        "COMPUTE": [_part(e, "compute") for e in estimates],
        "DISK": [_part(e, "disk") for e in estimates],
        "ADDRESS": [_part(e, "address") for e in estimates],
        "EGRESS": [_part(e, "egress") if usage.egress_gib else None for e in estimates],
        "PAYS FROM": [_break_even_text(e) for e in estimates],
        "GPU": [shown.gpu_text(o) for o in offers],
        "WHERE": [_place(o) for o in offers],
        "TYPE": [o.instance_type for o in offers],
        "PRICE OF": [o.as_of for o in offers],
        "FLAGS": [" ".join(o.flags) or None for o in offers],
    }
    shown.show_table(
        app.output,
        columns,
        right=("EXPECTED", "TOTAL", "COMPUTE", "DISK", "ADDRESS", "EGRESS", "PAYS FROM"),
        optional=("GPU", "PRICE OF", "ADDRESS", "DISK", "EGRESS", "COMPUTE", "PAYS FROM"),
    )


def _show_periods(app: App, market: Market, usage: Usage, estimates: Sequence[Estimate]) -> None:
    rows = [
        (e, *hourly(market, e.offer, nodes=usage.nodes, disk_gib=usage.disk_gib))
        for e in estimates
        if e.total is not None
    ]
    rows.sort(key=lambda row: (bool(row[0].offer.flags), row[1] or Decimal(0)))
    columns: dict[str, Sequence[object]] = {"PAID AS": [shown.paid_text(e.offer) for e, _, _ in rows]}
    for name, period in PERIODS.items():
        columns[name.upper()] = [
            ("≥ " if missing else "") + _running_text(per_hour and per_hour * period)
            for _, per_hour, missing in rows
        ]
    columns |= {
        "PAYS FROM": [_break_even_text(e) for e, _, _ in rows],
        "GPU": [shown.gpu_text(e.offer) for e, _, _ in rows],
        "WHERE": [_place(e.offer) for e, _, _ in rows],
        "TYPE": [e.offer.instance_type for e, _, _ in rows],
        "PRICE OF": [e.offer.as_of for e, _, _ in rows],
        "FLAGS": [" ".join(e.offer.flags) or None for e, _, _ in rows],
    }
    shown.show_table(
        app.output,
        columns,
        right=("HOUR", "DAY", "MONTH", "PAYS FROM"),
        optional=("GPU", "PRICE OF", "DAY", "PAYS FROM"),
    )


def _running_text(amount: Decimal | None) -> str:
    """What is paid in a period; a cheap hour shows its small change."""
    return shown.usd_text(amount) if amount is not None and amount < 10 else shown.total_text(amount)


def _total_text(amount: Decimal | None, estimate: Estimate) -> str:
    """A total; one that leaves parts out is a lower bound."""
    text = shown.total_text(amount)
    return text if estimate.complete or amount is None else f"≥ {text}"


def _break_even_text(estimate: Estimate) -> str | None:
    """From how many hours per month a commitment is cheaper than on-demand."""
    if not estimate.offer.to_buy:
        return None
    if estimate.break_even_hours is not None:
        return f"{estimate.break_even_hours:.0f} h/mo"
    return "?" if "break_even_hours" in estimate.unknown else "never"


def _say_notes(app: App, market: Market, usage: Usage, estimates: Sequence[Estimate]) -> None:
    say = app.output.say
    offers = [estimate.offer for estimate in estimates]
    say(
        f"{usage.nodes} × {usage.disk_gib} GiB disk and a public address; "
        f"{usage.boot_s // 60} min of boot, {usage.idle_s // 60} min idle at the end. List prices before tax."
    )
    dates = sorted(offer.as_of for offer in offers if offer.as_of)
    say(f"Prices of {dates[0]} to {dates[-1]}; --json has the date and source of each.")
    if any(offer.to_buy for offer in offers):
        say("Commitments are to buy: the whole term is owed, used or not. gpucloud never buys one.")
    if any(offer.purchase == "spot" for offer in offers):
        say("Expected: with the work that is repeated after interruptions, without checkpoints.")
    missing = {part: why for e in estimates for part, why in e.unknown.items() if part in e.parts}
    if missing:
        reasons = {why for e in estimates for part, why in e.unknown.items() if part in e.parts}
        say(f"≥ and ?: {'; '.join(sorted(reasons))}.")
    shown.say_rates(app.output, shown.rates_of(market, offers))
    app.output.say("Next: the same flags with `plan` or `launch`.")
