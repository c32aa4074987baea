"""What can be asked of a journal: its events, and the states that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from gpucloud.journal.backend import Database
from gpucloud.journal.budgets import Budget
from gpucloud.journal.errors import JournalError, StaleWriterError
from gpucloud.journal.policy import NO_RULES, Policy, Rules
from gpucloud.journal.records import (
    Box,
    H,
    Holding,
    Intent,
    PublishedKey,
    ResourceRow,
    Run,
    Settings,
    SpotRun,
    StoredEvent,
)
from gpucloud.journal.state import State


class Queries:
    """Reads one journal. Each call answers as of one moment.

    Args:
        database: a file of SQLite, or PostgreSQL.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- events

    def since(self, cursor: int = 0, *, most: int = 500) -> tuple[list[StoredEvent], int]:
        """The events after a cursor, in the order of their writing.

        Returns:
            The events, and the cursor after the last of them.
        """
        with self._database.reading() as reader:
            return reader.since(cursor, most)

    def last(self) -> int:
        """The cursor after the last event: nothing was written while it stays the same.

        Raises:
            JournalError: the journal cannot be read, or was replaced.
        """
        self._database.check()
        with self._database.reading() as reader:
            return reader.last()

    def begun(self) -> datetime | None:
        """When its first event was; ``None`` for an empty journal."""
        events, _ = self.since(0, most=1)
        return events[0].at if events else None

    def history(self, box: str) -> list[StoredEvent]:
        """Every event of a box, oldest first."""
        with self._database.reading() as reader:
            return reader.history(box)

    # --- states

    def box(self, id: str) -> Box:  # noqa: A002
        """The box with this id. Raises ``KeyError``."""
        return self.holding(Box, id)

    def holding(self, of: type[H], id: str) -> H:  # noqa: A002
        """The box, volume or snapshot with this id. Raises ``KeyError``."""
        with self._database.reading() as reader:
            return reader.holding(of, id)

    def now_of(self, holding: H) -> H:
        """A box, volume or snapshot as it is now."""
        return self.holding(type(holding), holding.id)

    def latest(self, holding: H) -> H:
        """What something was done with, as it is now; as it was given where that cannot be read."""
        try:
            return self.now_of(holding)
        except JournalError:
            return holding

    def boxes(self, *, owner: str | None, over: bool = False) -> list[Box]:
        """As :meth:`holdings`, of boxes alone."""
        return self.holdings(Box, owner=owner, over=over)

    def holdings(self, of: type[H], *, owner: str | None, over: bool = False) -> list[H]:
        """An owner's holdings, or those of every owner, oldest first.

        Args:
            of: the type: ``Box``, ``Volume``, ``Snapshot``, or ``Holding`` for all.
            owner: whose; ``None`` for all.
            over: adds those that are deleted or failed.
        """
        with self._database.reading() as reader:
            return reader.holdings(of, owner, over=over)

    def unsettled(self, *, owner: str) -> list[Holding]:
        """An owner's holdings that live, or have something that is or may be there; oldest first."""
        with self._database.reading() as reader:
            return reader.unsettled(owner)

    def known(self, of: type[H], ids: Collection[str]) -> list[H]:
        """The holdings of a type, of these ids, that the journal has, in whatever state."""
        with self._database.reading() as reader:
            return reader.known(of, ids)

    def named(self, owner: str, name: str) -> list[Holding]:
        """An owner's holdings with this name or id, in whatever state, oldest first."""
        with self._database.reading() as reader:
            return reader.named(owner, name)

    def intents(self, box: str | None = None, *, unresolved: bool = False) -> list[Intent]:
        """Create intents, oldest first: of one box, or those without a known outcome."""
        with self._database.reading() as reader:
            return reader.intents(box, unresolved=unresolved)

    def resources(self, box: str | None = None, *, present: bool = True) -> list[ResourceRow]:
        """Resources that are or may be there, in the order in which they were made."""
        with self._database.reading() as reader:
            return reader.resources(box, present=present)

    def resources_of(self, ids: Collection[str]) -> list[ResourceRow]:
        """Every resource that these boxes ever had, in whatever state, in the order of their making."""
        with self._database.reading() as reader:
            return reader.resources_of(ids)

    def spot_runs(self, *, owner: str) -> list[SpotRun]:
        """The intervals in which machines of an owner ran on spot, in the order of their start."""
        with self._database.reading() as reader:
            return reader.spot_runs(owner)

    def run(self, id: str) -> Run:  # noqa: A002
        """The run with this internal id. Raises ``KeyError``."""
        with self._database.reading() as reader:
            return reader.run(id)

    def runs(self, *, owner: str, over: bool = False, since: datetime | None = None) -> list[Run]:
        """An owner's runs, oldest first; ``over`` adds those that are over, or that ended ``since`` then."""
        with self._database.reading() as reader:
            return reader.runs(owner, over=over, since=since)

    def runs_named(self, owner: str, run_id: str) -> list[Run]:
        """An owner's runs with this id, in whatever state, oldest first."""
        with self._database.reading() as reader:
            return reader.runs_named(owner, run_id)

    def settings(self) -> Settings:
        """What admins have set: the budgets of all owners, by name, and the policy."""
        with self._database.reading() as reader:
            return reader.settings()

    def budgets(self) -> list[Budget]:
        """The budgets of all owners, by name."""
        return list(self.settings().budgets)

    def policy(self) -> Policy | None:
        """The policy in force; ``None`` if none was ever applied."""
        return self.settings().policy

    def rules(self) -> Rules:
        """The rules of the policy in force."""
        policy = self.policy()
        return policy.rules if policy else NO_RULES

    def billed_since(self, since: datetime | None) -> list[Holding]:
        """The holdings of all owners that live, or ended since then, or of all times; oldest first."""
        with self._database.reading() as reader:
            return reader.billed_since(since)

    def everything(self) -> list[tuple[State, bool]]:
        """Every state: boxes and other holdings, runs, budgets, and the policy.

        Returns:
            Each with whether its columns, by which it is found, are those of its document.
        """
        with self._database.reading() as reader:
            return reader.everything()

    # --- what this process holds

    def check(self, holding: Holding) -> None:
        """Looks whether this process, which held a box, volume or snapshot, still holds it.

        Raises:
            StaleWriterError: it does not.
            JournalError: the journal cannot tell, or was replaced.
        """
        self._database.check()
        with self._database.reading() as reader:
            epoch, _ = reader.position(holding.id)
        if epoch != holding.epoch:
            raise StaleWriterError(holding.name, str(holding.kind))

    def held(self, holding: H) -> H:
        """A box, volume or snapshot that this process holds, as it is now.

        Raises:
            StaleWriterError: it was taken over since ``holding`` was read.
        """
        now = self.now_of(holding)
        if now.epoch != holding.epoch:
            raise StaleWriterError(holding.name, str(holding.kind))
        return now

    def held_run(self, run: Run) -> Run:
        """A run that this process holds, as it is now.

        Raises:
            StaleWriterError: the run was taken over since ``run`` was read.
        """
        now = self.run(run.id)
        if now.epoch != run.epoch:
            raise StaleWriterError(run.run_id, "run")
        return now

    # --- people

    @property
    def identity(self) -> str | None:
        """The owner id that a team's journal gives to this process; ``None`` for a file."""
        return self._database.identity

    @property
    def damaged(self) -> Mapping[str, str]:
        """Why the stored states of some ids make no sense, as far as they were read.

        What their events fold to is used instead; where they make no sense either, these ids are left out.
        """
        return self._database.damaged

    @property
    def only_reads(self) -> bool:
        """Whether nothing can be written: the server is a copy of another."""
        return self._database.only_reads

    def aliases(self, owner: str) -> tuple[str, ...]:
        """The other owner ids of whoever has this one: those of files that were copied, and the login."""
        return self._database.aliases(owner)

    def key_of(self, login: str) -> PublishedKey | None:
        """The public ssh key of a colleague who may use the journal of a team; ``None`` without one."""
        return self._database.key_of(login)
