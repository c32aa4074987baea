"""The files of a run come home. Its command has ended and is never run again; a box that has its files stays.

What was paid for outranks the bill: where files cannot be copied, the box is kept until its deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from gpucloud.boxes.extend import HalfMovedError, extend
from gpucloud.boxes.ingress import reach
from gpucloud.errors import CloudError, GpucloudError, InterruptedBySignal, UsageError
from gpucloud.inventory.reconcile import refresh
from gpucloud.journal.events import RunFetching, Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Run
from gpucloud.resources import rfc3339
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.ssh.client import ConnectionFailedError, Target, disconnect
from gpucloud.ssh.files import NotCopiedError, NotThereError, rsync_down

TRY_FOR_S = 600.0
"""How long a command that waits for its run tries to copy what cannot be copied."""
ONCE_S = 30.0
"""How long one look of ``tend`` may copy; the next look tries again."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
COPY_S = 1e8
KEPT_WITHOUT_END = timedelta(hours=24)
KEPT_FOR_A_LOOK = timedelta(minutes=30)
"""How long a box stays whose command succeeded, but has not written what is to be fetched: mostly a typo."""


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


def begin_fetching(context: Context, run: Run, box: Box, code: int) -> None:
    """Writes down that the command has ended: only its files, or its deadline, end its box from now on.

    Raises:
        StaleWriterError: the run or the box was taken over.
    """
    context.journal.write(run, RunFetching(exit_code=code))
    if box.attended:
        context.journal.write(box, Seen(facts=Facts(attended=False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a command has left on its box.

    Attributes:
        context: clouds, journal, clock and progress of this call.
        run_id: the run, for what to do next.
        box: its box, which this process holds.
        nodes: the nodes of the command; its files are on the first.
        code: the exit code of the command.
    """

    context: Context
    run_id: str
    box: Box
    nodes: Sequence[Target]
    code: int

    def fetch(
        self, files: Sequence[tuple[str, str]], *, try_for_s: float, copy_s: float = COPY_S
    ) -> list[str]:
        """Copies files, again over a new connection where that fails, until all are here.

        Args:
            files: (path on the box, path here).
            try_for_s: how long to try; 0 is once.
            copy_s: how long one copy may take.

        Returns:
            The paths that a command which failed has not written; each was told.

        Raises:
            NotFetchedError: the box is kept, and said until when.
        """
        left, absent = list(files), dict[str, str]()
        end, pause_s = self.context.clock() + timedelta(seconds=try_for_s), FIRST_PAUSE_S
        while left:
            source, here = left[0]
            why = f"{source!r} was not fetched"
            try:
                self.context.tell("fetch", source)
                self.context.tasks.run(partial(rsync_down, self.nodes[0], source, here), copy_s)
                left.pop(0)
            except NotThereError as error:
                absent[source] = f"{why}: {error.message}"
                left.pop(0)
            except InterruptedBySignal as error:
                raise self._kept(f"{why}: {error.message}") from error
            except (NotCopiedError, ConnectionFailedError, TimedOutError) as error:
                if self.context.clock() + timedelta(seconds=pause_s) >= end:
                    raise self._kept(f"{why}: {error}") from error
                self._wait(f"{why}: {error}", pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        if absent and not self.code:
            raise self._kept("; ".join(absent.values()), self.context.clock() + KEPT_FOR_A_LOOK)
        for text in absent.values():
            self.context.warn("fetch", f"warning: {text}")
        return list(absent)

    def _wait(self, why: str, pause_s: float) -> None:
        """Pauses, and connects anew as far as that is possible: the next copy says what is wrong.

        Raises:
            NotFetchedError: a signal came.
        """
        self.context.tell("fetch", f"{why}; trying again in {pause_s:.0f} s")
        try:
            self.context.tasks.pause(pause_s)
            with suppress(ConnectionFailedError, CloudError, UsageError, TimedOutError):
                self.context.tasks.run(partial(disconnect, self.nodes[0]))
                reach(self.context, self._now(), self.nodes[0])
        except InterruptedBySignal as error:
            raise self._kept(why) from error

    def _now(self) -> Box:
        return refresh(self.context, self.context.journal.box(self.box.id))

    def _kept(self, why: str, until: datetime | None = None) -> NotFetchedError:
        """The failure, once the box has an end: a sooner one, its own, or 24 hours where it has none."""
        with self.context.tasks.finishing():
            with suppress(CloudError, TimedOutError):
                self._now()
            box = self.context.journal.held(self.box)
            if box.state is BoxState.READY:
                box = self._ending(box, until)
        text = f"the command ended with exit code {self.code}; {why}"
        if box.state is not BoxState.READY:
            return NotFetchedError(
                f"{text}; box {box.name!r} is {box.state}", box=box, command_code=self.code
            )
        at = f"until {rfc3339(box.expires_at)}" if box.expires_at else "without a deadline"
        return NotFetchedError(
            f"{text}; box {box.name!r} is kept {at}",
            box=box,
            command_code=self.code,
            hint=f"fetch the files, and end the box: gpucloud runs fetch {self.run_id}",
        )

    def _ending(self, box: Box, until: datetime | None) -> Box:
        """The box with its new end; with the old one where that cannot be moved."""
        if until is None and box.expires_at is None:
            until = self.context.clock() + KEPT_WITHOUT_END
        if until is None or (box.expires_at is not None and box.expires_at <= until):
            return box
        try:
            return extend(self.context, box, self.nodes, until.replace(microsecond=0))
        except (HalfMovedError, CloudError, TimedOutError) as error:
            self.context.warn("fetch", f"warning: the deadline of {box.name} was not moved: {error}")
            return self.context.journal.held(box)
