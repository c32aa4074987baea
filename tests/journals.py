"""The journals of tests: files, or schemas on a PostgreSQL server of their own, with or without a pooler.

``pytest --journal postgresql`` and ``--journal pgbouncer`` put the journals of tests there (``make team``).
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import pytest

from gpucloud.journal.store import Journal
from tests.ports import free_port
from tests.waiting import PATIENCE_S

FILES = "sqlite"
SERVER = "postgresql"
POOLER = "pgbouncer"
URL = "TEAM_JOURNAL"
"""The variable with the URL of the server on which the journals of tests are, for forked commands, too."""
OWNER = "gpucloud"
"""The superuser of the server."""
LOGINS = ("alice", "bob", "vera", "adam")
"""Logins of the tests of roles; the pooler must know them."""


def open_journal(
    folder: Path, clock: Callable[[], datetime], *, lease_clock: Callable[[], datetime] | None = None
) -> Journal:
    """The journal that belongs to a folder."""
    if URL not in os.environ:
        return Journal.open(folder / "journal.db", clock, lease_clock=lease_clock)
    return Journal.connect(url_of(folder), clock, kind="real", lease_clock=lease_clock)


def url_of(folder: Path, *, kind: str = "real") -> str:
    """The URL of the journal that belongs to a folder, a schema of its own; made if it is missing."""
    from gpucloud.journal.postgresql.address import read_address
    from gpucloud.journal.postgresql.migration import migrate

    url = with_schema(os.environ[URL], "t" + hashlib.sha256(str(folder).encode()).hexdigest()[:16])
    if url not in _made:
        migrate(read_address(url), kind=kind)
        _made.add(url)
    return url


_made: set[str] = set()
"""The journals that this process has made."""


def with_schema(url: str, schema: str) -> str:
    """The URL of a journal in a schema."""
    return f"{url}?schema={schema}"


def psql(url: str, statement: str, values: Any = None, *, user: str | None = None) -> list[Any]:
    """What a statement answers, without gpucloud between."""
    import psycopg
    from psycopg import sql

    server, _, schema = url.partition("?schema=")
    login = {"user": user} if user else {}
    with psycopg.connect(server, prepare_threshold=None, **login) as c:  # type: ignore[arg-type]
        if schema:
            c.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
        cursor = c.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else [cursor.rowcount]


_TABLES = {
    "boxes": "SELECT id, kind, owner, name, run_id, lease, {text} AS state, {price} AS price"
    " FROM states WHERE kind IN ('box', 'volume', 'snapshot')",
    "runs": "SELECT id, owner, name AS run_id, lease, {text} AS state FROM states WHERE kind = 'run'",
    "resources": "SELECT states.id AS box, {id} AS id, {kind} AS kind, {state} AS state"
    " FROM states, {resources} AS each",
    "intents": "SELECT states.id AS box, {own} AS id, {status} AS status, {price_of} AS price"
    " FROM states, {intents} AS each",
}


def with_tables(query: str, *, server: bool) -> str:
    """A query of ``boxes``, ``runs``, ``resources`` and ``intents``, over what the journal has as JSON."""
    paths = {
        "text": ("document", "state"),
        "price": ("document", "price.amount"),
        **{name: ("each.value", path) for name, path in (("id", "ref.id"), ("kind", "ref.kind"))},
        **{name: ("each.value", name) for name in ("state", "status")},
        "own": ("each.value", "id"),
        "price_of": ("each.value", "price"),
    }
    words = {name: _json(*path, server=server) for name, path in paths.items()}
    for name in ("resources", "intents"):
        in_file = f"json_each(document, '$.{name}')"
        words[name] = f"jsonb_array_elements(document::jsonb -> '{name}')" if server else in_file
    ctes = ", ".join(f"{name} AS ({each.format(**words)})" for name, each in _TABLES.items())
    return f"WITH {ctes} {query}"


def _json(document: str, path: str, *, server: bool) -> str:
    if server:
        return f"{document}::jsonb #>> '{{{path.replace('.', ',')}}}'"
    return f"json_extract({document}, '$.{path}')"


def administer(url: str, *statements: str) -> None:
    """Runs statements that cannot be part of a transaction."""
    import psycopg

    with psycopg.connect(url.partition("?")[0], autocommit=True) as c:
        for each in statements:
            c.execute(each.encode())


def lose_journal(folder: Path) -> None:
    """Deletes the journal that belongs to a folder."""
    if URL in os.environ:
        url = url_of(folder)
        _made.discard(url)
        psql(url, f"DROP SCHEMA {url.partition('schema=')[2]} CASCADE")
    for file in folder.glob("journal.db*"):
        file.unlink()


def connection_of(journal: Journal) -> AbstractContextManager[sqlite3.Connection]:
    """The connection of a journal in a file."""
    file: Any = journal._database
    return cast("AbstractContextManager[sqlite3.Connection]", file._connection())


# --- the programs


def programs() -> Path | None:
    """Where the programs of Debian's server are; ``None`` if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[4]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _as_nobody() -> list[str]:
    """What starts a program as another user: the server refuses root."""
    if os.getuid() != 0:
        return []
    return ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]


def start(program: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A server that writes its log into its folder."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([*_as_nobody(), *program], stdout=log, stderr=log, cwd=folder)


def own_folder(prefix: str) -> Path:
    """A folder that belongs to whoever runs the servers."""
    folder = Path(mkdtemp(prefix=prefix))
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return folder


class Postgres:
    """A server with a port and a socket folder of its own, which trusts everybody."""

    def __init__(self, folder: Path, bin_: Path) -> None:
        self.folder, self.port, self._bin = folder, free_port(), bin_
        self._process: subprocess.Popen[bytes] | None = None
        made = [str(bin_ / "initdb"), "-D", str(folder / "data"), "-U", OWNER, "-A", "trust", "-N"]
        made += ["-E", "UTF8", "--locale", "C.UTF-8", "--no-instructions"]
        subprocess.run([*_as_nobody(), *made], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        settings = {"fsync": "off", "listen_addresses": "127.0.0.1", "max_connections": "200"}
        settings |= {"unix_socket_directories": str(self.folder), "deadlock_timeout": "200ms"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        program = [str(self._bin / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        self._process = start([*program, *options], self.folder)
        _until_it_answers(self.url)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops it, as a restart does: its clients lose their connections."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None


class Pooler:
    """A pgbouncer in transaction mode, with fewer sessions than clients."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        self.port = free_port()
        (folder / "users").write_text("".join(f'"{name}" ""\n' for name in (OWNER, *LOGINS)))
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nauth_type = trust\nauth_file = {folder / 'users'}\n"
            "pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 300\nunix_socket_dir =\n"
        )
        (folder / "pgbouncer.ini").chmod(0o644)
        (folder / "users").chmod(0o644)
        self._process = start([str(shutil.which("pgbouncer")), "-q", str(folder / "pgbouncer.ini")], folder)
        _until_it_answers(self.url)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"postgresql://{OWNER}@127.0.0.1:{self.port}/postgres"

    def stop(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait(PATIENCE_S)


def _until_it_answers(url: str) -> None:
    import psycopg

    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def a_server() -> Iterator[Postgres]:
    """A server while the body runs; the test is skipped where there is none."""
    bin_ = programs()
    if bin_ is None:
        pytest.skip("no PostgreSQL server is installed (Debian: postgresql)")
    folder = own_folder("gpucloud-pg-")
    server = Postgres(folder, bin_)
    try:
        yield server
    finally:
        server.stop(signal.SIGQUIT)  # nothing of it is kept
        shutil.rmtree(folder)


@contextmanager
def a_pooler(server: Postgres) -> Iterator[Pooler]:
    """A pooler of a server while the body runs; the test is skipped where there is none."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("no pgbouncer is installed (Debian: pgbouncer)")
    folder = own_folder("gpucloud-pool-")
    pooler = Pooler(folder, server)
    try:
        yield pooler
    finally:
        pooler.stop()
        shutil.rmtree(folder)
