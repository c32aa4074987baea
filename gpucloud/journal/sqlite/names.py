"""What is often asked of a journal that is a file: one query, without the modules that read its events."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from gpucloud.journal.kinds import HOLDINGS, LIVING, POLICY_ID

BUSY_S = 0.05
"""How long to wait for another process: somebody waits for a key."""

_STATE = "json_extract(document, '$.state')"


def _living(kind: str, also: str = "") -> str:
    """The query for the names and states of an owner's living holdings of a kind."""
    which = f"owner = ? AND kind = '{kind}' AND {LIVING} {also}"
    return f"SELECT name, {_STATE} FROM states WHERE {which} ORDER BY name"  # noqa: S608


_NAMES = _living("box")
_VOLUMES = _living("volume")
_SNAPSHOTS = _living("snapshot")
_IMAGES = _living("snapshot", "AND json_extract(document, '$.bootable')")
_DISKS = (
    f"SELECT name, kind FROM states WHERE owner = ? AND kind IN ('box', 'volume') AND {LIVING} ORDER BY name"  # noqa: S608
)
_IDS = f"SELECT id, name FROM states WHERE owner = ? AND {HOLDINGS} ORDER BY created_at DESC LIMIT 100"  # noqa: S608
_RUNS = f"""SELECT run_id, group_concat(name, ', ') FROM states
    WHERE owner = ? AND {HOLDINGS} AND run_id IS NOT NULL AND {LIVING} GROUP BY run_id ORDER BY run_id"""  # noqa: S608
_ALL_RUNS = f"""SELECT run_id, group_concat(name, ', ') FROM states
    WHERE owner = ? AND {HOLDINGS} AND run_id IS NOT NULL
    GROUP BY run_id ORDER BY max(created_at) DESC LIMIT 100"""  # noqa: S608

_RECORDED = f"SELECT name, {_STATE} FROM states WHERE owner = ? AND kind = 'run' ORDER BY id DESC LIMIT 100"  # noqa: S608
_OPEN = f"SELECT name, {_STATE} FROM states WHERE owner = ? AND kind = 'run' AND {LIVING} ORDER BY name"  # noqa: S608
_POLICY = "SELECT 1 FROM states WHERE id = ?"
_SPOT = "SELECT 1 FROM states WHERE owner = ? AND purchase = 'spot' LIMIT 1"


def box_names(journal: Path, owner: str) -> list[tuple[str, str]]:
    """The living boxes of an owner: name and state. Empty if the journal cannot be read."""
    return _rows(journal, _NAMES, owner)


def volume_names(journal: Path, owner: str) -> list[tuple[str, str]]:
    """The living volumes of an owner: name and state. Empty if the journal cannot be read."""
    return _rows(journal, _VOLUMES, owner)


def snapshot_names(journal: Path, owner: str) -> list[tuple[str, str]]:
    """The living snapshots of an owner: name and state. Empty if the journal cannot be read."""
    return _rows(journal, _SNAPSHOTS, owner)


def image_names(journal: Path, owner: str) -> list[tuple[str, str]]:
    """The living snapshots that boxes can boot: name and state. Empty if the journal cannot be read."""
    return _rows(journal, _IMAGES, owner)


def disk_names(journal: Path, owner: str) -> list[tuple[str, str]]:
    """The living boxes and volumes of an owner: name and kind. Empty if the journal cannot be read."""
    return _rows(journal, _DISKS, owner)


def box_ids(journal: Path, owner: str) -> list[tuple[str, str]]:
    """The newest boxes of an owner, ended ones too: id and name. Empty if the journal cannot be read."""
    return _rows(journal, _IDS, owner)


def run_ids(journal: Path, owner: str, *, over: bool = False) -> list[tuple[str, str]]:
    """The runs of an owner: id, and names of the boxes; ``over`` adds ended ones, the newest first."""
    return _rows(journal, _ALL_RUNS if over else _RUNS, owner)


def recorded_runs(journal: Path, owner: str, *, over: bool) -> list[tuple[str, str]]:
    """The runs of an owner that have a row of their own: id and state; ``over`` adds those that are over."""
    return _rows(journal, _RECORDED if over else _OPEN, owner)


def has_policy(journal: Path) -> bool:
    """Whether a policy is in force; also ``True`` if the journal is there and cannot be read just now."""
    return _has(journal, _POLICY, POLICY_ID)


def has_spot(journal: Path, owner: str) -> bool:
    """Whether an owner has ever had a box on spot; otherwise as :func:`has_policy`."""
    return _has(journal, _SPOT, owner)


def _has(journal: Path, query: str, value: str) -> bool:
    try:
        with closing(_opened(journal)) as connection:
            return connection.execute(query, (value,)).fetchone() is not None
    except sqlite3.Error as error:
        return journal.exists() and "no such table" not in str(error)  # it is of an older version


def _opened(journal: Path) -> sqlite3.Connection:
    """Read-only: a journal that is missing is not made."""
    return sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True, timeout=BUSY_S)


def _rows(journal: Path, query: str, owner: str) -> list[tuple[str, str]]:
    try:
        with closing(_opened(journal)) as connection:
            return connection.execute(query, (owner,)).fetchall()
    except sqlite3.Error:  # missing, locked, damaged, or of another version
        return []
