"""A job on a box, followed to its end: it keeps running while a broken connection is opened again."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Lock

from gpucloud.bring_up.ingress import reach
from gpucloud.clusters.members import gpus_per_node
from gpucloud.clusters.output import Labelled
from gpucloud.clusters.ranks import rank_environments
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import CloudError, InterruptedBySignal
from gpucloud.journal.records import Box
from gpucloud.journal.runs import Exited
from gpucloud.resources import State
from gpucloud.runs.rules import timed_out, why_gone
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import JobEnded, JobStarted
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, Call
from gpucloud.ssh.client import ConnectionFailedError, Target
from gpucloud.ssh.environment import environment_text
from gpucloud.ssh.job import PID, Follower, script_of, start, stop
from gpucloud.ssh.relay import end_group

FOREVER_S = 1e8
COME_BACK_S = 600.0
TRY_AGAIN_S = 3.0
STOP_S = 30.0
"""How long ending a command may take: it has ten seconds, and a node that is gone does not answer at all."""
HANG_UP_S = 0.5
"""How long to wait for that where the box ends next, which is asked for within a second of a signal."""
REST_S = 5.0
"""How long to wait for the rest of the output of a command that was ended."""

LATER = "the command goes on; its output is on the box: gpucloud runs logs, or gpucloud logs NAME --job run"

Write = Callable[[bytes], None]
"""Receives the command's output as it arrives."""


def discard(_: bytes) -> None:
    """Takes output that nobody asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command to run on nodes of a box, and the receivers of its output.

    Attributes:
        command: a shell command, or the arguments of a program.
        environment: variables for it; they are sent over ssh only.
        out: receives its standard output.
        err: receives its standard error.
        timeout_s: stopped after this, with the exit code 124; ``None`` for never.
        has_results: being idle does not end the box when the command has ended.
    """

    command: Sequence[str] | str
    environment: Mapping[str, str]
    out: Write
    err: Write
    timeout_s: float | None = None
    has_results: bool = False


def follow_job(context: Context, box: Box, nodes: Sequence[Target], job: Job) -> Exited:
    """Starts a job on nodes of a box at the same time; follows it until all have ended, or one has failed.

    Each node is told its rank (:mod:`gpucloud.clusters.ranks`). On several, each line of output begins with
    its node, and the others are ended when one fails.

    Returns:
        The exit code of the first that failed, 124 if it was stopped, else 0.

    Raises:
        BoxLostError: a node ended before the job did.
        DeadlinePassedError: so it did at its deadline.
        DeletedError: a user deleted the box.
        ConnectionFailedError: a node no longer answers.
        InterruptedBySignal: a signal came, or the reader of the output closed it.
    """
    text = job.command if isinstance(job.command, str) else " ".join(job.command)
    context = context.about(box.name)
    context.emit(JobStarted("job", text))
    try:
        script = script_of(job.command, job.environment)
        start_on_all(context, box, nodes, script, has_results=job.has_results)
        return _Following(context, box, nodes, job).follow()
    finally:
        context.emit(JobEnded("job", "end of its output"))


def start_on_all(
    context: Context,
    box: Box,
    nodes: Sequence[Target],
    script: bytes,
    *,
    timeout_s: float | None = None,
    has_results: bool = False,
) -> None:
    """Starts a script on nodes of a box at the same time; each is told its rank before it.

    The other arguments, and the errors, are those of :func:`start_once`.
    """
    addresses = [node.private_ip for node in box.nodes]
    told = rank_environments([addresses[node.node] for node in nodes], gpus_per_node(box), addresses)
    scripts = [environment_text(ranks) + script for ranks in told]
    start_once(context, box, nodes, scripts, timeout_s=timeout_s, has_results=has_results)


def start_once(
    context: Context,
    box: Box,
    nodes: Sequence[Target],
    scripts: Sequence[bytes],
    *,
    timeout_s: float | None = None,
    has_results: bool = False,
) -> None:
    """Starts a script on each of some nodes of a box, once, though a connection breaks meanwhile.

    With ``timeout_s``, each node stops it after this, without anybody who waits for it. With ``has_results``,
    being idle does not end a node when the script has ended.

    Raises:
        BoxLostError: a node is gone.
        DeadlinePassedError: it ended at its deadline.
        DeletedError: a user deleted the box.
        ConnectionFailedError: a node exists, but does not answer.
        GpucloudError: another job still runs there.
    """
    begin = partial(start, token=secrets.token_hex(8), timeout_s=timeout_s, has_results=has_results)
    starts = [partial(begin, node, script) for node, script in zip(nodes, scripts, strict=True)]
    calls = [context.tasks.start(each) for each in starts]
    end = context.clock() + timedelta(seconds=COME_BACK_S)
    for node, again, first in zip(nodes, starts, calls, strict=True):
        call = first
        while True:
            try:
                context.tasks.wait(call, CALL_TIMEOUT_S)
                break
            except ConnectionFailedError as error:
                if context.clock() >= end:
                    raise
                _come_back(context, box, nodes, node, error)
                call = context.tasks.start(again)


class _Output:
    """Passes output on, until that fails: then it is dropped, and said once, and the command goes on.

    Its output is kept on the box as well. A reader who closes it has the command ended.
    """

    def __init__(self, context: Context, write: Write) -> None:
        self._context = context
        self._write: Write | None = write

    def __call__(self, chunk: bytes) -> None:
        if self._write is None:
            return
        try:
            self._write(chunk)
        except BrokenPipeError:
            raise
        except Exception as error:  # a full disk, a terminal that is gone, a callback of somebody else's
            self._write = None
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            self._context.warn("job", f"warning: the output cannot be written any more: {why}", LATER)


class _Following:
    """Follows a job on all of its nodes."""

    def __init__(self, context: Context, box: Box, nodes: Sequence[Target], job: Job) -> None:
        self._context = context
        self._box = box
        self._nodes = nodes
        self._timeout_s = FOREVER_S if job.timeout_s is None else job.timeout_s
        both = [_Output(context, write) for write in (job.out, job.err)]
        sinks: list[dict[str, Write]] = [dict(zip(("out", "err"), both, strict=True)) for _ in nodes]
        self._labelled: list[list[Labelled]] = [[] for _ in nodes]
        if len(nodes) > 1:
            lock = Lock()
            self._labelled = [[Labelled(rank, write, lock) for write in both] for rank in range(len(nodes))]
            sinks = [{"out": out, "err": err} for out, err in self._labelled]
        self._followers = [Follower(node, sink) for node, sink in zip(nodes, sinks, strict=True)]

    def follow(self) -> Exited:
        """As :func:`follow_job`, once the job was started."""
        context, tasks = self._context, self._context.tasks
        end = context.clock() + timedelta(seconds=self._timeout_s)
        running = {rank: tasks.start(each.follow) for rank, each in enumerate(self._followers)}
        try:
            while running:
                left_s = max((end - context.clock()).total_seconds(), 0.0)
                if not tasks.until_done(running.values(), left_s, but=len(running) - 1):
                    context.tell("job", f"the command still runs after {self._timeout_s:.0f} s: stopping it")
                    self._stop(running)
                    return timed_out(self._timeout_s)
                for rank in [rank for rank, call in running.items() if call.done]:
                    code = self._code(rank, running.pop(rank))
                    if code is None:
                        running[rank] = tasks.start(self._followers[rank].follow)
                    elif code:
                        return Exited(self._failed(rank, code, running))
            return Exited(0)
        except BrokenPipeError as error:
            self._hang_up()
            raise InterruptedBySignal("stopped: nobody reads the output", signum=signal.SIGPIPE) from error
        except InterruptedBySignal:
            self._hang_up()
            raise
        finally:
            for follower in self._followers:
                follower.close()

    def _hang_up(self) -> None:
        """Begins to end the job on all nodes. What follows ends the box, and does not wait for that."""
        tasks = self._context.tasks
        self._context.tell("job", "ending the command")
        with tasks.finishing():
            tasks.until_done([tasks.start(partial(end_group, each, PID)) for each in self._nodes], HANG_UP_S)

    def _code(self, rank: int, call: Call) -> int | None:
        """The exit code on a node; ``None`` if the connection was lost, and is open again."""
        try:
            code: int = call.value()
        except ConnectionFailedError as error:
            _come_back(self._context, self._box, self._nodes, self._nodes[rank], error)
            return None
        for stream in self._labelled[rank]:
            stream.close()
        return code

    def _failed(self, rank: int, code: int, running: Mapping[int, Call]) -> int:
        """Ends the others, and returns the code, unless it failed because another node is gone.

        Raises:
            BoxLostError: a node is gone; its connection may seem to be open for a minute.
        """
        if len(self._nodes) > 1:
            self._context.tell("job", f"the command failed on node {rank} with exit code {code}")
            self._check_all_there()
            if not self._stop(running):
                self._check_all_there()
        return code

    def _check_all_there(self) -> None:
        try:
            check_there(self._context, _as_now(self._context, self._box), self._nodes)
        except CloudError as error:
            self._context.tell("job", f"whether a node is gone is not known: {error.message}")

    def _stop(self, running: Mapping[int, Call]) -> bool:
        """Ends the job where it still runs, and waits a moment for the rest of its output.

        Returns:
            Whether all of these nodes have answered.
        """
        tasks = self._context.tasks
        calls = tasks.run_all([partial(stop, self._nodes[rank]) for rank in running], STOP_S)
        tasks.until_done(running.values(), REST_S)
        for rank in running:
            for stream in self._labelled[rank]:
                stream.close()
        return all(call.done and call.error is None for call in calls)


def _come_back(
    context: Context, box: Box, nodes: Sequence[Target], node: Target, lost: ConnectionFailedError
) -> None:
    """Waits until a node of a job can be reached again.

    Raises:
        BoxLostError: one of the job's nodes is gone.
        DeadlinePassedError: the box ended at its deadline.
        DeletedError: a user deleted it.
        ConnectionFailedError: the node exists, but does not answer.
    """
    context.tell("job", f"{lost.message}; connecting again")
    end = context.clock() + timedelta(seconds=COME_BACK_S)
    while True:
        try:
            check_there(context, _as_now(context, box), nodes)
            reach(context, box, node)
        except (ConnectionFailedError, CloudError):
            if context.clock() >= end:
                raise
            context.tasks.pause(TRY_AGAIN_S)
        else:
            return


def _as_now(context: Context, box: Box) -> Box:
    """A box as its cloud has it now."""
    return refresh(context, context.journal.box(box.id))


def check_there(context: Context, box: Box, nodes: Sequence[Target]) -> None:
    """Checks that a box still has the nodes of a job.

    Raises:
        BoxLostError: one is gone.
        DeadlinePassedError: the box ended at its deadline.
        DeletedError: a user deleted it.
    """
    lost = [node.node for node in nodes if box.nodes[node.node].state is State.GONE]
    gone = why_gone(box, lost)
    if gone is not None:
        raise gone
    if box.gone_nodes:
        context.tell("job", f"{box.gone_nodes} of {len(box.nodes)} nodes are gone")
