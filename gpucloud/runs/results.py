"""Copies the results of a run to this machine; its box is kept until all are here, and runs nothing again.

What was paid for outranks the bill: where files cannot be copied, the box is kept until its deadline.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.ending.deadline import HalfMovedError, extend
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import BudgetError, CloudError, GpucloudError, InterruptedBySignal, UsageError
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import RunFetching, RunNotFetched, Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import Exited, Work
from gpucloud.policy.budget_check import check_of, ending_budgets
from gpucloud.resources import State, rfc3339
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure, Target, disconnect
from gpucloud.ssh.files import NotCopiedError, NotThereError, rsync_down
from gpucloud.ssh.guard import keep_results
from gpucloud.ssh.keys import key_folder

TRY_FOR_S = 600.0
"""How long a command that waits for its run tries to copy what cannot be copied."""
ONCE_S = 30.0
"""How long one look of ``tend`` may copy; the next look tries again."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
COPY_S = 1e8
KEPT_WITHOUT_END = timedelta(hours=24)
KEPT_FOR_A_LOOK = timedelta(minutes=30)
"""How long a box stays whose command succeeded, but has not written what is to be fetched: mostly a typo."""
AGAIN_S = 5.0
"""How long somebody at a terminal, who has ended a copy by Ctrl-C, may press it again to delete the box."""

Files = Sequence[tuple[str, str]]
"""(path on the box, path here) each."""
Copy = tuple[Target, str, str]
"""(node, path there, path here)."""


_MAY_PASS = (NotCopiedError, ConnectionFailedError, TimedOutError, UsageError, OSError)
"""Why a copy fails that may succeed later: also a program that is gone here, or cannot be started."""


class NotFetchedError(GpucloudError):
    """A command has ended, and some of its files are not here. Its box stays until its deadline.

    Attributes:
        box: the box, which is billed.
        command_code: the exit code of the command.
    """

    exit_code = 8
    error_class = "not_fetched"

    def __init__(self, message: str, *, box: Box, command_code: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.box = box
        self.command_code = command_code


def begin_fetching(context: Context, run: Run, box: Box, how: Exited) -> None:
    """Writes down that the command has ended: only its files, or its deadline, end its box from now on.

    Raises:
        StaleWriterError: the run or the box was taken over.
    """
    context.journal.write(run, RunFetching(exit_code=how.code, failure=how.failure))
    if box.attended:
        context.journal.write(box, Seen(facts=Facts(attended=False)))


def of_nodes(files: Files, count: int | None) -> Files:
    """Files of so many nodes; with ``None``, of the first alone, whose copies need no folder of their own."""
    return files if count is None else [each for node in range(count) for each in _of_node(files, node)]


def sources(work: Work, nodes: Sequence[Target], files: Files) -> list[Copy]:
    """What is copied from where."""
    if not work.fetch_from_all:
        return [(nodes[0], *each) for each in files]
    return [(node, *each) for node in nodes for each in _of_node(files, node.node)]


def _of_node(files: Files, node: int) -> Files:
    """Files of one of several nodes, whose copies go into a folder that is named by its number."""
    return [(source, os.path.join(*_beside(here, str(node)))) for source, here in files]  # noqa: PTH118


def _beside(path: str, name: str) -> tuple[str, str, str]:
    head, tail = os.path.split(path)  # a slash at the end stays: rsync takes it for a folder
    return head, name, tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a command has left on its box.

    Attributes:
        context: clouds, journal, clock and progress of this call.
        run: the run, which this process holds.
        box: its box, which this process holds.
        nodes: the nodes of the command; its files are on the first, or on all.
        code: the exit code of the command.
    """

    context: Context
    run: Run
    box: Box
    nodes: Sequence[Target]
    code: int

    def fetch(
        self, files: Files, *, try_for_s: float, copy_s: float = COPY_S, may_discard: bool = False
    ) -> list[str]:
        """Copies files, again over a new connection where that fails, until all are here.

        Args:
            files: (path on the box, path here).
            try_for_s: how long to try; 0 is once.
            copy_s: how long one copy may take.
            may_discard: whether somebody at a terminal may give the files up, by a second Ctrl-C.

        Returns:
            The paths that a command which failed has not written; each was told.

        Raises:
            NotFetchedError: the box is kept, and said until when.
            InterruptedBySignal: the files were given up; the caller deletes the box.
        """
        left = sources(self.run.work, self.nodes, files)
        absent, there = dict[str, str](), set[str]()
        end, pause_s = self.context.clock() + timedelta(seconds=try_for_s), FIRST_PAUSE_S
        while failed := self._copy_each(left, absent, there, copy_s, may_discard=may_discard):
            left, why = [copy for copy, _ in failed], self._why(failed)
            if self.context.clock() + timedelta(seconds=pause_s) >= end:
                raise self._kept(why) from failed[0][1]
            try:
                self._wait(why, {node.node: node for node, _, _ in left}.values(), pause_s)
            except InterruptedBySignal as signalled:
                raise self._stopped(why, signalled, may_discard=may_discard) from signalled
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        missing = {source: text for source, text in absent.items() if source not in there}
        if missing and not self.code:
            raise self._kept("; ".join(missing.values()), KEPT_FOR_A_LOOK)
        for text in absent.values():
            self.context.warn("fetch", f"warning: {text}")
        return list(missing)

    def reach(self) -> None:
        """Makes the nodes reachable from here.

        Raises:
            NotFetchedError: one does not answer; the box is kept.
        """
        try:
            for node in self.nodes if self.run.work.fetch_from_all else self.nodes[:1]:
                reach(self.context, self.box, node)
        except (ConnectionFailedError, CloudError, TimedOutError) as error:
            kept = self._kept(f"nothing was fetched: {error}")
            kept.hint = f"{error.hint}; then {kept.hint}" if error.hint else kept.hint
            raise kept from error

    def _copy_each(
        self,
        copies: Sequence[Copy],
        absent: dict[str, str],
        there: set[str],
        copy_s: float,
        *,
        may_discard: bool,
    ) -> list[tuple[Copy, Exception]]:
        """Tries each copy once, whether or not others fail; of a node that does not answer only the first.

        Args:
            copies: what is to be copied.
            absent: receives the paths that are not there, and that in words.
            there: receives the paths that are.
            copy_s: how long each may take.
            may_discard: as of :meth:`fetch`.

        Returns:
            Those that failed and may succeed later, and why.

        Raises:
            NotFetchedError: a signal came.
            InterruptedBySignal: so it did, and the files were given up.
        """
        failed, silent = list[tuple[Copy, Exception]](), dict[int, Exception]()
        for at, copy in enumerate(copies):
            node, source, here = copy
            if node.node in silent:
                failed.append((copy, silent[node.node]))
                continue
            try:
                self.context.tell("fetch", f"{source}{self._from(node)}")
                left_out = self.context.tasks.run(partial(rsync_down, node, source, here), copy_s)
                if left_out:
                    self.context.warn("fetch", f"warning: {source!r}: {left_out}")
                there.add(source)
            except NotThereError as error:
                absent.setdefault(source, self._why([(copy, error)]))
            except InterruptedBySignal as error:
                why = self._why([*failed, *((each, error) for each in copies[at:])])
                raise self._stopped(why, error, may_discard=may_discard) from error
            except _MAY_PASS as error:
                failed.append((copy, error))
                if isinstance(error, ConnectionFailedError) and error.failure is not ConnectionFailure.BROKEN:
                    silent[node.node] = error
        return failed

    def _why(self, failed: Sequence[tuple[Copy, BaseException]]) -> str:
        """Which paths were not fetched, and why; those that failed for the same reason together."""
        named: dict[str, list[str]] = {}
        for (node, source, _), error in failed:
            reason = error.message if isinstance(error, GpucloudError) else str(error)
            named.setdefault(reason, []).append(f"{source!r}{self._from(node)}")
        return "; ".join(
            f"{', '.join(paths)} {'was' if len(paths) == 1 else 'were'} not fetched: {reason}"
            for reason, paths in named.items()
        )

    def _from(self, node: Target) -> str:
        return f" from node {node.node}" if self.run.work.fetch_from_all else ""

    def _wait(self, why: str, nodes: Iterable[Target], pause_s: float) -> None:
        """Pauses, and connects anew as far as that is possible: the next copy says what is wrong."""
        self.context.tell("fetch", f"{why}; trying again in {pause_s:.0f} s")
        self.context.tasks.pause(pause_s)
        for node in nodes:
            with suppress(ConnectionFailedError, CloudError, UsageError, TimedOutError):
                self.context.tasks.run(partial(disconnect, node))
                reach(self.context, self._now(), node)

    def _now(self) -> Box:
        return refresh(self.context, self.context.journal.box(self.box.id))

    # --- what cannot be copied

    def _stopped(self, why: str, error: InterruptedBySignal, *, may_discard: bool) -> GpucloudError:
        """The failure after a signal: the box is kept, unless somebody at a terminal presses Ctrl-C again."""
        tasks = self.context.tasks
        with tasks.noting_another() as another:
            kept = self._kept(f"{why}: {error.message}")
            if not may_discard or error.signum != signal.SIGINT or kept.box.state is not BoxState.READY:
                return kept
            self.context.tell("fetch", kept.message)
            self.context.tell("fetch", f"Ctrl-C within {AGAIN_S:.0f} s deletes it, with these files")
            if not another(AGAIN_S):
                return kept
        return InterruptedBySignal(
            f"{kept.box.name!r} was deleted, with files that were not fetched", signum=signal.SIGINT
        )

    def _kept(self, why: str, look: timedelta | None = None) -> NotFetchedError:
        """The failure, once the box has an end, and it is written down why.

        Args:
            why: what was not fetched.
            look: how long it is kept for a look, where nothing else was asked for.
        """
        with self.context.tasks.finishing():
            with suppress(CloudError, TimedOutError):
                self._now()
            run, box = self.context.journal.held_run(self.run), self.context.journal.held(self.box)
            if box.state is BoxState.READY:
                box = self._ending(box, _end(run, box, self.context.clock(), look))
            if run.not_fetched != why:
                with suppress(JournalError):  # the run is `fetching`: that keeps the box
                    self.context.journal.write(run, RunNotFetched(why=why))
        text = f"the command ended with exit code {self.code}; {why}"
        if box.state is not BoxState.READY:
            return NotFetchedError(
                f"{text}; box {box.name!r} is {box.state}", box=box, command_code=self.code
            )
        at = f"until {rfc3339(box.expires_at)}" if box.expires_at else "without a deadline"
        names = " and ".join(map(repr, ending_budgets(self.context, box)))
        sooner = f" (sooner if budget {names} is used up)" if names else ""
        return NotFetchedError(
            f"{text}; box {box.name!r} is kept {at}{sooner}",
            box=box,
            command_code=self.code,
            hint=f"fetch the files, and end the box: gpucloud runs fetch {run.run_id}",
        )

    def _ending(self, box: Box, until: datetime | None) -> Box:
        """The box with its new end; with the old one where that cannot be moved."""
        if until is None or until == box.expires_at:
            return box
        context = self.context
        assert context.state is not None  # noqa: S101  (who works on runs has a state folder)
        nodes = [
            each
            for each in targets(box, key_folder(context.state, box.id), context.proxy_command)
            if box.nodes[each.node].state is State.RUNNING
        ]
        try:
            return extend(context, box, nodes, until, check_of(context, "the deadline was not moved"))
        except (BudgetError, HalfMovedError, CloudError, TimedOutError) as error:
            context.warn("fetch", f"warning: the deadline of {box.name} was not moved: {error}")
            return context.journal.held(box)


def _end(run: Run, box: Box, now: datetime, look: timedelta | None) -> datetime | None:
    """When a box ends whose files could not be copied; ``None``: as before.

    It is decided once, when a copy fails for the first time: tries in vain do not move it.
    """
    if run.not_fetched is not None:
        return None
    if run.work.keep_results_s is not None:
        until = now + timedelta(seconds=run.work.keep_results_s)
    elif look is not None:
        until = min(now + look, box.expires_at or now + look)
    elif box.expires_at is None:
        until = now + KEPT_WITHOUT_END
    else:
        return None
    return until.replace(microsecond=0)


def release_box(context: Context, nodes: Sequence[Target]) -> None:
    """Tells nodes that nothing on them is to be fetched any more: from now on being idle ends them."""
    for node in nodes:
        with suppress(GpucloudError):  # it ends at its deadline in any case
            context.tasks.run(partial(keep_results, node, kept=False))
