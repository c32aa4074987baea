"""The output of a run, attempt by attempt: of boxes that live, and of those that are gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpucloud.api.nodes import Nodes
from gpucloud.api.run import Run, find_run
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.runs import RUNS_OVER, RunState
from gpucloud.runs.rules import ASKS_FOR_RESTART
from gpucloud.ssh.client import ConnectionFailedError, lines
from gpucloud.ssh.job import RUN, JobState, jobs
from gpucloud.ssh.logs import log_command

if TYPE_CHECKING:
    from gpucloud.api.session import Session

JOB = "job"
PAUSES_S = (1, 2, 4, 8, 15, 30)
"""The pauses while nothing new is there, each longer than the one before; the last one also after it."""


class RunFailedError(GpucloudError):
    """A run whose output was followed has ended without an exit code of its command."""

    exit_code = 125

    def __init__(self, run: Run) -> None:
        why = f": {run.failure.message}" if run.failure else ""
        super().__init__(
            f"run {run.run_id!r} is {run.state}{why}",
            hint=f"see its attempts: gpucloud runs show {run.run_id}",
        )
        self.error_class = run.failure.error_class if run.failure else str(run.state)


@dataclass(slots=True)
class Following:
    """Follows the output of a run over its attempts.

    Attributes:
        session: the journal, and what connects.
        run_id: the run.
        node: the node whose output is followed.
        out: takes each line, with the number of its attempt.
        tell: takes what the reader waits for, in words.
        attempt: the number of the attempt that is followed, from 1; 0 before the first.
        shown: how many of its lines were given to ``out``.
        silent: how often in a row nothing new was there.
    """

    session: Session
    run_id: str
    node: int
    out: Callable[[int, str], None]
    tell: Callable[[str], None]
    attempt: int = 0
    shown: int = 0
    silent: int = 0
    _told: str | None = field(default=None)

    def until_it_ends(self) -> int:
        """Follows the run; returns the exit code of its command.

        Raises:
            RunFailedError: the run has ended without one.
            UsageError: there is no such run, or its process has died and nobody goes on with it.
        """
        while True:
            run = self._read()
            code = self._look(run)
            if code is not None:
                return code
            time.sleep(PAUSES_S[min(self.silent, len(PAUSES_S) - 1)])
            self.silent += 1

    def _read(self) -> Run:
        return Run.read(find_run(self.session, self.run_id), self.session, self.session.now())

    def _look(self, run: Run) -> int | None:
        """Gives what is new to ``out``; returns the exit code of the command once it has ended."""
        number = max((n for n, each in enumerate(run.attempts, start=1) if each.box_id), default=0)
        if number > self.attempt:
            place = run.attempts[number - 1]
            if self.attempt:
                self._tell(f"attempt {number} on {place.box}")
            self.attempt, self.shown = number, 0
        if run.state in RUNS_OVER:
            return self._rest(run)
        if run.abandoned:
            raise UsageError(
                f"the process of run {run.run_id!r} has ended: nobody goes on with it",
                hint=f"delete what is left: gpucloud down --run-id {run.run_id} --yes",
            )
        under_way = self.attempt == len(run.attempts) and self.attempt and run.attempts[-1].loss is None
        if under_way:
            return self._stream(run)
        if run.state is RunState.WAITING:
            self._tell(
                f"the run waits for its next box{'' if not run.detached else ': gpucloud tend buys it'}"
            )
        return None

    def _stream(self, run: Run) -> int | None:
        """Gives the lines of the attempt under way, until its command ends or the connection is lost."""
        box = run.attempts[-1].box_id
        assert box is not None  # noqa: S101  (it is under way on one)
        try:
            target = Nodes(self.session).connect(box, node=self.node)
            if _job_on(jobs(target)) is None:
                return None
            with closing(lines(target, log_command(JOB, job=RUN, follow=True))) as stream:
                for number, line in enumerate(stream):
                    if number >= self.shown:
                        self.out(self.attempt, line)
                        self.shown, self.silent = number + 1, 0
            state = _job_on(jobs(target))
        except (ConnectionFailedError, UsageError) as error:  # it boots, or is gone: the journal says which
            self._tell(f"no connection to {run.attempts[-1].box}: {error.message}")
            return None
        code = None if state is None or state.running else state.exit_code
        if code == ASKS_FOR_RESTART and run.restarts < run.most_restarts:
            return None
        return code

    def _rest(self, run: Run) -> int:
        """The end of a run that is over, with what was kept of an attempt that was not followed."""
        if self.attempt and not self.shown:
            try:
                text = Nodes(self.session).logs(
                    run.attempts[self.attempt - 1].box_id or "", JOB, node=self.node
                )
            except UsageError as error:
                self._tell(error.message)
            else:
                for line in text.splitlines():
                    self.out(self.attempt, line)
        if run.exit_code is None or run.state is not RunState.ENDED:
            raise RunFailedError(run)
        return run.exit_code

    def _tell(self, text: str) -> None:
        """Says what the reader waits for, once."""
        if text != self._told:
            self._told = text
            self.tell(text)


def _job_on(found: list[JobState]) -> JobState | None:
    return next((each for each in found if each.id == RUN), None)
