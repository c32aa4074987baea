"""A run in the foreground: one command on a box, which goes with it unless it keeps results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.bring_up import UnfitError, check_gpus
from gpucloud.ending.discovery import WaitPolicy, begin, finish
from gpucloud.ending.down import ended_unrecorded
from gpucloud.ending.reconcile import refresh
from gpucloud.ending.teardown import take_down
from gpucloud.errors import BoxLostError, GpucloudError, InterruptedBySignal, UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import RunFetching, Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import Exited, Loss
from gpucloud.purchase.failover import abandon
from gpucloud.resources import Machine, Search, rfc3339
from gpucloud.runs import checkpoints
from gpucloud.runs.deadline import Told
from gpucloud.runs.detached import working_nodes
from gpucloud.runs.job import Job, check_there
from gpucloud.runs.record import RestartAskedError, loss_of, write_end, write_loss
from gpucloud.runs.results import TRY_FOR_S, NotFetchedError, Results, begin_fetching, release_box
from gpucloud.runs.rules import (
    ASKS_FOR_RESTART,
    EVERY_REASON,
    NoRestart,
    Restart,
    end_of_wait,
    job_environment,
    may_restart,
)
from gpucloud.runs.stored_results import Stored, stored_of, with_lost
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import ConnectionFailedError, Target, forget
from gpucloud.ssh.keys import key_folder

RUN_TTL = timedelta(hours=6)
"""The lifetime of a run's box by default."""
RETRIES = 3
"""How often a run is restarted if only the reasons are given."""
TAKE_DOWN_S = 600.0
REASONS: Mapping[str, Loss] = {"interruption": Loss.INTERRUPTION, "capacity": Loss.CAPACITY}
"""The reasons to which restarts can be limited, by their names on the command line."""


def restarts_of(restarts: int | None, retry_on: Collection[str]) -> tuple[int, tuple[Loss, ...]]:
    """How often a run may be restarted, and after which losses.

    Args:
        restarts: as given; ``None`` if it was not.
        retry_on: some of :data:`REASONS`; none for every loss.
    """
    limit = restarts if restarts is not None else RETRIES if retry_on else 0
    reasons = (*(REASONS[name] for name in sorted(retry_on)), Loss.LAUNCH) if retry_on else EVERY_REASON
    return limit, reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The work of a run on a box.

    Attributes:
        job: the command.
        checkpoints: where the checkpoints of the command go, if it has any.
    """

    job: Job
    checkpoints: checkpoints.CheckpointSettings | None = None


@dataclass(slots=True)
class ForegroundRun:
    """Runs the command on a box, and ends the box with it; after a loss, once more on another one.

    ``record`` is the run in the journal, which this process holds; ``buy`` returns a box for the run as it is
    now, which this process holds as well.
    """

    context: Context
    record: Run
    orders: Orders
    buy: Callable[[Run, checkpoints.CheckpointSettings | None], Box]
    box: Box | None = None
    not_fetched: list[str] = field(default_factory=list[str])

    def run(self) -> Exited:
        """Runs it, with the restarts that it may have; returns how the command ended.

        Raises:
            BoxLostError: the box ended before its command did.
            DeadlinePassedError: so it did at its deadline.
            DeletedError: a user deleted it.
            FruitlessError: the boxes of several attempts were lost, without a checkpoint.
            NotFetchedError: the command ended, and its files could not be fetched; its box is kept.
            GpucloudError: any other failure; nothing is left, unless the error says so.
        """
        try:
            how = self._until_ended()
        except NotFetchedError:
            self.context.journal.release(self.record)
            raise
        except BaseException as error:
            write_end(self.context, self.record, error)
            raise
        write_end(self.context, self.record, how)
        return how

    def _until_ended(self) -> Exited:
        while True:
            self.box = None
            try:
                self.box = self.buy(self._now(), self.orders.checkpoints)
                return self._with_box(self.box)
            except GpucloudError as error:
                loss = loss_of(error)
                if loss is None:
                    raise
                if self.box is not None and isinstance(error, BoxLostError | ConnectionFailedError):
                    stored = stored_of(self.context, self._now(), self.context.journal.box(self.box.id))
                    if stored is not None and stored.record.exit_code != ASKS_FOR_RESTART:
                        return self._from_store(stored)
                kept = self.orders.checkpoints
                newest = checkpoints.newest(self.context, kept) if kept else None
                step = write_loss(self.context, self._now(), loss, error.message, newest)
                if isinstance(step, NoRestart):
                    raise step.error or error from error
                self._wait(error.message, step)

    def _from_store(self, stored: Stored) -> Exited:
        """Copies the files of a command that had ended before its box was lost; it is not run again.

        Raises:
            NotFetchedError: some could not be copied; the store has them.
        """
        run, how = self._now(), stored.how(self.record.work)
        assert run.box is not None  # noqa: S101  (its command has run there)
        if not run.work.fetch:
            return how
        self.context.journal.write(run, RunFetching(exit_code=how.code, failure=how.failure))
        lost = stored.fetch(run.work.fetch, self.context.journal.box(run.box), within_s=TRY_FOR_S)
        self.not_fetched += lost
        return with_lost(how, lost)

    def _wait(self, why: str, step: Restart) -> None:
        """Waits until another attempt is due."""
        pause_s = (step.at - self.context.clock()).total_seconds()
        when = f" in {pause_s:.0f} s" if pause_s >= 1 else ""
        run = self._now()
        until = end_of_wait(run.work, run.attempts)
        waits = f", until {rfc3339(until)}" if until else ""
        self.context.tell("restart", f"{why}; trying again{when}{waits}")
        self.context.tasks.pause(max(pause_s, 0.0))

    def _now(self) -> Run:
        return self.context.journal.held_run(self.record)

    def _with_box(self, box: Box) -> Exited:
        """Runs the command on the box, which is gone when this returns or raises, unless it is to be kept."""
        context = self.context.about(box.name)
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        keys, count = key_folder(context.state, box.id), len(box.nodes)
        deadline = Told(context, box)
        try:
            nodes = working_nodes(context, box, self.record.work)
            deadline.look()
            context.tasks.start(deadline.keep)
            try:
                how = checkpoints.follow_with_checkpoints(
                    context,
                    box,
                    nodes,
                    self._job(),
                    self.orders.checkpoints,
                    attempt=len(self._now().attempts),
                    results=[source for source, _ in self.record.work.fetch],
                )
                self._restart_if_asked(how, nodes)
                self._look_at_gpus(box, nodes, how)
            except ConnectionFailedError:
                check_there(context, refresh(context, context.journal.box(box.id)), nodes)
                raise
        except BaseException as error:
            abandon(context, box, error, ends_as=BoxState.DELETED)
            forget(keys, box.id, nodes=count)
            raise
        finally:
            deadline.closed.set()
        self._bring_home(box, nodes, how)
        if how.code and self.record.work.keep_on_failure:
            self._keep(box, nodes)
            return how
        context.tell("down", f"deleting {box.name}")
        try:
            with context.tasks.finishing():
                take_down(context, box, budget_s=TAKE_DOWN_S)
        except JournalError as error:
            raise ended_unrecorded(context, box, error, budget_s=TAKE_DOWN_S) from error
        finally:
            context.journal.release(box)
        forget(keys, box.id, nodes=count)
        if context.tasks.signum is not None:
            raise InterruptedBySignal("stopped by a signal; the box is gone", signum=context.tasks.signum)
        return how

    def _job(self) -> Job:
        """The command, which is told its run and its restarts."""
        run, job = self._now(), self.orders.job
        told = job_environment(run.run_id, run.work, run.attempts)
        return replace(job, environment={**job.environment, **told})

    def _restart_if_asked(self, how: Exited, nodes: Sequence[Target]) -> None:
        """Gives up the box if an exit code asks for a restart, and the run may have one.

        Raises:
            RestartAskedError: so it is.
        """
        if how.code == ASKS_FOR_RESTART:
            run = self._now()
            if may_restart(run.work, run.attempts[:-1], Loss.REQUEST):
                keep_logs(self.context, nodes)
                raise RestartAskedError

    def _look_at_gpus(self, box: Box, nodes: Sequence[Target], how: Exited) -> None:
        """Gives up the box of a command that failed where GPUs are gone, if the run may have another one.

        Raises:
            UnfitError: so it is.
        """
        if not how.code or how.failure is not None:
            return
        run, context = self._now(), self.context.about(box.name)
        try:
            check_gpus(context, box, nodes)
        except UnfitError as error:
            if may_restart(run.work, run.attempts[:-1], Loss.HARDWARE):
                raise
            context.warn("job", f"warning: {error.message}; the command failed there")

    def _bring_home(self, box: Box, nodes: Sequence[Target], how: Exited) -> None:
        """Copies the files of the command back, and the end of its log. From now on nothing runs it again.

        Raises:
            NotFetchedError: some could not be copied; the box is kept, and no longer held.
        """
        context, record = self.context.about(box.name), self._now()
        if record.work.fetch:
            begin_fetching(context, record, box, how)
            results = Results(context=context, run=record, box=box, nodes=nodes, code=how.code)
            try:
                self.not_fetched += results.fetch(record.work.fetch, try_for_s=TRY_FOR_S, may_discard=True)
            except NotFetchedError as error:
                failure = self._in_store(box, error)
                context.journal.release(box)
                raise failure from error
            except InterruptedBySignal as given_up:
                abandon(context, box, given_up, ends_as=BoxState.DELETED)
                raise
        with suppress(InterruptedBySignal):  # what follows ends the box in any case
            keep_logs(context, nodes)

    def _in_store(self, box: Box, error: NotFetchedError) -> NotFetchedError:
        """The failure; where the store has all that the command wrote, its box is deleted."""
        context = self.context
        with context.tasks.finishing():
            try:
                stored = stored_of(context, self._now(), context.journal.held(box))
                if stored is None or not stored.is_all_there():
                    return error
            except GpucloudError:  # it is not known: the box stays
                return error
            take_down(context, box, budget_s=TAKE_DOWN_S)
        return stored.not_fetched(
            str(error.__cause__ or "its files were not fetched"), context.journal.box(box.id)
        )

    def _keep(self, box: Box, nodes: Sequence[Target]) -> None:
        """Keeps the box: from now on it is a box like any other."""
        if self.record.work.fetch:
            release_box(self.context, nodes)
        self.context.journal.write(box, Seen(facts=Facts(attended=False)))
        self.context.journal.release(box)
        self.context.about(box.name).notice(
            "keep", f"{box.name} is kept: gpucloud ssh {box.name}. End it with: gpucloud down {box.name}"
        )


def refuse_live(context: Context, run_id: str) -> None:
    """Refuses a run id that a living machine has, also one that was launched elsewhere.

    Raises:
        UsageError: it is in use.
    """
    patience = WaitPolicy(first_s=10.0, whole_s=60.0, news_s=2.0)
    discovery = finish(context, begin(context, Search(run=run_id)), patience)
    machines = [each for each in discovery.resources if isinstance(each, Machine)]
    if machines:
        raise UsageError(
            f"run {run_id!r} exists already: {machines[0].ref.id} runs in {machines[0].ref.region}",
            hint=f"choose another --run-id, or delete it: gpucloud down --run-id {run_id}",
        )
