"""Compares a saved plan with today's: only the spec and the order of attempts are used from the file.

Pure functions. :meth:`gpucloud.planning.plan.Plan.from_json` checks that the file was not changed.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpucloud.errors import PriceError, UsageError, first_of
from gpucloud.planning.plan import MAKE_AGAIN, Candidate, Plan

_FIXED = (
    "gpu_model",
    "gpu_count",
    "gpu_memory_gib",
    "vcpus",
    "memory_gib",
    "local_ssd_gib",
    "interconnect",
    "rdma",
    "arch",
    "reservation",
)
"""The properties of an offer other than its price."""


def renewed(saved: Plan, today: Plan) -> Plan:
    """A saved plan with every figure computed today: the same attempts in the same order.

    Raises:
        UsageError: a field other than a price differs from the market or the spec, so the file was edited.
        PriceError: a price changed, or an offer is gone; the message lists them.
    """
    now = {candidate.key: candidate for candidate in today.attempts}
    found = [(then, now.get(then.key)) for then in saved.attempts]
    for then, current in found:
        wrong = [] if current is None else [name for name in _FIXED if _differs(then, current, name)]
        if wrong:
            raise UsageError(
                f"{then.place}: the saved plan says {wrong[0]} {getattr(then, wrong[0])},"
                f" the market {getattr(current, wrong[0])}",
                hint=MAKE_AGAIN,
            )
    moved = changes(saved, today)
    if moved:
        raise PriceError(f"the saved plan is out of date: {first_of(moved)}", hint=MAKE_AGAIN)
    return replace(today, attempts=tuple(current for _, current in found if current is not None))


def _differs(one: Candidate, other: Candidate, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def changes(saved: Plan, today: Plan) -> list[str]:
    """The attempts whose price or ceiling differs from the saved plan: one sentence each."""
    now = {candidate.key: candidate for candidate in today.attempts}
    moved = ((then, _change(then, now.get(then.key))) for then in saved.attempts)
    return [f"{then.place}: {change}" for then, change in moved if change is not None]


def _change(then: Candidate, now: Candidate | None) -> str | None:
    """How an attempt's price changed: in the cloud's currency, else in USD, else its ceiling."""
    if now is None:
        return "no longer offered"
    if now.currency != then.currency:
        return f"the price was {then.price:f} {then.currency} per hour, it is {now.price:f} {now.currency}"
    if now.price != then.price:
        moved = _moved(then.price, now.price)
        return f"the price {moved} {now.currency} per hour ({now.source})"
    if now.price_usd != then.price_usd:
        return f"the price in USD {_moved(then.price_usd, now.price_usd)} per hour"
    if now.ceiling_usd != then.ceiling_usd:
        return f"the most it may cost {_moved(then.ceiling_usd, now.ceiling_usd)} USD per hour"
    return None


def _moved(before: Decimal, after: Decimal) -> str:
    return f"{'rose' if after > before else 'fell'} from {before:f} to {after:f}"
