"""Reads what the page shows: the journal, the history of prices, and what the clouds said when last asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.api.client import Client
from gpucloud.api.prices import MOST_PRICES, gpus_of
from gpucloud.api.snapshot import Snapshot
from gpucloud.api.volume import Volume
from gpucloud.costs.anomalies import charges_by_day, unusual_days, usd_by_day
from gpucloud.costs.spend import per_hour
from gpucloud.dashboard import money, rows
from gpucloud.dashboard.timeline import timeline
from gpucloud.journal import records
from gpucloud.journal.lifecycle import OVER
from gpucloud.market.anomalies import price_anomalies
from gpucloud.resources import Resource, UnreadableRegion, rfc3339
from gpucloud.runtime.events import Event, Warned

if TYPE_CHECKING:
    from gpucloud.dashboard.documents import EntryDocument, PageDocument, SourceDocument


LATELY = timedelta(days=7)
"""For how long boxes and runs that are over are shown."""
MOST_ENDED = 50


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudsAnswer:
    """What the clouds said when they were last asked; ``at`` is ``None`` if they never were.

    Attributes:
        untracked: billed resources that belong to no living box of the journal.
        unread: what did not answer.
        left_out: clouds that are not set up here, with the reason.
        warnings: what else was said.
    """

    at: datetime | None = None
    untracked: Sequence[Resource] = ()
    unread: Sequence[UnreadableRegion] = ()
    left_out: Mapping[str, str]
    warnings: Sequence[str] = ()


NOT_ASKED = CloudsAnswer(left_out={})


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReader:
    """Reads the document of the page.

    Attributes:
        client: whose journal and prices are read: the boxes of all owners in it, the runs of its own.
        sandbox: whether its clouds are those of the sandbox.
        live_every: how often the clouds are asked; ``None`` if they are not.
        clock: the time in UTC.
    """

    client: Client
    sandbox: bool = False
    live_every: timedelta | None = None
    clock: Callable[[], datetime] = utc_now

    def cursor(self) -> int:
        """The journal's: nothing was written while it stays the same."""
        return self.client.journal.last()

    def ask(self) -> CloudsAnswer:
        """Updates the living boxes from clouds and guards, as ``list --live`` does."""
        warnings: list[str] = []

        def listen(event: Event) -> None:
            if isinstance(event, Warned):
                warnings.append(event.text)

        self.client.on_event = listen
        looked = self.client.resources.look()
        return CloudsAnswer(
            at=self.clock(),
            untracked=looked.untracked,
            unread=looked.searched.unread,
            left_out=looked.searched.left_out,
            warnings=tuple(dict.fromkeys(warnings)),
        )

    def timeline(self, box: str) -> list[EntryDocument]:
        """The timeline of the box with this id; empty for one that is not in the journal."""
        return timeline(self.client.journal.history(box))

    def read(self, asked: CloudsAnswer = NOT_ASKED, *, still: bool = False) -> PageDocument:
        """The document of the page.

        Args:
            asked: what the clouds said.
            still: whether the page cannot ask for timelines, so that they are in it.
        """
        client, billing_of, owner = self.client, self.client.billing_of, self.client.owner
        now, cursor = self.clock(), self.cursor()
        program = "gpucloud --sandbox" if self.sandbox else "gpucloud"
        holdings = client.journal.holdings(records.Holding, owner=None, over=True)
        living = [each for each in holdings if each.state not in OVER]
        of_boxes = [each for each in living if isinstance(each, records.Box)]
        boxes = [client.boxes.read(each, now) for each in of_boxes]
        ended = self._ended(holdings, now)
        volumes, snapshots = self._stored(living, now)
        rates = {box.id: box.per_hour for box in boxes}
        rates |= {each.id: per_hour(each, billing_of) for each in living if each.id not in rates}
        burn, unknown = money.burn(living, rates)
        since = now - timedelta(days=money.DAYS)
        trends, trouble = client.prices.of_gpus(gpus_of(of_boxes), each=MOST_PRICES, since=since)
        shown = {key: spans for each in trends.values() for key, spans in each.series.items()}
        odd = price_anomalies(client.catalog.shipped, shown, now) if shown else []
        begun = client.journal.begun()
        spent = list(charges_by_day(holdings, now, billing_of))
        return {
            "as_of": rfc3339(now),
            "cursor": cursor,
            "sandbox": self.sandbox,
            "source": self._source(asked, trouble),
            "burn": burn,
            "burn_unknown": unknown,
            "month": money.month(holdings, rates, spent, begun, now),
            "budgets": [each.document() for each in client.budgets.of(holdings, begun, now)],
            "unusual_days": [
                each.document() for each in unusual_days(usd_by_day(spent, self._usd), begun, now)
            ],
            "price_anomalies": [each.document() for each in odd],
            "troubles": [
                *rows.box_troubles(boxes, owner, program),
                *rows.stored_troubles(volumes, snapshots, owner, program),
                *rows.untracked_troubles(asked.untracked, owner, program),
            ],
            "boxes": [rows.box_row(box, record, now) for box, record in zip(boxes, of_boxes, strict=True)],
            "ended": [rows.box_row(client.boxes.read(each, now), each, now) for each in ended],
            "spending": money.spending(spent, now),
            "idle": money.idle(living, rates, now),
            "runs": [
                rows.run_row(client.runs.read(run, now))
                for run in reversed(client.journal.runs(owner=owner, over=True, since=now - LATELY))
            ],
            "prices": rows.price_rows(trends, now),
            "timelines": {each.id: self.timeline(each.id) for each in (*of_boxes, *ended)} if still else {},
        }

    def _ended(self, holdings: Iterable[records.Holding], now: datetime) -> list[records.Box]:
        """The boxes that ended lately, newest first."""
        found = [
            each
            for each in holdings
            if isinstance(each, records.Box) and each.ended_at is not None and each.ended_at > now - LATELY
        ]
        return sorted(found, key=lambda each: str(each.ended_at), reverse=True)[:MOST_ENDED]

    def _stored(
        self, living: Iterable[records.Holding], now: datetime
    ) -> tuple[list[Volume], list[Snapshot]]:
        """The living volumes and snapshots."""
        found, billing_of = list(living), self.client.billing_of
        boxes = {each.id: each for each in found if isinstance(each, records.Box)}
        volumes = [
            Volume.read(each, boxes.get(each.holder), billing_of, now)
            for each in found
            if isinstance(each, records.Volume)
        ]
        snapshots = [
            Snapshot.read(each, billing_of, now) for each in found if isinstance(each, records.Snapshot)
        ]
        return volumes, snapshots

    def _usd(self, amount: Decimal, currency: str) -> Decimal | None:
        return self.client.catalog.market.usd(amount, currency)

    def _source(self, asked: CloudsAnswer, trouble: str | None) -> SourceDocument:
        return {
            "live_every_s": self.live_every.total_seconds() if self.live_every else None,
            "looked_at": rfc3339(asked.at) if asked.at else None,
            "unread": [
                {"cloud": each.cloud, "region": each.region, "error": each.error} for each in asked.unread
            ],
            "left_out": dict(asked.left_out),
            "warnings": [*asked.warnings, *([trouble] if trouble else [])],
        }
