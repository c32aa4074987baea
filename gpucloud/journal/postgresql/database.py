"""The journal of a team: read as of one moment, changed all or nothing by whoever is first."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
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
    OlderError,
    PendingError,
    RunLivesError,
    UnreachableError,
    refuse_kind,
)
from gpucloud.journal.events import DeleteAsked, Gone, GoneOnce, Made, Resolved
from gpucloud.journal.postgresql.address import Address
from gpucloud.journal.postgresql.copies import Copies, Rows, position_of
from gpucloud.journal.postgresql.schema import LOCK, OWNED, VERSION
from gpucloud.journal.postgresql.server import FOLLOW, WRITE, Server
from gpucloud.journal.postgresql.spool import Spool
from gpucloud.journal.postgresql.writing import Change, Writer
from gpucloud.journal.records import Box, Intent, PublishedKey, Run
from gpucloud.journal.sqlite.reading import POSITION, Query, Reader, Row

T = TypeVar("T")
TRIES_S = 30.0
"""How long a change is made again because others were faster."""
MOST_KEPT = 1000
"""The copies of how many boxes and runs are kept for the next change."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
"""Of a change that others were faster than: at first up to so long, then each time up to twice as long."""
_ABOUT = ("SELECT max(version) AS version FROM schema_version", "SELECT kind FROM about")
# The column ``at`` is missing in a journal of an older version, which is still to be told from others.
_IDENTITIES = (
    "SELECT session_user AS login",
    "SELECT login, owner FROM identities AS given ORDER BY to_jsonb(given) ->> 'at'",
)
_KEY = """SELECT key, by FROM public_keys JOIN pg_roles ON rolname = login
WHERE login = :login AND pg_has_role(pg_roles.oid, 'gc_viewer', 'member')"""
"""Of who may use the journal: one who has left is let in nowhere, though the key is there."""
PUBLISH_KEY = """INSERT INTO public_keys (login, key) VALUES (coalesce(:login, session_user), :key)
ON CONFLICT (login) DO UPDATE SET key = EXCLUDED.key, by = session_user, at = clock_timestamp()"""
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
        self._kept: dict[str, Rows] = {}
        self._known: dict[str, Rows] = {}
        """What the server had of boxes and runs when it took this process's last change of them."""
        self.identity = ""
        """The owner id of this process's login: the login itself, unless it was given another one."""
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
        database._tell_what_is_kept()
        return database

    @contextmanager
    def reading(self) -> Generator[Reader]:
        """Each call of the reader is one round trip, and answers as of one moment.

        Raises:
            JournalError: the server cannot be reached, or refuses.
        """
        with self._explained():
            yield _Reader(self._server, self._known, self._refuse_older)

    def change(self, body: Callable[[Writer], T]) -> T:
        """Makes a change on copies, and sends it; it is made again where somebody else was faster.

        Copies of what this process wrote are kept, so that its next change is one round trip. What is decided
        by a kept copy, and not sent, is decided again by a new one.

        Raises:
            JournalError: the server cannot be reached, or refuses; or others are always faster.
        """
        until, pause_s = time.monotonic() + TRIES_S, _PAUSE_S
        with self._lock, self._explained():
            self._tell_what_is_kept()
            while True:
                with closing(Writer(self._server.ask, self._kept, self._refuse_older)) as writer:
                    try:
                        done = body(writer)
                        change = writer.change()
                    except JournalError:
                        raise
                    except Exception:
                        if writer.is_sure:
                            raise
                        change = None
                    else:
                        if change is None and writer.is_sure:
                            return done
                        if change is not None and self._send_or_keep(change):
                            self._keep(change.after)
                            return done
                self._kept.clear()
                if time.monotonic() > until:
                    raise JournalError(
                        f"the journal {self._server.address}: others changed it for {TRIES_S:.0f} s",
                        hint="try again",
                    )
                if writer.is_sure:
                    time.sleep(random.uniform(0, pause_s))  # noqa: S311
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

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
        give = "INSERT INTO identities (owner) SELECT :owner WHERE is_free(:owner) ON CONFLICT DO NOTHING"
        with self._explained():
            self._server.ask([(give, {"owner": owner})], WRITE)
            [[login], identities] = self._server.ask([(query, {}) for query in _IDENTITIES])
        self._identified(login["login"], identities)
        if owner != self.identity and owner not in self.aliases(self.identity):
            raise UsageError(
                f"the login {login['login']!r} cannot have the owner ID {owner!r} in {self._server.address}:"
                " somebody else has it, or boxes there have it already",
                hint="copy with the login that has it",
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

    def _send_or_keep(self, change: Change) -> bool:
        """Has the server make a change; what a cloud has done is kept where the server does not answer.

        Raises:
            PendingError: it was kept.
            UnreachableError: the server does not answer, and nothing is lost by that.
        """
        try:
            return self._send(change.document)
        except UnreachableError as error:
            if self._spool is None or not any(each["type"] in _DONE for each in change.document["events"]):
                raise
            self._spool.add(change.document)
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
            if constraint == "one_living_box_per_name":
                raise NameTakenError(_new(document, "boxes", "name")) from error
            if constraint == "one_living_run_per_id":
                raise RunLivesError(_new(document, "runs", "run_id")) from error
            if constraint in {"boxes_pkey", "runs_pkey", "events_box_number_key"}:
                return False
            raise
        return row["outcome"] in _WRITTEN

    def _keep(self, after: Mapping[str, Rows]) -> None:
        for kept in (self._kept, self._known):
            if len(kept) + len(after) > MOST_KEPT:
                kept.clear()
            kept.update(after)

    def _refuse_older(self, id: str, position: tuple[int, int]) -> None:  # noqa: A002
        """Refuses what the server has of a box or run that this process has written to.

        Raises:
            OlderError: it is older.
        """
        if id in self._known and position < position_of(self._known[id]):
            raise OlderError(id, self._server.address)

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
        except (psycopg.Error, sqlite3.Error) as error:
            said = self._server.said(error) if isinstance(error, psycopg.Error) else str(error)
            hint = next(
                (hint for kind, hint in _HINTS if isinstance(error, kind)), "see the log of the server"
            )
            raise JournalError(
                f"the journal {self._server.address} cannot be used: {said}", hint=hint
            ) from None


class _Reader(Reader):
    """Reads what is committed; ``known`` are the copies of what this process wrote."""

    owned = OWNED

    def __init__(
        self,
        server: Server,
        known: Mapping[str, Rows],
        refuse_older: Callable[[str, tuple[int, int]], None],
    ) -> None:
        super().__init__(server.ask)
        self._server, self._known, self._refuse_older = server, known, refuse_older

    def box(self, id: str) -> Box:  # noqa: A002
        """The box with this id. Raises ``KeyError``."""
        return self._of(id).box(id)

    def run(self, id: str) -> Run:  # noqa: A002
        """The run with this internal id. Raises ``KeyError``."""
        return self._of(id).run(id)

    def position(self, box: str) -> tuple[int, int]:
        """The epoch of a box or run and the number of its last event; zeros for one that is not there."""
        return self._of(box).position(box)

    def intents(self, box: str | None, *, unresolved: bool) -> list[Intent]:
        """Create intents, oldest first; of a box of this process also while no server knows them.

        They tell where the machines are that must be ended then.
        """
        if box is None:
            return super().intents(None, unresolved=unresolved)
        try:
            return self._of(box).intents(box, unresolved=unresolved)
        except JournalError:
            if box not in self._known:
                raise
            with closing(Copies()) as copies:
                copies.put(box, self._known[box])
                return copies.writer.intents(box, unresolved=unresolved)

    def _of(self, id: str) -> Reader:  # noqa: A002
        """Reads what the server has of one box or run, in the same round trip whether that is older."""

        def ask(queries: Sequence[Query]) -> Sequence[Sequence[Row]]:
            [found, *answers] = self._server.ask([(POSITION, {"id": id}), *queries])
            self._refuse_older(id, (found[0]["epoch"], found[0]["number"]) if found else (0, 0))
            return answers

        return Reader(ask)

    def _settled(self, query: str, values: Mapping[str, Any]) -> Sequence[Row]:
        """Waits for those who have numbered an event and not committed it yet."""
        alone = f"SELECT pg_advisory_xact_lock({LOCK})"
        [_, rows] = self._server.ask([(alone, {}), (query, values)], FOLLOW)
        return rows


def refuse_version(address: Address, found: int) -> None:
    """Refuses a journal of another version.

    Raises:
        UsageError: it is older or newer than this program.
    """
    if found > VERSION:
        raise UsageError(
            f"the journal {address} was made by a newer gpucloud (schema {found}, this one knows {VERSION})",
            hint="use that newer version; nothing was read or changed",
        )
    if found < VERSION:
        raise UsageError(
            f"the journal {address} is of an older gpucloud (schema {found}, this one needs {VERSION})",
            hint=_MIGRATE,
        )


def _new(document: Mapping[str, Any], table: str, column: str) -> str:
    """What a row that is new is called."""
    return next(str(row[column]) for row in document[table] if document["positions"][row["id"]] == (0, 0))
