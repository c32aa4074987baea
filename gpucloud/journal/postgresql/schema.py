"""The tables of a journal in PostgreSQL, and its only ways to write: functions of the tables' owner.

Nobody who uses a journal may write to a table. Each function is SECURITY DEFINER: it takes the login from the
session, and refuses what is not that login's. From the first release on, the text of a released version never
changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.journal.kinds import HOLDINGS, LIVING
from gpucloud.journal.rows import COLUMNS

LONGEST_KEY = 16384
"""More characters than any public key has."""
LOCK = "hashtextextended(current_schema(), 0)"
"""The number of the lock of one journal, for those who make its tables."""
SETTLED = "gpucloud.settled"
"""The setting of a transaction with the number up to which every event is there: of ``settled()``."""

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
CREATE TABLE states (
    id text PRIMARY KEY,
    kind text NOT NULL CHECK ({HOLDINGS} OR kind IN ('run', 'budget', 'policy')),
    owner text NOT NULL,
    name text NOT NULL,
    run_id text,
    living integer NOT NULL CHECK (living IN (0, 1)),
    created_at text,
    ended_at text,
    purchase text,
    unresolved integer NOT NULL,
    present integer NOT NULL,
    epoch integer NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    lease text,
    document text NOT NULL CHECK (document::jsonb ->> 'id' = id)
);
CREATE UNIQUE INDEX one_living_holding_per_name ON states (owner, name) WHERE {HOLDINGS} AND {LIVING};
CREATE UNIQUE INDEX one_living_run_per_id ON states (owner, name) WHERE kind = 'run' AND {LIVING};
CREATE INDEX states_by_name ON states (owner, name);
CREATE INDEX living_states ON states (id) WHERE {LIVING};
CREATE INDEX unresolved_states ON states (id) WHERE unresolved > 0;
CREATE INDEX present_states ON states (id) WHERE present > 0;
CREATE INDEX spot_states ON states (owner) WHERE purchase = 'spot';
CREATE TABLE identities (
    login text NOT NULL,
    owner text NOT NULL UNIQUE,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE owners (owner text PRIMARY KEY, begun bigint NOT NULL);
CREATE TABLE public_keys (
    login text PRIMARY KEY,
    key text NOT NULL CHECK (length(key) <= {LONGEST_KEY}),
    by text NOT NULL DEFAULT session_user,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
"""``owners`` counts what each owner has begun; the empty name counts for all. ``identities`` has the logins
whose boxes have another owner id than the login: those of files which were copied."""

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
        OR EXISTS (SELECT FROM identities WHERE login = session_user AND owner = whose)
            AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = whose AND rolname <> session_user);
END
"""
"""Whether this login may write of what an owner has: it is its own, or the login is an admin's.

An owner id that has become another login since is that login's.
"""
_MAY_WRITE = """
CREATE FUNCTION may_write(kind text, whose text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN kind IN ('budget', 'policy') THEN pg_has_role(session_user, 'gc_admin', 'member')
        ELSE mine(whose) END;
END
"""
"""Admins alone set budgets and the policy."""
_IS_FREE = """
CREATE FUNCTION is_free(whose text) RETURNS boolean LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT NOT EXISTS (SELECT FROM states WHERE owner = whose)
        AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = whose AND rolname <> session_user)
        AND (whose ~ '^u-[0-9a-f]{1,32}$' OR pg_has_role(session_user, 'gc_admin', 'member'));
END
"""
"""A login may have several owner ids; it takes none that boxes have already, or that is another login.

Nor one that may become another login: those that machines make cannot be taken for a name.
"""


def _definer(name: str, returns: str, body: str, declare: str = "") -> str:
    """A function that runs with the rights of the tables' owner, and finds nothing but its own schema."""
    return f"""
CREATE FUNCTION {name} RETURNS {returns} LANGUAGE plpgsql
SECURITY DEFINER SET search_path = {{schema}}, pg_catalog, pg_temp AS $$
{declare}
BEGIN
{body}
END $$
"""


_NEWS = ",\n        ".join(f"{name} = EXCLUDED.{name}" for name in COLUMNS if name not in {"id", "lease"})
_APPEND = _definer(
    "append(change jsonb)",
    "text",
    f"""
    PERFORM FROM states WHERE id = ANY (ids) ORDER BY id FOR UPDATE;
    IF EXISTS (SELECT FROM events WHERE id = change #>> '{{events,0,id}}') THEN
        RETURN 'was_written';
    END IF;
    IF EXISTS (
        SELECT FROM jsonb_each(change -> 'positions') AS known LEFT JOIN states AS now ON now.id = known.key
        WHERE known.value <> jsonb_build_array(coalesce(now.epoch, 0), coalesce(now.number, 0))
    ) THEN
        RETURN 'stale';
    END IF;
    IF EXISTS (SELECT FROM unnest(news) WHERE NOT may_write(kind, owner))
        OR EXISTS (SELECT FROM states JOIN unnest(news) AS new USING (id)
            WHERE states.kind <> new.kind OR states.owner <> new.owner) THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied: it is not of ' || session_user;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(news) AS new FULL JOIN (
            SELECT box AS id, min(number) AS first, max(number) AS last, count(*) AS many
            FROM jsonb_populate_recordset(NULL::events, change -> 'events') GROUP BY box
        ) AS added USING (id)
        WHERE new.number IS DISTINCT FROM added.last OR added.last - added.first + 1 <> added.many
            OR added.first <> 1 + (change -> 'positions' -> id ->> 1)::integer
            OR change -> 'positions' -> id IS NULL
    ) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the states do not follow from the events';
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
    INSERT INTO states ({", ".join(COLUMNS)}) SELECT {", ".join(COLUMNS)} FROM unnest(news)
    ON CONFLICT (id) DO UPDATE SET
        {_NEWS},
        lease = CASE WHEN EXCLUDED.epoch = states.epoch AND EXCLUDED.lease IS NOT NULL
            THEN coalesce(states.lease, EXCLUDED.lease) ELSE EXCLUDED.lease END;
    INSERT INTO events (id, at, box, number, type, version, data)
        SELECT id, at, box, number, type, version, data
        FROM jsonb_populate_recordset(NULL::events, change -> 'events');
    RETURN 'written';""",  # noqa: S608
    declare="""DECLARE
    ids text[] := ARRAY(SELECT jsonb_object_keys(change -> 'positions'));
    scopes text[] := ARRAY(SELECT jsonb_object_keys(change -> 'owners') ORDER BY 1);
    news states[] := ARRAY(
        SELECT new FROM jsonb_populate_recordset(NULL::states, change -> 'states') AS new);""",
)
"""Writes a change, unless one of its boxes, runs or owners is not as its maker knew it.

The rows of the boxes are locked first: of two changes to a box, the second one sees what the first has done.
A lease of the same epoch stays as it was renewed.
"""
_WRITES = """FROM pg_locks WHERE locktype = 'relation' AND relation = 'events'::regclass AND granted
            AND mode = 'RowExclusiveLock' AND pid <> pg_backend_pid()"""
_SETTLED = _definer(
    "settled()",
    "void",
    f"""
    PERFORM set_config('{SETTLED}', last::text, true);
    WHILE EXISTS (SELECT {_WRITES} AND virtualtransaction = ANY (going_on)) LOOP
        IF clock_timestamp() > until THEN
            RAISE lock_not_available USING MESSAGE = 'a writer of the journal does not end';
        END IF;
        PERFORM pg_sleep(0.002);
    END LOOP;""",
    declare=f"""DECLARE
    last bigint := (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_seq_seq);
    going_on text[] := ARRAY(SELECT virtualtransaction {_WRITES});
    until timestamptz := clock_timestamp() + interval '10 seconds';""",  # noqa: S608
)
"""Waits for those who have numbered an event and not committed it yet, and keeps nobody waiting.

Whoever writes an event has locked the table of events before it is numbered. So each event up to the last
number was written by somebody who is seen to write, or has committed. A lock of readers that writers wait for
would let a viewer stop them.
"""
_RENEW = _definer(
    "renew(leases jsonb)",
    "void",
    """
    UPDATE states SET lease = new.lease
    FROM jsonb_to_recordset(leases) AS new(id text, epoch integer, lease text)
    WHERE states.id = new.id AND states.epoch = new.epoch AND states.lease IS NOT NULL
        AND may_write(states.kind, states.owner);""",
)
"""Writes leases anew: each where the box or run still has the epoch under which it was taken."""
_IDENTIFY = _definer(
    "identify(whose text)",
    "void",
    """
    INSERT INTO identities (login, owner) SELECT session_user, whose WHERE is_free(whose)
    ON CONFLICT DO NOTHING;""",
)
_PUBLISH_KEY = _definer(
    "publish_key(whose text, text_of_key text)",
    "void",
    """
    IF whose <> session_user AND NOT pg_has_role(session_user, 'gc_admin', 'member') THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied: the key is not of ' || session_user;
    END IF;
    INSERT INTO public_keys (login, key) VALUES (coalesce(whose, session_user), text_of_key)
    ON CONFLICT (login) DO UPDATE SET key = EXCLUDED.key, by = session_user, at = clock_timestamp();""",
)
"""Whose key is whose is said by each login of itself, or by an admin."""

_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO gc_viewer",
    "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO gc_viewer",
    "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC",
    "GRANT EXECUTE ON FUNCTION publish_key(text, text), settled() TO gc_viewer",
    "GRANT EXECUTE ON FUNCTION append(jsonb), renew(jsonb), identify(text) TO gc_operator",
)
"""What each role may do: read, and call the functions. Nobody may write to a table."""

OWNED = """owner = ANY (ARRAY(
    SELECT :owner::text UNION SELECT login FROM identities WHERE owner = :owner
    UNION SELECT owner FROM identities
    WHERE login = coalesce((SELECT login FROM identities WHERE owner = :owner), :owner)))"""
"""The condition of what is an owner's: under each id of the login that has this one, which is one itself."""

STEPS: Sequence[Sequence[str]] = (
    (
        *filter(str.strip, _TABLES.split(";")),
        *(_MINE, _MAY_WRITE, _IS_FREE, _APPEND, _RENEW, _IDENTIFY, _PUBLISH_KEY, _SETTLED),
        *_RIGHTS,
    ),
)
"""The statements that lead to each version from the previous one."""
VERSION = len(STEPS)
VERSIONS = """CREATE TABLE schema_version (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text NOT NULL DEFAULT session_user
)"""
