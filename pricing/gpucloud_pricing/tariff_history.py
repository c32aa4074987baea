"""The tariffs and exchange rates in the file of prices: each with its start and its end, as prices have them.

The steps of one list are one row, because they belong together: a list is in force as a whole or not at all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud_pricing.sqlite_file import json_list
from gpucloud_pricing.tariffs import Tariff
from gpucloud_pricing.values import Rate

if TYPE_CHECKING:
    from gpucloud_pricing.documents import TariffChangeDocument

TABLES = """
CREATE TABLE tariff_lists (
    cloud TEXT NOT NULL,
    region TEXT NOT NULL,
    kind TEXT NOT NULL,
    destination TEXT NOT NULL,
    terms TEXT NOT NULL,
    source TEXT NOT NULL,
    since TEXT NOT NULL,
    seen TEXT NOT NULL,
    ended TEXT,
    unit TEXT NOT NULL,
    currency TEXT NOT NULL,
    steps TEXT NOT NULL,
    PRIMARY KEY (cloud, region, kind, destination, terms, source, since)
) STRICT, WITHOUT ROWID;
CREATE TABLE rates (
    base TEXT NOT NULL,
    quote TEXT NOT NULL,
    as_of TEXT NOT NULL,
    rate TEXT NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (base, quote, as_of, source)
) STRICT, WITHOUT ROWID
"""
"""The migration to the version with these tables; ``steps`` are rows of sku, bounds and amount."""
_IN_FORCE = """
SELECT region, kind, destination, terms, since, seen, unit, currency, steps FROM tariff_lists
WHERE ended IS NULL AND cloud = :cloud AND source = :source
AND kind IN (SELECT value FROM json_each(:kinds))
AND (:regions IS NULL OR region IN (SELECT value FROM json_each(:regions)))
"""
_OF_PLACE = """
SELECT destination, terms, source, seen, unit, currency, steps FROM tariff_lists
WHERE ended IS NULL AND cloud = ? AND region = ? AND kind = ?
"""
_END = """
UPDATE tariff_lists SET ended = ? WHERE ended IS NULL AND cloud = ? AND source = ?
AND region = ? AND kind = ? AND destination = ? AND terms = ?
"""
_SEE = _END.replace("ended = ?", "seen = max(seen, ?)", 1)

ListKey = tuple[str, str, str, str]
"""A list of one cloud and source: region, kind, destination and terms."""
Content = tuple[str, str, str]
"""What a list states: unit, currency, and its steps as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TariffChange:
    """A list of tariffs that changed: the first step that is another, before and after."""

    before: Tariff
    after: Tariff

    def document(self) -> TariffChangeDocument:
        """The change for JSON."""
        return {
            "cloud": self.after.cloud,
            "region": self.after.region,
            "kind": self.after.kind,
            "to": self.after.to,
            "unit": self.after.unit,
            "before": {"amount": f"{self.before.amount:f}", "currency": self.before.currency},
            "after": {"amount": f"{self.after.amount:f}", "currency": self.after.currency},
        }


def key_of(tariff: Tariff) -> ListKey:
    """The list of its cloud and source that a tariff belongs to."""
    return tariff.region, tariff.kind, tariff.to, tariff.terms


def record_tariffs(
    connection: sqlite3.Connection,
    cloud: str,
    source: str,
    lists: Iterable[Sequence[Tariff]],
    at: str,
    *,
    kinds: Collection[str],
    regions: Collection[str] | None,
) -> list[TariffChange]:
    """Stores the tariffs of an answer; within its transaction. Returns the lists that changed.

    Args:
        connection: the file.
        cloud: the provider's name.
        source: the source of the answer.
        lists: the steps of each list, in order.
        at: the time of the answer; a list that was seen later already stays as it is.
        kinds: the kinds that the answer covers: a list of these that it lacks has ended.
        regions: the regions that it covers; ``None`` for all.
    """
    wanted = {
        "cloud": cloud,
        "source": source,
        "kinds": json_list(kinds),
        "regions": json_list(regions),
    }
    known = {row[:4]: row[4:] for row in connection.execute(_IN_FORCE, wanted).fetchall()}
    changes: list[TariffChange] = []
    for steps in lists:
        key, content = key_of(steps[0]), _content(steps)
        before = known.pop(key, None)
        if before is not None and (before[1] >= at or before[2:] == content):
            connection.execute(_SEE, (at, cloud, source, *key))
            continue
        if before is not None:
            connection.execute(_END, (at, cloud, source, *key))
            earlier = _tariffs(cloud, *key[:2], (*key[2:], source, *before[1:]))
            changes += _change(earlier, steps)
        connection.execute(
            "REPLACE INTO tariff_lists VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
            (cloud, *key, source, at, at, *content),
        )
    for key, (_, seen, *_) in known.items():
        if seen < at:
            connection.execute(_END, (at, cloud, source, *key))
    return changes


def tariffs_in_force(connection: sqlite3.Connection, cloud: str, region: str, kind: str) -> list[Tariff]:
    """The tariffs of a place and kind; of several sources, the one that was seen last."""
    rows = connection.execute(_OF_PLACE, (cloud, region, kind)).fetchall()
    newest: dict[tuple[str, str], Sequence[str]] = {}
    for row in sorted(rows, key=lambda row: row[3]):
        newest[row[0], row[1]] = row
    return [tariff for row in newest.values() for tariff in _tariffs(cloud, region, kind, row)]


def record_rate(connection: sqlite3.Connection, rate: Rate) -> None:
    """Stores an exchange rate; that of the same day and source is replaced."""
    connection.execute(
        "REPLACE INTO rates VALUES (?, ?, ?, ?, ?)",
        (rate.base, rate.quote, rate.as_of.isoformat(), f"{rate.rate:f}", rate.source),
    )


def newest_rates(connection: sqlite3.Connection) -> list[Rate]:
    """The newest exchange rate of each pair of currencies."""
    rows = connection.execute("SELECT base, quote, rate, max(as_of), source FROM rates GROUP BY base, quote")
    return [
        Rate(base=base, quote=quote, rate=Decimal(rate), as_of=date.fromisoformat(day), source=source)
        for base, quote, rate, day, source in rows.fetchall()
    ]


def _content(steps: Sequence[Tariff]) -> Content:
    """What a list states, in one form, so that the same list is stored the same."""
    rows = [
        (step.sku, _number(step.tier_from), _number(step.tier_to), _number(step.amount)) for step in steps
    ]
    return steps[0].unit, steps[0].currency, json.dumps(rows)


def _number(value: Decimal | None) -> str | None:
    """A number as text without trailing zeros."""
    return None if value is None else f"{value.normalize():f}"


def _tariffs(cloud: str, region: str, kind: str, row: Sequence[str]) -> list[Tariff]:
    """The steps of a row of destination, terms, source, the time at which it was seen, and its content."""
    to, terms, source, seen, unit, currency, steps = row
    return [
        Tariff(
            cloud=cloud,
            region=region,
            kind=kind,
            sku=sku,
            unit=unit,
            amount=Decimal(amount),
            currency=currency,
            as_of=datetime.fromisoformat(seen).date(),
            source=source,
            tier_from=Decimal(tier_from),
            tier_to=None if tier_to is None else Decimal(tier_to),
            to=to,
            terms=terms,
        )
        for sku, tier_from, tier_to, amount in json.loads(steps)
    ]


def _change(before: Sequence[Tariff], after: Sequence[Tariff]) -> list[TariffChange]:
    """The first step with another amount, if the bounds of both lists are the same up to it."""
    for old, new in zip(before, after, strict=False):
        if (old.amount, old.currency) != (new.amount, new.currency):
            return [TariffChange(before=old, after=new)]
    return []
