"""The journal itself: its tables, copies of it, and whether it is whole."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.api.session import Session
from gpucloud.config import find_owner
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.journal.postgresql.address import Address
    from gpucloud.journal.records import PublishedKey
    from gpucloud.journal.store import Journal
    from gpucloud.journal.verification import Verified


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What a migration has done.

    Attributes:
        journal: where the journal is, without secrets.
        before: its version before; 0 if there was none.
        version: its version now.
    """

    journal: str
    before: int
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy has done.

    Attributes:
        events: how many events were new in the journal that was copied to.
        owner: the owner id of whoever uses the copy.
    """

    events: int
    owner: str


class Journals:
    """Calls about the journal of a session.

    Args:
        session: of the client.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def migrate(self) -> Migrated:
        """Makes the tables of the team's journal, or leads them to this version: all steps, or none.

        Raises:
            JournalError: the server cannot be reached.
            UsageError: no journal of a team is set, the login may not do this, or it is of a newer version.
        """
        from gpucloud.journal.postgresql.migration import migrate

        address = self._address()
        before, version = migrate(address, kind=self._session.kind)
        return Migrated(journal=str(address), before=before, version=version)

    def script(self) -> str:
        """What :meth:`migrate` would do for a new journal, as SQL for ``psql``. Asks no server.

        Raises:
            UsageError: no journal of a team is set.
        """
        from gpucloud.journal.postgresql.migration import script

        return script(self._address(), self._session.kind)

    def apply_users(self, file: Path) -> list[str]:
        """Gives each login of a file its role in the team's journal, and takes those of all others.

        Args:
            file: YAML: ``users``, with ``viewer``, ``operator`` or ``admin`` for each login; and ``keys``,
                with the public ssh keys of some of them.

        Returns:
            A line for each change.

        Raises:
            JournalError: the server cannot be reached, or refuses.
            UsageError: the file is something else, or the login may not do this.
        """
        from gpucloud.spec.yaml import read_file

        if not file.is_file():
            raise UsageError(f"there is no file {file}", hint="users: {alice: admin, bob: operator}")
        address = self._address()
        from gpucloud.journal.postgresql.users import apply_users, read_keys, read_users
        from gpucloud.ssh.keys import read_shared_key

        fields = read_file(file).fields
        users = read_users(fields.get("users"))
        keys = {
            login: read_shared_key(key, f"keys: {login}").line
            for login, key in read_keys(fields.get("keys"), users).items()
        }
        return apply_users(address, users, keys)

    def publish_key(self, key: str) -> None:
        """Says that a public ssh key is that of this login in the team's journal, in place of an older one.

        Args:
            key: the content of the public key's file: one line.

        Raises:
            JournalError: the server cannot be reached.
            ForbiddenError: this login may not use the journal.
            UsageError: no journal of a team is set, or it is not one public key.
        """
        from gpucloud.ssh.keys import read_shared_key

        self._address()
        self._session.journal.publish_key(read_shared_key(key, "the key").line)

    def key_of(self, login: str) -> PublishedKey:
        """The public ssh key of a colleague, as that login or an admin published it in the team's journal.

        Raises:
            JournalError: the server cannot be reached.
            UsageError: no journal of a team is set; or the login has no key there, or no role.
        """
        self._address()
        found = self._session.journal.key_of(login)
        if found is None:
            raise UsageError(
                f"the team's journal has no key of {login!r}, or {login!r} has no role there",
                hint=f"{login} publishes it: gpucloud journal users key ~/.ssh/id_ed25519.pub; or give --key",
            )
        return found

    def copy_to(self, place: str) -> Copied:
        """Appends every event of the journal to another one: a URL, or a file.

        Raises:
            JournalError: one of them cannot be used.
            UsageError: a gpucloud works on a box; or the other one has other events of the same box.
        """
        with self._opened(place) as target:
            return self._copy(self._session.journal, target)

    def copy_from(self, place: str) -> Copied:
        """Appends every event of another journal, a URL or a file, to this one; raises as :meth:`copy_to`."""
        if not _is_url(place) and not Path(place).is_file():
            raise UsageError(f"there is no journal {place}", hint="give the URL or the file of a journal")
        with self._opened(place) as source:
            return self._copy(source, self._session.journal)

    def verify(self) -> Verified:
        """Replays every event, and compares what that gives with the journal's tables.

        Raises:
            JournalError: the journal cannot be read.
        """
        from gpucloud.journal.verification import verify

        return verify(self._session.journal)

    # --- inside

    def _copy(self, source: Journal, target: Journal) -> Copied:
        from gpucloud.journal.verification import copy, refuse_work

        refuse_work(source)
        if source.identity is None and target.identity is not None:
            target.identify(find_owner(self._session.paths, self._session.profile.variables))
        return Copied(events=copy(source, target), owner=target.identity or self._session.owner)

    def _address(self) -> Address:
        url = self._session.team_journal
        if url is None:
            raise UsageError(
                "no team's journal is set: yours is a file, without users, roles and migrations",
                hint="set GPUCLOUD_JOURNAL=postgresql://USER@HOST/DATABASE",
            )
        from gpucloud.journal.postgresql import needing_psycopg

        with needing_psycopg():
            from gpucloud.journal.postgresql.address import read_address

            return read_address(url, self._session.database_token)

    @contextmanager
    def _opened(self, place: str) -> Generator[Journal]:
        from gpucloud.journal.store import Journal

        session = self._session
        if _is_url(place):
            if "@" in place and ":" in place.split("://", 1)[1].rpartition("@")[0]:
                raise UsageError(
                    "a password in an argument is seen by every user of this machine",
                    hint="leave it out: PGPASSFILE names the file with passwords (~/.pgpass, mode 0600)",
                )
            journal = Journal.connect(place, session.now, kind=session.kind, tokens=session.database_token)
        else:
            journal = Journal.open(Path(place).absolute(), session.now, kind=session.kind)
        try:
            yield journal
        finally:
            journal.close()


def _is_url(place: str) -> bool:
    from gpucloud.journal.postgresql import is_address

    return is_address(place)
