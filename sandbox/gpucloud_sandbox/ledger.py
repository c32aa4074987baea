"""The ledger: every billable resource from its start to its end. The ground truth of the tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Database
from gpucloud_sandbox.market import in_usd

# Nothing from before the last reset lives.
_SINCE_RESET = """
SELECT at, event, cloud, id, entry FROM ledger
WHERE number > (SELECT IFNULL(MAX(number), 0) FROM ledger WHERE event = 'reset') ORDER BY number
"""
_ALIVE = """
SELECT cloud, id, entry FROM ledger AS birth
WHERE event = 'born' AND number > (SELECT IFNULL(MAX(number), 0) FROM ledger WHERE event = 'reset')
AND NOT EXISTS (
    SELECT 1 FROM ledger
    WHERE event = 'died' AND cloud = birth.cloud AND id = birth.id AND number > birth.number)
ORDER BY number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One billable resource.

    ``price`` is per hour, in ``currency``. ``token`` is the idempotency key of the call that made it.
    """

    kind: str
    id: str
    cloud: str
    region: str
    price: Decimal
    currency: str = "USD"
    zone: str | None = None
    box: str | None = None
    owner: str | None = None
    op: str | None = None
    token: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    def as_document(self) -> dict[str, Any]:
        """The entry as plain JSON."""
        return {**asdict(self), "tags": dict(self.tags), "price": format(self.price, "f")}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Entry:
        """The entry that :meth:`as_document` wrote."""
        fields: dict[str, Any] = {**document, "price": Decimal(document["price"])}
        return cls(**fields)


class Ledger:
    """The ledger. Starts and ends are only ever added; a resource is billed from its start to its end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._alive: dict[tuple[str, str], Entry] = {}
        self._load()
        database.on_read_again(self._load)

    def _load(self) -> None:
        with self._database.transaction() as connection:
            self._alive = _alive(connection)

    def begin_billing(self, entry: Entry, at: datetime) -> None:
        """Records that a resource is billed from now on."""
        self._add(at, "born", entry.cloud, entry.id, entry.as_document())
        self._alive[entry.cloud, entry.id] = entry

    def end_billing(self, cloud: str, id_: str, at: datetime, reason: str) -> None:
        """Records that a resource is no longer billed; does nothing for one that is not."""
        entry = self._alive.pop((cloud, id_), None)
        if entry is not None:
            self._add(at, "died", cloud, id_, {"kind": entry.kind, "box": entry.box, "reason": reason})

    def reset(self, at: datetime) -> None:
        """Records the end of everything; :meth:`history` starts again."""
        for entry in self.billing():
            self.end_billing(entry.cloud, entry.id, at, "reset")
        self._add(at, "reset", "", "", {})

    def _add(self, at: datetime, event: str, cloud: str, id_: str, entry: Mapping[str, Any]) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO ledger (at, event, cloud, id, entry) VALUES (?, ?, ?, ?, ?)",
                (stamp(at), event, cloud, id_, json.dumps(entry)),
            )

    def billing(self) -> Sequence[Entry]:
        """What is billed now, oldest first."""
        return tuple(self._alive.values())

    def history(self) -> Sequence[dict[str, Any]]:
        """Every start and end since the last reset, as plain JSON."""
        with self._database.transaction() as connection:
            rows = connection.execute(_SINCE_RESET).fetchall()
        return [
            {"at": at, "event": event, "cloud": cloud, "id": id_, **json.loads(entry)}
            for at, event, cloud, id_, entry in rows
        ]


def read_billing(path: Path) -> Sequence[Entry]:
    """What a sandbox that does not run would go on billing when it is started again."""
    if not path.exists():
        return ()
    connection = sqlite3.connect(path)
    try:
        return tuple(_alive(connection).values())
    except sqlite3.OperationalError:  # killed before it had made its tables
        return ()
    finally:
        connection.close()


def billing_document(entries: Sequence[Entry]) -> dict[str, Any]:
    """``billed_per_hour``, in USD at the catalog's reference rate, and ``billing`` of ``sandbox status``."""
    total = sum((in_usd(entry.price, entry.currency) for entry in entries), Decimal(0))
    return {
        "billed_per_hour": {"amount": format(total, "f"), "currency": "USD"},
        "billing": [
            {
                "kind": entry.kind,
                "id": entry.id,
                "cloud": entry.cloud,
                "region": entry.region,
                "box": entry.box,
                "owner": entry.owner,
                "price": {"amount": format(entry.price, "f"), "currency": entry.currency},
            }
            for entry in entries
        ],
    }


def _alive(connection: sqlite3.Connection) -> dict[tuple[str, str], Entry]:
    rows = connection.execute(_ALIVE)
    return {(cloud, id_): Entry.from_document(json.loads(entry)) for cloud, id_, entry in rows}
