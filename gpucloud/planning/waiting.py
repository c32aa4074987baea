"""The rules of a wait for capacity: what may change meanwhile, pauses, prices. Pure functions."""

from __future__ import annotations

from dataclasses import replace

from gpucloud.errors import (
    RULES,
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    Next,
    OutcomeUnknownError,
    PriceError,
)
from gpucloud.planning.plan import Plan

BACKOFF_S = (0, 5, 10, 20, 40, 80, 160, 300)
"""The pauses after the first, second … failure in a row; the last one also after any further."""
CAPACITY_PAUSE_S = 60
"""The shortest pause after no offer had started."""


def pause_after(failures: int, *, capacity: bool) -> int:
    """The pause in seconds after so many failures in a row; longer where the last one was for capacity."""
    pause_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
    return max(pause_s, CAPACITY_PAUSE_S) if capacity else pause_s


def may_pass(error: GpucloudError, *, waiting: bool) -> bool:
    """Whether another moment may change a failure that has left nothing behind.

    Args:
        error: the failure of a launch.
        waiting: whether the launch waits already. Only missing capacity begins a wait: a limit that is too
            low, or a cloud that does not answer, would else be noticed hours later. It ends none.
    """
    if isinstance(error, OutcomeUnknownError | CleanupIncompleteError) or error.left:
        return False
    if not isinstance(error, CloudError):
        return waiting and isinstance(error, PriceError)
    if error.passes:
        return True
    error_class = ErrorClass(error.error_class)
    return waiting and (error_class is ErrorClass.PRICE or RULES[error_class].next is Next.AGAIN)


def within(agreed: Plan, today: Plan) -> Plan:
    """A plan of a later round, at no more than the dearest price that was agreed at first.

    Raises:
        PriceError: every offer costs more today.
    """
    most = max(attempt.ceiling_usd for attempt in agreed.attempts)
    attempts = [
        replace(each, ceiling_usd=min(each.ceiling_usd, most))
        for each in today.attempts
        if each.price_usd <= most
    ]
    if not attempts:
        raise PriceError(f"every offer costs more than the {most:f} USD per hour that were agreed to")
    return replace(today, attempts=tuple(attempts))
