"""A job on a box, followed to its end: it keeps running while a broken connection is opened again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from gpucloud.boxes.ingress import reach
from gpucloud.errors import BoxLostError, CloudError, InterruptedBySignal
from gpucloud.inventory.reconcile import refresh
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.resources import State
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import JobEnded, JobStarted
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.ssh.client import ConnectionFailedError, Target
from gpucloud.ssh.job import Follower, script_of, start, stop

FOREVER_S = 1e8
TIMED_OUT = 124
"""The exit code of a command that did not end in time, the same as timeout(1)."""
COME_BACK_S = 600.0
TRY_AGAIN_S = 3.0

Write = Callable[[bytes], None]
"""Receives the command's output as it arrives."""


def discard(_: bytes) -> None:
    """Takes output that nobody asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command to run on a box, and the receivers of its output.

    Attributes:
        command: a shell command, or the arguments of a program.
        environment: variables for it; they are sent over ssh only.
        out: receives its standard output.
        err: receives its standard error.
        timeout_s: stopped after this, with the exit code :data:`TIMED_OUT`; ``None`` for never.
    """

    command: Sequence[str] | str
    environment: Mapping[str, str]
    out: Write
    err: Write
    timeout_s: float | None = None


def follow_job(context: Context, box: Box, target: Target, job: Job) -> int:
    """Starts a job and follows it; returns its exit code, :data:`TIMED_OUT` if it was stopped.

    Raises:
        BoxLostError: the box ended before the job did.
        ConnectionFailedError: the box no longer answers.
        InterruptedBySignal: a signal came, or the reader of the output closed it.
    """
    text = job.command if isinstance(job.command, str) else " ".join(job.command)
    context.emit(JobStarted("job", text))
    try:
        context.tasks.run(partial(start, target, script_of(job.command, job.environment)))
        return _follow(context, box, target, job)
    finally:
        context.emit(JobEnded("job", "end of its output"))


def _follow(context: Context, box: Box, target: Target, job: Job) -> int:
    tasks = context.tasks
    follower = Follower(target, {"out": job.out, "err": job.err})
    timeout_s = FOREVER_S if job.timeout_s is None else job.timeout_s
    end = context.clock() + timedelta(seconds=timeout_s)
    try:
        while True:
            left_s = max((end - context.clock()).total_seconds(), 0.0)
            try:
                code: int = tasks.wait(tasks.start(follower.follow), left_s)
            except ConnectionFailedError as error:
                _come_back(context, box, target, error)
            except TimedOutError:
                context.tell("job", f"the command still runs after {timeout_s:.0f} s: stopping it")
                tasks.run(partial(stop, target))
                return TIMED_OUT
            except BrokenPipeError as error:
                raise InterruptedBySignal("nobody reads the output", signum=signal.SIGPIPE) from error
            else:
                return code
    finally:
        follower.close()


def _come_back(context: Context, box: Box, target: Target, lost: ConnectionFailedError) -> None:
    """Waits until the box can be reached again.

    Raises:
        BoxLostError: the box is gone.
        ConnectionFailedError: the box exists, but does not answer.
    """
    context.tell("job", f"{lost.message}; connecting again")
    end = context.clock() + timedelta(seconds=COME_BACK_S)
    while True:
        try:
            check_there(context, refresh(context, context.journal.box(box.id)))
            reach(context, box, target)
        except (ConnectionFailedError, CloudError):
            if context.clock() >= end:
                raise
            context.tasks.pause(TRY_AGAIN_S)
        else:
            return


def check_there(context: Context, box: Box) -> None:
    """Checks that a box still has its first node.

    Raises:
        BoxLostError: the node is gone.
    """
    first = box.nodes[0]
    if box.state is BoxState.READY and first.state is not State.GONE:
        if box.gone_nodes:
            context.tell("job", f"{box.gone_nodes} of {len(box.nodes)} nodes are gone")
        return
    taken_back = box.state is BoxState.INTERRUPTED or first.taken_back
    why = "was interrupted by its cloud" if taken_back else "ended before its command did"
    hint = "restart automatically: --restarts 3" if taken_back else "see --ttl, --idle"
    raise BoxLostError(f"box {box.name!r} {why}", taken_back=taken_back, hint=hint)
