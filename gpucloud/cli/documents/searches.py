"""The documents of what clouds hold, compared with the journal."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from gpucloud.api.documents import BoxDocument, SnapshotDocument, VolumeDocument
from gpucloud_pricing.documents import MoneyDocument, Time, Unknown


class UnreadDocument(TypedDict):
    """A region that could not be read."""

    cloud: str
    region: str
    error: str


class UnjudgedDocument(TypedDict):
    """A resource with the user's owner tag, and tags that gpucloud never writes."""

    kind: str
    id: str
    cloud: str
    region: str
    wrong: str | None


class UntrackedDocument(TypedDict):
    """A resource that belongs to no living box in this journal.

    Attributes:
        box: the id of a box, by its tag.
        wrong: what is wrong with its tags.
    """

    kind: str
    id: str
    cloud: str
    region: str
    owner: str | None
    box: str | None
    wrong: str | None


class ListDocument(TypedDict):
    """The boxes.

    Attributes:
        strangers: resources of no living box; this and the following with ``--live``.
        unread: regions that could not be read.
        left_out: clouds that are not set up here, and why.
        volumes: with ``--all-kinds``, as ``snapshots``.
    """

    boxes: list[BoxDocument]
    volumes: NotRequired[list[VolumeDocument]]
    snapshots: NotRequired[list[SnapshotDocument]]
    strangers: NotRequired[list[UntrackedDocument]]
    unread: NotRequired[list[UnreadDocument]]
    left_out: NotRequired[dict[str, str]]


class OfOthersDocument(TypedDict):
    """A resource of another owner."""

    kind: str
    id: str
    cloud: str
    region: str
    owner: str | None


class DownDocument(TypedDict):
    """The boxes that were deleted.

    Attributes:
        unjudged: resources left alone because of their tags.
        of_others: resources of the run left alone because another owner has them, and no owner was chosen.
    """

    boxes: list[BoxDocument]
    unjudged: list[UnjudgedDocument]
    of_others: list[OfOthersDocument]


class RecoverDocument(TypedDict):
    """What was restored to the journal.

    Attributes:
        unread: regions that could not be read.
        left_out: clouds that are not set up here, and why.
        unjudged: resources left alone because of their tags.
    """

    boxes: list[BoxDocument]
    volumes: list[VolumeDocument]
    snapshots: list[SnapshotDocument]
    unread: list[UnreadDocument]
    left_out: dict[str, str]
    unjudged: list[UnjudgedDocument]


class FoundDocument(TypedDict):
    """A resource with gpucloud's tags.

    Attributes:
        kind: ``instance``, ``disk``, ``volume``, and others.
        price: per hour; ``null`` if unknown.
        address_price: of the public address of a machine, per hour.
        unknown: why there is no price.
        reason: why it is listed.
        wrong: what is wrong with its tags.
        unwanted: whether it is to be deleted.
        removed: whether it was deleted.
    """

    kind: str
    id: str
    cloud: str
    region: str
    owner: str | None
    box: str | None
    run_id: str | None
    created_at: Time | None
    expires_at: Time | None
    price: MoneyDocument | None
    address_price: NotRequired[MoneyDocument]
    unknown: NotRequired[Unknown]
    reason: str
    wrong: str | None
    unwanted: bool
    removed: bool


class SweepDocument(TypedDict):
    """Resources with gpucloud's tags in all regions of all clouds.

    Attributes:
        price_per_hour: the known prices of the user's own.
        unread: regions that could not be read.
        left_out: clouds that are not set up here, and why.
    """

    found: list[FoundDocument]
    price_per_hour: MoneyDocument
    unread: list[UnreadDocument]
    left_out: dict[str, str]
