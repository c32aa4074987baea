"""What can go wrong, in the classes that decide what happens next, and the exit code of each.

The tree::

    GpucloudError
    ├── UsageError        2    a bad spec, flag, file or state of this machine; nothing was spent
    ├── NoOfferError      3    nothing in the market matches
    ├── CloudError             a cloud refused or failed; the exit code follows from its class
    │   └── OutcomeUnknownError    a mutating call may or may not have been applied
    ├── PriceError        7    only dearer than allowed, or the price of a saved plan moved
    ├── OwedError         8    something may still be billed
    ├── BoxLostError      1    a box ended while it was in use
    └── InterruptedBySignal    130, 143, 129
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ErrorClass(StrEnum):
    """What a failure means for the engine, whichever cloud said it."""

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
    definite: bool  # on a create: the cloud has certainly made nothing


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
    """Base of every failure that gpucloud explains to its user.

    Args:
        message: what was tried and what happened, one line.
        hint: what to do next.
        attempts: what was tried, as plain JSON, in order.
        left: what may still be billed: ``{"kind", "id", "cloud", "region", "price"}`` each.
        owed_command: the command that removes what is left.
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


class UsageError(GpucloudError):
    """A bad spec, flag or file, or a state of this machine that must be mended first. Nothing was spent."""

    exit_code = 2
    error_class = "usage"


class NoOfferError(GpucloudError):
    """No offer in the market matches the spec."""

    exit_code = 3
    error_class = "no_offer"


class PriceError(GpucloudError):
    """Only dearer than allowed; or a saved plan's price moved."""

    exit_code = 7
    error_class = "price"


class OwedError(GpucloudError):
    """Something may still be billed; ``left`` and ``owed_command`` say what and how to end it."""

    exit_code = 8
    error_class = "owed"


class BoxLostError(GpucloudError):
    """A box ended while it was in use. ``taken_back``: its cloud took it, as it may with spot."""

    error_class = "box_lost"

    def __init__(self, message: str, *, taken_back: bool, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.taken_back = taken_back
        if taken_back:
            self.error_class = "interruption"


class InterruptedBySignal(GpucloudError):  # noqa: N818  (an interruption, not an error of anybody)
    """The command was ended by a signal and everything it made was taken down.

    Args:
        message: what was going on.
        signum: the signal's number; the exit code is 128 + it.
    """

    error_class = "interrupted"

    def __init__(self, message: str, *, signum: int) -> None:
        super().__init__(message)
        self.signum = signum
        self.exit_code = 128 + signum


class CloudError(GpucloudError):
    """A cloud refused or failed. Keeps the cloud's own words.

    Args:
        message: what was tried and what the cloud said.
        error_class: the class that decides what happens next.
        cloud: the provider's name.
        code: the cloud's own error code.
        request_id: the cloud's own request id.
        scope: how far the refusal reaches.
        hint: what to do next.
        attempts: what was tried before.
        sent: False where the request certainly never left this machine.
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
    ) -> None:
        super().__init__(message, hint=hint, attempts=attempts)
        self.error_class = error_class
        self.cloud = cloud
        self.code = code
        self.request_id = request_id
        self.scope = scope
        self.sent = sent
        self.earlier_unknown = False
        self.exit_code = RULES[error_class].exit_code


def is_absent(error: Exception) -> bool:
    """Whether a cloud is not set up here: no SDK, or no credentials to be refused."""
    return isinstance(error, CloudError) and error.error_class is ErrorClass.AUTH and not error.sent


class OutcomeUnknownError(CloudError):
    """A mutating call may or may not have been applied; nothing else may be tried until it is looked up."""


class Scope(StrEnum):
    """How far a refusal reaches: what else is not worth trying."""

    ZONE = "zone"  # this type in this zone
    REGION = "region"  # this type (family) in this region
    TYPE = "type"  # this type everywhere
    CLOUD = "cloud"  # everything in this cloud
