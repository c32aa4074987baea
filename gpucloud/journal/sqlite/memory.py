"""The tables of a journal in memory, where events have their effect without a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import cache

from gpucloud.journal.records import StoredEvent
from gpucloud.journal.sqlite.projections import project
from gpucloud.journal.sqlite.schema import STEPS
from gpucloud_pricing.sqlite_file import run_script


def empty_tables() -> sqlite3.Connection:
    """A connection to tables of its own, which are empty."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.deserialize(_empty())
    return connection


def replayed(events: Iterable[StoredEvent]) -> sqlite3.Connection:
    """Tables in which all these events have had their effect.

    Raises:
        ValueError: one cannot follow those before it.
        sqlite3.IntegrityError: as above.
    """
    connection = empty_tables()
    for each in events:
        project(connection, each.box, each.number, each.at.isoformat(), each.event)
    return connection


@cache
def _empty() -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in STEPS:
            step(connection) if callable(step) else run_script(connection, step)
        return connection.serialize()
