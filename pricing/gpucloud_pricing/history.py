"""The history of all prices from clouds, in one SQLite file: each price with its start and its end.

A price that stays the same is one row, a span, for any number of refreshes. A price that a refresh does not
reach keeps the moment at which it was last seen, so no failure makes an old price look new.
"""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud_pricing import commitment_history, tariff_history
from gpucloud_pricing.sqlite_file import (
    NewerFileError,
    connect,
    json_list,
    migrate,
    text_of,
    time_of,
    transaction,
)
from gpucloud_pricing.tariff_history import TariffChange
from gpucloud_pricing.tariffs import Tariff, TariffTable
from gpucloud_pricing.values import Commitment, InstanceType, Interruption, Price, Rate

if TYPE_CHECKING:
    from gpucloud_pricing.documents import ChangeDocument

_STEPS = (
    """
CREATE TABLE series (
    number INTEGER PRIMARY KEY,
    cloud TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    purchase TEXT NOT NULL,
    terms TEXT NOT NULL,
    currency TEXT NOT NULL,
    source TEXT NOT NULL,
    UNIQUE (cloud, instance_type, region, zone, purchase, terms, currency, source)
) STRICT;
CREATE TABLE spans (
    series INTEGER NOT NULL REFERENCES series,
    since TEXT NOT NULL,
    seen TEXT NOT NULL,
    ended TEXT,
    amount TEXT NOT NULL,
    upfront TEXT NOT NULL,
    PRIMARY KEY (series, since)
) STRICT, WITHOUT ROWID;
CREATE INDEX open_spans ON spans (series) WHERE ended IS NULL;
CREATE VIEW prices AS
SELECT cloud, instance_type, region, zone, purchase, terms, currency, source,
    number, since, seen, ended, amount, upfront
FROM series JOIN spans ON series = number;
CREATE TABLE inquiries (
    name TEXT PRIMARY KEY,
    answered TEXT NOT NULL,
    prices INTEGER NOT NULL,
    set_aside TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE interruptions (
    cloud TEXT NOT NULL,
    region TEXT NOT NULL,
    instance_type TEXT NOT NULL,
    low INTEGER NOT NULL,
    high INTEGER NOT NULL,
    savings INTEGER NOT NULL,
    seen TEXT NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (cloud, region, instance_type)
) STRICT, WITHOUT ROWID;
CREATE TABLE unfinished (started TEXT NOT NULL) STRICT
""",
    commitment_history.TABLE,
    tariff_history.TABLES,
)
"""The migration to each version from the previous one."""
VERSION = len(_STEPS)
_ADD_SERIES = """
INSERT OR IGNORE INTO series (cloud, instance_type, region, zone, purchase, terms, currency, source)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_FIND_SERIES = """
SELECT number FROM series WHERE cloud = ? AND instance_type = ? AND region = ? AND zone = ?
AND purchase = ? AND terms = ? AND currency = ? AND source = ?
"""
_IN_FORCE = """
SELECT * FROM prices WHERE ended IS NULL AND cloud = :cloud AND source = :source
AND (:types IS NULL OR instance_type IN (SELECT value FROM json_each(:types)))
AND (:regions IS NULL OR region IN (SELECT value FROM json_each(:regions)))
"""
_SPANS = """
SELECT * FROM prices WHERE cloud = :cloud AND instance_type IN (SELECT value FROM json_each(:types))
AND (:regions IS NULL OR region IN (SELECT value FROM json_each(:regions)))
AND (:purchases IS NULL OR purchase IN (SELECT value FROM json_each(:purchases)))
AND (NOT :current OR ended IS NULL)
AND (:at IS NULL OR since <= :at AND (ended IS NULL OR ended > :at))
ORDER BY since
"""

Key = tuple[str, ...]
"""A series: cloud, type, region, zone, purchase, terms, currency and source."""
_KEY = 8

InForce = tuple[int, str, str, str, str]
"""A price in force: the series' number, since, seen, amount and upfront."""


class HistoryError(Exception):
    """The file of prices cannot be used; its content can be fetched again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The offers that an answer covers: those without a price in it are no longer sold.

    Attributes:
        cloud: the provider's name.
        source: the source of the answer: an id of the market's sources.
        regions: the regions; ``None`` for all of the source.
        instance_types: the types; ``None`` for all of the source.
        tariffs: the kinds of tariffs; none for an answer about machines.
    """

    cloud: str
    source: str
    regions: Collection[str] | None = None
    instance_types: Collection[str] | None = None
    tariffs: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A row of an answer that is no valid price, and why."""

    reason: str
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time in which a price stayed the same.

    Attributes:
        price: the price; ``as_of`` is the day on which it was last seen.
        since: when it was first seen.
        seen: when it was last seen.
        ended: when it was first seen to be different or gone; ``None`` while it is in force.
    """

    price: Price
    since: datetime
    seen: datetime
    ended: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A price at two moments; ``None`` if there was none, at one of them at most."""

    before: Price | None
    after: Price | None

    @property
    def price(self) -> Price:
        """The newer of the two."""
        price = self.after or self.before
        assert price is not None  # noqa: S101  (a change is of something)
        return price

    @property
    def share(self) -> Decimal:
        """The change as a share of the earlier price; infinite for a new or ended price."""
        if self.before is None or self.after is None:
            return Decimal("Infinity")
        return abs(self.after.amount / self.before.amount - 1)

    def document(self) -> ChangeDocument:
        """The change for JSON."""
        return {
            **self.price.subject(),
            "before": self.before.money.document() if self.before else None,
            "after": self.after.money.document() if self.after else None,
        }


@dataclass(slots=True)
class Recorded:
    """The effect of an answer; ``moved_tariffs`` are the lists of tariffs that changed."""

    new: int = 0
    same: int = 0
    gone: int = 0
    moved: list[Change] = field(default_factory=list[Change])
    moved_tariffs: list[TariffChange] = field(default_factory=list[TariffChange])


class PriceHistory:
    """Reads and writes one file. May be used by several processes, and by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> PriceHistory:
        """Opens the file, and creates it if missing.

        Raises:
            HistoryError: it is damaged, cannot be written, or is of a newer version.
        """
        with _explained():
            connection = connect(path)
            history = cls(connection)
            weakref.finalize(history, connection.close)  # a market reads from it for as long as it lives
            try:
                migrate(connection, _STEPS)
            except NewerFileError as error:
                raise HistoryError(f"{path} was written by a newer version of this program") from error
        return history

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def version(self) -> int:
        """A number that changes when another connection has written to the file."""
        with _explained():
            found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        return found

    def begin(self, at: datetime, resumed: timedelta) -> datetime:
        """Starts a refresh; returns the moment from which answers count for it.

        That is ``at``, or the start of a refresh that was interrupted no longer ago than ``resumed``.
        """
        self._commit_without_waiting()
        with _explained(), transaction(self._connection):
            row = self._connection.execute("SELECT started FROM unfinished").fetchone()
            if row is not None and at - resumed <= time_of(row[0]) <= at:
                return time_of(row[0])
            self._connection.execute("DELETE FROM unfinished")
            self._connection.execute("INSERT INTO unfinished VALUES (?)", (text_of(at),))
        return at

    def _commit_without_waiting(self) -> None:
        """A refresh commits once per answer, hundreds in all; a power failure may undo the last of them."""
        with suppress(sqlite3.OperationalError):  # another process uses the file: unchanged, only slower
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def finish(self) -> None:
        """Marks the refresh as finished: the next one sends all inquiries."""
        with _explained():
            self._connection.execute("DELETE FROM unfinished")

    def record(
        self,
        inquiry: str,
        coverage: Coverage,
        prices: Iterable[Price],
        at: datetime,
        set_aside: Sequence[SetAside] = (),
        *,
        interruptions: Mapping[tuple[str, str], Interruption] | None = None,
        tariffs: Iterable[Sequence[Tariff]] = (),
    ) -> Recorded:
        """Stores an answer, all of it or nothing.

        Args:
            inquiry: its name, by which a resumed refresh skips it.
            coverage: the offers that it covers.
            prices: the prices.
            at: the time of the answer. A price that was seen later already stays as it is.
            set_aside: the rows that are no valid prices.
            interruptions: the rates of spot interruptions, by region and type: the newest counts.
            tariffs: the lists of tariffs, each with all its steps in order.
        """
        recorded = Recorded()
        with _explained(), transaction(self._connection):
            known = self._in_force(coverage)
            for price in prices:
                self._record_one(price, known.pop(_key(price), None), text_of(at), recorded)
            for number, since, seen, _, _ in known.values():
                if seen < text_of(at):
                    recorded.gone += 1
                    self._end(number, since, text_of(at))
            recorded.moved_tariffs = tariff_history.record_tariffs(
                self._connection,
                coverage.cloud,
                coverage.source,
                tariffs,
                text_of(at),
                kinds=coverage.tariffs,
                regions=coverage.regions,
            )
            self._connection.executemany(
                "REPLACE INTO interruptions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        coverage.cloud,
                        *place,
                        band.low,
                        band.high,
                        band.savings_percent,
                        text_of(at),
                        band.source,
                    )
                    for place, band in (interruptions or {}).items()
                ],
            )
            reasons = json.dumps([(each.reason, each.row) for each in set_aside])
            self._connection.execute(
                "REPLACE INTO inquiries VALUES (?, ?, ?, ?)",
                (inquiry, text_of(at), recorded.new + recorded.same + len(recorded.moved), reasons),
            )
        return recorded

    def _record_one(self, price: Price, known: InForce | None, at: str, recorded: Recorded) -> None:
        amount, upfront = f"{price.amount:f}", f"{price.upfront:f}"
        if known is None:
            recorded.new += 1
            self._begin(self._number(_key(price)), at, amount, upfront)
            return
        number, since, seen, was, was_upfront = known
        if seen >= at or (Decimal(was), Decimal(was_upfront)) == (price.amount, price.upfront):
            recorded.same += 1
            self._connection.execute(
                "UPDATE spans SET seen = max(seen, ?) WHERE series = ? AND since = ?", (at, number, since)
            )
            return
        before = _price(_key(price), seen, was, was_upfront)
        recorded.moved.append(Change(before=before, after=price))
        self._end(number, since, at)
        self._begin(number, at, amount, upfront)

    def _number(self, key: Key) -> int:
        """The number of a series, which is added if missing."""
        self._connection.execute(_ADD_SERIES, key)
        row = self._connection.execute(_FIND_SERIES, key).fetchone()
        number: int = row[0]
        return number

    def _begin(self, series: int, at: str, amount: str, upfront: str) -> None:
        self._connection.execute(
            "REPLACE INTO spans VALUES (?, ?, ?, NULL, ?, ?)", (series, at, at, amount, upfront)
        )

    def _end(self, series: int, since: str, at: str) -> None:
        self._connection.execute(
            "UPDATE spans SET ended = ? WHERE series = ? AND since = ?", (at, series, since)
        )

    def _in_force(self, coverage: Coverage) -> dict[Key, InForce]:
        """The prices in force that an answer covers."""
        wanted = {
            "cloud": coverage.cloud,
            "source": coverage.source,
            "types": json_list(coverage.instance_types),
            "regions": json_list(coverage.regions),
        }
        found: dict[Key, InForce] = {}
        for row in self._connection.execute(_IN_FORCE, wanted):
            number, since, seen, _, amount, upfront = row[_KEY:]
            found[row[:_KEY]] = (number, since, seen, amount, upfront)
        return found

    def current(self, kind: InstanceType) -> list[Price]:
        """The prices in force of one type."""
        return [span.price for span in self.spans((kind,), current=True)]

    def tariffs(self) -> TariffTable:
        """The tariffs in force; ``as_of`` is the day on which each was last seen."""

        def rows(cloud: str, region: str, kind: str) -> list[Tariff]:
            with _explained():
                return tariff_history.tariffs_in_force(self._connection, cloud, region, kind)

        return TariffTable(rows)

    def keep_rates(self, rates: Iterable[Rate]) -> None:
        """Stores exchange rates."""
        with _explained(), transaction(self._connection):
            for rate in rates:
                tariff_history.record_rate(self._connection, rate)

    def rates(self) -> list[Rate]:
        """The newest exchange rate of each pair of currencies."""
        with _explained():
            return tariff_history.newest_rates(self._connection)

    def interruptions(self, kind: InstanceType) -> dict[str, Interruption]:
        """The rates of a type's spot interruptions, by region, as far as fetched."""
        with _explained():
            rows = self._connection.execute(
                "SELECT region, low, high, savings, seen, source FROM interruptions "
                "WHERE cloud = ? AND instance_type = ?",
                (kind.cloud, kind.name),
            ).fetchall()
        return {
            region: Interruption(
                low=low, high=high, savings_percent=savings, as_of=time_of(seen).date(), source=source
            )
            for region, low, high, savings, seen, source in rows
        }

    def keep_commitments(
        self,
        cloud: str,
        account: str,
        told: Mapping[str, Sequence[Commitment]],
        untold: Collection[str],
        at: datetime,
    ) -> None:
        """Stores the commitments of an account, as :func:`commitment_history.replace_commitments` does."""
        with _explained(), transaction(self._connection):
            commitment_history.replace_commitments(
                self._connection, cloud, account, told, untold, at=text_of(at)
            )

    def commitments(self) -> list[Commitment]:
        """The commitments of accounts; ``as_of`` is the day of the answer."""
        with _explained():
            return commitment_history.commitments(self._connection)

    def spans(
        self,
        kinds: Iterable[InstanceType],
        *,
        purchases: Collection[str] | None = None,
        regions: Collection[str] | None = None,
        current: bool = False,
        at: datetime | None = None,
    ) -> list[Span]:
        """The prices of some types, oldest first.

        Args:
            kinds: the types.
            purchases: the ways of paying; ``None`` for all.
            regions: the regions; ``None`` for all.
            current: only prices in force.
            at: only prices that were in force at this moment.
        """
        by_cloud: dict[str, list[str]] = {}
        for kind in kinds:
            by_cloud.setdefault(kind.cloud, []).append(kind.name)
        found: list[Span] = []
        for cloud, names in by_cloud.items():
            with _explained():
                rows = self._connection.execute(
                    _SPANS,
                    {
                        "cloud": cloud,
                        "types": json_list(names),
                        "regions": json_list(regions),
                        "purchases": json_list(purchases),
                        "current": current,
                        "at": at and text_of(at),
                    },
                ).fetchall()
            found += map(_span, rows)
        return found

    def answered(self) -> dict[str, datetime]:
        """When each inquiry was last answered."""
        with _explained():
            rows = self._connection.execute("SELECT name, answered FROM inquiries").fetchall()
        return {name: time_of(at) for name, at in rows}

    def set_aside(self) -> dict[str, list[SetAside]]:
        """The rows of the newest answer to each inquiry that were no valid prices."""
        with _explained():
            rows = self._connection.execute(
                "SELECT name, set_aside FROM inquiries WHERE set_aside != '[]'"
            ).fetchall()
        return {
            name: [SetAside(reason=reason, row=row) for reason, row in json.loads(text)]
            for name, text in rows
        }


def _key(price: Price) -> Key:
    zone = price.zone or ""
    where = (price.cloud, price.instance_type, price.region, zone)
    return (*where, price.purchase, price.terms, price.currency, price.source)


def _price(key: Key, seen: str, amount: str, upfront: str) -> Price:
    cloud, instance_type, region, zone, purchase, terms, currency, source = key
    return Price(
        cloud=cloud,
        region=region,
        zone=zone or None,
        instance_type=instance_type,
        purchase=purchase,
        terms=terms,
        amount=Decimal(amount),
        upfront=Decimal(upfront),
        currency=currency,
        as_of=time_of(seen).date(),
        source=source,
    )


def _span(row: Sequence[str]) -> Span:
    _, since, seen, ended, amount, upfront = row[_KEY:]
    price = _price(tuple(row[:_KEY]), seen, amount, upfront)
    return Span(
        price=price, since=time_of(since), seen=time_of(seen), ended=time_of(ended) if ended else None
    )


@contextmanager
def _explained() -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise HistoryError(f"the file of prices cannot be used: {error}") from error
