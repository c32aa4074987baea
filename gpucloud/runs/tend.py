"""One pass over a detached run: its command goes on, has ended, or was lost with its box.

What is found needs no lease. What is done about it is done by the process that takes the run's lease, if
nobody has written of the run meanwhile: of two that look at the same time, one acts. One that dies in between
leaves what the next one finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from gpucloud.boxes.look import holding
from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.bring_up import UnfitError, check_gpus
from gpucloud.bring_up.ingress import reach
from gpucloud.ending.down import end_all, merged
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import (
    CloudError,
    ErrorClass,
    GpucloudError,
    NoOfferError,
    PolicyError,
    PriceError,
    UsageError,
)
from gpucloud.journal.errors import JournalError, RunTakenError
from gpucloud.journal.events import RunEnded
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, Exited, Failure, Loss, RunState
from gpucloud.journal.store import ORPHANED
from gpucloud.runs import checkpoints
from gpucloud.runs.code import CodeNotHereError
from gpucloud.runs.detached import begin_job, first_node, working_nodes
from gpucloud.runs.orphaned import save_last
from gpucloud.runs.record import ended, failed, loss_of, write_loss
from gpucloud.runs.results import ONCE_S, TRY_FOR_S, NotFetchedError, Results, begin_fetching
from gpucloud.runs.rules import (
    ASKS_FOR_RESTART,
    DEADLINE_PASSED,
    LAST_TRY_WITHIN,
    STOPPABLE,
    Fate,
    Restart,
    WaitOverError,
    end_of_wait,
    fate_of,
    fate_of_nodes,
    is_in_time,
    may_restart,
    timed_out,
)
from gpucloud.runs.stored_results import Stored, stored_of, with_lost
from gpucloud.runtime.context import Context
from gpucloud.spec.declarations import renamed
from gpucloud.spec.file import load_spec
from gpucloud.ssh.checkpoints import CheckpointFailedError
from gpucloud.ssh.client import ConnectionFailedError, Target
from gpucloud.ssh.guard import faulty_hardware
from gpucloud.ssh.job import RUN, JobState, jobs


class NotHereError(UsageError):
    """A run cannot be restarted from this machine, which lacks something of it."""

    def __init__(self, run_id: str, cause: UsageError) -> None:
        super().__init__(
            f"run {run_id!r} cannot be restarted from here: {cause.message}",
            hint="tend it where its files are, with the variables that its --env names",
        )


class Did(StrEnum):
    """What was done for a run."""

    LEFT = "left"  # nothing was to be done, or may be done yet
    LOST = "lost"  # the loss of its box was written down; another attempt is due later
    RESTARTED = "restarted"
    ENDED = "ended"  # it is over now


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """What was done for a run, and why, in words."""

    run_id: str
    did: Did
    message: str


@dataclass(frozen=True, slots=True)
class InStore:
    """The command of a run has ended, as the store says: its box is gone, or does not answer."""

    how: Exited
    stored: Stored


Finding = Exited | InStore | Fate | None
"""What happened to the attempt under way; ``None``: nothing."""


@dataclass(frozen=True, slots=True)
class Tender:
    """Looks after runs. ``buy`` returns a box for a run, both of which this process then holds."""

    context: Context
    buy: Callable[[Run, checkpoints.CheckpointSettings | None], Box]

    def tend(self, run: Run) -> Tended:
        """Looks after one run; one that has just ended as its box was saved is only told.

        Raises:
            GpucloudError: a cloud or the box did not answer, or something is owed; the next look goes on.
        """
        context = self.context
        if run.state in RUNS_OVER:
            return _ended(run, _why(run.exit_code, run.failure))
        if run.work.slots is not None:
            return _left(run, f"the engine of cluster {run.work.slots.cluster} decides")
        if not context.may_take(run.lease):
            return _left(run, "another process works on it")
        finding = self._find(run)
        if finding is None and not self._is_due(run):
            return _left(run, f"it is {run.state}")
        taken = context.take_run(run)
        if taken is None or taken.number != run.number + 1:
            if taken is not None:
                context.journal.release(taken)
            return _left(run, "another process works on it")
        try:
            done = self._act(taken, finding)
            now = context.journal.held_run(taken)
            self._end_boxes(now)
            return self._restart(now) if self._is_due(now) else done
        finally:
            context.journal.release(taken)

    def _is_due(self, run: Run) -> bool:
        """Whether the next attempt of a run that waits for one is to be made now."""
        return run.restart_at is not None and run.restart_at <= self.context.clock()

    # --- what happened

    def _find(self, run: Run) -> Finding:
        if not run.unattended:
            return Fate(ended=RunEnded(state=RunState.FAILED, failure=ORPHANED))
        if run.state is RunState.FETCHING:
            return self._still_there(run)
        if run.state is not RunState.RUNNING or run.box is None:
            return self._still_waits(run)
        box = self.context.journal.box(run.box)
        if box.state not in OVER:
            if not self.context.may_take(box.lease):
                return None
            box = refresh(self.context, box)
        if box.state is BoxState.READY and not box.attended:
            return self._on_box(run, box)
        stored = stored_of(self.context, run, box)
        return fate_of(box) if stored is None else self._by_record(run, stored)

    def _on_box(self, run: Run, box: Box) -> Finding:
        """What its box says of the command; where that does not answer, what the store has whole."""
        try:
            return self._exit_code(run, box)
        except ConnectionFailedError:
            stored = stored_of(self.context, run, box)
            if stored is None or not stored.is_all_there():
                raise
            return self._by_record(run, stored)

    def _by_record(self, run: Run, stored: Stored) -> Finding:
        """The end of a command as its box has recorded it."""
        how = stored.how(run.work)
        if how.code == ASKS_FOR_RESTART and may_restart(run.work, run.attempts[:-1], Loss.REQUEST):
            return Fate(loss=Loss.REQUEST, message="the command asked for a restart")
        return InStore(how, stored)

    def _still_waits(self, run: Run) -> Finding:
        """The end of a run that has waited long enough for a box, or whose deadline has passed."""
        now, waits_until = self.context.clock(), end_of_wait(run.work, run.attempts)
        if waits_until is not None:
            is_over = failed(WaitOverError(waits_until, run.attempts[-1]))
            return None if now <= waits_until + LAST_TRY_WITHIN else Fate(ended=is_over)
        return None if is_in_time(run.expires_at, now) else DEADLINE_PASSED

    def _still_there(self, run: Run) -> Finding:
        """The end of a command whose files are not here, or of the box that has them."""
        assert run.box is not None  # noqa: S101  (its command has run there)
        assert run.exited is not None  # noqa: S101
        box = self.context.journal.box(run.box)
        if box.state not in OVER:
            if not self.context.may_take(box.lease):
                return None
            box = refresh(self.context, box)
        if box.state in STOPPABLE:  # its disk has them
            return None
        if box.state is BoxState.READY:
            return run.exited
        stored = stored_of(self.context, run, box)
        if stored is not None:
            return InStore(run.exited, stored)
        text = f"the command ended with exit code {run.exit_code}; box {box.name!r} ended with files of it"
        failure = Failure(error_class=NotFetchedError.error_class, message=text)
        return Fate(ended=RunEnded(state=RunState.FAILED, exit_code=run.exit_code, failure=failure))

    def _exit_code(self, run: Run, box: Box) -> Finding:
        """The end of the command, of the first node that failed if any has; ``None`` while it runs.

        Raises:
            UsageError: a node has no address.
            ConnectionFailedError: a node does not answer.
        """
        lost = fate_of_nodes(box, run.work)
        if lost is not None:
            return lost
        nodes = working_nodes(self.context, box, run.work)
        found = [self._job_on(box, node) for node in nodes]
        failing = next((job for job in found if job is not None and job.exit_code), None)
        if failing is not None:
            return self._of_failed(run, box, nodes, failing)
        if any(job is None or _is_lost(job) for job in found):
            text = "the command ended without an exit code: its box was restarted, or ran out of memory"
            failure = Failure(error_class="job_lost", message=text)
            return Fate(ended=RunEnded(state=RunState.FAILED, failure=failure))
        if any(job is not None and job.running for job in found):
            if box.checkpoints is not None:
                held, _ = self._lease_of(run, box)
                held.look_once()
            return self._faulty(run, box, nodes)
        return Exited(0)

    def _of_failed(self, run: Run, box: Box, nodes: Sequence[Target], job: JobState) -> Finding:
        """The end of a command that failed: its time was over, it asks for a restart, its GPUs are gone."""
        assert job.exit_code is not None  # noqa: S101  (it has failed)
        before = run.attempts[:-1]
        if job.timed_out and run.work.timeout_s is not None:
            return timed_out(run.work.timeout_s)
        if job.exit_code == ASKS_FOR_RESTART and may_restart(run.work, before, Loss.REQUEST):
            return Fate(loss=Loss.REQUEST, message="the command asked for a restart")
        if may_restart(run.work, before, Loss.HARDWARE):
            try:
                check_gpus(self.context, box, nodes)
            except UnfitError as error:
                return Fate(loss=Loss.HARDWARE, message=error.message)
        return Exited(job.exit_code)

    def _job_on(self, box: Box, node: Target) -> JobState | None:
        """The command of a run on a node; ``None`` if it is not there."""
        reach(self.context, box, node)
        return {job.id: job for job in self.context.tasks.run(partial(jobs, node))}.get(RUN)

    def _faulty(self, run: Run, box: Box, nodes: Sequence[Target]) -> Finding:
        """The loss of a box whose hardware is faulty, if its run wants and may have another one."""
        replaces = renamed(run.work.spec).get("on_unhealthy") == "replace"
        if not replaces or not may_restart(run.work, run.attempts[:-1], Loss.HARDWARE):
            return None
        for node in nodes:
            fault = self.context.tasks.run(partial(faulty_hardware, node))
            if fault:
                return Fate(loss=Loss.HARDWARE, message=f"box {box.name!r} is faulty: {fault}")
        return None

    # --- what is done about it

    def _act(self, run: Run, finding: Finding) -> Tended:
        """As :meth:`_write`; a box that ends itself in the middle has left the rest in the store."""
        try:
            return self._write(run, finding)
        except ConnectionFailedError:
            assert run.box is not None  # noqa: S101  (something of it was to be connected to)
            stored = stored_of(self.context, run, self.context.journal.box(run.box))
            if stored is None or not stored.is_all_there():
                raise
            return self._write(self.context.journal.held_run(run), self._by_record(run, stored))

    def _write(self, run: Run, finding: Finding) -> Tended:
        """Writes down what happened, before anything is ended or bought.

        Raises:
            CheckpointFailedError: the command has ended, and its last checkpoint could not be uploaded.
        """
        if isinstance(finding, Exited) or (isinstance(finding, Fate) and finding.loss is Loss.REQUEST):
            self._upload_last(run)
        if isinstance(finding, Fate) and finding.loss is Loss.REQUEST and run.box is not None:
            box = self.context.journal.box(run.box)
            if box.state is BoxState.READY:  # it may have ended itself
                keep_logs(self.context, working_nodes(self.context, box, run.work))
        if isinstance(finding, Fate) and finding.loss is Loss.HARDWARE and run.box is not None:
            box = self.context.journal.box(run.box)
            save_last(self.context, box, "hardware", f"{finding.message}; it")
        match finding:
            case None:
                return _left(run, f"it is {run.state}")
            case Exited():
                how = self._bring_back(run, finding)
            case InStore(how=how, stored=stored):
                how = self._from_store(run, how, stored)
            case Fate(loss=None, ended=over):
                assert over is not None  # noqa: S101  (it has one of both)
                self.context.journal.write(run, over)
                return _ended(run, _why(over.exit_code, over.failure))
            case Fate(loss=Loss() as loss, message=message):
                return self._write_loss(run, loss, message)
            case _:
                raise AssertionError(finding)
        self.context.journal.write(run, ended(how))
        return _ended(run, _why(how.code, how.failure))

    def _write_loss(self, run: Run, loss: Loss, message: str) -> Tended:
        kept = self._kept(run)
        newest = checkpoints.newest(self.context, kept) if kept else None
        step = write_loss(self.context, run, loss, message, newest)
        if isinstance(step, Restart):
            return Tended(run_id=run.run_id, did=Did.LOST, message=message)
        if step.error is not None:
            self.context.journal.write(run, failed(step.error))
            return _ended(run, step.error.message)
        failure = Failure(error_class=str(loss), message=message)
        self.context.journal.write(run, RunEnded(state=RunState.FAILED, failure=failure))
        return _ended(run, message)

    def _kept(self, run: Run) -> checkpoints.CheckpointSettings | None:
        """Where the checkpoints of a run go; ``None`` if it has none."""
        return checkpoints.locate(self.context, load_spec(None, dict(run.work.spec)), run.run_id)

    def _lease_of(self, run: Run, box: Box) -> tuple[checkpoints.Held, str]:
        """The lease of the box of a run on its bucket, and the folder of the run there."""
        kept = self._kept(run)
        assert kept is not None  # noqa: S101  (its box has begun with them)
        assert box.checkpoints is not None  # noqa: S101
        node = first_node(self.context, box)
        return checkpoints.resume(self.context, box, node, kept, box.checkpoints), kept.url

    def _upload_last(self, run: Run) -> None:
        """Uploads the last checkpoint of a command that has ended, unless its box has recorded that.

        Raises:
            CheckpointFailedError: it was not uploaded; the next look tries again.
        """
        assert run.box is not None  # noqa: S101  (its command has run there)
        box = self.context.journal.box(run.box)
        if box.checkpoints is not None and stored_of(self.context, run, box) is None:
            held, url = self._lease_of(run, box)
            held.finish(url)

    def _bring_back(self, run: Run, how: Exited) -> Exited:
        """Copies the files of a run, and the end of its log, from its box; where that fails, from the store.

        Raises:
            NotFetchedError: some could not be copied now, and are on the box, which is kept, or in the store;
                the next look tries again.
        """
        assert run.box is not None  # noqa: S101  (its command has run there)
        try:
            self._from_box(run, how)
        except NotFetchedError:
            stored = stored_of(self.context, run, self.context.journal.box(run.box))
            if stored is None or not stored.is_all_there():
                raise
            return self._from_store(self.context.journal.held_run(run), how, stored)
        return how

    def _from_store(self, run: Run, how: Exited, stored: Stored) -> Exited:
        """Copies the files of a run from the store; its box is gone, or all that it has is there as well.

        Returns:
            How the command ended: a failure where the store does not have all of it.

        Raises:
            NotFetchedError: some could not be copied now; the store has them, and the next look tries again.
        """
        assert run.box is not None  # noqa: S101  (its command has run there)
        box = self.context.journal.box(run.box)
        if not run.work.fetch:
            return how
        if run.state is not RunState.FETCHING:
            begin_fetching(self.context, run, box, how)
        end_boxes(self.context, [self.context.journal.box(box.id)])
        return with_lost(how, stored.fetch(run.work.fetch, box, within_s=TRY_FOR_S))

    def _from_box(self, run: Run, how: Exited) -> None:
        """Copies the files of a run from its box.

        Raises:
            NotFetchedError: some could not be copied now; the box is kept.
        """
        assert run.box is not None  # noqa: S101  (its command has run there)
        context = self.context
        if not run.work.fetch:
            return keep_logs(context, working_nodes(context, context.journal.box(run.box), run.work))
        with holding(context, context.journal.box(run.box)) as box:
            if run.state is not RunState.FETCHING:
                begin_fetching(context, run, box, how)
            nodes = working_nodes(context, box, run.work)
            results = Results(context=context.about(box.name), run=run, box=box, nodes=nodes, code=how.code)
            results.fetch(run.work.fetch, try_for_s=0, copy_s=ONCE_S)
            keep_logs(context, nodes)
        return None

    def _end_boxes(self, run: Run) -> None:
        """Ends the boxes of a run that it has no use for.

        Raises:
            CleanupIncompleteError: something may still be billed.
        """
        over = run.state in RUNS_OVER and not run.keeps_box
        ids = {each.box for each in run.attempts if each.box and (each.loss or over)}
        end_boxes(self.context, self.context.journal.known(Box, ids))

    def _restart(self, run: Run) -> Tended:
        """Makes another attempt."""
        try:
            kept = self._kept(run)
            box = self.buy(run, kept)
            begin_job(self.context, self.context.journal.held_run(run), box, kept)
        except GpucloudError as error:
            loss = loss_of(error)
            now = self.context.journal.held_run(run)
            if loss is not None:
                return self._write_loss(now, loss, error.message)
            if not _lasts(error):
                raise
            self.context.journal.write(now, failed(error))
            return _ended(run, error.message)
        return Tended(run_id=run.run_id, did=Did.RESTARTED, message=f"on {box.name}")


def end_boxes(context: Context, boxes: list[Box]) -> None:
    """Ends those of some boxes that live.

    Raises:
        CleanupIncompleteError: something may still be billed.
    """
    living = [box for box in boxes if box.state not in OVER]
    troubles: list[GpucloudError] = []
    if living:
        end_all(context, living, troubles)
    owed = merged(troubles)
    if owed is not None:
        raise owed


def _is_lost(job: JobState) -> bool:
    """Whether a job has ended without an exit code."""
    return not job.running and job.exit_code is None


def _lasts(error: GpucloudError) -> bool:
    """Whether another attempt would fail in the same way; else the next look tries again."""
    if isinstance(error, CloudError):
        return error.error_class in {ErrorClass.PRICE, ErrorClass.UNSUPPORTED, ErrorClass.BAD_PARAM}
    return isinstance(error, _LASTING) and not isinstance(error, _PASSING)


_LASTING = (NoOfferError, PolicyError, PriceError, UsageError, CheckpointFailedError)
_PASSING = (JournalError, RunTakenError, NotHereError, CodeNotHereError)


def _left(run: Run, why: str) -> Tended:
    return Tended(run_id=run.run_id, did=Did.LEFT, message=why)


def _why(exit_code: int | None, failure: Failure | None) -> str:
    return failure.message if failure else f"its command ended with exit code {exit_code}"


def _ended(run: Run, why: str) -> Tended:
    return Tended(run_id=run.run_id, did=Did.ENDED, message=why)
