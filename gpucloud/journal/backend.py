"""What the journal asks of a database: to read as of one moment, and to change all or nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from gpucloud.journal.events import BudgetSet, FirstOfBox, PolicyApplied, RunBegun
from gpucloud.journal.lifecycle import Lease
from gpucloud.journal.reading import Ask, Reader, position_of
from gpucloud.journal.records import Appended, NewEvent, PublishedKey, StoredEvent
from gpucloud.journal.state import State, apply

T = TypeVar("T")


class Writer(Reader, ABC):
    """Appends inside one change, and reads what it has appended of a box or run.

    Other reads may be of what was there before the change.
    """

    def __init__(self, ask: Ask, damaged: dict[str, str]) -> None:
        super().__init__(ask, damaged)
        self._changed: dict[str, State | None] = {}
        """What this change has read of boxes and runs, and made of them."""

    def state(self, id: str) -> State | None:  # noqa: A002  (the field's own name)
        """What the events of an id fold to, those of this change too; ``None`` for one that is not there."""
        self.load([id])
        return self._changed[id]

    def load(self, ids: Collection[str], *, fresh: bool = False) -> None:
        """Reads boxes and runs that are about to be changed, at once.

        Args:
            ids: of these.
            fresh: whether to read their leases too, which are renewed without an event.
        """
        missing = sorted({each for each in ids if each not in self._changed})
        if missing:
            self._changed |= self._read(missing, fresh=fresh)

    def append(self, id: str, number: int, new: NewEvent, at: datetime) -> Appended:  # noqa: A002
        """Appends one event and has it take effect.

        Args:
            id: of the box or run whose event it is.
            number: one more than that of the box's last event, as far as the writer knows.
            new: the event, with the id of its writer and the epoch under which that holds the box.
            at: when it was.

        Raises:
            NameTakenError: it would give a box a name that a living one has.
            RunLivesError: it would give a run an id that one which is not over has.
            ValueError: it cannot follow what is known of its box.
        """
        before = self.state(id)
        if position_of(before) != (new.epoch, number - 1):
            return Appended.WAS_WRITTEN if self._has(new.id) else Appended.STALE
        if before is None and not isinstance(new.event, FirstOfBox | RunBegun | BudgetSet | PolicyApplied):
            raise ValueError(f"there is no box or run {id}, which {new.event.type!r} could follow")
        stored = StoredEvent(id=new.id, at=at, box=id, number=number, event=new.event)
        after = apply(before, stored)
        self._write(stored, after)
        self._changed[id] = after
        return Appended.WRITTEN

    def _has(self, event: str) -> bool:
        return bool(self._rows("SELECT 1 AS one FROM events WHERE id = :id", {"id": event}))

    @abstractmethod
    def _read(self, ids: Collection[str], *, fresh: bool) -> dict[str, State | None]:
        """What the events of these ids fold to, before this change."""

    @abstractmethod
    def _write(self, stored: StoredEvent, after: State) -> None:
        """Keeps an event and the state that it leads to."""

    @abstractmethod
    def renew(self, held: Sequence[tuple[str, int, Lease]]) -> None:
        """Writes leases anew: each where the box or run still has the epoch under which it was taken."""


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

    @property
    def damaged(self) -> Mapping[str, str]:
        """Why the stored states of some ids make no sense, as far as they were read."""
        ...

    @property
    def only_reads(self) -> bool:
        """Whether nothing can be written here: a server that is the copy of another."""
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
