"""Files of a run that could not be copied when its command had ended: copied now, and its box ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucloud.api.run import Run, find_run
from gpucloud.boxes.look import holding
from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.costs.spend import per_hour
from gpucloud.errors import CleanupIncompleteError, GpucloudError, UsageError
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Run as JournalRun
from gpucloud.journal.runs import RUNS_OVER, RunState
from gpucloud.resources import rfc3339
from gpucloud.runs.code import forget_code
from gpucloud.runs.detached import working_nodes
from gpucloud.runs.record import ended
from gpucloud.runs.results import (
    COPY_S,
    TRY_FOR_S,
    Files,
    NotFetchedError,
    Results,
    of_nodes,
    release_box,
)
from gpucloud.runs.stored_results import Stored, newest_stored, stored_at
from gpucloud.runs.tend import end_boxes
from gpucloud.runtime.context import Context
from gpucloud.ssh.files import make_target
from gpucloud.ssh.keys import find_program
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.session import Session


def fetch_run(session: Session, context: Context, run_id: str, files: Files) -> Run:
    """See :meth:`Runs.fetch`."""
    run = find_run(session, run_id)
    _fetch(session, context, run, files or run.work.fetch, copy_s=COPY_S)
    return Run.read(context.journal.run(run.id), session, context.clock())


def fetch_results(context: Context, run_id: str, url: str, files: Files) -> str:
    """See :meth:`Runs.fetch_from_store`."""
    stored = stored_at(context, url, run_id)
    for source, here in files or [(path.rstrip("/"), ".") for path in stored.paths]:
        make_target(here)
        stored.bring(source, here)
    return stored.url


def bring_home(session: Session, context: Context, run_id: str) -> dict[str, GpucloudError]:
    """Fetches the files of the runs of an id whose command has ended, before their boxes are deleted.

    Returns:
        Why files are not here, by the ids of the boxes that have them: these are not to be deleted.
    """
    kept: dict[str, GpucloudError] = {}
    for run in context.journal.runs_named(context.owner, run_id):
        if run.state is not RunState.FETCHING or run.box is None:
            continue
        if context.journal.box(run.box).state in OVER:
            continue
        try:
            _fetch(session, context, run, run.work.fetch, copy_s=TRY_FOR_S)
        except GpucloudError as error:
            kept[run.box] = _kept(session, context, run, error)
    return kept


def _kept(session: Session, context: Context, run: JournalRun, error: GpucloudError) -> GpucloudError:
    """The failure of a command that leaves a box with files of a run, with its price and its end."""
    assert run.box is not None  # noqa: S101  (its command has run there)
    assert run.exited is not None  # noqa: S101
    if isinstance(error, CleanupIncompleteError):  # the files are here
        return error
    if not isinstance(error, NotFetchedError):
        box = context.journal.box(run.box)
        until = f"until {rfc3339(box.expires_at)}" if box.expires_at else "without a deadline"
        text = (
            f"files of run {run.run_id!r} were not fetched: {error.message}; box {box.name!r} is kept {until}"
        )
        cause, error = error, NotFetchedError(text, box=box, command_code=run.exited.code)
        error.__cause__ = cause
        error = priced(error, session)
    error.hint = f"fetch them: gpucloud runs fetch {run.run_id}; or delete them with the box: "
    error.hint += f"gpucloud down --run-id {run.run_id} --with-results"
    return error


def _fetch(session: Session, context: Context, run: JournalRun, files: Files, *, copy_s: float) -> None:
    """Copies files of a run whose command has ended, and ends its box; without them, it stays.

    Out of the store, where the box is gone or does not answer, or cannot be reached from this machine.

    Raises:
        NotFetchedError: some are not here.
        UsageError: there is no place for them, or another process works on the run; or none are waiting.
        CleanupIncompleteError: the box may still be billed.
    """
    waits = run.state is RunState.FETCHING and run.box is not None
    lives = waits and context.journal.box(run.box or "").state not in OVER
    try:
        if not lives:
            raise _nothing_waits(context, run)
        _fetch_from_box(session, context, run, files, copy_s=copy_s)
    except (NotFetchedError, UsageError):
        stored = newest_stored(context, run)
        if stored is None or (lives and not stored.is_all_there()):
            raise
        _fetch_from_store(context, run, stored, files, within_s=copy_s)


def _nothing_waits(context: Context, run: JournalRun) -> GpucloudError:
    """Why nothing can be fetched from the box of a run."""
    if run.state is RunState.FETCHING and run.box is not None and run.exited is not None:
        box = context.journal.box(run.box)
        gone = f"box {box.name!r} of run {run.run_id!r} is gone, with its files"
        return NotFetchedError(gone, box=box, command_code=run.exited.code)
    state = "is over" if run.state in RUNS_OVER else "has not ended"
    hint = f"see its state: gpucloud runs show {run.run_id}"
    return UsageError(f"no files of run {run.run_id!r} are waiting: its command {state}", hint=hint)


def _fetch_from_store(
    context: Context, run: JournalRun, stored: Stored, files: Files, *, within_s: float
) -> None:
    """Copies files of a run from the store; one that waits for them is over then, and its box ends.

    Raises:
        NotFetchedError: the store does not have all of them, or some could not be copied.
        UsageError: there is no place for them, or another process works on the run.
        CleanupIncompleteError: its box may still be billed.
    """
    assert run.box is not None  # noqa: S101  (its command has run there)
    box = context.journal.box(run.box)
    for _, here in files:
        make_target(here)
    taken = _taken(context, run) if run.state is RunState.FETCHING else None
    try:
        lost = stored.fetch(files, box, within_s=within_s)
        if lost:
            raise NotFetchedError("; ".join(lost), box=box, command_code=stored.record.exit_code)
        if taken is not None and run.exited is not None:
            context.journal.write(taken, ended(run.exited))
            end_boxes(context, [context.journal.box(run.box)])
    finally:
        if taken is not None:
            context.journal.release(taken)


def _taken(context: Context, run: JournalRun) -> JournalRun:
    taken = context.take_run(run)
    if taken is None:
        raise UsageError(f"another process works on run {run.run_id!r}", hint="try again when it has ended")
    return taken


def _fetch_from_box(
    session: Session, context: Context, run: JournalRun, files: Files, *, copy_s: float
) -> None:
    """Copies files of a run from its box, which ends then; without them, it stays.

    Raises:
        NotFetchedError: some are not here.
        UsageError: there is no place for them, or another process works on the run.
        CleanupIncompleteError: the box may still be billed.
    """
    assert run.box is not None  # noqa: S101  (its command has run there)
    assert run.exited is not None  # noqa: S101
    find_program("rsync")
    box = context.journal.box(run.box)
    for _, here in of_nodes(files, len(box.nodes) if run.work.fetch_from_all else None):
        make_target(here)
    taken = _taken(context, run)
    try:
        with holding(context, box) as held:
            nodes = working_nodes(context, held, run.work)
            results = Results(context=context, run=taken, box=held, nodes=nodes, code=run.exited.code)
            results.reach()
            results.fetch(files, try_for_s=0, copy_s=copy_s)
            keep_logs(context, nodes)
            if run.keeps_box:
                release_box(context, nodes)
        context.journal.write(taken, ended(run.exited))
        if not run.keeps_box:
            end_boxes(context, [context.journal.box(run.box)])
        forget_code(context, run)
    except NotFetchedError as error:
        raise priced(error, session) from error.__cause__
    finally:
        context.journal.release(taken)


def priced(error: NotFetchedError, session: Session) -> NotFetchedError:
    """The failure, with what its box costs meanwhile."""
    total = per_hour(error.box, session.billing_of).total
    if total is not None and error.box.state not in OVER:
        error.message = f"{error.message}, for {format_money(total.amount, total.currency)} per hour"
    return error
