"""A volume for programs: the fields of the JSON document VOLUME, typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

from gpucloud.api.texts import money_text, per_day_text, place_text, time_left_text
from gpucloud.costs.spend import BillingOf, cost_so_far, per_hour
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.rendering.table import Table
from gpucloud.rendering.tabular import TableRow
from gpucloud.rendering.texts import duration_text
from gpucloud.resources import rfc3339
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.api.documents import VolumeDocument
    from gpucloud.journal import records
    from gpucloud.planning.volume_plan import VolumePlan

Confirm = Callable[["VolumePlan"], bool]
"""Confirms or refuses a volume before it is made."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Volume(TableRow):
    """One volume, as read from the journal. Times are in UTC.

    Attributes:
        name: unique among the owner's living volumes and boxes.
        id: unique for ever.
        zone: ``None`` if its cloud has no zones for disks.
        keep: how long it is kept after its last use.
        attached_to: the name of the box that uses it; ``None`` if none does.
        used_at: when it was last attached or detached; ``None`` if it never was.
        expires_at: when it is unwanted, and ``sweep`` or the next changing call deletes it.
        overdue: whether it lives past that.
        per_hour: the present spending; ``None`` if its price is unknown.
        cost_so_far: the cost until now; ``None`` if its price is unknown.
    """

    name: str
    id: str
    owner: str
    state: BoxState
    cloud: str | None
    region: str | None
    zone: str | None
    size_gib: int | None
    keep: timedelta
    attached_to: str | None
    created_at: datetime
    used_at: datetime | None
    expires_at: datetime | None
    overdue: bool
    ended_at: datetime | None
    per_hour: Money | None
    cost_so_far: Money | None

    def __repr__(self) -> str:
        """One line, for a prompt or a log: all fields are in :meth:`document`."""
        where = (self.cloud, self.zone or self.region, f"{self.size_gib} GiB" if self.size_gib else None)
        return " ".join(filter(None, ("<Volume", self.name, self.state, *where))) + ">"

    @classmethod
    def read(
        cls, volume: records.Volume, holder: records.Box | None, billing_of: BillingOf, now: datetime
    ) -> Volume:
        """A volume from the journal's record, at a moment; ``holder`` is the box that uses it."""
        place, cost = volume.place, cost_so_far(volume, now, billing_of)
        return cls(
            name=volume.name,
            id=volume.id,
            owner=volume.owner,
            state=volume.state,
            cloud=place.cloud if place else None,
            region=place.region if place else None,
            zone=place.zone if place else None,
            size_gib=volume.disk_gib,
            keep=volume.keep,
            attached_to=holder.name if holder else None,
            created_at=volume.created_at,
            used_at=volume.used_at,
            expires_at=volume.expires_at,
            overdue=holder is None
            and volume.state not in OVER
            and volume.expires_at is not None
            and volume.expires_at < now,
            ended_at=volume.ended_at,
            per_hour=per_hour(volume, billing_of).disk,
            cost_so_far=cost.amount if cost else None,
        )

    @property
    def is_over(self) -> bool:
        """Whether it was deleted: nothing billable is left of it."""
        return self.ended_at is not None

    def document(self) -> VolumeDocument:
        """VOLUME of the JSON documents: money as ``{amount, currency}``, times in RFC 3339."""
        return {
            "name": self.name,
            "id": self.id,
            "owner": self.owner,
            "state": str(self.state),
            "cloud": self.cloud,
            "region": self.region,
            "zone": self.zone,
            "size_gib": self.size_gib,
            "keep_s": self.keep.total_seconds(),
            "attached_to": self.attached_to,
            "created_at": rfc3339(self.created_at),
            "used_at": rfc3339(self.used_at) if self.used_at else None,
            "expires_at": rfc3339(self.expires_at) if self.expires_at else None,
            "overdue": self.overdue,
            "ended_at": rfc3339(self.ended_at) if self.ended_at else None,
            "per_hour": self.per_hour.document() if self.per_hour else None,
            "cost_so_far": self.cost_so_far.document() if self.cost_so_far else None,
        }

    @classmethod
    def table_of(cls, rows: Sequence[Self]) -> Table:
        """The table of ``gpucloud volume list``."""
        now = datetime.now(UTC)
        columns: dict[str, Sequence[object]] = {
            "NAME": [volume.name for volume in rows],
            "STATE": [state_text(volume) for volume in rows],
            "GIB": [volume.size_gib for volume in rows],
            "WHERE": [where_text(volume) for volume in rows],
            "PER DAY": [None if volume.is_over else per_day_text(volume.per_hour) for volume in rows],
            "SO FAR": [money_text(volume.cost_so_far) for volume in rows],
            "AGE": [duration_text(now - volume.created_at) for volume in rows],
            "USED": [_used_text(volume, now) for volume in rows],
            "LEFT": [None if volume.is_over else time_left_text(volume.expires_at, now) for volume in rows],
        }
        right = ("GIB", "PER DAY", "SO FAR", "AGE", "LEFT")
        return Table(columns, right=right, optional=("AGE", "SO FAR", "USED", "WHERE"))


def state_text(volume: Volume) -> str:
    """The state of a volume: which box uses it, and what needs attention."""
    if volume.attached_to:
        return f"used by {volume.attached_to}"
    return f"{volume.state} (overdue)" if volume.overdue else str(volume.state)


def where_text(volume: Volume) -> str:
    """The place of a volume."""
    return place_text(volume.cloud, volume.zone or volume.region)


def _used_text(volume: Volume, now: datetime) -> str:
    return f"{duration_text(now - volume.used_at)} ago" if volume.used_at else "never"
