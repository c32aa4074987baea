"""The value today of payments that are due at different times: what is paid upfront costs capital."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing.estimate import Estimate
from gpucloud_pricing.terms import Usage, run_hours

HOURS_PER_YEAR = Decimal(8760)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment in USD: at once at ``start``, or evenly until ``end``; in hours from the first payment."""

    amount: Decimal
    start: Decimal
    end: Decimal


def present_value(estimate: Estimate, rate: Decimal) -> Decimal | None:
    """The expected total as a payment at the start, in USD; ``None`` if it is unknown.

    Args:
        estimate: the estimate.
        rate: the cost of capital in a year, as a share: 0.08.
    """
    if estimate.expected_total is None or estimate.usage is None:
        return None
    return value_today(payments(estimate, estimate.expected_total, estimate.usage), rate)


def payments(estimate: Estimate, expected_total: Decimal, usage: Usage) -> Iterator[Payment]:
    """The payments of an estimate: the upfront part at the start of each term, the rest as it is used.

    What a commitment bills by the month is spread over its terms; hours after them, disks and addresses over
    the time of their use.
    """
    bill, start = estimate.bill, Decimal(0)
    if estimate.spot is not None or bill is None:
        hours = usage.billed_hours if estimate.spot is None else Decimal(estimate.spot.outlook.expected)
        yield Payment(amount=expected_total, start=start, end=hours)
        return
    end = run_hours(estimate.offer, usage)
    upfront = estimate.upfront or Decimal(0)
    committed = bill.terms * bill.term_hours
    for term in range(bill.terms if upfront else 0):
        yield Payment(amount=upfront, start=term * bill.term_hours, end=term * bill.term_hours)
    recurring = bill.machines * bill.terms * bill.term_usd - bill.terms * upfront
    yield Payment(amount=recurring, start=start, end=committed)
    yield Payment(amount=bill.machines * bill.hours * bill.hour_usd, start=committed, end=max(committed, end))
    yield Payment(amount=expected_total - bill.usd, start=start, end=end)


def value_today(due: Iterable[Payment], rate: Decimal) -> Decimal:
    """The value of payments at their start.

    With v = 1 / (1 + rate), an amount that is due after t years is worth v^t of itself. One that is paid
    evenly from a to b years is worth (v^a - v^b) / ((b - a) ln(1 + rate)) of itself. Source: the compound
    interest and the continuous annuity (1 - v^n) / ln(1 + rate) of the Society of Actuaries' Exam FM.
    """
    force = (1 + rate).ln()
    worth = Decimal(0)
    for each in due:
        start, end = each.start / HOURS_PER_YEAR, each.end / HOURS_PER_YEAR
        exponent = force * (end - start)
        spread = (1 - (-exponent).exp()) / exponent if exponent else Decimal(1)
        worth += each.amount * (-force * start).exp() * spread
    return worth
