"""One SQLite file that several processes share: how it is opened, migrated, and changed all or nothing.

Statements are text, as in any program that speaks the DB-API.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

BUSY_S = 30.0
"""How long another process that writes is waited for."""
_PAUSE_S = 0.02

Step = str | Callable[[sqlite3.Connection], None]
"""Makes one version of a file out of the one before: statements, or what takes more than statements."""


class NewerFileError(Exception):
    """The file was written by a newer version of this program. Nothing of it was read or changed."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(f"it is of version {version}, and this program knows {known}")
        self.version, self.known = version, known


def connect(path: Path, *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection that begins no transaction by itself, and whose commits survive a crash of the machine."""
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def use_wal(connection: sqlite3.Connection, busy_s: float = BUSY_S) -> None:
    """Gives a new file its write-ahead log. SQLite itself does not wait for another process that does so."""
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
    """Keeps all changes of the body, or none.

    Writers queue at the start, where waiting is safe, not in the middle.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself takes it back where the disk is full
            connection.execute("ROLLBACK")
        raise


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a file; 0 for an empty one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection, steps: Sequence[Step]) -> None:
    """Brings a file to the version that the last step makes: all missing steps in one transaction, or none.

    Args:
        connection: to the file.
        steps: what makes version 1 of an empty file, version 2 of that, and so on. A released one is never
            changed.

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
