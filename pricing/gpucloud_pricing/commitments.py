"""Commitments of a user as prices: the cost of a machine in addition to them.

The figures assume that no other machine uses the commitments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from gpucloud_pricing.purchases import OWNED, Purchase
from gpucloud_pricing.values import Commitment, Derivation, InstanceType, Money, Price, SavingsPlan

SAVINGS_PLAN = "savings_plan"
CAPACITY = frozenset({"capacity_reservation", "capacity_block"})
"""Kinds that reserve capacity. All nodes of a box start in one reservation, so these do not add up."""

_MILLIONTH = Decimal("0.000001")


def last_whole_day(end: datetime) -> date:
    """The last day, in UTC, that is complete at an end. A second before midnight counts as midnight."""
    return (end.astimezone(UTC) + timedelta(seconds=1)).date() - timedelta(days=1)


def lasting(commitments: Iterable[Commitment], last: date) -> list[Commitment]:
    """The commitments that last to the end of a day; those that add up are merged."""
    alike: dict[object, list[Commitment]] = {}
    for each in commitments:
        if each.until is None or each.until >= last:
            alike.setdefault(_what(each), []).append(each)
    return [_together(found) for found in alike.values()]


def _what(commitment: Commitment) -> object:
    """The key that is equal for commitments that add up."""
    plan = commitment.plan
    return replace(
        commitment,
        id=commitment.id if commitment.kind in CAPACITY else "",
        count=1,
        plan=plan and replace(plan, per_hour=replace(plan.per_hour, amount=Decimal(0))),
        until=None,
        as_of=date.min,
    )


def _together(alike: Sequence[Commitment]) -> Commitment:
    """One commitment for several, as long as all of them last."""
    first = alike[0]
    plans = [each.plan for each in alike if each.plan]
    in_all = sum((plan.per_hour.amount for plan in plans), Decimal(0))
    return replace(
        first,
        count=sum(each.count for each in alike),
        plan=first.plan and replace(first.plan, per_hour=replace(first.plan.per_hour, amount=in_all)),
        until=min((each.until for each in alike if each.until), default=None),
        as_of=min(each.as_of for each in alike),
    )


def owned_prices(
    commitments: Iterable[Commitment], kind: InstanceType, listed: Sequence[Price], *, nodes: int
) -> Iterator[Price]:
    """The prices of a type in addition to the commitments, if they are lower.

    Args:
        commitments: those that last long enough; see :func:`lasting`.
        kind: the type.
        listed: its prices.
        nodes: the number of machines at the same time.
    """
    for each in commitments:
        if each.plan is not None:
            yield from _with_plan(each, each.plan, kind, listed, nodes)
            continue
        fits = (each.cloud, each.instance_type) == (kind.cloud, kind.name)
        if fits and each.region and each.count >= nodes:
            yield Price(
                cloud=kind.cloud,
                region=each.region,
                zone=each.zone,
                instance_type=kind.name,
                purchase=OWNED,
                amount=Decimal(0),
                currency="USD",
                as_of=each.as_of,
                source=each.source,
                terms=text_of(each),
            )


def _with_plan(
    commitment: Commitment, plan: SavingsPlan, kind: InstanceType, listed: Sequence[Price], nodes: int
) -> Iterator[Price]:
    """The on-demand prices less the part that the plan covers.

    A plan is used up at its own rates, and the rest is billed on demand. Source: Savings Plans User
    Guide, "Understanding how Savings Plans apply to your AWS usage":
    https://docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html
    """
    if not reaches(commitment, kind):
        return
    for price in listed:
        elsewhere = price.zone or commitment.region not in {None, price.region}
        if price.purchase != Purchase.ON_DEMAND or elsewhere:
            continue
        rate = rate_of(plan, listed, price.region)
        if rate is None:
            continue
        covered = min(Decimal(1), plan.per_hour.amount / (rate.amount * nodes))
        yield replace(
            price,
            purchase=OWNED,
            amount=(price.amount * (1 - covered)).quantize(_MILLIONTH),
            as_of=commitment.as_of,
            source=commitment.source,
            terms=text_of(commitment),
            derivation=Derivation(
                formula=f"{_money_text(price.money)} x (1 - the lesser of 1 and "
                f"{_money_text(plan.per_hour)} / ({_money_text(rate.money)} x {nodes}))",
                prices=(price, rate),
            ),
        )


def reaches(commitment: Commitment, kind: InstanceType) -> bool:
    """Whether a savings plan applies to a type, in any region."""
    plan = commitment.plan
    if plan is None or commitment.cloud != kind.cloud:
        return False
    return plan.family is None or kind.name.startswith(f"{plan.family}.")


def rate_of(plan: SavingsPlan, listed: Iterable[Price], region: str) -> Price | None:
    """The price of a type at which a plan is used up in a region; ``None`` if unknown.

    A price without terms belongs to the only plan that its cloud sells.
    """
    wanted = (plan.purchase, plan.per_hour.currency, region, None)
    fitting = (p for p in listed if (p.purchase, p.currency, p.region, p.zone) == wanted)
    rates = (price for price in fitting if price.terms in {"", plan.terms})
    return max(rates, key=lambda price: price.amount, default=None)


def text_of(commitment: Commitment) -> str:
    """The amount and the end of a commitment, for people."""
    plan = commitment.plan
    until = "" if commitment.until is None else f" until {commitment.until}"
    if plan is not None:
        return f"savings plan {_money_text(plan.per_hour)}/h{until}"
    what = commitment.kind.replace("_", " ") + ("" if commitment.count == 1 else "s")
    return f"{commitment.count} {what}{until}"


def _money_text(money: Money) -> str:
    return f"{money.amount:f} {money.currency}"
