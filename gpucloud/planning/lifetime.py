"""The lifetime of a plan's box, and the most that its user agrees to pay until then. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING

from gpucloud.costs.resource_prices import ADDRESS, BESIDE, DISK, beside_prices
from gpucloud.errors import UsageError
from gpucloud.journal.facts import Ceiling
from gpucloud.journal.lifecycle import LEAST_LIFE
from gpucloud.journal.records import Box
from gpucloud.planning.plan import CHEAPEST, Candidate, Plan, margin_of
from gpucloud.rendering.texts import counted
from gpucloud.resources import rfc3339
from gpucloud.spec.fields import format_end
from gpucloud.spec.model import Spec, deadline
from gpucloud_pricing import Market
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.planning.documents import CostLimitDocument

LAUNCH_TTL = timedelta(hours=24)
"""The lifetime of a box by default."""
BESIDE_BOXES = {DISK: "disks", ADDRESS: "addresses"}
"""The parts other than compute, as the journal names their prices, and for people (plural)."""
_STEP = Decimal("0.0001")


def refuse_short(lives: timedelta | None, flag: str) -> None:
    """Refuses a lifetime in which no box boots: the box would be billed and end before it can be used.

    Raises:
        UsageError: it is shorter than :data:`gpucloud.journal.lifecycle.LEAST_LIFE`.
    """
    if lives is not None and lives < LEAST_LIFE:
        raise UsageError(
            f"{flag}: a box that lives {format_end(lives)} ends before it has booted;"
            f" the minimum is {format_end(LEAST_LIFE)}",
            hint=f"use a larger {flag}",
        )


def lifetime(plan: Plan, spec: Spec, market: Market) -> timedelta | None:
    """The lifetime of a box of this plan: its ttl, or until the budget is spent at the highest price.

    Raises:
        UsageError: there is a budget, but a price that it must cover is not known.
    """
    if spec.budget is None:
        return spec.ends_after(LAUNCH_TTL)
    lives = [_life(attempt, spec, market) for attempt in plan.attempts]
    return min((each for each in lives if each is not None), default=None)


def _life(attempt: Candidate, spec: Spec, market: Market) -> timedelta | None:
    """The lifetime of a box of a spec with a budget, at the highest price of an attempt.

    Raises:
        UsageError: a price that the budget must cover is not known.
    """
    disk, address = _beside_usd_per_hour(market, attempt, spec.disk).values()
    if disk is None or address is None or spec.budget is None:
        raise _no_budget(attempt.place)
    return deadline(
        ttl=spec.ends_after(LAUNCH_TTL),
        budget_usd=spec.budget,
        compute_usd_per_hour=_new_spending(attempt),
        disk_usd_per_hour=disk,
        address_usd_per_hour=address,
        nodes=spec.machines,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLimit:
    """The most that a plan may cost: its most expensive attempt at its ceiling, all nodes of all boxes.

    Attributes:
        usd_per_hour: compute, disks and addresses, without those in ``unknown``.
        nodes: the number of nodes.
        unknown: ``disks`` or ``addresses``, if no price is known for some attempt.
        lives: the lifetime of the box; ``None`` if nothing ends it.
        until: when it ends.
    """

    usd_per_hour: Decimal
    nodes: int
    unknown: tuple[str, ...]
    lives: timedelta | None
    until: datetime | None

    def document(self) -> CostLimitDocument:
        """For JSON."""
        amount = Money(amount=self.usd_per_hour, currency="USD").document()
        until = rfc3339(self.until) if self.until else None
        return {"per_hour": amount, "nodes": self.nodes, "without": list(self.unknown), "until": until}


def cost_limit(plan: Plan, spec: Spec, market: Market) -> CostLimit:
    """The most that a plan may cost. Held capacity is paid for already: its compute is no new spending.

    Raises:
        UsageError: there is a budget, but a price that it must cover is not known.
    """
    lives = lifetime(plan, spec, market)
    sums: list[Decimal] = []
    unknown: set[str] = set()
    for attempt in plan.attempts:
        beside = _beside_usd_per_hour(market, attempt, spec.disk)
        unknown |= {BESIDE_BOXES[kind] for kind, price in beside.items() if price is None}
        sums.append(sum(filter(None, beside.values()), _new_spending(attempt)))
    return CostLimit(
        usd_per_hour=(max(sums) * spec.machines).quantize(_STEP, rounding=ROUND_UP),
        nodes=spec.machines,
        unknown=tuple(name for name in BESIDE_BOXES.values() if name in unknown),
        lives=lives,
        until=None if lives is None else plan.created_at + lives,
    )


def ceiling_of(plan: Plan, spec: Spec, market: Market) -> Ceiling:
    """The most that a box of a plan may cost, as the journal keeps it.

    Raises:
        UsageError: there is a budget, but a price that it must cover is not known.
    """
    limit = cost_limit(plan, spec, market)
    return Ceiling(
        usd_per_hour=limit.usd_per_hour,
        without=limit.unknown,
        clouds=tuple(sorted({attempt.cloud for attempt in plan.attempts})),
        gpus=tuple(sorted({attempt.gpu_model for attempt in plan.attempts})),
    )


def _new_spending(attempt: Candidate) -> Decimal:
    """The most that the compute of one node costs per hour; zero for held capacity, which is paid for."""
    return Decimal(0) if attempt.purchase.kind.paid_already else attempt.ceiling_usd


def within_a_budget(plan: Plan, spec: Spec, market: Market) -> Plan:
    """The plan for a spec with a budget.

    Without attempts whose disk or address has no known price: the budget must cover all parts. Of those that
    follow the cheapest, without what would end the box earlier: its end is one for all of them.

    Raises:
        UsageError: none is left.
    """
    left_out: dict[str, str] = {}
    priced: list[Candidate] = []
    for attempt in plan.attempts:
        if texts := _unpriced(market, attempt, spec.disk):
            why = f"for the budget: no price is known for {' and '.join(texts)}"
            left_out[f"{attempt.cloud} {attempt.region}"] = why
        else:
            priced.append(attempt)
    if not priced:
        raise _no_budget(plan.attempts[0].place)
    first = replace(plan, attempts=tuple(priced[:CHEAPEST]))
    lives = lifetime(first, spec, market)
    further = [each for each in priced[CHEAPEST:] if not _is_earlier(_life(each, spec, market), lives)]
    if short := len(priced) - len(first.attempts) - len(further):
        left_out[counted(short, "dearer offer")] = "for the budget: with one, the box would end earlier"
    return replace(first, attempts=(*first.attempts, *further), left_out={**plan.left_out, **left_out})


def _is_earlier(one: timedelta | None, other: timedelta | None) -> bool:
    return one is not None and (other is None or one < other)


def _unpriced(market: Market, attempt: Candidate, disk_gib: int) -> list[str]:
    beside = _beside_usd_per_hour(market, attempt, disk_gib)
    return [text for kind, text in BESIDE.items() if beside[kind] is None]


def _no_budget(place: str) -> UsageError:
    return UsageError(
        f"the budget cannot be kept on {place}: the price of its disk or its address is not known",
        hint="use --ttl and --max-price, or choose other regions with --region",
    )


def _beside_usd_per_hour(market: Market, attempt: Candidate, disk_gib: int) -> dict[str, Decimal | None]:
    """The cost of one node's disk and address, by part; ``None`` if unknown."""
    billed_gib = market.billing_of(attempt.cloud).disk_gib(disk_gib)
    quantities = {DISK: billed_gib / HOURS_PER_MONTH, ADDRESS: Decimal(1)}
    prices = beside_prices(market, attempt.cloud, attempt.region, disk_gib)
    return {
        kind: None if price is None else market.usd(price.amount * quantities[kind], price.currency)
        for kind, price in prices.items()
    }


def agreed_usd(box: Box, market: Market) -> Decimal | None:
    """The most per hour and node that the user of a box has agreed to; ``None`` if unknown.

    That is the limit of its last start or launch; of a box that was found by its tags, its price and
    a margin.
    """
    if box.ceiling is not None and box.ceiling.machine_usd is not None:
        return box.ceiling.machine_usd
    made = [each.ceiling_usd for each in box.intents if each.status == "made" and each.ceiling_usd]
    if made:
        return made[-1]
    if box.price is None or box.offer is None:
        return None
    before = market.usd(box.price.amount, box.price.currency)
    return None if before is None else before * margin_of(box.offer.purchase)
