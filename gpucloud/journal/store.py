"""The journal: an append-only record of what was meant and what happened, and the states that follow from it.

Every change is one event, written in the same transaction as the state that it leads to
(:func:`gpucloud.journal.state.apply`); folding the events again gives the same states. When a call here
returns, the event survives a crash of the machine. How both are kept is the database's alone
(:mod:`gpucloud.journal.backend`): a file of SQLite, or PostgreSQL; who may write what, and when, is here.

All writing is :meth:`Journal.append`: an event with an id of its writer, the next number of its box, and the
epoch under which the writer holds the box. All reading is in :class:`gpucloud.journal.queries.Queries`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from gpucloud.errors import UsageError
from gpucloud.journal.backend import Database, Writer
from gpucloud.journal.budgets import Budget, Terms, budget_id
from gpucloud.journal.errors import ForbiddenError, JournalError, RunTakenError, StaleWriterError
from gpucloud.journal.events import (
    BudgetRemoved,
    BudgetSet,
    JournalEvent,
    Planned,
    PolicyApplied,
    Recovered,
    Released,
    RunAttempted,
    RunBegun,
    RunEnded,
    RunLabelled,
    Seen,
    Taken,
)
from gpucloud.journal.facts import NO_FACTS, Facts, NamedRef
from gpucloud.journal.kinds import POLICY_ID
from gpucloud.journal.lifecycle import OVER, BoxState, Claim, Lease, may_become
from gpucloud.journal.policy import Rules
from gpucloud.journal.queries import Queries
from gpucloud.journal.records import (
    Appended,
    Box,
    H,
    Holding,
    NewEvent,
    Run,
    Settings,
    StoredEvent,
)
from gpucloud.journal.runs import RUNS_OVER, Failure, RunState, Work, has_begun
from gpucloud.resources import Tags
from gpucloud_pricing.sqlite_file import BUSY_S

if TYPE_CHECKING:
    from gpucloud.journal.postgresql.address import LoginTokens

W = TypeVar("W", bound=Holding | Run)
BilledSince = Callable[[datetime | None], Sequence[Holding]]
"""The holdings of all owners that live, or ended since then, or of all times."""
Limits = Callable[[Holding, Sequence[Budget], BilledSince], None]
"""Refuses what is planned or started, by raising; it may be asked again, and does nothing else."""
Forbids = Callable[[H, Rules, BilledSince], None]
"""As :data:`Limits`, by the rules of the policy."""

ORPHANED = Failure(error_class="deserted", message="the process that ran it has ended")
"""The reason of a failed run that needs a process, and whose process was killed."""


class Journal(Queries):
    """Reads and writes one journal. Safe to use from several threads and processes.

    Who works on a holding or a run holds its lease: :meth:`plan`, :meth:`begin_run` and :meth:`take` give it,
    :meth:`write` needs it, :meth:`renew` renews all that this process holds, :meth:`release` gives it back.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        lease_clock: Callable[[], datetime] | None = None,
    ) -> None:
        super().__init__(database)
        self._clock = clock
        self.now = lease_clock or partial(database.time, clock)
        """Gives the time by which leases age."""
        self._held: dict[str, tuple[int, Lease]] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        clock: Callable[[], datetime],
        *,
        kind: str | None = None,
        busy_s: float = BUSY_S,
        lease_clock: Callable[[], datetime] | None = None,
    ) -> Journal:
        """Opens the journal, making it where there is none.

        Args:
            path: the file; its folder exists.
            clock: gives the time in UTC, by which events are dated.
            kind: of the boxes: ``real`` or ``sandbox``; a file has the mark of the first that opens it.
                ``None`` leaves the mark as it is.
            busy_s: how long to wait for another writer.
            lease_clock: gives the time by which leases age; without it, that of the file system on which the
                file is: hosts that share the file share this clock, however wrong their own are.

        Raises:
            JournalError: the file is damaged, read-only, or locked for too long.
            UsageError: it is of another version, or is marked as the other kind.
        """
        from gpucloud.journal.sqlite.database import Database as File

        database = File.open(path, kind=kind, busy_s=busy_s)
        return cls(database, clock, lease_clock)

    @classmethod
    def connect(
        cls,
        url: str,
        clock: Callable[[], datetime],
        *,
        kind: str,
        lease_clock: Callable[[], datetime] | None = None,
        spool: Path | None = None,
        tokens: LoginTokens | None = None,
    ) -> Journal:
        """Opens a team's journal, which its owner made: ``gpucloud journal migrate``.

        Args:
            url: ``postgresql://…``; no message shows a password in it.
            clock: gives the time in UTC, by which events are dated.
            kind: of the boxes: ``real`` or ``sandbox``.
            lease_clock: gives the time by which leases age; without it, that of the server.
            spool: a file that keeps what clouds have done while the server does not answer; what it has is
                told to the server now.
            tokens: gives what logs in, where the URL names a cloud for that (``auth``).

        Raises:
            JournalError: the server cannot be reached, or refuses.
            UsageError: the URL is not safe; or the journal is not there, of another version, or of another
                kind; or the extra ``team`` is not installed.
        """
        from gpucloud.journal import postgresql

        database = postgresql.open_journal(url, kind=kind, spool=spool, tokens=tokens)
        return cls(database, clock, lease_clock)

    # --- events

    def append(self, box: str, number: int, event: NewEvent) -> Appended:
        """Appends one event and has it take effect, all or nothing.

        Args:
            box: the id of the box or run whose event it is.
            number: one more than that of the box's last event, as far as the writer knows.
            event: what happened.

        Raises:
            NameTakenError: it would give a box a name that a living one has.
            RunLivesError: it would give a run an id that one which is not over has.
            ValueError: it cannot follow what is known of its box.
        """
        return self._database.change(lambda writer: writer.append(box, number, event, self._clock()))

    def adopt(self, events: Sequence[StoredEvent]) -> int:
        """Appends events of another journal as they are, all or nothing; those that are here already stay.

        Returns:
            How many were not here.

        Raises:
            UsageError: this journal has other events of one of their boxes.
        """

        def take(writer: Writer) -> int:
            writer.load({each.box for each in events})
            written = 0
            for each in events:
                new = NewEvent(id=each.id, epoch=writer.position(each.box)[0], event=each.event)
                appended = writer.append(each.box, each.number, new, each.at)
                if appended is Appended.STALE:
                    raise UsageError(
                        f"box or run {each.box} has other events in the journal that is copied to",
                        hint="copy into a journal of its own; nothing of these events was written",
                    )
                written += appended is Appended.WRITTEN
            return written

        return self._database.change(take)

    def identify(self, owner: str) -> None:
        """Gives an owner id to this process's login, if the journal is a team's: its boxes are that one's.

        The first one that a login is given is that of its new boxes; what has the others is found with it.

        Raises:
            UsageError: somebody else has it.
        """
        self._database.identify(owner)

    def publish_key(self, key: str) -> None:
        """Says that a public ssh key is that of this process's login, if the journal is a team's.

        Raises:
            ForbiddenError: this login may not even read the journal.
        """
        self._database.publish_key(key)

    def close(self) -> None:
        """Closes the journal; a later call opens it again."""
        self._database.close()

    # --- writing

    def plan(
        self,
        of: type[H],
        *,
        id: str,  # noqa: A002  (the field's own name)
        name: str,
        owner: str,
        run_id: str | None,
        op: str,
        expires_at: datetime | None,
        facts: Facts,
        lease: Lease,
        alone: bool = False,
        run: Run | None = None,
        instead_of: Box | None = None,
        limits: Limits | None = None,
        forbids: Forbids[H] | None = None,
    ) -> H:
        """Writes a new holding of a type down and takes its lease, before anything is asked of a cloud.

        A box of a ``run``, which this process holds, is an attempt of it; until one has got a box, the run
        has the deadline given here. One ``instead_of`` another, which this process holds, is its successor.
        That is written with it: who has lost the run or the other box plans no box for it.
        ``limits`` and ``forbids`` see what all who share the journal have planned and bought at this moment.

        Raises:
            GpucloudError: ``limits`` or ``forbids`` refuses it.
            NameTakenError: a living box of this owner has the name.
            RunTakenError: it is to be alone in its run, and another box of the run is living.
            StaleWriterError: the run, or the other box, was taken over.
        """
        planned = Planned(
            name=name,
            owner=owner,
            run_id=run_id,
            op=op,
            expires_at=expires_at,
            lease=lease,
            facts=facts,
            kind=of.kind,
        )

        def plan(writer: Writer) -> H:
            if alone and (other := writer.living_of_run(owner, run_id)) is not None:
                raise RunTakenError(str(run_id), other)
            if run is not None:
                ends = None if has_begun(run.attempts) else run.expires_at
                self._write(writer, run, RunAttempted(box=id, expires_at=ends))
            if instead_of is not None:
                successors = (*writer.holding(Box, instead_of.id).successors, id)
                self._write(writer, instead_of, Seen(facts=Facts(successors=successors)))
            self._begin(writer, id, planned)
            return _within(limits, writer, writer.holding(of, id), forbids)

        return self._now_held(self._database.change(plan), lease)

    def begin_run(
        self,
        *,
        id: str,  # noqa: A002  (the field's own name)
        run_id: str,
        owner: str,
        expires_at: datetime | None,
        work: Work,
        lease: Lease,
        claim: Callable[[Lease | None], Claim],
    ) -> Run:
        """Writes a new run down and takes its lease; one of the same id, whose process has ended, fails.

        Raises:
            RunLivesError: a run of this owner that is not over has the id.
        """
        begun = RunBegun(run_id=run_id, owner=owner, expires_at=expires_at, lease=lease, work=work)

        def begin(writer: Writer) -> Run:
            for other in writer.runs_named(owner, run_id):
                found = claim(other.lease)
                if other.state not in RUNS_OVER and not other.unattended and found is not Claim.HELD:
                    self._write(writer, other, Taken(lease=lease, over=found is not Claim.FREE))
                    failed = RunEnded(state=RunState.FAILED, failure=ORPHANED)
                    self._write(writer, writer.run(other.id), failed)
            self._begin(writer, id, begun)
            return writer.run(id)

        return self._now_held(self._database.change(begin), lease)

    def want(self, *, owner: str, works: Mapping[str, Work], lease: Lease) -> list[Run]:
        """Writes down which slots an engine wants, all or nothing. Nobody holds these runs yet.

        Args:
            owner: whose slots they are.
            works: by the ids of the runs; each with its slots.
            lease: that of this process, for the record.

        Returns:
            The runs. A work with a slot that is wanted already is left out.
        """

        def wish(writer: Writer) -> list[Run]:
            living = [run.work.slots for run in writer.runs(owner, over=False, since=None) if run.work.slots]
            taken = {name for slots in living for name in slots.names}
            begun: list[Run] = []
            for id_, work in works.items():
                assert work.slots is not None  # noqa: S101  (it is a wish)
                names = work.slots.names
                if taken.isdisjoint(names):
                    event = RunBegun(run_id=names[0], owner=owner, expires_at=None, lease=lease, work=work)
                    self._begin(writer, id_, event)
                    begun.append(writer.run(id_))
                    taken.update(names)
            return begun

        return self._database.change(wish)

    def set_budget(self, name: str, terms: Terms | None, *, by: str) -> None:
        """Gives a budget these terms, or removes it. In a team's journal only admins may do so.

        Args:
            name: the budget's.
            terms: ``None`` to remove it.
            by: the owner id of who does.

        Raises:
            KeyError: there is none to remove.
            ForbiddenError: this login may not.
        """

        def change(writer: Writer) -> None:
            if terms is None and name not in {budget.name for budget in writer.settings().budgets}:
                raise KeyError(name)
            event = BudgetRemoved(by=by) if terms is None else BudgetSet(name=name, by=by, terms=terms)
            self._add(writer, budget_id(name), 0, event)

        self._database.change(change)

    def apply_policy(self, rules: Rules, *, by: str) -> None:
        """Puts these rules in force, instead of all others. In a team's journal only admins may do so.

        Args:
            rules: the rules; without any, everything is allowed.
            by: the owner id of who does.

        Raises:
            ForbiddenError: this login may not.
        """
        event = PolicyApplied(by=by, rules=rules)
        self._database.change(lambda writer: self._add(writer, POLICY_ID, 0, event))

    def recover(
        self,
        of: type[H],
        *,
        id: str,  # noqa: A002  (the field's own name)
        name: str,
        tags: Tags,
        state: BoxState,
        created_at: datetime,
        expires_at: datetime | None,
        facts: Facts,
        resources: Sequence[NamedRef],
    ) -> H | None:
        """Writes down what was found by its tags; ``None`` where the journal knows it already.

        Args:
            of: the type of holding.
            id: its id.
            name: what it is called, if nothing living of its owner is called so.
            tags: whose it is.
            state: what it seems to be.
            created_at: when its machine was made.
            expires_at: its end.
            facts: as of every holding.
            resources: what was found of it.
        """

        def recover(writer: Writer) -> H | None:
            if writer.known(Holding, [id]):
                return None
            taken = writer.living_names(tags.owner)
            others = (f"{name[:37]}-{number}" for number in itertools.count(2))
            recovered = Recovered(
                name=next(each for each in itertools.chain([name], others) if each not in taken),
                owner=tags.owner,
                run_id=tags.run or None,
                op=tags.op,
                state=state,
                created_at=created_at,
                expires_at=expires_at,
                facts=facts,
                resources=tuple(resources),
                kind=of.kind,
            )
            self._begin(writer, id, recovered)
            return writer.holding(of, id)

        return self._database.change(recover)

    def take(
        self, holding: H, lease: Lease, *, claim: Callable[[Lease | None], Claim], by_force: bool = False
    ) -> H | None:
        """Takes the lease of a box, volume or snapshot, and raises its epoch.

        Args:
            holding: it.
            lease: that of this process.
            claim: what the present lease means to this process.
            by_force: also from a holder that lives, who may write nothing from then on.

        Returns:
            It, as it is now; ``None`` where its holder lives and ``by_force`` is not set.
        """

        def seize(writer: Writer) -> H | None:
            writer.load([holding.id], fresh=True)
            now = writer.holding(type(holding), holding.id)
            found = claim(now.lease)
            if found is Claim.HELD and not by_force:
                return None
            # Who is not proven dead may stand directly before its create call.
            self._add(writer, holding.id, now.epoch, Taken(lease=lease, over=found is not Claim.FREE))
            return writer.holding(type(holding), holding.id)

        taken = self._database.change(seize)
        return None if taken is None else self._now_held(taken, lease)

    def take_run(
        self, run: str, lease: Lease, *, claim: Callable[[Lease | None], Claim], by_force: bool = False
    ) -> Run | None:
        """Takes a run's lease and raises its epoch, as :meth:`take` does for a box.

        Returns:
            The run; ``None`` where its holder lives and ``by_force`` is not set, and for one that is over.
        """

        def seize(writer: Writer) -> Run | None:
            writer.load([run], fresh=True)
            now = writer.run(run)
            found = claim(now.lease)
            if now.state in RUNS_OVER or (found is Claim.HELD and not by_force):
                return None
            self._add(writer, run, now.epoch, Taken(lease=lease, over=found is not Claim.FREE))
            return writer.run(run)

        taken = self._database.change(seize)
        return None if taken is None else self._now_held(taken, lease)

    def renew(self) -> None:
        """Renews every lease that this process holds. That is no event: later it tells nothing."""
        if held := dict(self._held):
            now = self.now()
            renewed = [(box, epoch, replace(lease, beat=now)) for box, (epoch, lease) in held.items()]
            self._database.change(lambda writer: writer.renew(renewed))

    def write(
        self,
        held: Holding | Run,
        event: JournalEvent,
        *,
        limits: Limits | None = None,
        forbids: Forbids[Box] | None = None,
    ) -> None:
        """Appends one event about a holding or a run that this process holds.

        ``limits`` and ``forbids`` see the box as the event makes it, as in :meth:`plan`.

        Raises:
            GpucloudError: ``limits`` or ``forbids`` refuses it.
            StaleWriterError: it was taken over since ``held`` was read.
        """

        def append(writer: Writer) -> None:
            self._write(writer, held, event)
            if limits is not None or forbids is not None:
                _within(limits, writer, writer.holding(Box, held.id), forbids)

        self._database.change(append)

    def release(self, held: Holding | Run) -> None:
        """Says that we hold it no more, if we do; else the end of this process says it."""
        if self._held.pop(held.id, None) is None:
            return
        with suppress(ForbiddenError, JournalError, StaleWriterError):
            self.write(held, Released())

    def observe(self, holding: Holding, facts: Facts = NO_FACTS, *, state: BoxState | None = None) -> bool:
        """Appends what was seen of a holding that this process need not hold.

        What was seen is dropped where it is out of date: another process has taken it meanwhile, or its
        state is beyond the one that was seen.

        Returns:
            Whether it was written.
        """
        return self.observe_all([(holding, Seen(state=state, facts=facts))]) == 1

    def observe_all(self, observations: Iterable[tuple[Holding, Seen]]) -> int:
        """Does :meth:`observe` for several, in one transaction; returns how many were written.

        A login that may only read the journal of a team writes nothing.
        """
        seen_of = list(observations)

        def observe(writer: Writer) -> int:
            writer.load([holding.id for holding, _ in seen_of])
            return sum(self._observe(writer, holding, seen) for holding, seen in seen_of)

        try:
            return self._database.change(observe) if seen_of else 0
        except ForbiddenError:
            return 0

    def tell(self, box: Box, facts: Facts) -> None:
        """Appends what somebody did with a box that this process need not hold.

        Raises:
            ForbiddenError: this login may not write about the box.
        """
        event = Seen(facts=facts)
        self._database.change(lambda writer: self._write(writer, writer.holding(Box, box.id), event))

    def label(self, run: str, labels: Mapping[str, str]) -> bool:
        """Appends what an engine says of the slots that it wants; this process need not hold the run.

        Returns:
            Whether it was written: not of a run that is over.
        """

        def add(writer: Writer) -> bool:
            now, event = writer.run(run), RunLabelled(labels=labels)
            return now.state not in RUNS_OVER and (
                self._add(writer, run, now.epoch, event) is Appended.WRITTEN
            )

        return self._database.change(add)

    # --- inside

    def _now_held(self, held: W, lease: Lease) -> W:
        """Keeps in mind that this process holds it."""
        self._held[held.id] = (held.epoch, lease)
        return held

    def _observe(self, writer: Writer, holding: Holding, seen: Seen) -> bool:
        now = writer.holding(Holding, holding.id)
        if now.state in OVER or (seen.state is not None and not may_become(now.state, seen.state)):
            return False
        return self._add(writer, holding.id, holding.epoch, seen) is Appended.WRITTEN

    def _write(self, writer: Writer, held: Holding | Run, event: JournalEvent) -> None:
        # Who does not hold a box may have appended what it observed: the epoch is what counts.
        if self._add(writer, held.id, held.epoch, event) is Appended.STALE:
            raise StaleWriterError(held.name, "run" if isinstance(held, Run) else str(held.kind))

    def _begin(self, writer: Writer, id: str, event: JournalEvent) -> None:  # noqa: A002
        """Appends the first event of a box or run."""
        if self._append(writer, id, 1, 0, event) is not Appended.WRITTEN:
            raise StaleWriterError(id)

    def _add(self, writer: Writer, box: str, epoch: int, event: JournalEvent) -> Appended:
        """Appends an event after those that are there."""
        _, number = writer.position(box)
        return self._append(writer, box, number + 1, epoch, event)

    def _append(self, writer: Writer, box: str, number: int, epoch: int, event: JournalEvent) -> Appended:
        new = NewEvent(id=uuid4().hex, epoch=epoch, event=event)
        return writer.append(box, number, new, self._clock())


def _within(limits: Limits | None, writer: Writer, holding: H, forbids: Forbids[H] | None = None) -> H:
    """What is planned or started, if the policy and the limits allow it."""
    settings = writer.settings() if limits or forbids else Settings()
    if forbids is not None and settings.policy:
        forbids(holding, settings.policy.rules, writer.billed_since)
    if limits is not None and settings.budgets:
        limits(holding, settings.budgets, writer.billed_since)
    return holding
