"""A run: one command on a box of its own, which is gone when the run ends, in every outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from gpucloud.boxes.bring_up import targets
from gpucloud.boxes.kept_logs import keep_logs
from gpucloud.boxes.launch import abandon
from gpucloud.boxes.teardown import take_down
from gpucloud.errors import BoxLostError, CloudError, ErrorClass, InterruptedBySignal, UsageError
from gpucloud.inventory.discovery import Patience, begin, finish
from gpucloud.inventory.down import ended_unrecorded
from gpucloud.inventory.reconcile import refresh
from gpucloud.journal.errors import JournalError
from gpucloud.journal.events import Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.resources import Machine, Search
from gpucloud.runs import checkpoints
from gpucloud.runs.job import FOREVER_S, Job, check_there
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import ConnectionFailedError, Target, forget
from gpucloud.ssh.files import NotCopiedError, rsync_down
from gpucloud.ssh.keys import key_folder

RUN_TTL = timedelta(hours=6)
"""The lifetime of a run's box by default."""
RETRIES = 3
CAPACITY_PAUSE_S = 60.0
TAKE_DOWN_S = 600.0
REASONS = ("interruption", "capacity")
"""The failures after which a run may be retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The work of a run.

    Attributes:
        job: the command.
        retry_on: some of :data:`REASONS`: the run is retried after these, at most :data:`RETRIES` times.
        fetch: what to copy back at the end: (path on the box, path here).
        keep_on_failure: keep the box until its deadline if the command fails.
        checkpoints: where the checkpoints of the command go, if it has any.
    """

    job: Job
    retry_on: frozenset[str] = frozenset()
    fetch: Sequence[tuple[str, str]] = ()
    keep_on_failure: bool = False
    checkpoints: checkpoints.Settings | None = None


@dataclass(slots=True)
class Attendant:
    """Runs the command on a box, and ends the box with it.

    ``buy`` returns a box that this process holds.
    """

    context: Context
    orders: Orders
    buy: Callable[[], Box]
    box: Box | None = None
    not_fetched: list[str] = field(default_factory=list[str])
    _tries: int = 0

    def run(self) -> int:
        """Runs it, with retries after the failures of ``retry_on``; returns the command's exit code.

        Raises:
            BoxLostError: the box ended before its command did.
            NotCopiedError: the command succeeded, and its files could not be fetched.
            GpucloudError: any other failure; nothing is left, unless the error says so.
        """
        while True:
            try:
                self.box = self.buy()
                return self._with_box(self.box)
            except BoxLostError as error:
                if not error.taken_back or not self._again("interruption"):
                    raise
                self.context.tell("retry", f"{error.message}; trying again")
            except CloudError as error:
                if error.error_class is not ErrorClass.CAPACITY or not self._again("capacity"):
                    raise
                self.context.tell("retry", f"no capacity; trying again in {CAPACITY_PAUSE_S:.0f} s")
                self.context.tasks.pause(CAPACITY_PAUSE_S)

    def _again(self, reason: str) -> bool:
        self._tries += 1
        return reason in self.orders.retry_on and self._tries <= RETRIES

    def _with_box(self, box: Box) -> int:
        """Runs the command on the box, which is gone when this returns or raises, unless it is to be kept."""
        context = self.context
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        keys, count = key_folder(context.state, box.id), len(box.nodes)
        try:
            target = targets(box, keys, context.proxy_command)[0]
            try:
                code = checkpoints.follow_with_checkpoints(
                    context, box, target, self.orders.job, self.orders.checkpoints, attempt=self._tries + 1
                )
                self._fetch(target, code)
                keep_logs(context, [target])
            except ConnectionFailedError:
                check_there(context, refresh(context, context.journal.box(box.id)))
                raise
        except BaseException as error:
            abandon(context, box, error, ends_as=BoxState.DELETED)
            forget(keys, box.id, nodes=count)
            raise
        if code and self.orders.keep_on_failure:
            self._keep(box)
            return code
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
            raise InterruptedBySignal("ended by a signal; the box is gone", signum=context.tasks.signum)
        return code

    def _fetch(self, target: Target, code: int) -> None:
        """Copies the files back, as far as they exist. A command that failed may have written none.

        Raises:
            NotCopiedError: some could not be copied, and the command succeeded by its exit code.
        """
        failures: list[NotCopiedError] = []
        for source, destination in self.orders.fetch:
            self.context.tell("fetch", source)
            try:
                self.context.tasks.run(partial(rsync_down, target, source, destination), FOREVER_S)
            except NotCopiedError as error:
                error.message = f"{source!r} was not fetched: {error.message}"
                failures.append(error)
                self.not_fetched.append(source)
        for failure in failures[0 if code else 1 :]:
            self.context.warn("fetch", f"warning: {failure.message}")
        if failures and not code:
            raise failures[0]

    def _keep(self, box: Box) -> None:
        """Keeps the box: from now on it is a box like any other."""
        self.context.journal.write(box, Seen(facts=Facts(attended=False)))
        self.context.journal.release(box)
        self.context.notice(
            "keep", f"{box.name} is kept: gpucloud ssh {box.name}. End it with: gpucloud down {box.name}"
        )


def refuse_live(context: Context, run_id: str) -> None:
    """Refuses a run id that a living machine has, also one that was launched elsewhere.

    Raises:
        UsageError: it is in use.
    """
    patience = Patience(first_s=10.0, whole_s=60.0, news_s=2.0)
    survey = finish(context, begin(context, Search(run=run_id)), patience)
    machines = [each for each in survey.resources if isinstance(each, Machine)]
    if machines:
        raise UsageError(
            f"run {run_id!r} exists already: {machines[0].ref.id} runs in {machines[0].ref.region}",
            hint=f"choose another --run-id, or delete it: gpucloud down --run-id {run_id}",
        )
