"""What ``gpucloud cost`` shows to people."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from gpucloud.cli import market as shown
from gpucloud.cli.context import App
from gpucloud.costs.comparison import PERIODS, Comparison, month_of
from gpucloud.market.search import paid_text
from gpucloud_pricing import Offer
from gpucloud_pricing.demand import CAPACITY_BLOCK, OWNED
from gpucloud_pricing.estimate import Estimate, SpotEstimate, Usage, hourly
from gpucloud_pricing.figures import Figure
from gpucloud_pricing.payment import cheapest_by_hours

AMOUNTS = (
    "PER GPU",
    "PER GIB",
    "PER TFLOPH",
    "EXPECTED",
    "PER NODE",
    "AFTER CREDIT",
    "RANGE",
    "TOTAL",
    "UPFRONT",
    "COMPUTE",
    "DISK",
    "ADDRESS",
    "EGRESS",
    "SNAPSHOTS",
    "PAYS FROM",
)
"""The columns of numbers."""


def show(app: App, comparison: Comparison, before: Comparison | None, *, explain: bool) -> None:
    """The tables, and what to know about them."""
    if comparison.assumed:
        _show_periods(app, comparison)
    else:
        _show_totals(app, comparison)
    _show_mixes(app, comparison)
    if explain:
        _show_figures(app, comparison)
    _say_spot(app, comparison.estimates)
    if before is not None:
        _say_difference(app, comparison, before)
    _say_notes(app, comparison)


def _say_difference(app: App, comparison: Comparison, before: Comparison) -> None:
    told = comparison.difference(before)
    if told is None:
        app.output.say("The difference is not known: one of the two costs is not.")
        return
    was, now, more = told
    sign = "less" if more < 0 else "more"
    app.output.say(
        f"The other spec: {shown.total_text(was)}; this one: {shown.total_text(now)}, "
        f"{shown.total_text(abs(more))} {sign}."
    )


def _place(offer: Offer) -> str:
    return f"{offer.cloud} {offer.region}"


def _part(estimate: Estimate, name: str) -> str:
    return shown.total_text(estimate.parts[name])


def unit_column(comparison: Comparison, estimates: Sequence[Estimate]) -> dict[str, Sequence[object]]:
    """What work costs, where that was asked for."""
    if comparison.measure is None:
        return {}
    costs = [(each.complete, comparison.unit_cost(each)) for each in estimates]
    texts = ["?" if c is None else f"{'' if complete else '≥ '}{shown.usd_text(c)}" for complete, c in costs]
    return {shown.unit_heading(comparison.measure): texts}


def cost_columns(comparison: Comparison) -> dict[str, Sequence[object]]:
    """What is compared, by columns; a cell that says nothing is ``None``."""
    estimates, offers = comparison.estimates, comparison.offers
    return {
        "PAID AS": [paid_text(o) for o in offers],
        **unit_column(comparison, estimates),
        "EXPECTED": [_total_text(e.expected_total, e) for e in estimates],
        "PER NODE": [_per_node_text(comparison, e) for e in estimates],
        "AFTER CREDIT": [_left_text(comparison, e) for e in estimates],
        "RANGE": [_range_text(e) for e in estimates],
        "TOTAL": [_total_text(e.total, e) for e in estimates],
        "UPFRONT": [_upfront_text(e) for e in estimates],
        "COMPUTE": [_part(e, "compute") for e in estimates],
        "DISK": [_part(e, "disk") for e in estimates],
        "ADDRESS": [_part(e, "address") for e in estimates],
        "EGRESS": [_part(e, "egress") if comparison.usage.egress_gib else None for e in estimates],
        "SNAPSHOTS": [_part(e, "snapshots") if comparison.usage.snapshot_gib else None for e in estimates],
        "PAYS FROM": [_break_even_text(e) for e in estimates],
        "GPU": [shown.gpu_text(o) for o in offers],
        "WHERE": [_place(o) for o in offers],
        "TYPE": [o.instance_type for o in offers],
        "PRICE OF": [o.as_of for o in offers],
        "FLAGS": [" ".join(o.flags) or None for o in offers],
    }


def _per_node_text(comparison: Comparison, estimate: Estimate) -> str | None:
    """What one of several nodes is expected to cost."""
    if comparison.usage.nodes == 1 or estimate.expected_total is None:
        return None
    return _total_text(estimate.expected_total / comparison.usage.nodes, estimate)


def _show_totals(app: App, comparison: Comparison) -> None:
    shown.show_table(
        app.output,
        cost_columns(comparison),
        right=AMOUNTS,
        optional=(
            "GPU",
            "PRICE OF",
            "PER NODE",
            "ADDRESS",
            "DISK",
            "SNAPSHOTS",
            "EGRESS",
            "COMPUTE",
            "UPFRONT",
            "PAYS FROM",
            "RANGE",
        ),
    )


def _show_periods(app: App, comparison: Comparison) -> None:
    usage = comparison.usage
    rows = [
        (e, *hourly(comparison.market, e.offer, usage)) for e in comparison.estimates if e.total is not None
    ]
    if comparison.measure is None:
        rows.sort(key=lambda row: (bool(row[0].offer.flags), row[1] or Decimal(0)))
    columns: dict[str, Sequence[object]] = {"PAID AS": [paid_text(e.offer) for e, _, _ in rows]}
    columns |= unit_column(comparison, [e for e, _, _ in rows])
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
        right=("PER GPU", "PER GIB", "PER TFLOPH", "HOUR", "DAY", "MONTH", "PAYS FROM"),
        optional=("GPU", "PRICE OF", "DAY", "PAYS FROM"),
    )


def _range_text(estimate: Estimate) -> str | None:
    """Between what the total is, where that is not sure."""
    low, high = estimate.low_total, estimate.high_total
    texts = [shown.total_text(each) for each in (low, high)]
    return None if low is None or high is None or len({*texts}) == 1 else "-".join(texts)


def _left_text(comparison: Comparison, estimate: Estimate) -> str | None:
    """What is left to pay after credits."""
    left = comparison.after_credit(estimate)
    return None if left is None else shown.total_text(left)


def _upfront_text(estimate: Estimate) -> str | None:
    """What is due at once."""
    return shown.total_text(estimate.upfront) if estimate.upfront else None


def _show_mixes(app: App, comparison: Comparison) -> None:
    """Which way pays from how many hours a month on; and the cheapest mix for a profile."""
    for found in comparison.lasting() if not comparison.layers else ():
        parts = [f"{paid_text(s.way.offer)} up to {s.end:.0f} h" for s in cheapest_by_hours(found)]
        app.output.say(f"Cheapest per month, {at(found[0].offer)}: {'; '.join(parts)}.")
    for shares in comparison.mixes():
        app.output.line("")
        app.output.line(
            f"{at(shares[0].way.offer)}: {shown.total_text(month_of(shares))} per month for compute"
        )
        columns: dict[str, Sequence[object]] = {
            "BOXES": [share.layer.machines for share in shares],
            "HOURS": [f"{share.layer.hours:.0f}" for share in shares],
            "PAID AS": [paid_text(share.way.offer) for share in shares],
            "MONTH": [shown.total_text(share.cost) for share in shares],
        }
        shown.show_table(app.output, columns, right=("BOXES", "HOURS", "MONTH"))


def _show_figures(app: App, comparison: Comparison) -> None:
    """How each figure came about, down to the rows that it rests on."""
    line = app.output.line
    used: set[str] = set()
    for estimate in comparison.estimates:
        offer = estimate.offer
        line("")
        line(f"{at(offer)} {paid_text(offer)}")
        for figure in comparison.figures(estimate):
            line(f"  {figure.part:<17}{figure_text(figure):>12}  {figure.formula}")
            for row in figure.rows:
                dated = row.as_of or "no date"
                line(
                    f"  {'':<31}{row.amount.normalize():f} {row.currency}: {row.what}; {dated}, {row.source}"
                )
                used.add(row.source)
    line("")
    for name in sorted(used):
        source = comparison.market.sources.get(name)
        if source is not None:
            line(f"{name}: {source.repository} {source.path} ({source.licence})")


def at(offer: Offer) -> str:
    """Where an offer is, and what: cloud, region, type."""
    return f"{_place(offer)} {offer.instance_type}"


def _say_spot(app: App, estimates: Sequence[Estimate]) -> None:
    """What interruptions do, where that is known."""
    for estimate in estimates:
        if estimate.spot is None:
            continue
        app.output.say(f"Spot, {at(estimate.offer)}: {spot_text(estimate.spot)}.")


def spot_text(spot: SpotEstimate) -> str:
    """What interruptions do."""
    seen = spot.outlook
    words = [
        f"{seen.interruptions:.2f} interruptions and {seen.lost:.1f} h lost on average",
        f"complete after {seen.low:.1f} to {seen.high:.1f} h in nine of ten cases",
    ]
    if spot.best_interval is not None:
        words.append(f"best checkpoint interval {spot.best_interval:.1f} h")
    if spot.dearer:
        words.append("on demand is expected to cost less")
    return "; ".join(words)


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


def _say_notes(app: App, comparison: Comparison) -> None:
    say = app.output.say
    usage, estimates, offers = comparison.usage, comparison.estimates, comparison.offers
    say(f"{usage_text(usage)} List prices before tax.")
    dates = sorted(offer.as_of for offer in offers if offer.as_of)
    say(f"Prices of {dates[0]} to {dates[-1]}; --explain has the date and source of each figure.")
    if any(offer.to_buy for offer in offers):
        say("Commitments must be bought first: the whole term is billed, used or not. gpucloud buys none.")
    if any(offer.purchase == CAPACITY_BLOCK for offer in offers):
        say("A capacity block has whole days; above 14 days, whole weeks.")
    if any(offer.purchase == "spot" for offer in offers):
        how = "without checkpoints" if usage.checkpoint_s is None else "from the last checkpoint on"
        say(f"EXPECTED includes the work that is repeated after interruptions, {how}.")
    if not comparison.assumed and any(_range_text(e) for e in estimates if e.spot is None):
        minutes = usage.boot_limit_s // 60
        say(
            f"RANGE: from no idle time and no failed attempt to a boot of {minutes} min, the longest allowed;"
            " for spot, nine of ten cases."
        )
    if any(offer.purchase == OWNED for offer in offers):
        say("Owned capacity is paid for already; the estimate assumes that nothing else uses it.")
    if any(offer.quote and offer.quote.discount for offer in offers):
        say("Your own discounts are deducted; --explain shows the list prices.")
    missing = {part: why for e in estimates for part, why in e.unknown.items() if part in e.parts}
    if missing:
        reasons = {why for e in estimates for part, why in e.unknown.items() if part in e.parts}
        say(f"≥ and ?: {'; '.join(sorted(reasons))}.")
    shown.say_rates(app.output, comparison.market.rates_of(offers), offers)
    app.output.say("Next: the same flags with `plan` or `launch`.")


def usage_text(usage: Usage) -> str:
    """What is counted besides the work."""
    times = usage.failed_attempts
    failed = f", {times} failed attempt{'s' if times > 1 else ''}" if times else ""
    snapshots = f", {usage.snapshot_gib} GiB of snapshots" if usage.snapshot_gib else ""
    return (
        f"{usage.nodes} × {usage.disk_gib} GiB disk and a public address{snapshots}; "
        f"{usage.boot_s // 60} min of boot{failed}, {usage.idle_s // 60} min idle at the end."
    )


def figure_text(figure: Figure) -> str:
    """What was computed, for people."""
    if figure.amount is not None and figure.unit == "h":
        return f"{figure.amount:.0f} h"
    return shown.total_text(figure.amount) if figure.unit == "USD" else shown.usd_text(figure.amount)
