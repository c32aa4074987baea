"""A snapshot for programs: the fields of the JSON document SNAPSHOT, typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
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
    from gpucloud.api.documents import SnapshotDocument
    from gpucloud.journal import records


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Snapshot(TableRow):
    """One snapshot of a volume or of a stopped box, as read from the journal. Times are in UTC.

    Attributes:
        name: unique among the owner's living boxes, volumes and snapshots.
        id: unique for ever.
        of: the name of the volume or box that it was made of; ``None`` if unknown.
        bootable: whether it is of a box, and boxes can boot from it: ``image`` of a spec takes its name.
        size_gib: the size of that disk, which is the most that the snapshot holds.
        expires_at: when it is unwanted, and ``sweep`` or the next changing call deletes it.
        overdue: whether it lives past that.
        most_per_hour: the most that it costs now: a cloud bills what a snapshot holds; ``None`` if its price
            is unknown.
        most_so_far: the most that it has cost until now; ``None`` if its price is unknown.
    """

    name: str
    id: str
    owner: str
    state: BoxState
    of: str | None
    bootable: bool
    cloud: str | None
    region: str | None
    size_gib: int | None
    created_at: datetime
    expires_at: datetime | None
    overdue: bool
    ended_at: datetime | None
    most_per_hour: Money | None
    most_so_far: Money | None

    def __repr__(self) -> str:
        """One line, for a prompt or a log: all fields are in :meth:`document`."""
        where = (self.cloud, self.region, f"{self.size_gib} GiB" if self.size_gib else None)
        return " ".join(filter(None, ("<Snapshot", self.name, self.state, *where))) + ">"

    @classmethod
    def read(cls, snapshot: records.Snapshot, billing_of: BillingOf, now: datetime) -> Snapshot:
        """A snapshot from the journal's record, at a moment."""
        place, cost = snapshot.place, cost_so_far(snapshot, now, billing_of)
        end = snapshot.expires_at
        return cls(
            name=snapshot.name,
            id=snapshot.id,
            owner=snapshot.owner,
            state=snapshot.state,
            of=snapshot.of or None,
            bootable=snapshot.bootable,
            cloud=place.cloud if place else None,
            region=place.region if place else None,
            size_gib=snapshot.disk_gib,
            created_at=snapshot.created_at,
            expires_at=end,
            overdue=snapshot.state not in OVER and end is not None and end < now,
            ended_at=snapshot.ended_at,
            most_per_hour=per_hour(snapshot, billing_of).snapshot,
            most_so_far=cost.amount if cost else None,
        )

    @property
    def is_over(self) -> bool:
        """Whether it was deleted: nothing billable is left of it."""
        return self.ended_at is not None

    def document(self) -> SnapshotDocument:
        """SNAPSHOT of the JSON documents: money as ``{amount, currency}``, times in RFC 3339."""
        return {
            "name": self.name,
            "id": self.id,
            "owner": self.owner,
            "state": str(self.state),
            "of": self.of,
            "bootable": self.bootable,
            "cloud": self.cloud,
            "region": self.region,
            "size_gib": self.size_gib,
            "created_at": rfc3339(self.created_at),
            "expires_at": rfc3339(self.expires_at) if self.expires_at else None,
            "overdue": self.overdue,
            "ended_at": rfc3339(self.ended_at) if self.ended_at else None,
            "most_per_hour": self.most_per_hour.document() if self.most_per_hour else None,
            "most_so_far": self.most_so_far.document() if self.most_so_far else None,
        }

    @classmethod
    def table_of(cls, rows: Sequence[Self]) -> Table:
        """The table of ``gpucloud snapshot list``; costs are limits."""
        now = datetime.now(UTC)
        columns: dict[str, Sequence[object]] = {
            "NAME": [each.name for each in rows],
            "STATE": [state_text(each) for each in rows],
            "OF": [_of_text(each) for each in rows],
            "GIB": [each.size_gib and f"≤ {each.size_gib}" for each in rows],
            "WHERE": [place_text(each.cloud, each.region) for each in rows],
            "PER DAY": [None if each.is_over else _limit(per_day_text(each.most_per_hour)) for each in rows],
            "SO FAR": [_limit(money_text(each.most_so_far)) for each in rows],
            "AGE": [duration_text(now - each.created_at) for each in rows],
            "LEFT": [None if each.is_over else time_left_text(each.expires_at, now) for each in rows],
        }
        right = ("GIB", "PER DAY", "SO FAR", "AGE", "LEFT")
        return Table(columns, right=right, optional=("AGE", "SO FAR", "WHERE"))


def state_text(snapshot: Snapshot) -> str:
    """The state of a snapshot, and what needs attention."""
    return f"{snapshot.state} (overdue)" if snapshot.overdue else str(snapshot.state)


def _of_text(snapshot: Snapshot) -> str | None:
    """What a snapshot is of, with the kind of what is no volume."""
    return " ".join(filter(None, ("box", snapshot.of))) if snapshot.bootable else snapshot.of


def _limit(text: str | None) -> str | None:
    return text and f"≤ {text}"
