"""Uploads a last checkpoint, and copies files, before the box of an orphaned run is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.ingress import reach
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import GpucloudError
from gpucloud.journal.events import RunEnded, Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, Exited, RunState
from gpucloud.journal.store import ORPHANED
from gpucloud.resources import State
from gpucloud.runs.checkpoints import locate, resume
from gpucloud.runs.detached import first_node, working_nodes
from gpucloud.runs.record import ended
from gpucloud.runs.results import begin_fetching, sources
from gpucloud.runs.saved import STEP
from gpucloud.runtime.context import Context
from gpucloud.spec.file import load_spec
from gpucloud.ssh.checkpoints import save
from gpucloud.ssh.client import Target
from gpucloud.ssh.files import rsync_down
from gpucloud.ssh.job import RUN, jobs

SAVE_S = 300.0
"""How long a box may take, as its guard allows it before a deadline; so long may each copy take, too."""


def save_orphaned(context: Context, run_id: str | None = None) -> None:
    """Saves the work on the boxes of foreground runs whose processes died; a failure is told.

    A command that has ended meanwhile is over: its files are fetched as those of any run, and until then its
    box stays. One that still runs saves and uploads once more, and what is there of its files is copied: it
    runs until its box is deleted, which the next step of the caller does. A detached run is no orphan: it
    goes on without the process that had bought its next box and had not begun its command there.

    Args:
        context: clouds, journal, clock and progress of this call.
        run_id: the run; ``None`` for all of this owner.
    """
    for box in context.journal.boxes(owner=context.owner):
        if run_id not in {None, box.run_id} or not _may_have_work(context, box):
            continue
        taken = context.take(box)
        if taken is None:
            continue
        about = context.about(box.name)
        try:
            if _may_have_work(context, taken):  # whoever had it may have handed it over meanwhile
                _save_work(about, _run_of(context, taken), taken)
        except GpucloudError as error:
            about.warn(STEP, f"warning: what is on {box.name} was not saved: {error.message}")
        finally:
            context.journal.release(taken)


def _may_have_work(context: Context, box: Box) -> bool:
    """Whether a box, once nobody holds it, is left by the process of a foreground run, with work on it."""
    if not box.attended or box.state is not BoxState.READY:
        return False
    run = _run_of(context, box)
    if run is None:
        return box.checkpoints is not None
    return not run.detached and run.state not in RUNS_OVER  # who wrote the end of a run had saved its work


def _run_of(context: Context, box: Box) -> Run | None:
    """The run whose last attempt is on a box; one that is not over before one that is."""
    named = context.journal.runs_named(context.owner, box.run_id) if box.run_id else []
    runs = [run for run in named if run.box == box.id]
    return next((run for run in runs if run.state not in RUNS_OVER), runs[0] if runs else None)


def _save_work(context: Context, run: Run | None, box: Box) -> None:
    """Saves what is on a box whose process has died, which this process holds."""
    if run is not None and run.state is RunState.FETCHING:  # it died as it was writing that down
        context.journal.write(box, Seen(facts=Facts(attended=False)))
        return
    why = f"the process of run {box.run_id} has died"
    save_last(context, box, "deserted", f"{why}: {box.name}")
    taken = context.take_run(run) if run is not None else None
    if taken is None:
        return
    try:
        box = refresh(context, context.journal.held(box))
        if box.state is not BoxState.READY:
            return
        nodes = working_nodes(context, box, taken.work)
        for node in nodes:
            reach(context, box, node)
        how = _ended(context, nodes)
        if how is None:
            _copy_what_is_there(context, taken, nodes)
        elif taken.work.fetch:
            context.notice("fetch", f"{why}, and its command has ended with exit code {how.code}")
            begin_fetching(context, taken, box, how)
            return
        keep_logs(context, nodes)
        over = RunEnded(state=RunState.FAILED, failure=ORPHANED) if how is None else ended(how)
        context.journal.write(taken, over)
    finally:
        context.journal.release(taken)


def _ended(context: Context, nodes: Sequence[Target]) -> Exited | None:
    """How the command has ended, if it has on all nodes, or failed on one."""
    found = [{job.id: job for job in context.tasks.run(partial(jobs, node))}.get(RUN) for node in nodes]
    codes = [job.exit_code if job is not None else None for job in found]
    failing = next((code for code in codes if code), None)
    return Exited(failing) if failing else None if None in codes else Exited(0)


def _copy_what_is_there(context: Context, run: Run, nodes: Sequence[Target]) -> None:
    """Copies what a command that still runs has written so far, as far as that is possible."""
    for node, source, here in sources(run.work, nodes, run.work.fetch):
        try:
            context.tell("fetch", f"{source}, as it is now")
            context.tasks.run(partial(rsync_down, node, source, here), SAVE_S)
        except GpucloudError as error:
            context.warn("fetch", f"warning: {source!r} was not fetched: {error.message}")


def save_last(context: Context, box: Box, reason: str, what: str) -> None:
    """Has the box of a run save and upload once more, if it has checkpoints; a failure is told.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        reason: why it is given up, in a word, for the user's command.
        what: the beginning of a sentence that says why, and which box.
    """
    if box.checkpoints is None or box.state is not BoxState.READY:
        return
    context = context.about(box.name)
    try:
        box = refresh(context, box)
        if box.state is BoxState.READY and box.nodes[0].state is State.RUNNING:
            _save(context, box, reason, what)
    except GpucloudError as error:
        context.warn(STEP, f"warning: the last checkpoint of {box.name} was not uploaded: {error.message}")


def _save(context: Context, box: Box, reason: str, what: str) -> None:
    assert box.run_id is not None  # noqa: S101  (it has checkpoints)
    assert box.checkpoints is not None  # noqa: S101
    settings = locate(context, load_spec(None, dict(box.wanted.spec)), box.run_id)
    assert settings is not None  # noqa: S101
    context.tell(STEP, f"{what} uploads its last one")
    node = first_node(context, box)
    reach(context, box, node)
    resume(context, box, node, settings, box.checkpoints).renew()
    context.tasks.run(partial(save, node, reason, SAVE_S), SAVE_S)
