"""The document of a command that failed."""

from __future__ import annotations

from typing import TypedDict

from gpucloud_pricing.documents import MoneyDocument

_Class = TypedDict("_Class", {"class": str})  # keywords of Python cannot be fields of a class


class FailedAttemptDocument(_Class):
    """An attempt of a launch that failed.

    Attributes:
        class: what the failure means, for every cloud alike.
        code: the cloud's own code.
        hint: what the code means, and what to do about it.
    """

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    purchase: str
    code: str | None
    message: str
    hint: str | None
    request_id: str | None


class LeftDocument(TypedDict):
    """What may still be billed; ``price`` is per hour."""

    kind: str
    id: str
    cloud: str | None
    region: str | None
    price: MoneyDocument | None


class FailureDocument(_Class):
    """A failure.

    Attributes:
        class: what it means, for every cloud alike.
        message: what was tried and what happened.
        hint: what to do next.
        code: the cloud's own code.
        attempts: what was tried, in order.
        left: what may still be billed.
        owed_command: the command that deletes what is left.
    """

    message: str
    hint: str | None
    cloud: str | None
    code: str | None
    request_id: str | None
    attempts: list[FailedAttemptDocument]
    left: list[LeftDocument]
    owed_command: str | None


class ErrorDocument(TypedDict):
    """The answer of every command that fails."""

    error: FailureDocument
