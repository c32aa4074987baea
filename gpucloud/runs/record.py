"""What happens to a run, as it is written down: an attempt was lost, or the run is over."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from gpucloud.bring_up.bring_up import UnfitError
from gpucloud.errors import BoxLostError, CloudError, ErrorClass, GpucloudError, InterruptedBySignal
from gpucloud.journal.errors import JournalError, StaleWriterError
from gpucloud.journal.events import RunEnded, RunLost
from gpucloud.journal.records import Run
from gpucloud.journal.runs import AttemptPlace, AttemptRecord, Exited, Failure, Loss, RunState
from gpucloud.purchase.waiting import NothingNowError
from gpucloud.redaction import redact
from gpucloud.runs.checkpoints import Newest
from gpucloud.runs.rules import ASKS_FOR_RESTART, DeletedError, NoRestart, Restart, after_loss
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import ConnectionFailedError

MOST_OF_MESSAGE = 2000
"""The most characters of an error to journal: it may quote the end of a log."""


class RestartAskedError(GpucloudError):
    """The command of a run asked for a restart, by its exit code."""

    def __init__(self) -> None:
        super().__init__(f"the command asked for a restart (exit code {ASKS_FOR_RESTART})")


def loss_of(error: GpucloudError) -> Loss | None:
    """Which loss of an attempt a failure is; ``None`` for any other failure."""
    match error:
        case BoxLostError(taken_back=True):
            return Loss.INTERRUPTION
        case UnfitError() | ConnectionFailedError():
            return Loss.HARDWARE
        case CloudError(error_class=ErrorClass.CAPACITY) | NothingNowError():
            return Loss.CAPACITY
        case RestartAskedError():
            return Loss.REQUEST
        case _:
            return None


def write_loss(
    context: Context, run: Run, loss: Loss, message: str, newest: Newest | None = None
) -> Restart | NoRestart:
    """Writes down that the attempt under way was lost, if another one is to be made.

    Args:
        context: clouds, journal and clock of this call.
        run: the run, which this process holds.
        loss: why it was lost.
        message: the loss, in words.
        newest: the newest whole checkpoint; ``None`` without one.

    Raises:
        StaleWriterError: the run was taken over.
    """
    *before, lost = with_loss(context, run, loss, message)
    if newest is not None:
        lost = replace(lost, checkpoint=newest.attempt, checkpoint_bytes=newest.size_bytes)
    attempts = (*before, lost)
    step = after_loss(run.work, attempts, run.expires_at, context.clock())
    if isinstance(step, Restart):
        context.journal.write(run, RunLost(attempt=attempts[-1], restart_at=step.at))
    return step


def write_end(context: Context, run: Run, outcome: Exited | BaseException) -> None:
    """Writes down that a run is over, by the end of its command or by a failure.

    Where that cannot be written, the next command that begins or tends runs finds out.
    """
    with suppress(JournalError, StaleWriterError):
        context.journal.write(run, ended(outcome) if isinstance(outcome, Exited) else failed(outcome))


def ended(how: Exited) -> RunEnded:
    """The end of a run with its command; a command that did not end by itself is a failure."""
    state = RunState.ENDED if how.failure is None else RunState.FAILED
    return RunEnded(state=state, exit_code=how.code, failure=how.failure)


def cancel(context: Context, run: Run) -> None:
    """Cancels a run that is not over, also one of a living process: that one plans no more boxes for it."""
    taken = context.take_run(run, by_force=True)
    if taken is not None:
        failure = Failure(error_class="cancelled", message="it was cancelled")
        context.journal.write(taken, RunEnded(state=RunState.CANCELLED, failure=failure))


def failed(error: BaseException) -> RunEnded:
    """The end of a run by a failure; a signal cancels it. A box that does not answer is lost hardware."""
    cancelled = isinstance(error, InterruptedBySignal | KeyboardInterrupt | DeletedError)
    error_class = error.error_class if isinstance(error, GpucloudError) else GpucloudError.error_class
    if isinstance(error, GpucloudError) and loss_of(error) is Loss.HARDWARE:
        error_class = str(Loss.HARDWARE)
    message = redact(str(error) or type(error).__name__)[:MOST_OF_MESSAGE]
    return RunEnded(
        state=RunState.CANCELLED if cancelled else RunState.FAILED,
        failure=Failure(error_class=str(error_class), message=message),
    )


def with_loss(context: Context, run: Run, loss: Loss, message: str) -> tuple[AttemptRecord, ...]:
    """The attempts of a run, the one under way lost now; it has no box if none was planned for it."""
    now, text = context.clock(), redact(message)[:MOST_OF_MESSAGE]
    under_way = [each for each in run.attempts if each.loss is None]
    before = [each for each in run.attempts if each.loss is not None]
    last = under_way[-1] if under_way else AttemptRecord(box=None, at=now)
    return (*before, replace(last, loss=loss, lost_at=now, message=text, place=_place(context, last.box)))


def _place(context: Context, box_id: str | None) -> AttemptPlace | None:
    """Where the box of an attempt is, or was."""
    if box_id is None:
        return None
    box = context.journal.box(box_id)
    if box.place is None or box.offer is None:
        return None
    return AttemptPlace(
        cloud=box.place.cloud,
        region=box.place.region,
        zone=box.place.zone or "",
        instance_type=box.offer.instance_type,
        purchase=str(box.offer.purchase),
    )
