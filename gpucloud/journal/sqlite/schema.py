"""The journal's tables in SQLite. From the first release on, the text of a released version never changes."""

from __future__ import annotations

from gpucloud.journal.kinds import HOLDINGS, LIVING
from gpucloud_pricing.sqlite_file import Step

_VERSION_1 = f"""
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
CREATE TABLE states (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK ({HOLDINGS} OR kind IN ('run', 'budget', 'policy')),
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    run_id TEXT,
    living INTEGER NOT NULL CHECK (living IN (0, 1)),
    created_at TEXT,
    ended_at TEXT,
    purchase TEXT,
    unresolved INTEGER NOT NULL,
    present INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    number INTEGER NOT NULL CHECK (number > 0),
    lease TEXT,
    document TEXT NOT NULL CHECK (json_extract(document, '$.id') = id)
) STRICT;
CREATE UNIQUE INDEX one_living_holding_per_name ON states (owner, name) WHERE {HOLDINGS} AND {LIVING};
CREATE UNIQUE INDEX one_living_run_per_id ON states (owner, name) WHERE kind = 'run' AND {LIVING};
CREATE INDEX states_by_name ON states (owner, name);
CREATE INDEX living_states ON states (id) WHERE {LIVING};
CREATE INDEX unresolved_states ON states (id) WHERE unresolved > 0;
CREATE INDEX present_states ON states (id) WHERE present > 0;
CREATE INDEX spot_states ON states (owner) WHERE purchase = 'spot'
"""
"""``events`` is what happened; ``states`` what the events of each id fold to, with what is searched."""

STEPS: tuple[Step, ...] = (_VERSION_1,)
"""The migration to each version from the previous one."""
VERSION = len(STEPS)
