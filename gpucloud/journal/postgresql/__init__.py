"""The journal in a PostgreSQL database that a team shares. Only this room imports ``psycopg``.

What is known of one box or run is folded from its events, of which only the new ones are read: stored states
serve lists alone. A change is folded in this process too, and sent as one call of a function in the database,
which takes it only if nobody else was faster: one round trip, no lock that is held while this process thinks,
and nothing is left behind by a process that stops in between.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.journal.postgresql.address import LoginTokens
    from gpucloud.journal.postgresql.database import Database

SCHEMES = ("postgresql://", "postgres://")


def is_address(text: str) -> bool:
    """Whether a text is the URL of a journal in a database."""
    return text.startswith(SCHEMES)


@contextmanager
def needing_psycopg() -> Generator[None]:
    """Says what to install where the body cannot import ``psycopg``.

    Raises:
        UsageError: it is not installed, or its library is not.
    """
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"a journal on PostgreSQL needs psycopg: {error}", hint="pip install 'gpucloud[team]'"
        ) from error


def open_journal(
    url: str, *, kind: str, spool: Path | None = None, tokens: LoginTokens | None = None
) -> Database:
    """Opens the journal of a URL, as :meth:`gpucloud.journal.store.Journal.connect`.

    Raises:
        JournalError: the server cannot be reached, or refuses.
        UsageError: the URL is not safe, the journal cannot be used, or ``psycopg`` is not installed.
    """
    with needing_psycopg():
        from gpucloud.journal.postgresql.address import read_address
        from gpucloud.journal.postgresql.database import Database

    return Database.open(read_address(url, tokens), kind=kind, spool=spool)
