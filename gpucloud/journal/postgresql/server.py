"""The connection to the server of a journal: asked in one round trip, made again when it is lost.

Every question is one transaction, sent at once: no session state, so that a pooler may give each transaction
another session. No network keeps a question waiting for ever: TCP gives up, and so does this process.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import Connection, OperationalError
from psycopg.abc import RV, PQGen
from psycopg.rows import DictRow, dict_row

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.errors import JournalError, UnreachableError
from gpucloud.journal.postgresql.address import Address
from gpucloud.journal.reading import Query
from gpucloud.redaction import redact

CONNECT_S = 10
ANSWER_S = 20.0
"""How long to wait for a connection, and for an answer."""
PATIENCE_S = 60.0
"""How long to try again when a connection that once worked was lost."""
_PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
_QUIET_NETWORK = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
READ = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "ISOLATION LEVEL READ COMMITTED READ WRITE"
FOLLOW = "ISOLATION LEVEL READ COMMITTED READ ONLY"
"""How to read, to write, and to read what others have committed while this waited for them."""
_SETTINGS = """SELECT clock_timestamp() AS now, set_config('search_path', :schema, true),
set_config('lock_timeout', '10s', true), set_config('statement_timeout', '15s', true),
set_config('idle_in_transaction_session_timeout', '10s', true)"""
_NAME = re.compile(r"(?<!:):([a-z_]\w*)")
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while this machine sleeps, where there is such a clock."""


class _Connection(Connection[DictRow]):
    """A connection that is no longer waited for than :data:`ANSWER_S`."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        until = time.monotonic() + ANSWER_S
        try:
            return super().wait(gen, interval, ANSWER_S if timeout is None else timeout)
        except OperationalError:
            if time.monotonic() < until:
                raise
            self.pgconn.finish()
            raise OperationalError(f"no answer in {ANSWER_S:.0f} s") from None


class Server:
    """Asks the server of one journal. Safe to use from several threads.

    Args:
        address: where it is.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._lock = threading.RLock()
        self._open: list[_Connection] = []
        weakref.finalize(self, _close_all, self._open)
        self._worked = False
        self._token: str | None = None
        self._clock: tuple[datetime, float] | None = None

    def ask(self, queries: Sequence[Query], mode: str = READ) -> list[list[DictRow]]:
        """Runs queries in one transaction, and one round trip; again where the connection was lost.

        What is written must be so that it can be sent twice.

        Raises:
            UnreachableError: the server cannot be reached, or does not answer.
            psycopg.Error: what the server said to a query.
        """
        with self._lock:
            until = time.monotonic() + (PATIENCE_S if self._worked else 0.0)
            pauses = iter(_PAUSES_S)
            while True:
                try:
                    return self._exchange(self._connected(), queries, mode)
                except OperationalError as error:
                    if self._open and not self._open[0].closed and not _is_lost(error):
                        raise  # the server said no
                    self.close()
                    if time.monotonic() >= until:
                        self._worked = False  # what must be ended now cannot wait a minute for each question
                        raise self.unreachable(error) from None
                time.sleep(next(pauses, _PAUSES_S[-1]))

    def time(self) -> datetime:
        """The time by the server's clock: as it last told it, and what has passed since on this machine."""
        with self._lock:
            if self._clock is None:
                self.ask([])
            assert self._clock is not None  # noqa: S101  (every answer tells it)
            told, at = self._clock
        return told + timedelta(seconds=time.clock_gettime(_BOOT_CLOCK) - at)

    def close(self) -> None:
        """Closes the connection; the next question makes one."""
        with self._lock:
            _close_all(self._open)

    def unreachable(self, error: psycopg.Error) -> UnreachableError:
        """An error of the connection, in words."""
        return UnreachableError(
            f"the journal {self.address} cannot be reached: {self.said(error)}",
            hint="check the network and the server. Nothing is bought without the journal, but boxes end"
            " without it: gpucloud down NAME (or --all, --run-id R), gpucloud sweep",
        )

    def said(self, error: psycopg.Error) -> str:
        """What a server or the connection said, without secrets, on one line."""
        text = error.diag.message_primary or str(error)
        return redact(" ".join(text.split()), [*self.address.secrets, self._token or ""])

    @contextmanager
    def changing(self, what: str, *, hint: str) -> Generator[None]:
        """Explains what the server says in the body, which is to change something.

        Args:
            what: what is to be changed, as a message begins: ``the journal … was``.
            hint: what to do where this login may not.

        Raises:
            JournalError: the server cannot be reached, or refuses.
            UsageError: the login may not do this.
        """
        try:
            yield
        except psycopg.errors.InsufficientPrivilege as error:
            raise UsageError(f"{what} not changed: {self.said(error)}", hint=hint) from None
        except psycopg.Error as error:
            raise JournalError(
                f"{what} not changed: {self.said(error)}", hint="see the server's log"
            ) from None

    # --- inside

    def _connected(self) -> _Connection:
        if not self._open:
            parameters: dict[str, Any] = {**_QUIET_NETWORK, **self.address.parameters}
            self._token = self._new_token()
            if self._token is not None:
                parameters["password"] = self._token
            # What it warns of, a lost connection, is told here, or mended.
            logging.getLogger("psycopg").setLevel(logging.ERROR)
            made = _Connection.connect(
                **parameters,
                connect_timeout=CONNECT_S,
                application_name="gpucloud",
                autocommit=True,
                prepare_threshold=None,  # a pooler would meet the statements of another session
                row_factory=dict_row,
            )
            self._open.append(made)
        return self._open[0]

    def _new_token(self) -> str | None:
        """What logs in in place of a password. Without one, the server is as good as away."""
        try:
            return self.address.token()
        except GpucloudError as error:
            raise OperationalError(f"no token to log in with: {error.message}") from None

    def _exchange(self, connection: _Connection, queries: Sequence[Query], mode: str) -> list[list[DictRow]]:
        settings = (_SETTINGS, {"schema": self.address.schema})
        try:
            with connection.pipeline():
                connection.execute(f"BEGIN {mode}".encode())
                cursors = [
                    connection.execute(_NAME.sub(r"%(\1)s", query).encode(), values or None)
                    for query, values in (settings, *queries)
                ]
                connection.execute("COMMIT")
            told, *answers = [cursor.fetchall() if cursor.description else [] for cursor in cursors]
        except psycopg.Error:
            if not connection.closed:  # an error leaves the transaction open
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
            raise
        self._clock, self._worked = (told[0]["now"], time.clock_gettime(_BOOT_CLOCK)), True
        return answers


def _is_lost(error: psycopg.Error) -> bool:
    """Whether an error is of the connection, also where its end was not seen yet.

    The server says nothing then, or that it or its pooler ends it (classes 57P, 08).
    """
    return error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))


def _close_all(connections: list[_Connection]) -> None:
    while connections:
        with suppress(psycopg.Error):
            connections.pop().close()
