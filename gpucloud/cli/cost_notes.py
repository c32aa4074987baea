"""What ``gpucloud cost`` says in sentences: the verdict, what is counted, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from gpucloud.cli import market as shown
from gpucloud.costs.against import Difference
from gpucloud.costs.comparison import Comparison, CostVerdict, verdict_of
from gpucloud.market import cells
from gpucloud.market.cells import paid_text
from gpucloud_pricing.estimate import Estimate
from gpucloud_pricing.figures import band_text, number_text
from gpucloud_pricing.interruptions import SpotEstimate
from gpucloud_pricing.payment import cheapest_by_hours
from gpucloud_pricing.purchases import HOURS_PER_YEAR, Billed
from gpucloud_pricing.rules import STALE
from gpucloud_pricing.terms import Usage
from gpucloud_pricing.values import Experience


def verdict_text(comparison: Comparison) -> str:
    """The answer in one sentence."""
    verdict = verdict_of(comparison)
    if verdict is None:
        return "Nothing that can start now has a known cost."
    offer = verdict.now.offer
    bound = "" if verdict.now.complete else "≥ "
    head = "Cheapest that can start now" if verdict.spot is None else "Without interruptions"
    parts = [
        f"{head}: {paid_text(offer)}, {shown.at(offer)}, {bound}{_amount_text(comparison, verdict)}",
        *_spot_part(comparison, verdict),
        *_commitment_part(verdict),
    ]
    return f"{'; '.join(parts)}."


def notes(comparison: Comparison, estimates: Sequence[Estimate]) -> Iterator[str]:
    """At most three notes below a table of some estimates.

    Args:
        comparison: the comparison.
        estimates: the rows of the table.
    """
    dates = sorted(estimate.offer.as_of for estimate in estimates if estimate.offer.as_of)
    of = f", of {shown.span_text(dates[0], dates[-1])}" if dates else ""
    own = any(each.offer.quote and each.offer.quote.discount for each in estimates)
    less = " less your own discounts" if own else ""
    estimated = any(each.spot is not None for each in estimates) and not comparison.assumed
    legend = " INTERRUPTED: our estimate for these hours; MONTHLY BAND: the cloud's." if estimated else ""
    assumed = ""
    if comparison.assumes_checkpoints and any(each.offer.paid_as.interruptible for each in estimates):
        minutes = (comparison.usage.checkpoint_s or 0) // 60
        assumed = f" On spot, a checkpoint each {minutes} min is assumed (--checkpoint-every)."
    yield f"{usage_text(comparison.usage)}{assumed} List prices before tax{less}{of}.{legend}"
    if missing := [*unknown_parts(estimates), *comparison.unmeasured.values()]:
        yield f"Unknown (≥, ?): {'; '.join(missing)}."
    shown_ones = sum(each.offer.to_buy for each in estimates)
    left_out = sum(each.offer.to_buy for each in comparison.estimates) - shown_ones
    hidden = f"--all-terms shows {left_out} more commitment{'s'[: left_out > 1]}; " if left_out else ""
    yield f"More: {hidden}--explain shows how each figure is computed. Next: `plan` or `launch`."


def all_notes(comparison: Comparison) -> Iterator[str]:
    """What to know about an explained comparison."""
    usage, estimates, offers = comparison.usage, comparison.estimates, comparison.offers
    for found in comparison.lasting() if not comparison.layers else ():
        parts = [f"{paid_text(each.way.offer)} up to {each.end:.0f} h" for each in cheapest_by_hours(found)]
        yield f"Cheapest per month, {shown.at(found[0].offer)}: {'; '.join(parts)}."
    for estimate in estimates:
        if estimate.offer.paid_as.interruptible and estimate.total is not None:
            spot = estimate.spot if comparison.assumed else None
            text = spot_text(estimate) if spot is None else f"in a month, {_evidence_text(spot)}"
            yield f"Spot, {shown.at(estimate.offer)}: {text}."
    yield from _purchase_notes(comparison)
    if any(estimate.spot is not None for estimate in estimates):
        how = "without checkpoints" if usage.checkpoint_s is None else "from the last checkpoint on"
        yield f"EXPECTED includes the work that is repeated after interruptions, {how}."
    if not comparison.assumed and any(range_text(e) for e in estimates if e.spot is None):
        yield (
            "RANGE: from no idle time and no failed attempt to a boot of "
            f"{usage.boot_limit_s // 60} min, the longest allowed; for spot, from the low to the high rate "
            "of interruptions, but one of twenty cases at each end."
        )
    if comparison.cost_of_capital is not None:
        percent = (comparison.cost_of_capital * 100).normalize()
        yield f"PRESENT VALUE: each payment as of the start, at {percent:f} % a year."
    yield from shown.rate_notes(comparison.market.rates_of(offers), offers)
    if comparison.measure is not None:
        yield from shown.doubt_notes(offers, comparison.measure)


def _purchase_notes(comparison: Comparison) -> Iterator[str]:
    """What to know about the ways of paying."""
    estimates, offers = comparison.estimates, comparison.offers
    if any(offer.to_buy for offer in offers):
        yield "Commitments must be bought first: the whole term is billed, used or not. gpucloud buys none."
    if any(offer.paid_as.billed is Billed.IN_BLOCKS for offer in offers):
        yield (
            "A capacity block has whole days, above 14 days whole weeks, and 1, 2, 4 … 64 machines; "
            "it ends half an hour early."
        )
    if any(offer.paid_as.paid_already for offer in offers):
        yield "Owned capacity is paid for already; the estimate assumes that nothing else uses it."
    if any(offer.quote and offer.quote.discount for offer in offers):
        yield "Your own discounts are deducted from the list prices."
    if any(e.bill and e.bill.terms and e.bill.hours for e in estimates):
        yield "Hours after the last whole term are priced on demand."


def unknown_parts(estimates: Sequence[Estimate]) -> list[str]:
    """The unknown parts of some estimates, by place: ``disk, address of aws us-east-1``."""
    places: dict[str, dict[str, None]] = {}
    for estimate in estimates:
        if estimate.usage is None:
            continue  # every part is unknown, for a reason of its own
        where = f"{estimate.offer.cloud} {estimate.offer.region}"
        missing = [name for name, amount in estimate.parts.items() if amount is None]
        if not missing and estimate.expected_total is None:
            missing = ["interruptions"]
        for name in missing:
            places.setdefault(where, {})[name] = None
    by_parts: dict[str, list[str]] = {}
    for where, names in places.items():
        by_parts.setdefault(", ".join(names), []).append(where)
    return [f"{names} of {', '.join(wheres)}" for names, wheres in by_parts.items()]


def range_text(estimate: Estimate) -> str | None:
    """The range of the total; ``None`` if it is certain."""
    low, high = estimate.low_total, estimate.high_total
    unknown = low is None or (high is None and "high_total" not in estimate.unknown)
    alike = shown.total_text(low) == shown.total_text(high)
    return None if unknown or alike else f"{bounded_text(low, estimate)}-{shown.total_text(high)}"


def bounded_text(amount: Decimal | None, estimate: Estimate) -> str:
    """A total; one that leaves parts out is a lower bound."""
    text = shown.total_text(amount)
    return text if estimate.complete or amount is None else f"≥ {text}"


def compared_text(cost: Decimal, found: Difference) -> str:
    """One of two costs that are compared; a lower bound if both leave parts out."""
    return f"{'≥ ' if found.without else ''}{shown.total_text(cost)}"


def without_text(found: Difference) -> str:
    """The parts that both of two compared costs leave out; empty if there are none."""
    return f", both without {' and '.join(found.without)}" if found.without else ""


def spot_text(estimate: Estimate) -> str:
    """What interruptions do."""
    spot = estimate.spot
    if spot is None:
        return (
            f"{estimate.unknown['expected_total']}, so the expected cost is unknown; the total is without any"
        )
    words = [_evidence_text(spot), _duration_text(spot)]
    if spot.best_interval is not None:
        words.append(f"best checkpoint interval {spot.best_interval:.1f} h")
    if spot.dearer:
        words.append("on demand is expected to cost less")
    return "; ".join(words)


def _evidence_text(spot: SpotEstimate) -> str:
    """The chance of an interruption, and what it is derived from."""
    chance, evidence = spot.chance, spot.evidence
    whence = (
        f"from your own {evidence.hours:.0f} h on spot with {evidence.interruptions} interruptions"
        if isinstance(evidence, Experience)
        else f"from the band {band_text(evidence)} of {evidence.as_of}"
    )
    low, middle, high = map(shown.percent_text, (chance.low, chance.middle, chance.high))
    return f"{middle} % chance of at least one interruption ({shown.span_text(low, high)} %), {whence}"


def _duration_text(spot: SpotEstimate) -> str:
    """How long the work takes, on average and in most cases."""
    seen, lost = spot.outlook, spot.outlook.lost
    average = f"complete after {seen.expected:.1f} h on average, {lost:.1f} h of it repeated"
    if spot.high is None:
        return f"{average}, at the worst practically never"
    return f"{average}, in most cases between {spot.low:.1f} and {spot.high:.1f} h"


def usage_text(usage: Usage) -> str:
    """What is counted besides the work."""
    times = usage.failed_attempts
    failed = f", {times} failed attempt{'s' if times > 1 else ''}" if times else ""
    snapshots = f", {usage.snapshot_gib} GiB of snapshots" if usage.snapshot_gib else ""
    return (
        f"{usage.nodes} × {usage.disk_gib} GiB disk and a public address{snapshots}; "
        f"{usage.boot_s // 60} min of boot{failed}, {usage.idle_s // 60} min idle at the end."
    )


def _amount_text(comparison: Comparison, verdict: CostVerdict) -> str:
    if comparison.assumed:
        return f"{cells.usd_text(verdict.cost)} per hour"
    hours = comparison.hours_on(verdict.now.offer) if comparison.usage.computation else None
    parts = [
        f"{shown.total_text(verdict.cost)} for {work_text(comparison)}",
        *([] if hours is None else [f"in {hours_text(hours)}"]),
    ]
    if comparison.tokens is not None:
        million = cells.usd_text(comparison.per_million_tokens(verdict.now))
        parts.append(
            f"{shown.total_text(comparison.per_epoch(verdict.now))} per epoch, {million} per million tokens"
        )
    return ", ".join(parts)


def work_text(comparison: Comparison) -> str:
    """The work that is priced: ``72 h``, ``1e+21 FLOP``, ``a month``."""
    computation = comparison.usage.computation
    if computation is not None:
        return f"{computation.flop:g} FLOP"
    return "a month" if comparison.assumed else hours_text(comparison.usage.hours)


def hours_text(hours: Decimal) -> str:
    """Hours for people: ``72 h``, ``92.5926 h``."""
    return f"{number_text(hours)} h"


def work_columns(comparison: Comparison, estimates: Sequence[Estimate]) -> dict[str, list[str]]:
    """The hours of a computation, or the prices of an epoch and of a million tokens, where asked for."""
    columns: dict[str, list[str]] = {}
    if comparison.usage.computation is not None:
        hours = [comparison.hours_on(each.offer) for each in estimates]
        columns["hours"] = ["?" if each is None else f"{each:,.2f}" for each in hours]
    if comparison.tokens is not None:
        epochs = [(each, shown.total_text(comparison.per_epoch(each))) for each in estimates]
        tokens = [(each, cells.usd_text(comparison.per_million_tokens(each))) for each in estimates]
        columns["per epoch"] = [_least(*each) for each in epochs]
        columns["per 1M tokens"] = [_least(*each) for each in tokens]
    return columns


def _least(estimate: Estimate, text: str) -> str:
    """A price; a lower bound where a part of the cost is unknown."""
    return f"≥ {text}" if estimate.missing and estimate.cost is not None else text


def _spot_part(comparison: Comparison, verdict: CostVerdict) -> Iterator[str]:
    """What spot costs, and its risk."""
    if verdict.spot is None or verdict.saving is None:
        return
    usd = verdict.cost - verdict.saving
    cost = f"{cells.usd_text(usd)} per hour" if comparison.assumed else shown.total_text(usd)
    risk = ""
    if verdict.spot.spot is not None and not comparison.assumed:
        risk = f" ({_risk_text(verdict.spot.spot)})"
    offer = verdict.spot.offer
    old = f" at its price of {offer.as_of}" if STALE in offer.flags else ""
    yield f"on spot: {cost}{old}{risk}"


def _risk_text(spot: SpotEstimate) -> str:
    """The chance for the hours asked, beside what the cloud publishes."""
    said = "" if isinstance(spot.evidence, Experience) else f"; published: {band_text(spot.evidence)} a month"
    return f"our estimate: {chance_text(spot.chance.middle)} chance of an interruption{said}"


def _commitment_part(verdict: CostVerdict) -> Iterator[str]:
    """Above how many hours a month a commitment costs less."""
    if verdict.commitment is None or verdict.commitment.break_even_hours is None:
        return
    offer = verdict.commitment.offer
    years = offer.paid_as.term_hours / HOURS_PER_YEAR
    term = f"{years:.0f}-year" if years >= 1 else "1-month"
    yield f"a {term} commitment is cheaper above {verdict.commitment.break_even_hours:.0f} h a month"


def chance_text(chance: float) -> str:
    """A probability in percent, never a rounded certainty."""
    percent = chance * 100
    if percent < 1:
        return "< 1 %"
    return "> 99 %" if percent > 99 else f"{percent:.0f} %"
