"""Journals on a PostgreSQL server in the place of files, behind a wire that loses what it is told to lose."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gpucloud.journal.postgresql.address import read_address
from gpucloud.journal.postgresql.migration import migrate
from tests.journals import administer
from tests.wire import Wire

EMPTY, KEPT = "empty", "photograph"
REFUSE = """CREATE FUNCTION gpucloud.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"""
FULL = "CREATE TRIGGER full_disk BEFORE INSERT ON gpucloud.events EXECUTE FUNCTION gpucloud.refuse()"


class Team:
    """A database for each home, so that the server itself copies a journal.

    Args:
        server: the URL of a server that trusts everybody.
        wire: in front of it.
    """

    def __init__(self, server: str, wire: Wire) -> None:
        self._server, self.wire = server, wire
        self._lock = threading.Lock()
        self._mark = f"chaos_{os.getpid()}_"
        self._new(EMPTY, "template1")
        migrate(read_address(self.behind(EMPTY)), kind="sandbox")

    def url(self, name: str) -> str:
        """The URL of a home's journal, by the wire."""
        return re.sub(r":\d+/", f":{self.wire.port}/", self._database(name))

    def behind(self, name: str) -> str:
        """The same without the wire."""
        return f"{self._database(name)}?schema=gpucloud"

    def make(self, name: str) -> None:
        """An empty journal, in the place of any that is there."""
        self._new(name, self._mark + EMPTY)

    def photograph(self, name: str) -> None:
        """Keeps a journal as it is, in the place of what was kept."""
        self.hang_up(name)
        self._new(KEPT, self._mark + name)

    def put_back(self, name: str) -> None:
        """Has a journal as it was kept, whoever uses it: as a replica that took over too early does."""
        self._new(name, self._mark + KEPT)

    def hang_up(self, name: str) -> None:
        """Ends every connection to a journal, as a server does that is restarted."""
        whose = f"datname = '{self._mark}{name}'"
        administer(
            self._server,
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {whose}",  # noqa: S608
        )

    def fill(self, name: str) -> None:
        """Has the disk of a journal be full, for what is written of what happens."""
        with self._lock:
            administer(self._database(name), REFUSE, FULL)

    def clear(self, name: str) -> None:
        """Has room there again, and everything come through."""
        self.wire.on_exchange, self.wire.silent, self.wire.round_trip_s = (lambda _: None), False, 0.0
        with self._lock:  # what befalls the journal may still be going on
            administer(self._database(name), "DROP FUNCTION IF EXISTS gpucloud.refuse CASCADE")

    def close(self) -> None:
        """Leaves nothing on the server."""
        for name in ("home", "stranger", KEPT, EMPTY):
            administer(self._server, f"DROP DATABASE IF EXISTS {self._mark}{name} WITH (FORCE)")

    def _database(self, name: str) -> str:
        return f"{self._server.rpartition('/')[0]}/{self._mark}{name}"

    def _new(self, name: str, template: str) -> None:
        database = self._mark + name
        with self._lock:
            administer(
                self._server,
                f"DROP DATABASE IF EXISTS {database} WITH (FORCE)",
                f"CREATE DATABASE {database} TEMPLATE {template}",
            )


@contextmanager
def a_team(server: str) -> Iterator[Team]:
    """Journals on a server, while the body runs."""
    port = re.search(r":(\d+)/", server)
    assert port
    with Wire(int(port[1])) as wire:
        team = Team(server, wire)
        try:
            yield team
        finally:
            team.close()
