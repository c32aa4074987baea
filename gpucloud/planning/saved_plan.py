"""A saved plan held against today's: nothing of the file is bought on but the spec and the order of attempts.

Pure functions. That the file is as it was saved, :meth:`gpucloud.planning.plan.Plan.from_json` sees to.
"""

from __future__ import annotations

from dataclasses import replace

from gpucloud.errors import PriceError, UsageError
from gpucloud.planning.plan import MAKE_AGAIN, Candidate, Plan

_FIXED = (
    "gpu_model",
    "gpu_count",
    "gpu_memory_gib",
    "vcpus",
    "memory_gib",
    "interconnect",
    "arch",
    "reservation",
)
"""What an offer is, whatever it costs."""


def renewed(saved: Plan, today: Plan) -> Plan:
    """A saved plan with every figure as it is computed today: the same attempts in the same order.

    Raises:
        UsageError: what is no price is not as the market and the spec tell, so the file was edited.
        PriceError: a price moved, or an offer is gone; says which.
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
        raise PriceError("the saved plan is out of date: " + "; ".join(moved), hint=MAKE_AGAIN)
    return replace(today, attempts=tuple(current for _, current in found if current is not None))


def _differs(one: Candidate, other: Candidate, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def changes(saved: Plan, today: Plan) -> list[str]:
    """What costs or may cost something else than the saved plan says: one sentence per attempt."""
    now = {candidate.key: candidate for candidate in today.attempts}
    sentences: list[str] = []
    for then in saved.attempts:
        found = now.get(then.key)
        if found is None:
            sentences.append(f"{then.place}: no longer offered")
        elif (found.price, found.currency) != (then.price, then.currency):
            sentences.append(
                f"{then.place}: {then.price} {then.currency} per hour then,"
                f" {found.price} {found.currency} now ({found.source})"
            )
        elif (found.price_usd, found.ceiling_usd) != (then.price_usd, then.ceiling_usd):
            sentences.append(
                f"{then.place}: {then.price_usd:f} USD per hour and at most {then.ceiling_usd:f} then,"
                f" {found.price_usd:f} and at most {found.ceiling_usd:f} now"
            )
    return sentences
