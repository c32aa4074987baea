"""Makes the tables of a journal, or leads them to this version: all steps, or none."""

from __future__ import annotations

from contextlib import closing

import psycopg

from gpucloud.journal.postgresql.address import Address
from gpucloud.journal.postgresql.database import refuse_version
from gpucloud.journal.postgresql.schema import LOCK, MAKE_GROUPS, STEPS, VERSION, VERSIONS
from gpucloud.journal.postgresql.server import WRITE, Server

_FOUND = """SELECT to_regnamespace(:schema) IS NOT NULL AS has_schema,
to_regclass(:schema || '.schema_version') IS NOT NULL AS has_version"""


def migrate(address: Address, *, kind: str) -> tuple[int, int]:
    """Leads the journal to this version; makes it where there is none.

    Args:
        address: where it is; the login may make the schema, or owns it.
        kind: of the boxes of a journal that is made: ``real`` or ``sandbox``.

    Returns:
        The version before (0: there was none), and this one.

    Raises:
        JournalError: the server cannot be reached.
        UsageError: the login may not do this, or the journal is of a newer version.
    """
    may = "log in as the owner of its schema; GPUCLOUD_JOURNAL names the login"
    with closing(Server(address)) as server, server.changing(f"the journal {address} was", hint=may):
        before, has_schema = _look(server)
        if before > VERSION:
            refuse_version(address, before)
        if before < VERSION:
            steps = statements(address, before, kind, has_schema=has_schema)
            try:
                server.ask([(each, {}) for each in steps], WRITE)
            except psycopg.Error:
                if _look(server)[0] != VERSION:  # else somebody else did it at the same time
                    raise
    return before, VERSION


def statements(address: Address, before: int, kind: str, *, has_schema: bool = False) -> list[str]:
    """The statements that lead from a version to this one; they belong into one transaction."""
    own = "SET LOCAL ROLE gc_owner"
    steps = [statement.replace("{schema}", address.schema) for step in STEPS[before:] for statement in step]
    marks = [f"INSERT INTO schema_version (version) VALUES ({n + 1})" for n in range(before, VERSION)]  # noqa: S608
    lock = f"SELECT pg_advisory_xact_lock({LOCK.replace('current_schema()', repr(address.schema))})"
    if before:
        return [lock, own, *steps, *marks]
    schema = [] if has_schema else [f"CREATE SCHEMA {address.schema}"]
    given = f"ALTER SCHEMA {address.schema} OWNER TO gc_owner"
    return [
        lock,
        MAKE_GROUPS,
        *schema,
        given,
        own,
        VERSIONS,
        *steps,
        f"INSERT INTO about VALUES ('{kind}')",  # noqa: S608
        *marks,
    ]


def script(address: Address, kind: str) -> str:
    """The SQL that makes a journal, for an administrator who runs such things by hand."""
    lines = ["BEGIN", f"SET LOCAL search_path = {address.schema}", *statements(address, 0, kind), "COMMIT"]
    return ";\n\n".join(line.strip() for line in lines) + ";\n"


def _look(server: Server) -> tuple[int, bool]:
    """The version of a journal, 0 if there is none; and whether its schema is there."""
    [[found]] = server.ask([(_FOUND, {"schema": server.address.schema})])
    if not found["has_version"]:
        return 0, found["has_schema"]
    [[row]] = server.ask([("SELECT max(version) AS version FROM schema_version", {})])
    return int(row["version"] or 0), True
