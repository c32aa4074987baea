"""What the journal asks of a database: to read as of one moment, and to change all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.records import Appended, Box, NewEvent, PublishedKey, Run, Settings
from gpucloud.journal.sqlite.reading import Reader

T = TypeVar("T")


class Writer(Protocol):
    """Reads and appends inside a change, and reads what it has appended of a box or run."""

    def load(self, ids: Collection[str], /) -> None:
        """Is told which boxes and runs are about to be read, so that it can read them at once."""
        ...

    def box(self, id: str, /) -> Box:  # noqa: A002  (the field's own name)
        """The box with this id. Raises ``KeyError``."""
        ...

    def run(self, id: str, /) -> Run:  # noqa: A002
        """The run with this internal id. Raises ``KeyError``."""
        ...

    def position(self, box: str, /) -> tuple[int, int]:
        """The epoch of a box or run and the number of its last event; zeros for one that is not there."""
        ...

    def known(self, ids: Collection[str], /) -> list[Box]:
        """The boxes of these ids that were there before the change."""
        ...

    def living_names(self, owner: str, /) -> set[str]:
        """The names that an owner's living boxes had before the change."""
        ...

    def living_of_run(self, owner: str, run_id: str | None, /) -> str | None:
        """The name of a box that belonged to a run and lived before the change."""
        ...

    def runs(self, owner: str, /, *, over: bool, since: datetime | None) -> list[Run]:
        """An owner's runs before the change, oldest first."""
        ...

    def runs_named(self, owner: str, run_id: str, /) -> list[Run]:
        """An owner's runs with this id before the change, oldest first."""
        ...

    def settings(self) -> Settings:
        """The budgets of all owners, and the policy, before the change."""
        ...

    def billed_since(self, since: datetime | None, /) -> list[Box]:
        """The holdings of all owners that lived before the change, or ended since then; ``None`` for all."""
        ...

    def append(self, box: str, number: int, new: NewEvent, at: datetime, /) -> Appended:
        """Appends one event and has it take effect, as :meth:`gpucloud.journal.store.Journal.append`."""
        ...

    def renew(self, held: Sequence[tuple[str, int, Lease]], /) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""
        ...

    def rebuild(self) -> None:
        """Empties the tables and replays every event into them."""
        ...


class Database(Protocol):
    """One journal in a database. Safe to use from several threads and processes."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Each call of the reader answers as of one moment.

        Raises:
            JournalError: the journal cannot be read.
        """
        ...

    def change(self, body: Callable[[Writer], T], /) -> T:
        """What is appended in the body is kept whole, or not at all; others change it before or after.

        The body may run more than once: where others were faster, what it did is dropped.

        Raises:
            JournalError: the journal cannot be changed.
        """
        ...

    def check(self) -> None:
        """Looks whether the journal is still the one that was opened.

        Raises:
            JournalError: it is not.
        """
        ...

    def time(self, otherwise: Callable[[], datetime], /) -> datetime:
        """The time by the clock that all users of the journal share."""
        ...

    @property
    def identity(self) -> str | None:
        """The owner id of this process's login; ``None`` where there are no logins."""
        ...

    def aliases(self, owner: str, /) -> tuple[str, ...]:
        """The other owner ids of the login that has this one; none where there are no logins."""
        ...

    def identify(self, owner: str, /) -> None:
        """Gives an owner id to this process's login, where there are logins; it may have several.

        Raises:
            UsageError: somebody else has it.
        """
        ...

    def key_of(self, login: str, /) -> PublishedKey | None:
        """The public ssh key of a login that may use the journal; ``None`` without one."""
        ...

    def publish_key(self, key: str, /) -> None:
        """Says that a public ssh key is that of this process's login, where there are logins.

        Raises:
            ForbiddenError: this login may not even read the journal.
        """
        ...

    def close(self) -> None:
        """Closes it; a later call opens it again."""
        ...
