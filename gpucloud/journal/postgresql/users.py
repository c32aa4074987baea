"""Who may use a team's journal, and as what: one role for each login, as a file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import cast

from psycopg import sql

from gpucloud.errors import UsageError
from gpucloud.journal.postgresql.address import Address
from gpucloud.journal.postgresql.database import PUBLISH_KEY
from gpucloud.journal.postgresql.server import WRITE, Server
from gpucloud.journal.reading import Query
from gpucloud.resources import OWNER_ID

ROLES = ("viewer", "operator", "admin")
_PRESENT = """SELECT login.rolname AS login, gc.rolname AS role
FROM pg_auth_members JOIN pg_roles AS gc ON gc.oid = roleid JOIN pg_roles AS login ON login.oid = member
WHERE gc.rolname = ANY (:roles) AND login.rolcanlogin"""
_HELD = "SELECT login, key FROM public_keys"
_LOGINS = "SELECT rolname AS login FROM pg_roles WHERE rolcanlogin"


def read_users(users: object) -> dict[str, str]:
    """Reads the ``users`` of a file: a role for each login.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(users, Mapping):
        raise UsageError("the file has no `users`", hint="users: {alice: admin, bob: operator, vera: viewer}")
    roles: dict[str, str] = {}
    for login, role in cast("Mapping[object, object]", users).items():
        if not isinstance(login, str) or not OWNER_ID.fullmatch(login):
            raise UsageError(f"users: {login!r} is no login", hint="1-64 letters, digits and . _ @ -")
        if role not in ROLES:
            raise UsageError(f"users: {login}: {role!r} is no role", hint=f"allowed: {', '.join(ROLES)}")
        roles[login] = str(role)
    return roles


def read_keys(keys: object, users: Mapping[str, str]) -> dict[str, str]:
    """Reads the ``keys`` of a file: the text of a public ssh key for some of its logins.

    Raises:
        UsageError: it is something else, or names a login that has no role.
    """
    if keys is None:
        return {}
    if not isinstance(keys, Mapping):
        raise UsageError("keys: not a mapping", hint="keys: {bob: 'ssh-ed25519 AAAA… bob@lab'}")
    found: dict[str, str] = {}
    for login, key in cast("Mapping[object, object]", keys).items():
        if login not in users or not isinstance(key, str):
            raise UsageError(
                f"keys: {login!r} is no login of `users`, or its key is no text",
                hint="keys: {bob: 'ssh-ed25519 AAAA… bob@lab'}",
            )
        found[str(login)] = key
    return found


def changes(wanted: Mapping[str, str], present: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """What leads to the wanted roles: ``grant`` or ``revoke``, the role, and the login."""
    have = set(present)
    need = {(login, role) for login, role in wanted.items()}
    return [
        *(("grant", role, login) for login, role in sorted(need - have)),
        *(("revoke", role, login) for login, role in sorted(have - need)),
    ]


def apply_users(
    address: Address, wanted: Mapping[str, str], keys: Mapping[str, str] | None = None
) -> list[str]:
    """Gives every login its role, and takes the roles of those that are not wanted; all, or nothing.

    Logins that are missing are made, without a password.

    Args:
        address: where the journal is.
        wanted: the role of each login.
        keys: the public ssh keys of some of them; those of others stay as they are.

    Returns:
        A line for each change.

    Raises:
        JournalError: the server cannot be reached, or refuses.
        UsageError: the login may not do this.
    """
    groups = {f"gc_{role}": role for role in ROLES}
    may = "log in as the owner of the journal, with the right to create roles"
    with closing(Server(address)) as server, server.changing(f"the users of {address} were", hint=may):
        found, logins, held = server.ask([(_PRESENT, {"roles": list(groups)}), (_LOGINS, {}), (_HELD, {})])
        present = [(row["login"], groups[row["role"]]) for row in found]
        new = sorted(wanted.keys() - {row["login"] for row in logins})
        moves = changes(wanted, present)
        made = [sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(login)) for login in new]
        given = [_statement(*move) for move in moves]
        have = {row["login"]: row["key"] for row in held}
        told = {login: key for login, key in (keys or {}).items() if have.get(login) != key}
        if made or given or told:
            roles: list[Query] = [(each.as_string(), {}) for each in (*made, *given)]
            texts: list[Query] = [(PUBLISH_KEY, {"login": login, "key": key}) for login, key in told.items()]
            server.ask([*roles, *texts], WRITE)
    return [
        *(f"login {login} made" for login in new),
        *(f"{verb} {role}: {login}" for verb, role, login in moves),
        *(f"key of {login} set" for login in told),
    ]


def _statement(verb: str, role: str, login: str) -> sql.Composed:
    words = "GRANT {} TO {}" if verb == "grant" else "REVOKE {} FROM {}"
    return sql.SQL(words).format(sql.Identifier(f"gc_{role}"), sql.Identifier(login))
