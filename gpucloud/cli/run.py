"""``gpucloud run``: a box for one command. Launches, syncs, runs, fetches, takes down, whatever happens."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from gpucloud.cli.boxes import answering, box_document, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.engine import connect, engine, now
from gpucloud.cli.options import RunId, takes_spec
from gpucloud.cli.output import writing
from gpucloud.cli.plan import AcceptSnapshot
from gpucloud.cli.provision import Buyer, environment_of, refuse_impossible
from gpucloud.cli.timeline import Timeline
from gpucloud.errors import (
    BoxLostError,
    CloudError,
    ErrorClass,
    GpucloudError,
    InterruptedBySignal,
    UsageError,
)
from gpucloud.journal.lifecycle import BoxState, new_id
from gpucloud.resources import State
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import forget
from gpucloud.ssh.keys import find_program, key_folder

if TYPE_CHECKING:
    from gpucloud.journal.store import Box
    from gpucloud.runtime.context import Context
    from gpucloud.ssh.client import ConnectionFailedError, Target

RUN_TTL = timedelta(hours=6)
FOREVER_S = 1e8
TIMED_OUT = 124
"""The exit code of a command that did not end in time, as that of timeout(1)."""
RETRIES = 3
CAPACITY_PAUSE_S = 60.0
COME_BACK_S = 600.0
TRY_AGAIN_S = 3.0
TAKE_DOWN_S = 600.0
REASONS = ("interruption", "capacity")


@takes_spec
def run(
    app: App,
    spec: Spec,
    command: Annotated[
        list[str] | None, typer.Argument(help="The command, after --.", metavar="-- COMMAND...")
    ] = None,
    run_id: RunId = None,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", help="End the command after this: exit code 124.", metavar="TIME"),
    ] = None,
    retry_on: Annotated[
        str | None,
        typer.Option(
            "--retry-on",
            help=f"Begin anew, at most {RETRIES} times: interruption, capacity.",
            metavar="REASONS",
        ),
    ] = None,
    fetch: Annotated[
        list[str] | None,
        typer.Option(
            "--fetch", help="PATH or PATH:LOCAL to bring back at the end; repeatable.", metavar="PATH"
        ),
    ] = None,
    keep_on_failure: Annotated[
        bool, typer.Option("--keep-on-failure", help="Leave the box where the command fails, until its end.")
    ] = False,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", help="Append timeline and cost to this file, as Markdown.", metavar="FILE"),
    ] = None,
    accept_snapshot_price: AcceptSnapshot = False,
) -> int:
    """Run a command on a box of its own, and take the box down in every outcome.

    Gives the command's own exit code; 125 is gpucloud's own failure, 124 that of --timeout. The command runs
    in the home folder, where --sync brings its files; on the first node where there are several.
    """
    orders = _Orders(
        command=command or spec.run or "",
        environment=environment_of(spec),
        run_id=run_id or new_id("r-", now(), os.urandom(10)),
        timeout_s=_seconds(timeout),
        retry_on=_reasons(retry_on),
        fetch=[_fetched(item) for item in fetch or ()],
        keep_on_failure=keep_on_failure,
    )
    if not orders.command:
        raise UsageError("say what to run, after --", hint="gpucloud run --gpu T4 -- nvidia-smi")
    if spec.ttl is None:
        spec = spec.model_copy(update={"ttl": RUN_TTL})
    refuse_impossible(spec)
    if orders.fetch:
        find_program("rsync")
    proxy_command = connect(app)
    with Timeline(app.output) as timeline, engine(app, timeline.tell) as context:
        context.tasks.clean_up = f"gpucloud down --run-id {orders.run_id} --yes"
        buyer = Buyer(
            app,
            context,
            spec,
            orders.run_id,
            proxy_command,
            orders.environment,
            attended=True,
            accept_snapshot_price=accept_snapshot_price,
        )
        attendant = _Attendant(app, context, timeline, buyer, orders)
        with _summarised(app, attendant, summary):
            buyer.settle_first()
            if run_id is not None:
                _refuse_live(context, run_id)
            app.output.say(f"Run {orders.run_id}; from anywhere: {context.tasks.clean_up}")
            code = attendant.run()
        living = context.journal.boxes(owner=app.owner)
    steps = [{"step": step, "at_s": round(at, 3)} for step, at in timeline.steps]
    with answering(f"the command ended with exit code {code}", living):
        fields = {"exit_code": code, "not_fetched": attendant.not_fetched, "timeline": steps}
        if app.output.json:
            app.output.document("run", {"box": attendant.box_seen(), **fields})
    app.output.say(f"The command ended with exit code {code}.")
    app.output.say(paying_text(living))
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orders:
    """What is to be done on the box."""

    command: list[str] | str
    environment: Mapping[str, str]
    run_id: str
    timeout_s: float
    retry_on: frozenset[str]
    fetch: Sequence[tuple[str, str]]
    keep_on_failure: bool


@dataclass(slots=True)
class _Attendant:
    """Sees to it that the command is run, and that the box ends with it."""

    app: App
    context: Context
    timeline: Timeline
    buyer: Buyer
    orders: _Orders
    box: Box | None = None
    code: int | None = None
    not_fetched: list[str] = field(default_factory=list[str])
    _tries: int = field(default=0)

    def box_seen(self) -> dict[str, Any] | None:
        """The last box as documents show it; ``None`` where none was started."""
        return None if self.box is None else box_document(self.context.journal.box(self.box.id), now())

    def run(self) -> int:
        """Runs it, and again after failures that are to be borne with; the command's exit code."""
        while True:
            try:
                self.box = self.buyer.buy(self.buyer.deal())
                self.code = self._with_box(self.box)
            except BoxLostError as error:
                if not error.taken_back or not self._again("interruption"):
                    raise
                self.context.tell("retry", f"{error.message}; beginning anew")
            except CloudError as error:
                if error.error_class is not ErrorClass.CAPACITY or not self._again("capacity"):
                    raise
                self.context.tell("retry", f"no capacity anywhere; trying again in {CAPACITY_PAUSE_S:.0f} s")
                self.context.tasks.pause(CAPACITY_PAUSE_S)
            else:
                return self.code

    def _again(self, reason: str) -> bool:
        self._tries += 1
        return reason in self.orders.retry_on and self._tries <= RETRIES

    def _with_box(self, box: Box) -> int:
        """Runs the command on the box, which is gone when this returns or raises, unless it is to be kept."""
        from gpucloud.boxes.bring_up import targets
        from gpucloud.boxes.launch import abandon
        from gpucloud.boxes.teardown import take_down
        from gpucloud.inventory.down import ended_unrecorded
        from gpucloud.inventory.reconcile import refresh
        from gpucloud.journal.store import JournalError
        from gpucloud.ssh.client import ConnectionFailedError

        keys = key_folder(self.app.paths.state, box.id)
        try:
            target = targets(box, keys, self.buyer.proxy_command)[0]
            try:
                code = self._command(box, target)
                self._fetch(target, code)
            except ConnectionFailedError:
                self._check_there(refresh(self.context, self.context.journal.box(box.id)))
                raise
        except BaseException as error:
            self.timeline.resume()
            abandon(self.context, box, error, ends_as=BoxState.DELETED)
            forget(keys, box.id, nodes=len(box.facts["nodes"]))
            raise
        self.timeline.resume()
        if code and self.orders.keep_on_failure:
            self._keep(box)
            return code
        self.context.tell("down", f"ending {box.name}")
        try:
            with self.context.tasks.finishing():
                take_down(self.context, box, budget_s=TAKE_DOWN_S)
        except JournalError as error:
            raise ended_unrecorded(self.context, box, error, budget_s=TAKE_DOWN_S) from error
        finally:
            self.context.journal.release(box)
        forget(keys, box.id, nodes=len(box.facts["nodes"]))
        if self.context.tasks.signum is not None:
            raise InterruptedBySignal("ended by a signal; the box is gone", signum=self.context.tasks.signum)
        return code

    def _command(self, box: Box, target: Target) -> int:
        """The command's exit code."""
        from gpucloud.runtime.tasks import TimedOutError
        from gpucloud.ssh.client import ConnectionFailedError
        from gpucloud.ssh.job import Follower, script_of, start, stop

        command = self.orders.command
        tasks = self.context.tasks
        self.context.tell("job", command if isinstance(command, str) else " ".join(command))
        self.timeline.pause()
        tasks.run(partial(start, target, script_of(command, self.orders.environment)))
        out = sys.stderr.buffer if self.app.output.json else sys.stdout.buffer
        follower = Follower(target, {"out": _sink(out), "err": _sink(sys.stderr.buffer)})
        end = now() + timedelta(seconds=self.orders.timeout_s)
        try:
            while True:
                left_s = max((end - now()).total_seconds(), 0.0)
                try:
                    code: int = tasks.wait(tasks.start(follower.follow), left_s)
                except ConnectionFailedError as error:
                    self._come_back(box, target, error)
                except TimedOutError:
                    self.context.tell("job", f"not over after {self.orders.timeout_s:.0f} s: ending it")
                    tasks.run(partial(stop, target))
                    return TIMED_OUT
                except BrokenPipeError as error:
                    raise InterruptedBySignal("nobody reads the output", signum=signal.SIGPIPE) from error
                else:
                    return code
        finally:
            follower.close()

    def _come_back(self, box: Box, target: Target, lost: ConnectionFailedError) -> None:
        """Waits until the box can be reached again.

        Raises:
            BoxLostError: it is gone.
            ConnectionFailedError: it is not, but does not answer.
        """
        from gpucloud.boxes.ingress import reach
        from gpucloud.inventory.reconcile import refresh
        from gpucloud.ssh.client import ConnectionFailedError

        self.context.tell("job", f"{lost.message}; trying to come back")
        end = now() + timedelta(seconds=COME_BACK_S)
        while True:
            try:
                self._check_there(refresh(self.context, self.context.journal.box(box.id)))
                reach(self.context, box, target)
            except (ConnectionFailedError, CloudError):
                if now() >= end:
                    raise
                self.context.tasks.pause(TRY_AGAIN_S)
            else:
                return

    def _check_there(self, box: Box) -> None:
        first = box.facts["nodes"][0]
        if box.state is BoxState.READY and first["state"] != State.GONE:
            if box.gone_nodes:
                self.context.tell("job", f"{box.gone_nodes} of {len(box.facts['nodes'])} nodes are gone")
            return
        taken_back = box.state is BoxState.INTERRUPTED or bool(first.get("taken_back"))
        why = "was taken back by its cloud" if taken_back else "ended before its command did"
        hint = "begin anew by itself: --retry-on interruption" if taken_back else "see --ttl, --idle"
        raise BoxLostError(f"box {box.name!r} {why}", taken_back=taken_back, hint=hint)

    def _fetch(self, target: Target, code: int) -> None:
        """Brings the files back, as many as there are. A command that failed may have written none.

        Raises:
            NotCopiedError: some could not be brought, and the command's exit code says that it succeeded.
        """
        from gpucloud.ssh.files import NotCopiedError, rsync_down

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
            self.app.output.say(f"warning: {failure.message}")
        if failures and not code:
            raise failures[0]

    def _keep(self, box: Box) -> None:
        """From now on a box like any other."""
        self.context.journal.write(box, "seen", {"facts": {"attended": False}})
        self.context.journal.release(box)
        self.app.output.say(
            f"{box.name} is kept: gpucloud ssh {box.name}. End it with: gpucloud down {box.name}"
        )


def _sink(stream: BinaryIO) -> Callable[[bytes], None]:
    def write(chunk: bytes) -> None:
        stream.write(chunk)
        stream.flush()

    return write


def _refuse_live(context: Context, run_id: str) -> None:
    """Refuses a run id that something living has, also on another machine.

    Raises:
        UsageError: it is in use.
    """
    from gpucloud.inventory.discovery import Patience, begin, finish
    from gpucloud.resources import Machine, Search

    patience = Patience(first_s=10.0, whole_s=60.0, news_s=2.0)
    survey = finish(context, begin(context, Search(run=run_id)), patience)
    machines = [resource for resource in survey.resources if isinstance(resource, Machine)]
    if machines:
        raise UsageError(
            f"run {run_id!r} is under way already: it has {machines[0].ref.id} in {machines[0].ref.region}",
            hint=f"choose another --run-id, or end it: gpucloud down --run-id {run_id}",
        )


@contextmanager
def _summarised(app: App, attendant: _Attendant, file: Path | None) -> Generator[None]:
    """Appends the summary of what the body does, however it ends; then, that it cannot is no reason to fail.

    Raises:
        UsageError: not even its heading can be written, so that the body was not begun.
    """
    from gpucloud.cli.summary import heading, markdown

    failure: BaseException | None = None
    if file is not None:
        with writing("the summary", file), file.open("a", encoding="utf-8") as begun:
            begun.write(heading(attendant.orders.run_id))
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        if file is not None:
            steps, took_s = attendant.timeline.steps, attendant.timeline.elapsed_s
            try:
                text = markdown(steps, took_s, attendant.box_seen(), attendant.code, failure)
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(text)
            except (OSError, GpucloudError) as error:
                app.output.say(f"cannot write the summary to {file}: {error}")


def _seconds(text: str | None) -> float:
    from gpucloud.spec.fields import end

    if text is None:
        return FOREVER_S
    try:
        value = end(text)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from error
    return FOREVER_S if isinstance(value, str) else value.total_seconds()


def _reasons(text: str | None) -> frozenset[str]:
    given = frozenset(filter(None, (text or "").replace(" ", "").split(",")))
    unknown = sorted(given - set(REASONS))
    if unknown:
        raise UsageError(
            f"--retry-on: {unknown[0]!r} is no reason", hint=f"one or more of {', '.join(REASONS)}"
        )
    return given


def _fetched(item: str) -> tuple[str, str]:
    source, colon, destination = item.partition(":")
    if not source or (colon and not destination):
        raise UsageError(f"--fetch: {item!r} is neither PATH nor PATH:LOCAL")
    return source, destination or "."
