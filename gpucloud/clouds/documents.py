"""The JSON document of the calls on record."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from gpucloud_pricing.documents import MoneyDocument, Time


class CallDocument(TypedDict):
    """A call that changed something in a cloud, or tried to.

    Attributes:
        at: when it was sent.
        owner: the owner of the boxes.
        pid: the process that sent it.
        command: the command that made it.
        action: the name of the call.
        target: what the call is about.
        box: the id of the box.
        price: per hour and node, of a create call.
        trace: the id of the OpenTelemetry trace that the command is a part of.
        outcome: ``null`` if the process ended before the answer, or it is under way.
        answered_at: when the answer came.
    """

    at: Time
    owner: str
    user: str
    host: str
    pid: int
    command: str
    cloud: str
    region: str
    action: str
    target: str
    box: NotRequired[str]
    price: NotRequired[MoneyDocument]
    trace: NotRequired[str]
    outcome: str | None
    request_id: str | None
    answered_at: str | None


class FollowedCallDocument(CallDocument):
    """A call as it is about to be sent, without an outcome; and again with it.

    Attributes:
        call: the same for both.
    """

    call: str


class AuditDocument(TypedDict):
    """The newest calls on record, in the order in which they were sent.

    Attributes:
        damaged: how many lines of the record cannot be parsed.
        more: whether there are older calls that match.
    """

    calls: list[CallDocument]
    damaged: int
    more: bool
