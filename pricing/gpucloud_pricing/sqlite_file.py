"""Opens, migrates and changes an SQLite file that several processes share.

Statements are text, as in any program that speaks the DB-API.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

BUSY_S = 30.0
"""How long to wait for another process that writes."""
_PAUSE_S = 0.02

Step = str | Callable[[sqlite3.Connection], None]
"""The migration from one version of a file to the next: statements, or a function."""


class NewerFileError(Exception):
    """The file was written by a newer version of this program. Nothing of it was read or changed."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(f"it is of version {version}, and this program knows {known}")
        self.version, self.known = version, known


def connect(path: Path, *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection without implicit transactions, whose commits survive a crash of the machine."""
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def use_wal(connection: sqlite3.Connection, busy_s: float = BUSY_S) -> None:
    """Enables the write-ahead log of a new file. SQLite itself does not wait for another process here."""
    until = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Commits all changes of the body, or none.

    Writers queue at the start, where waiting is safe, not in the middle.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back if the disk is full
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a file; 0 for an empty one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection, steps: Sequence[Step]) -> None:
    """Migrates a file to the version of the last step: all missing steps in one transaction, or none.

    Args:
        connection: a connection to the file.
        steps: the migrations from an empty file to version 1, from that to version 2, and so on. A released
            one is never changed.

    Raises:
        NewerFileError: the file is of a newer version.
    """
    if _is_current(connection, len(steps)):
        return
    with transaction(connection):
        if _is_current(connection, len(steps)):  # another process was faster
            return
        for step in steps[version_of(connection) :]:
            if callable(step):
                step(connection)
            else:
                run_script(connection, step)
        connection.execute(f"PRAGMA user_version = {len(steps)}")


def _is_current(connection: sqlite3.Connection, known: int) -> bool:
    version = version_of(connection)
    if version > known:
        raise NewerFileError(version, known)
    return version == known


def run_script(connection: sqlite3.Connection, statements: str) -> None:
    """Runs statements inside the transaction; ``executescript`` would commit it first."""
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement)


def json_list(allowed: Collection[str] | None) -> str | None:
    """Values for a condition with ``json_each``; ``None`` for no condition."""
    return None if allowed is None else json.dumps(sorted(allowed))


def text_of(at: datetime) -> str:
    """A moment as a column holds it: UTC, in an order that text sorts by."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def time_of(text: str) -> datetime:
    """A moment of a column."""
    return datetime.fromisoformat(text)
