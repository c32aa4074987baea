"""All errors of gpucloud: their classes, which decide what happens next, and their exit codes.

The tree::

    GpucloudError
    ├── UsageError        2    an invalid spec, flag or file, or a local problem; nothing was bought
    ├── NoOfferError      3    nothing in the market matches
    ├── CloudError             a cloud refused or failed; the exit code follows from its class
    │   └── OutcomeUnknownError    a mutating call may or may not have been applied
    ├── PriceError        7    all offers cost too much, or the price of a saved plan changed
    │   └── BudgetError        a budget would be exceeded
    ├── PolicyError       4    a rule of the policy forbids it; nothing was bought
    ├── CleanupIncompleteError         8    something may still be billed
    ├── SetupFailedError  8    the set-up of a box failed; the box is kept, and billed
    ├── BoxLostError      1    a box ended while it was in use
    └── InterruptedBySignal    130, 143, 129
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ErrorClass(StrEnum):
    """What a failure means, for every cloud alike."""

    CAPACITY = "capacity"
    UNSUPPORTED = "unsupported"
    QUOTA = "quota"
    PRICE = "price"
    AUTH = "auth"
    BILLING = "billing"
    THROTTLED = "throttled"
    EVENTUAL = "eventual"
    SERVER = "server"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    BAD_PARAM = "bad_param"


class Next(StrEnum):
    """What the engine does after a failure of a class."""

    ELSEWHERE = "elsewhere"  # another zone, then region, then type
    OTHER_QUOTA = "other_quota"  # another region or another type with headroom
    NEXT_OFFER = "next_offer"  # the next offer under the price limit
    LEAVE_CLOUD = "leave_cloud"  # go on without this cloud, or stop if it is the only one
    AGAIN = "again"  # the same call, within the budget
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """One row of the table that the engine and the documentation read."""

    next: Next
    exit_code: int
    definite: bool  # on a create: certainly nothing was created


RULES: dict[ErrorClass, ClassRule] = {
    ErrorClass.CAPACITY: ClassRule(next=Next.ELSEWHERE, exit_code=5, definite=True),
    ErrorClass.UNSUPPORTED: ClassRule(next=Next.ELSEWHERE, exit_code=5, definite=True),
    ErrorClass.QUOTA: ClassRule(next=Next.OTHER_QUOTA, exit_code=6, definite=True),
    ErrorClass.PRICE: ClassRule(next=Next.NEXT_OFFER, exit_code=7, definite=True),
    ErrorClass.AUTH: ClassRule(next=Next.LEAVE_CLOUD, exit_code=4, definite=True),
    ErrorClass.BILLING: ClassRule(next=Next.LEAVE_CLOUD, exit_code=4, definite=True),
    ErrorClass.THROTTLED: ClassRule(next=Next.AGAIN, exit_code=1, definite=False),
    ErrorClass.EVENTUAL: ClassRule(next=Next.AGAIN, exit_code=1, definite=False),
    ErrorClass.SERVER: ClassRule(next=Next.AGAIN, exit_code=1, definite=False),
    ErrorClass.NOT_FOUND: ClassRule(next=Next.STOP, exit_code=1, definite=False),
    ErrorClass.CONFLICT: ClassRule(next=Next.STOP, exit_code=1, definite=False),
    ErrorClass.BAD_PARAM: ClassRule(next=Next.STOP, exit_code=1, definite=False),
}


class GpucloudError(Exception):
    """Base of all errors that gpucloud reports to its user.

    Args:
        message: what was tried and what happened, in one line.
        hint: what to do next.
        attempts: what was tried, as plain JSON, in order.
        left: what may still be billed: ``{"kind", "id", "cloud", "region", "price"}`` each.
        owed_command: the command that deletes what is left.
    """

    exit_code = 1
    error_class = "unexpected"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        attempts: list[dict[str, Any]] | None = None,
        left: list[dict[str, Any]] | None = None,
        owed_command: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.attempts = attempts or []
        self.left = left or []
        self.owed_command = owed_command
        self.cloud: str | None = None
        self.code: str | None = None
        self.request_id: str | None = None

    def document(self) -> dict[str, Any]:
        """The error document of the contract (``gpucloud.error/v1``)."""
        return {
            "schema": "gpucloud.error/v1",
            "error": {
                "class": self.error_class,
                "message": self.message,
                "hint": self.hint,
                "cloud": self.cloud,
                "code": self.code,
                "request_id": self.request_id,
                "attempts": self.attempts,
                "left": self.left,
                "owed_command": self.owed_command,
            },
        }


MOST_PROBLEMS = 10
"""How many faults of one input are told; whoever has more has given another file."""


def first_of(problems: Sequence[str]) -> str:
    """Faults of one input as a sentence: the first ten, and how many more there are."""
    more = len(problems) - MOST_PROBLEMS
    return "; ".join([*problems[:MOST_PROBLEMS], *([f"and {more:,} more"] if more > 0 else [])])


class UsageError(GpucloudError):
    """An invalid spec, flag or file, or a local problem to fix first. Nothing was bought."""

    exit_code = 2
    error_class = "usage"


class NoOfferError(GpucloudError):
    """No offer in the market matches the spec."""

    exit_code = 3
    error_class = "no_offer"


class PriceError(GpucloudError):
    """All offers cost more than allowed, or the price of a saved plan changed."""

    exit_code = 7
    error_class = "price"


class BudgetError(PriceError):
    """A plan would exceed a budget of the journal; nothing was bought."""

    error_class = "budget"


class PolicyError(GpucloudError):
    """A rule of the journal's policy forbids what was asked; nothing was bought. ``rules`` has its words."""

    exit_code = 4
    error_class = "policy"

    def __init__(self, message: str, *, rules: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint or "see the rules, which admins set: gpucloud policy show")
        self.rules = rules


class CleanupIncompleteError(GpucloudError):
    """Resources may still be billed: ``left`` lists them, ``owed_command`` deletes them."""

    exit_code = 8
    error_class = "owed"


class SetupFailedError(GpucloudError):
    """The set-up of a box failed, and the box is kept: it is billed until its deadline."""

    exit_code = CleanupIncompleteError.exit_code
    error_class = "setup"


class BoxLostError(GpucloudError):
    """A box ended while it was in use. ``taken_back``: the cloud interrupted it, as spot allows."""

    error_class = "box_lost"

    def __init__(self, message: str, *, taken_back: bool, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.taken_back = taken_back
        if taken_back:
            self.error_class = "interruption"


class InterruptedBySignal(GpucloudError):  # noqa: N818  (an interruption, not an error)
    """A signal ended the command, and everything that it made was deleted.

    Args:
        message: what was in progress.
        signum: the signal's number; the exit code is 128 + ``signum``.
    """

    error_class = "interrupted"

    def __init__(self, message: str, *, signum: int) -> None:
        super().__init__(message)
        self.signum = signum
        self.exit_code = 128 + signum


class CloudError(GpucloudError):
    """A cloud refused a call, or a call failed. Keeps the cloud's own message.

    Args:
        message: what was tried and what the cloud said.
        error_class: the class that decides what happens next.
        cloud: the provider's name.
        code: the cloud's own error code.
        request_id: the cloud's own request id.
        scope: what else the refusal rules out.
        hint: what to do next.
        attempts: the attempts before.
        sent: False if the request certainly never left this machine.
        listed: False if the code is in no table: how far it reaches is not known.

    Attributes:
        passes: whether another moment may change it by itself: there is capacity, or room in a quota.
    """

    def __init__(
        self,
        message: str,
        *,
        error_class: ErrorClass,
        cloud: str,
        code: str | None = None,
        request_id: str | None = None,
        scope: Scope | None = None,
        hint: str | None = None,
        attempts: list[dict[str, Any]] | None = None,
        sent: bool = True,
        listed: bool = True,
    ) -> None:
        super().__init__(message, hint=hint, attempts=attempts)
        self.error_class = error_class
        self.cloud = cloud
        self.code = code
        self.request_id = request_id
        self.scope = scope
        self.sent = sent
        self.listed = listed
        self.earlier_unknown = False
        self.passes = error_class is ErrorClass.CAPACITY
        self.exit_code = RULES[error_class].exit_code


def is_absent(error: Exception) -> bool:
    """Whether a cloud is not set up here: no SDK, or no credentials."""
    return isinstance(error, CloudError) and error.error_class is ErrorClass.AUTH and not error.sent


def absence(error: Exception) -> str:
    """Why a cloud is left out, in one line; `gpucloud check` says all that its SDK said."""
    if not isinstance(error, CloudError) or error.error_class not in {ErrorClass.AUTH, ErrorClass.BILLING}:
        return str(error)
    if is_absent(error):
        return f"it has no usable credentials ({error.code}): gpucloud check"
    return f"{error}: {error.hint}" if error.hint else str(error)


class OutcomeUnknownError(CloudError):
    """A mutating call may or may not have been applied; it is looked up before anything else is tried."""

    def refusal(self) -> CloudError:
        """The same as a refusal, once it was looked up: the cloud answered, and there is nothing."""
        return CloudError(
            self.message,
            error_class=ErrorClass(self.error_class),
            cloud=str(self.cloud),
            code=self.code,
            request_id=self.request_id,
            scope=self.scope,
            hint=self.hint,
            listed=self.listed,
        )


class Scope(StrEnum):
    """How far a refusal reaches: what it rules out besides the attempt that was refused."""

    ATTEMPT = "attempt"  # nothing else
    ZONE = "zone"  # all types in this zone
    TYPE_IN_REGION = "type_in_region"  # this type, bought this way, in this region
    REGION = "region"  # all types in this region
    TYPE = "type"  # this type, bought this way, in this cloud
    PURCHASE = "purchase"  # this way of paying in this cloud
    ACCOUNT = "account"  # the account: this cloud
    EVERYWHERE = "everywhere"  # every cloud


COVERED: dict[Scope, tuple[str, ...]] = {
    Scope.ATTEMPT: ("cloud", "region", "zone", "instance_type", "purchase", "reservation"),
    Scope.ZONE: ("cloud", "region", "zone"),
    Scope.TYPE_IN_REGION: ("cloud", "region", "instance_type", "purchase"),
    Scope.REGION: ("cloud", "region"),
    Scope.TYPE: ("cloud", "instance_type", "purchase"),
    Scope.PURCHASE: ("cloud", "purchase"),
    Scope.ACCOUNT: ("cloud",),
    Scope.EVERYWHERE: (),
}
"""What two attempts have in common when a refusal of one, of this scope, rules out the other."""
