"""The tables of a journal in PostgreSQL, and its one way to write: the DDL of each released version.

The text of a released version never changes. The tables have the columns of
:mod:`gpucloud.journal.sqlite.schema`; ``n`` counts the rows of one box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpucloud.journal.sqlite.names import GOING_ON, LIVING
from gpucloud.journal.sqlite.schema import PRESENT, UNRESOLVED

COLUMNS: Mapping[str, Sequence[str]] = {
    "boxes": (
        *("id", "name", "owner", "run_id", "op", "state", "epoch", "number", "lease", "created_at"),
        *("started_at", "ended_at", "expires_at", "seen_at", "taken_over_at", "facts", "kind"),
    ),
    "runs": (
        *("id", "run_id", "owner", "state", "epoch", "number", "lease", "created_at", "ended_at"),
        *("expires_at", "facts"),
    ),
    "nodes": (
        *("box", "number", "instance_id", "state", "public_ip", "private_ip", "billed", "started_at"),
        *("ended_at", "taken_back"),
    ),
    "intents": (
        *("id", "box", "op", "cloud", "account", "region", "zone", "token", "name", "status", "at"),
        *("price", "currency", "ceiling_usd", "request_hash"),
    ),
    "resources": ("box", "n", "cloud", "account", "region", "kind", "name", "id", "state", "at"),
    "usage": (
        *("box", "n", "resource", "part", "started_at", "ended_at", "price", "currency", "as_of"),
        *("source", "gib", "paid_before"),
    ),
    "budgets": ("id", "name", "epoch", "number", "by", "at", "terms"),
}
"""The columns of each table, as copies of its rows are taken and sent."""

HELD = ("boxes", "runs")
NUMBERED = (*HELD, "budgets")
"""What has events of its own."""
LONGEST_KEY = 16384
"""More characters than any public key has."""
LOCK = "hashtextextended(current_schema(), 0)"
"""The number of the lock of one journal."""
PARTS = ("nodes", "intents", "resources", "usage")
"""The tables of what a box has: a change replaces all rows that one box has in a table."""

_TABLES = f"""
CREATE TABLE about (kind text PRIMARY KEY CHECK (kind IN ('real', 'sandbox')));
CREATE TABLE events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    at text NOT NULL,
    box text NOT NULL,
    number integer NOT NULL,
    type text NOT NULL,
    version integer NOT NULL,
    data text NOT NULL,
    actor text NOT NULL DEFAULT session_user,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (box, number)
);
CREATE TABLE boxes (
    id text PRIMARY KEY,
    name text NOT NULL,
    owner text NOT NULL,
    run_id text,
    op text NOT NULL,
    state text NOT NULL,
    epoch integer NOT NULL,
    number integer NOT NULL,
    lease text,
    created_at text NOT NULL,
    started_at text,
    ended_at text,
    expires_at text,
    seen_at text,
    taken_over_at text,
    facts text NOT NULL,
    kind text NOT NULL
);
CREATE UNIQUE INDEX one_living_box_per_name ON boxes (owner, name) WHERE {LIVING};
CREATE INDEX boxes_by_name ON boxes (owner, name);
CREATE INDEX living_boxes ON boxes (id) WHERE {LIVING};
CREATE TABLE runs (
    id text PRIMARY KEY,
    run_id text NOT NULL,
    owner text NOT NULL,
    state text NOT NULL,
    epoch integer NOT NULL,
    number integer NOT NULL,
    lease text,
    created_at text NOT NULL,
    ended_at text,
    expires_at text,
    facts text NOT NULL
);
CREATE UNIQUE INDEX one_living_run_per_id ON runs (owner, run_id) WHERE {GOING_ON};
CREATE INDEX runs_by_id ON runs (owner, run_id);
CREATE TABLE nodes (
    box text NOT NULL,
    number integer NOT NULL,
    instance_id text NOT NULL,
    state text NOT NULL,
    public_ip text,
    private_ip text,
    billed integer NOT NULL,
    started_at text,
    ended_at text,
    taken_back integer NOT NULL,
    PRIMARY KEY (box, number)
);
CREATE TABLE intents (
    id text PRIMARY KEY,
    box text NOT NULL,
    op text NOT NULL,
    cloud text NOT NULL,
    account text NOT NULL,
    region text NOT NULL,
    zone text NOT NULL,
    token text NOT NULL,
    name text NOT NULL,
    status text NOT NULL,
    at text NOT NULL,
    price text,
    currency text,
    ceiling_usd text,
    request_hash text
);
CREATE INDEX intents_of_box ON intents (box);
CREATE INDEX unresolved_intents ON intents (at, id) WHERE {UNRESOLVED};
CREATE TABLE resources (
    box text NOT NULL,
    n integer NOT NULL,
    cloud text NOT NULL,
    account text NOT NULL,
    region text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    id text NOT NULL,
    state text NOT NULL,
    at text NOT NULL,
    PRIMARY KEY (box, n)
);
CREATE INDEX present_resources ON resources (n, box) WHERE {PRESENT};
CREATE TABLE usage (
    box text NOT NULL,
    n integer NOT NULL,
    resource text NOT NULL,
    part text NOT NULL,
    started_at text NOT NULL,
    ended_at text,
    price text,
    currency text,
    as_of text,
    source text,
    gib integer,
    paid_before integer NOT NULL,
    PRIMARY KEY (box, n)
);
CREATE TABLE identities (login text PRIMARY KEY DEFAULT session_user, owner text NOT NULL UNIQUE);
CREATE TABLE owners (owner text PRIMARY KEY, begun bigint NOT NULL)
"""
"""``owners`` counts what each owner has begun; the empty name counts for all. ``identities`` has the logins
whose boxes have another owner id than the login: that of a file which was copied."""

_JSON = """
CREATE FUNCTION json_extract(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN document::jsonb #>> string_to_array(substr(path, 3), '.')
"""
"""SQLite's function, for the queries that both databases share."""


def _upsert(table: str) -> str:
    columns = COLUMNS[table]
    news = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns if name != "id")
    return f"""INSERT INTO {table} ({", ".join(columns)}) SELECT {", ".join(columns)}
        FROM jsonb_populate_recordset(NULL::{table}, change -> '{table}')
        ON CONFLICT (id) DO UPDATE SET {news};"""  # noqa: S608


def _replace(table: str) -> str:
    columns = ", ".join(COLUMNS[table])
    return f"""DELETE FROM {table} WHERE box = ANY (ARRAY(SELECT jsonb_object_keys(change -> '{table}')));
    INSERT INTO {table} ({columns}) SELECT {columns} FROM jsonb_each(change -> '{table}') AS of_box,
        jsonb_populate_recordset(NULL::{table}, of_box.value);"""  # noqa: S608


def _append_to(*held: str) -> str:
    """The function that writes a change to what has events of its own, in these tables."""
    locks = "".join(
        f"    PERFORM FROM {table} WHERE id = ANY (ids) ORDER BY id FOR UPDATE;\n" for table in held
    )
    positions = "\n            UNION ALL ".join(
        f"SELECT id, epoch, number FROM {table} WHERE id = ANY (ids)"  # noqa: S608
        for table in held
    )
    upserts = "\n    ".join(map(_upsert, held))
    return f"""
CREATE FUNCTION append(change jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ids text[] := ARRAY(SELECT jsonb_object_keys(change -> 'positions'));
    scopes text[] := ARRAY(SELECT jsonb_object_keys(change -> 'owners') ORDER BY 1);
BEGIN
{locks}    IF EXISTS (SELECT FROM events WHERE id = change #>> '{{events,0,id}}') THEN
        RETURN 'was_written';
    END IF;
    IF EXISTS (
        SELECT FROM jsonb_each(change -> 'positions') AS known LEFT JOIN (
            {positions}
        ) AS now ON now.id = known.key
        WHERE known.value <> jsonb_build_array(coalesce(now.epoch, 0), coalesce(now.number, 0))
    ) THEN
        RETURN 'stale';
    END IF;
    INSERT INTO owners SELECT scope, 0 FROM unnest(scopes) AS scope ON CONFLICT DO NOTHING;
    PERFORM FROM owners WHERE owner = ANY (scopes) ORDER BY owner FOR UPDATE;
    IF EXISTS (
        SELECT FROM jsonb_each(change -> 'owners') AS known JOIN owners ON owner = known.key
        WHERE known.value <> 'null' AND known.value <> to_jsonb(begun)
    ) THEN
        RETURN 'stale';
    END IF;
    UPDATE owners SET begun = begun + 1 WHERE change -> 'begins' ? owner AND owner = ANY (scopes);
    {upserts}
    PERFORM pg_advisory_xact_lock_shared({LOCK});
    INSERT INTO events (id, at, box, number, type, version, data)
        SELECT id, at, box, number, type, version, data
        FROM jsonb_populate_recordset(NULL::events, change -> 'events');
    {"".join(map(_replace, PARTS))}
    RETURN 'written';
END $$
"""  # noqa: S608


_APPEND = _append_to(*HELD)
"""Writes a change, unless one of its boxes, runs or owners is not as its maker knew it.

The rows of the boxes are locked first: of two changes to a box, the second one sees what the first has done.
The shared lock is held by whoever has numbered an event and not committed it yet: who takes it alone sees
every event up to the last number.
"""

GROUPS = ("gc_viewer", "gc_operator", "gc_admin", "gc_owner")
"""The roles of users, each with the rights of those before it, except the last: it owns the tables."""

MAKE_GROUPS = f"""
DO $$
DECLARE missing text;
BEGIN
    FOREACH missing IN ARRAY ARRAY{list(GROUPS)} LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = missing) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', missing);
        END IF;
    END LOOP;
    GRANT gc_viewer TO gc_operator;
    GRANT gc_operator TO gc_admin;
    EXECUTE format('GRANT gc_owner, gc_admin TO %I', session_user);
END $$
"""

_MINE = """
CREATE FUNCTION mine(whose text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT whose = session_user OR pg_has_role(session_user, 'gc_admin', 'member')
        OR EXISTS (SELECT FROM identities WHERE login = session_user AND owner = whose);
END
"""
_OF_MINE = """
CREATE FUNCTION of_mine(what text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT EXISTS (SELECT FROM boxes WHERE id = what AND mine(owner))
        OR EXISTS (SELECT FROM runs WHERE id = what AND mine(owner));
END
"""


_BUDGETS = """
CREATE TABLE budgets (
    id text PRIMARY KEY,
    name text NOT NULL,
    epoch integer NOT NULL,
    number integer NOT NULL,
    by text NOT NULL,
    at text NOT NULL,
    terms text
)
"""


def _rows_of(table: str, condition: str, *rights: str) -> list[str]:
    """Everybody with the right reads a table; rows are written where a condition holds."""
    return [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY everybody_reads ON {table} FOR SELECT USING (true)",
        f"CREATE POLICY own_rows ON {table} USING ({condition}) WITH CHECK ({condition})",
        *(f"GRANT {right} ON {table} TO gc_operator" for right in rights),
    ]


_RIGHTS = [
    "GRANT USAGE ON SCHEMA {schema} TO gc_viewer",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO gc_viewer",
    *(right for table in HELD for right in _rows_of(table, "mine(owner)", "INSERT", "UPDATE")),
    *(right for table in PARTS for right in _rows_of(table, "of_mine(box)", "INSERT", "DELETE")),
    *_rows_of(
        "events",
        "actor = session_user AND of_mine(box)",
        "INSERT (id, at, box, number, type, version, data)",
    ),
    *_rows_of("identities", "login = session_user", "INSERT (owner)"),
    "GRANT INSERT, UPDATE ON owners TO gc_operator",
]
"""What each role may do. Nobody changes or deletes an event, and nobody writes in another's name."""

_ADMIN = "pg_has_role(session_user, 'gc_admin', 'member')"
_BUDGET_RIGHTS = [
    "GRANT SELECT ON budgets TO gc_viewer",
    *_rows_of("budgets", _ADMIN, "INSERT", "UPDATE"),
    "CREATE POLICY budgets_of_admins ON events FOR INSERT WITH CHECK (actor = session_user AND "
    f"{_ADMIN} AND EXISTS (SELECT FROM budgets WHERE id = box))",
]
"""Admins alone set budgets. Operators may lock their rows, as every change does, and find none to write."""

_KEYS = f"""
CREATE TABLE public_keys (
    login text PRIMARY KEY DEFAULT session_user,
    key text NOT NULL CHECK (length(key) <= {LONGEST_KEY}),
    by text NOT NULL DEFAULT session_user,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
_KEY_RIGHTS = [
    "ALTER TABLE public_keys ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE public_keys FORCE ROW LEVEL SECURITY",
    "CREATE POLICY everybody_reads ON public_keys FOR SELECT USING (true)",
    f"CREATE POLICY own_key ON public_keys USING (login = session_user OR {_ADMIN})"
    f" WITH CHECK (by = session_user AND (login = session_user OR {_ADMIN}))",
    "GRANT SELECT, INSERT (login, key), UPDATE (key, by, at) ON public_keys TO gc_viewer",
]
"""Whose key is whose is said by each login of itself, or by an admin, and by nobody in another's name."""

_SEVERAL_IDENTITIES = [
    "ALTER TABLE identities DROP CONSTRAINT identities_pkey",
    "ALTER TABLE identities ADD COLUMN at timestamptz NOT NULL DEFAULT clock_timestamp()",
    """CREATE FUNCTION is_free(whose text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT NOT EXISTS (SELECT FROM boxes WHERE owner = whose)
        AND NOT EXISTS (SELECT FROM runs WHERE owner = whose)
        AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = whose AND rolname <> session_user);
END""",
    "DROP POLICY own_rows ON identities",
    "CREATE POLICY own_rows ON identities USING (login = session_user)"
    " WITH CHECK (login = session_user AND is_free(owner))",
]
"""A login may have several owner ids; it takes none that boxes have already, or that is another login."""

OWNED = """owner = ANY (ARRAY(
    SELECT :owner::text UNION SELECT login FROM identities WHERE owner = :owner
    UNION SELECT owner FROM identities
    WHERE login = coalesce((SELECT login FROM identities WHERE owner = :owner), :owner)))"""
"""The condition of what is an owner's: under each id of the login that has this one, which is one itself."""

STEPS: Sequence[Sequence[str]] = (
    (*filter(str.strip, _TABLES.split(";")), _JSON, _APPEND, _MINE, _OF_MINE, *_RIGHTS),
    (_BUDGETS, _append_to(*NUMBERED).replace("CREATE", "CREATE OR REPLACE", 1), *_BUDGET_RIGHTS),
    (_KEYS, *_KEY_RIGHTS, *_SEVERAL_IDENTITIES),
)
"""The statements that lead to each version from the previous one."""
VERSION = len(STEPS)
VERSIONS = """CREATE TABLE schema_version (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text NOT NULL DEFAULT session_user
)"""
