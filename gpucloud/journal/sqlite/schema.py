"""The journal's tables: the DDL of each released version. The text of a released version never changes."""

from __future__ import annotations

import json
import sqlite3

from gpucloud.journal.events import UnreadableEventError, read
from gpucloud.journal.sqlite.projections import project
from gpucloud_pricing.sqlite_file import Step, run_script

# As for LIVING: a partial index is used only for a query with exactly the same condition.
PRESENT = "state != 'gone'"
UNRESOLVED = "status IN ('open', 'watched')"

_VERSION_1 = """
CREATE TABLE events (
    seq INTEGER NOT NULL, at TEXT NOT NULL, box TEXT NOT NULL, type TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (seq));
CREATE TABLE boxes (
    id TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, run_id TEXT, op TEXT NOT NULL,
    state TEXT NOT NULL, epoch INTEGER NOT NULL, lease TEXT, created_at TEXT NOT NULL, started_at TEXT,
    ended_at TEXT, expires_at TEXT, seen_at TEXT, facts TEXT NOT NULL, PRIMARY KEY (id));
CREATE UNIQUE INDEX one_living_box_per_name ON boxes (owner, name) WHERE state NOT IN ('deleted', 'failed');
CREATE TABLE intents (
    id TEXT NOT NULL, box TEXT NOT NULL, cloud TEXT NOT NULL, account TEXT NOT NULL, region TEXT NOT NULL,
    token TEXT NOT NULL, status TEXT NOT NULL, at TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (id));
CREATE INDEX ix_intents_box ON intents (box);
CREATE TABLE things (
    n INTEGER NOT NULL, box TEXT NOT NULL, cloud TEXT NOT NULL, account TEXT NOT NULL, region TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (n));
CREATE INDEX ix_things_box ON things (box)
"""

_VERSION_2 = "ALTER TABLE boxes ADD COLUMN taken_over_at TEXT"
"""When a box was taken from a holder that was not proven dead."""

_VERSION_3 = """
CREATE INDEX boxes_by_name ON boxes (owner, name);
CREATE INDEX unresolved_intents ON intents (at, id) WHERE status IN ('open', 'watched');
CREATE INDEX present_things ON things (n) WHERE state != 'gone'
"""
"""Indexes, so that commands need not read every box that ever existed."""

_VERSION_4 = """
ALTER TABLE events RENAME TO old_events;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL,
    box TEXT NOT NULL,
    number INTEGER NOT NULL,
    type TEXT NOT NULL,
    version INTEGER NOT NULL,
    data TEXT NOT NULL,
    UNIQUE (box, number)
) STRICT;
INSERT INTO events (seq, id, at, box, number, type, version, data)
SELECT seq, box || '.' || number, at, box, number, type, 1, data
FROM (SELECT *, row_number() OVER (PARTITION BY box ORDER BY seq) AS number FROM old_events);
DROP TABLE old_events;
ALTER TABLE boxes RENAME TO old_boxes;
DROP INDEX one_living_box_per_name;
DROP INDEX boxes_by_name;
DROP TABLE intents;
DROP TABLE things;
CREATE TABLE boxes (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    run_id TEXT,
    op TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    lease TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    expires_at TEXT,
    seen_at TEXT,
    taken_over_at TEXT,
    facts TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_living_box_per_name ON boxes (owner, name) WHERE state NOT IN ('deleted', 'failed');
CREATE INDEX boxes_by_name ON boxes (owner, name);
CREATE TABLE nodes (
    box TEXT NOT NULL,
    number INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    state TEXT NOT NULL,
    public_ip TEXT,
    private_ip TEXT,
    billed INTEGER NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    taken_back INTEGER NOT NULL,
    PRIMARY KEY (box, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE intents (
    id TEXT PRIMARY KEY,
    box TEXT NOT NULL,
    op TEXT NOT NULL,
    cloud TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    zone TEXT NOT NULL,
    token TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    at TEXT NOT NULL,
    price TEXT,
    currency TEXT,
    ceiling_usd TEXT,
    request_hash TEXT
) STRICT;
CREATE INDEX intents_of_box ON intents (box);
CREATE INDEX unresolved_intents ON intents (at, id) WHERE status IN ('open', 'watched');
CREATE TABLE resources (
    n INTEGER PRIMARY KEY,
    box TEXT,
    cloud TEXT NOT NULL,
    account TEXT NOT NULL,
    region TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX resources_of_box ON resources (box);
CREATE INDEX present_resources ON resources (n) WHERE state != 'gone';
CREATE TABLE usage (
    n INTEGER PRIMARY KEY,
    box TEXT,
    resource TEXT NOT NULL,
    part TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    price TEXT,
    currency TEXT,
    as_of TEXT,
    source TEXT,
    gib INTEGER,
    paid_before INTEGER NOT NULL
) STRICT;
CREATE INDEX usage_of_box ON usage (box)
"""
"""Events have ids, numbers and versions; nodes, resources (once ``things``) and usage are tables.

An intent's ``status`` is planned, open, watched, made or closed; a resource's ``id`` is empty while it is
being created, and its ``state`` is making, made, delete_asked, gone_once or gone.
"""

_VERSION_5 = "ALTER TABLE boxes ADD COLUMN kind TEXT NOT NULL DEFAULT 'box'"
"""The kind of a holding: volumes have the same tables as boxes."""

_VERSION_6 = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    lease TEXT,
    created_at TEXT NOT NULL,
    ended_at TEXT,
    expires_at TEXT,
    facts TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_living_run_per_id ON runs (owner, run_id)
    WHERE state NOT IN ('ended', 'failed', 'cancelled');
CREATE INDEX runs_by_id ON runs (owner, run_id)
"""
"""Runs are a table; their events stand among those of boxes (the column is still called ``box``)."""

_VERSION_7 = """
CREATE TABLE budgets (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    by TEXT NOT NULL,
    at TEXT NOT NULL,
    terms TEXT
) STRICT
"""
"""Budgets are a table; one without terms was removed. Nobody holds one: its epoch is always 0."""

_VERSION_8 = """
CREATE INDEX living_boxes ON boxes (id) WHERE state NOT IN ('deleted', 'failed')
"""
"""A search of every owner's living boxes reads no box that is over. Events of the policy are new, too."""

PROJECTIONS = ("boxes", "nodes", "intents", "resources", "usage", "runs", "budgets")
"""The tables that are projections of the events."""


def _to_4(connection: sqlite3.Connection) -> None:
    """Rebuilds the tables from the events, which stay as they were written."""
    run_script(connection, _VERSION_4)
    replay(connection)
    # Renewals of leases are no events: a process that holds a box during the migration keeps it.
    connection.execute(
        "UPDATE boxes SET lease = (SELECT lease FROM old_boxes WHERE old_boxes.id = boxes.id)"
        " WHERE lease IS NOT NULL"
    )
    connection.execute("DROP TABLE old_boxes")


def replay(connection: sqlite3.Connection) -> None:
    """Fills empty tables from the events.

    Raises:
        UnreadableEventError: an event cannot be read; the message names it.
    """
    rows = connection.execute("SELECT seq, at, box, number, type, version, data FROM events ORDER BY seq")
    for seq, at, box, number, type_, version, data in rows.fetchall():
        try:
            project(connection, box, number, at, read(type_, version, json.loads(data)))
        except (ValueError, sqlite3.IntegrityError) as error:
            raise UnreadableEventError(f"event {seq}, number {number} of box {box}: {error}") from error


STEPS: tuple[Step, ...] = (
    _VERSION_1, _VERSION_2, _VERSION_3, _to_4, _VERSION_5, _VERSION_6, _VERSION_7, _VERSION_8,
)  # fmt: skip
"""The migration to each version from the previous one."""

VERSION = len(STEPS)
