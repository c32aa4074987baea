"""The journal of a team: read as of one moment, changed all or nothing by whoever is first."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from gpucloud.errors import UsageError
from gpucloud.journal.errors import (
    ForbiddenError,
    JournalError,
    NameTakenError,
    PendingError,
    RunLivesError,
    UnreachableError,
    refuse_kind,
)
from gpucloud.journal.events import DeleteAsked, Gone, GoneOnce, Made, Resolved
from gpucloud.journal.postgresql.address import Address
from gpucloud.journal.postgresql.folding import Folded
from gpucloud.journal.postgresql.schema import OWNED, SETTLED, VERSION
from gpucloud.journal.postgresql.server import FOLLOW, WRITE, Server
from gpucloud.journal.postgresql.spool import Spool
from gpucloud.journal.postgresql.writing import Writer
from gpucloud.journal.reading import Reader, Row
from gpucloud.journal.records import Holding, Intent, PublishedKey
from gpucloud.journal.state import State

T = TypeVar("T")
TRIES_S = 30.0
"""How long a change is made again because others were faster."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
"""Of a change that others were faster than: at first up to so long, then each time up to twice as long."""
_ABOUT = ("SELECT max(version) AS version FROM schema_version", "SELECT kind FROM about")
_IDENTITIES = (
    "SELECT session_user AS login, pg_is_in_recovery() AS only_reads",
    "SELECT login, owner FROM identities ORDER BY at",
)
_KEY = """SELECT key, by FROM public_keys JOIN pg_roles ON rolname = login
WHERE login = :login AND pg_has_role(pg_roles.oid, 'gc_viewer', 'member')"""
"""Of who may use the journal: one who has left is let in nowhere, though the key is there."""
PUBLISH_KEY = "SELECT publish_key(:login, :key)"
_DONE = frozenset(each.type for each in (Made, Resolved, DeleteAsked, GoneOnce, Gone))
"""The events that tell what a cloud has done; the others tell what was meant, or can be seen again."""
_WRITTEN = frozenset({"written", "was_written"})
_READ_ONLY = "this server takes no changes: name the primary server in GPUCLOUD_JOURNAL"
_HINTS: Sequence[tuple[type[psycopg.Error], str]] = (
    (errors.ReadOnlySqlTransaction, _READ_ONLY),
    (errors.FeatureNotSupported, _READ_ONLY),  # "cannot set transaction read-write mode during recovery"
    (errors.DiskFull, "free some disk space on the server"),
    (errors.LockNotAvailable, "another gpucloud holds it: try again"),
    (errors.QueryCanceled, "the server is busy: try again"),
)
_MIGRATE = "its owner makes them: gpucloud journal migrate"


class Database:
    """Reads and writes one journal in a database. Safe to use from several threads and processes.

    Args:
        server: of the journal.
        spool: keeps what a cloud has done while the server does not answer; without one, that is lost.
    """

    def __init__(self, server: Server, spool: Spool | None = None) -> None:
        self._server = server
        self._spool = spool
        self._lock = threading.RLock()
        self._folded = Folded(server.address)
        self.identity = ""
        """The owner id of this process's login: the login itself, unless it was given another one."""
        self.damaged: dict[str, str] = {}
        self.only_reads = False
        """Whether this server takes no changes: it is a copy of another."""
        self._logins: Mapping[str, str] = {}

    @classmethod
    def open(cls, address: Address, *, kind: str, spool: Path | None = None) -> Database:
        """Opens a journal that is there, and of this version.

        Args:
            address: where it is.
            kind: of its boxes: ``real`` or ``sandbox``.
            spool: the file of what could not be told before, which is told now.

        Raises:
            JournalError: the server cannot be reached, or refuses.
            UsageError: it has no tables, is of another version, or of another kind.
        """
        database = cls(Server(address), Spool(spool, str(address)) if spool else None)
        queries = (*_ABOUT, *_IDENTITIES)
        with database._explained():
            try:
                answers = database._server.ask([(query, {}) for query in queries])
            except (errors.UndefinedTable, ValueError):
                raise UsageError(f"the journal {address} has no tables yet", hint=_MIGRATE) from None
        [[found], [about], [login], identities] = answers
        refuse_version(address, found["version"])
        if about["kind"] != kind:
            refuse_kind(
                f"the journal {address}",
                kind,
                hint="use another schema for the other kind: ?schema=NAME in GPUCLOUD_JOURNAL",
            )
        database._identified(login["login"], identities)
        database.only_reads = login["only_reads"]
        if not database.only_reads:
            database._tell_what_is_kept()
        return database

    @contextmanager
    def reading(self) -> Generator[Reader]:
        """Each call of the reader is one round trip, and answers as of one moment.

        Raises:
            JournalError: the server cannot be reached, or refuses.
        """
        with self._explained():
            yield _Reader(self._server, self._folded, self.damaged)

    def change(self, body: Callable[[Writer], T]) -> T:
        """Makes a change in this process, and sends it; it is made again where somebody else was faster.

        What this process knows is taken as it is at first, so that a change is one round trip. What is
        decided by that, and not sent, is decided again by what the server has.

        Raises:
            JournalError: the server cannot be reached, or refuses; or others are always faster.
        """
        until, pause_s, trusts = time.monotonic() + TRIES_S, _PAUSE_S, True
        with self._lock, self._explained():
            self._tell_what_is_kept()
            while True:
                writer = Writer(self._server.ask, self._folded, self.damaged, trusts=trusts)
                try:
                    done = body(writer)
                except JournalError:
                    raise
                except Exception:
                    if writer.is_sure:
                        raise
                else:
                    document = writer.document()
                    if document is None and writer.is_sure:
                        return done
                    if document is not None and self._send_or_keep(document):
                        self._folded.keep(writer.after)
                        return done
                if time.monotonic() > until:
                    raise JournalError(
                        f"the journal {self._server.address}: others changed it for {TRIES_S:.0f} s",
                        hint="try again",
                    )
                if not trusts:
                    time.sleep(random.uniform(0, pause_s))  # noqa: S311
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                trusts = False

    def check(self) -> None:
        """Nobody puts another journal in the place of this one while it is used."""

    def time(self, otherwise: Callable[[], datetime]) -> datetime:  # noqa: ARG002
        """The time by the server's clock."""
        with self._explained():
            return self._server.time()

    def aliases(self, owner: str) -> tuple[str, ...]:
        """The other owner ids of the login that has this one, as of the opening."""
        login = self._logins.get(owner, owner)
        ids = {other for other, its in self._logins.items() if its == login}
        return tuple(sorted((ids | {login}) - {owner})) if ids else ()

    def identify(self, owner: str) -> None:
        """Gives an owner id to this process's login, for good; the first one is that of its new boxes.

        Raises:
            UsageError: somebody else has it, or it is that of boxes in the journal.
        """
        with self._explained():
            self._server.ask([("SELECT identify(:owner)", {"owner": owner})], WRITE)
            [[login], identities] = self._server.ask([(query, {}) for query in _IDENTITIES])
        self._identified(login["login"], identities)
        if owner != self.identity and owner not in self.aliases(self.identity):
            raise UsageError(
                f"the login {login['login']!r} cannot have the owner ID {owner!r} in {self._server.address}:"
                " somebody else has it, boxes there have it already, or it might become a login",
                hint="copy with the login that has it; an id of your own choice is taken by an admin alone",
            )

    def _identified(self, login: str, identities: Sequence[Mapping[str, str]]) -> None:
        self._logins = {row["owner"]: row["login"] for row in identities}
        self.identity = next((owner for owner, its in self._logins.items() if its == login), login)

    def key_of(self, login: str) -> PublishedKey | None:
        """The public ssh key of a login that may use the journal; ``None`` without one."""
        with self._explained():
            [found] = self._server.ask([(_KEY, {"login": login})])
        return PublishedKey(**found[0]) if found else None

    def publish_key(self, key: str) -> None:
        """Says that a public ssh key is that of this process's login.

        Raises:
            ForbiddenError: this login may not even read the journal.
        """
        with self._explained():
            self._server.ask([(PUBLISH_KEY, {"login": None, "key": key})], WRITE)

    def close(self) -> None:
        """Closes the connection; a later call makes it again."""
        self._server.close()

    # --- inside

    def _send_or_keep(self, document: Mapping[str, Any]) -> bool:
        """Has the server make a change; what a cloud has done is kept where the server does not answer.

        Raises:
            PendingError: it was kept.
            UnreachableError: the server does not answer, and nothing is lost by that.
        """
        try:
            return self._send(document)
        except UnreachableError as error:
            if self._spool is None or not any(each["type"] in _DONE for each in document["events"]):
                raise
            self._spool.add(document)
            raise PendingError(
                f"{error.message}; what the cloud has done is kept in {self._spool.file}",
                hint="the next command on this machine tells the journal, once it can be reached",
            ) from error

    def _tell_what_is_kept(self) -> None:
        if self._spool is not None:
            self._spool.empty(self._tell)

    def _tell(self, document: Mapping[str, Any]) -> None:
        """Sends a change that was kept. What another process has settled meanwhile is settled."""
        with suppress(ForbiddenError, NameTakenError, RunLivesError), self._explained():
            self._send(document)

    def _send(self, document: Mapping[str, Any]) -> bool:
        """Has the server make a change; whether it did, now or when it was sent before."""
        query = ("SELECT append(:change) AS outcome", {"change": json.dumps(document)})
        try:
            try:
                [[row]] = self._server.ask([query], WRITE)
            except errors.UniqueViolation as error:
                if error.diag.constraint_name != "events_id_key":
                    raise
                [[row]] = self._server.ask([query], WRITE)  # what was sent before was committed meanwhile
        except errors.UniqueViolation as error:
            constraint = error.diag.constraint_name
            if constraint == "one_living_holding_per_name":
                raise NameTakenError(_new_name(document)) from error
            if constraint == "one_living_run_per_id":
                raise RunLivesError(_new_name(document)) from error
            if constraint in {"states_pkey", "events_box_number_key"}:
                return False
            raise
        return row["outcome"] in _WRITTEN

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Turns errors of the server into errors that say what to do."""
        try:
            yield
        except errors.InsufficientPrivilege as error:
            raise ForbiddenError(
                f"the journal {self._server.address} refuses this login: {self._server.said(error)}",
                hint="its owner gives roles: gpucloud journal users apply FILE",
            ) from None
        except psycopg.Error as error:
            hint = next(
                (hint for kind, hint in _HINTS if isinstance(error, kind)), "see the log of the server"
            )
            raise JournalError(
                f"the journal {self._server.address} cannot be used: {self._server.said(error)}", hint=hint
            ) from None


class _Reader(Reader):
    """Reads what is committed; single boxes and runs are folded from their events."""

    owned = OWNED

    def __init__(self, server: Server, folded: Folded, damaged: dict[str, str]) -> None:
        super().__init__(server.ask, damaged)
        self._server, self._folded = server, folded

    def state(self, id: str) -> State | None:  # noqa: A002  (the field's own name)
        """What the events of an id fold to; ``None`` for one that is not there."""
        return self._folded.read(self._server.ask, [id])[id]

    def intents(self, box: str | None, *, unresolved: bool) -> list[Intent]:
        """Create intents, oldest first; of a box of this process also while no server knows them.

        They tell where the machines are that must be ended then.
        """
        try:
            return super().intents(box, unresolved=unresolved)
        except JournalError:
            known = self._folded.kept([box] if box else []).values()
            if not known:
                raise
            holdings = [state for state in known if isinstance(state, Holding)]
            return [each for one in holdings for each in (one.unresolved if unresolved else one.intents)]

    def _settled(self, query: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """Waits for those who have numbered an event and not committed it yet."""
        there = f"(SELECT * FROM events WHERE seq <= current_setting('{SETTLED}')::bigint) AS events"  # noqa: S608
        told = query.replace("FROM events", f"FROM {there}")
        [_, rows] = self._server.ask([("SELECT settled()", {}), (told, values)], FOLLOW)
        return rows


def refuse_version(address: Address, found: int) -> None:
    """Refuses a journal of another version.

    Raises:
        UsageError: it is older or newer than this program.
    """
    if found != VERSION:
        raise UsageError(
            f"the journal {address} was made by another gpucloud (schema {found}, this one has {VERSION})",
            hint="use that gpucloud; or name another schema (?schema=NAME in GPUCLOUD_JOURNAL), and take in"
            " what runs by its tags: gpucloud recover",
        )


def _new_name(document: Mapping[str, Any]) -> str:
    """What a state that is new is called."""
    new = (row for row in document["states"] if tuple(document["positions"][row["id"]]) == (0, 0))
    return next(str(row["name"]) for row in new)
