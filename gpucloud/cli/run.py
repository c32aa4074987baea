"""``gpucloud run``: a box for one command: launch, sync, run, fetch, and always delete the box."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from gpucloud.api.run import failure_document
from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App, completed
from gpucloud.cli.failure import is_spec_file, use_file
from gpucloud.cli.options import Options, RunId, SpecFlags, Wait, duration_of, takes_options
from gpucloud.cli.output import writing
from gpucloud.cli.plan import AcceptSnapshot
from gpucloud.cli.sync import fetched
from gpucloud.cli.travelling import DryRun, list_sources
from gpucloud.errors import GpucloudError, UsageError
from gpucloud.journal.runs import RunState
from gpucloud.resources import rfc3339
from gpucloud.runs.rules import ASKS_FOR_RESTART
from gpucloud.runs.run import REASONS, RETRIES
from gpucloud.spec.model import Spec
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.client import Client
    from gpucloud.api.results import Ran
    from gpucloud.cli.documents.runs import RunDetachedDocument, RunDocument
    from gpucloud.cli.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(Options):
    """How the command is run."""

    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout", help="Stop the command after this time, with exit code 124: 30m, 2h.", metavar="TIME"
        ),
    ] = None
    restarts: Annotated[
        int | None,
        typer.Option(
            "--restarts",
            min=0,
            help="Start again on another box, at most N times, after an interruption, lost hardware,"
            f" no capacity, or exit code {ASKS_FOR_RESTART}.",
            metavar="N",
        ),
    ] = None
    retry_on: Annotated[
        str | None,
        typer.Option(
            "--retry-on",
            help=f"Limit --restarts (then {RETRIES} by default) to: interruption, capacity.",
            metavar="REASONS",
        ),
    ] = None
    wait: Wait = None
    fetch: Annotated[
        list[str] | None,
        typer.Option(
            "--fetch",
            help="File or folder to copy back at the end, from the first node: PATH (into this folder), or"
            " PATH:LOCAL as rsync takes them (PATH/ is its contents). Repeatable.",
            metavar="PATH",
        ),
    ] = None
    fetch_from: Annotated[
        str | None,
        typer.Option(
            "--fetch-from",
            help="all: with --nodes, --fetch copies from every node, into folders 0, 1 …; default: first.",
            metavar="NODES",
        ),
    ] = None
    keep_results: Annotated[
        str | None,
        typer.Option(
            "--keep-results",
            help="How long the box stays, billed, if files cannot be copied; default: until its deadline.",
            metavar="TIME",
        ),
    ] = None
    keep_on_failure: Annotated[
        bool,
        typer.Option(
            "--keep-on-failure", help="Keep the box until its deadline if the command or its setup fails."
        ),
    ] = False

    first_node_only: Annotated[
        bool,
        typer.Option("--first-node-only", help="With --nodes, run the command on the first node alone."),
    ] = False
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Leave the command running; gpucloud tend restarts and ends the run."),
    ] = False

    dry_run: DryRun = False

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of :meth:`gpucloud.Client.run` that these options are."""
        timeout = duration_of("--timeout", self.timeout)
        return {
            "timeout_s": timeout.total_seconds() if timeout is not None else None,
            "restarts": self.restarts,
            "retry_on": _reasons(self.retry_on),
            "wait": duration_of("--wait", self.wait),
            "fetch": [fetched(each) for each in self.fetch or ()],
            "fetch_from_all": self._from_all,
            "keep_results_s": self._kept_s,
            "first_node_only": self.first_node_only,
        }

    @property
    def _from_all(self) -> bool:
        if self.fetch_from not in {None, "first", "all"}:
            raise UsageError(f"--fetch-from: {self.fetch_from!r} is not allowed; allowed: first, all")
        if self.fetch_from and not self.fetch:
            raise UsageError("--fetch-from says from where files are copied", hint="add --fetch PATH")
        if self.fetch_from == "all" and self.first_node_only:
            raise UsageError("--fetch-from all needs a command on every node: leave --first-node-only out")
        return self.fetch_from == "all"

    @property
    def _kept_s(self) -> float | None:
        kept = duration_of("--keep-results", self.keep_results)
        if self.keep_results and kept is None:
            raise UsageError("--keep-results needs an end", hint="such as --keep-results 3d")
        if kept is not None and not self.fetch:
            raise UsageError("--keep-results is for files that are to be copied", hint="add --fetch PATH")
        return None if kept is None else kept.total_seconds()


@takes_options
def run(
    app: App,
    spec: SpecFlags,
    *,
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to run, after --.", metavar="-- COMMAND...")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Has no effect: run never asks.")] = False,  # noqa: ARG001
    run_id: RunId = None,
    job: JobOptions,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", help="Append timeline and cost to this Markdown file.", metavar="FILE"),
    ] = None,
    accept_snapshot_price: AcceptSnapshot = False,
) -> int:
    """Launch a box for one command; then delete it, unless files of --fetch could not be copied.

    Exits with the command's exit code; 124 after --timeout, 125 if gpucloud itself fails. The command runs in
    the home folder, where --sync copies its files, without what git ignores, .git and virtual environments;
    --setup, which may read them, comes before it. With --nodes it runs on every node, with variables such as
    NODE_RANK and MASTER_ADDR: each line of output begins with its node, and the first failure ends the
    others. With --detach, exits with 0 once the command runs, and prints the run's ID.

    Examples:
        gpucloud run --gpu T4 --ttl 1h --sync . -- python3 train.py
        gpucloud run --gpu A100 --spot --restarts 5 --sync . --fetch out -- python3 train.py
    """
    if command and len(command) == 1 and is_spec_file(command[0]):
        raise UsageError(
            f"{command[0]} is a spec file, not a command",
            hint=use_file("gpucloud run", f"{command[0]} -- COMMAND"),
        )
    if job.dry_run:
        return list_sources(app, spec)
    settings = job.settings
    spec, _ = completed(app, spec)
    settings |= {"alone": run_id is not None, "accept_snapshot_price": accept_snapshot_price}
    if job.detach:
        return _detached(app, spec, command, job, run_id=run_id, summary=summary, **settings)
    with app.working() as (client, timeline), _summarised(app, client, timeline, run_id, summary) as told:
        ran = client.run(
            spec,
            command or spec.run or "",
            run_id=told.run_id,
            keep_on_failure=job.keep_on_failure,
            out=_sink(sys.stderr.buffer if app.output.json else sys.stdout.buffer),
            err=_sink(sys.stderr.buffer),
            **settings,
        )
        told.code = ran.exit_code
        living = living_after(client)
    with answering(f"the command ended with exit code {ran.exit_code}", living or ()):
        if app.output.json:
            app.output.document("run", _document(ran, timeline))
    cost = " + ".join(format_money(each.amount, each.currency) for each in ran.cost_so_far) or "nothing"
    why = f": {ran.failure.message}" if ran.failure else ""
    app.output.say(f"The command ended with exit code {ran.exit_code}{why}. The run cost {cost}.")
    app.output.say(paying_text(living))
    return ran.exit_code


def _document(ran: Ran, timeline: Timeline) -> RunDocument:
    return {
        "box": ran.box.document(),
        "exit_code": ran.exit_code,
        "failure": failure_document(ran.failure),
        "not_fetched": list(ran.not_fetched),
        "cost_so_far": [each.document() for each in ran.cost_so_far],
        "timeline": timeline.document(),
    }


def _detached(
    app: App,
    spec: Spec,
    command: list[str] | None,
    job: JobOptions,
    *,
    summary: Path | None,
    **settings: Any,
) -> int:
    """Starts a run and leaves it.

    Raises:
        UsageError: an option needs a process that waits for the command.
    """
    for flag, given in (("--keep-on-failure", job.keep_on_failure), ("--summary", summary is not None)):
        if given:
            raise UsageError(f"{flag} needs a run that is waited for", hint=f"leave {flag} or --detach out")
    with app.working() as (client, timeline):
        run = client.runs.start(spec, command or spec.run or "", **settings)
        living = living_after(client)
    with answering(f"run {run.run_id} is {run.state}", living or ()):
        if app.output.json:
            answer: RunDetachedDocument = {"run": run.document(), "timeline": timeline.document()}
            app.output.document("run", answer)
        else:
            app.output.line(run.run_id)
    name = run.run_id
    if run.state is RunState.WAITING:
        until = f" until {rfc3339(run.waits_until)}" if run.waits_until else ""
        app.output.say(
            f"The run waits{until} for a box, which only `gpucloud tend` buys. {paying_text(living)}"
        )
        return 0
    app.output.say(f"The command is running: gpucloud runs logs {name} -f. {paying_text(living)}")
    if app.client.tend.is_installed:
        app.output.say("A timer runs gpucloud tend every 2 minutes.")
    else:
        app.output.say(
            "Now have a timer run gpucloud tend: gpucloud tend --install. Or keep this running: "
            "gpucloud tend --every 60s"
        )
    return 0


def _sink(stream: BinaryIO) -> Callable[[bytes], None]:
    def write(chunk: bytes) -> None:
        stream.write(chunk)
        stream.flush()

    return write


class _Told:
    """What the summary reports besides the timeline."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.code: int | None = None


@contextmanager
def _summarised(
    app: App, client: Client, timeline: Timeline, run_id: str | None, file: Path | None
) -> Generator[_Told]:
    """Appends the summary of the body, however it ends. A failure to write it then is only reported.

    Raises:
        UsageError: the heading cannot be written; the body is not started.
    """
    from gpucloud.cli.summary import heading, markdown

    failure: BaseException | None = None
    told = _Told(run_id or client.runs.new_id())
    if file is not None:
        with writing("the summary", file), file.open("a", encoding="utf-8") as begun:
            begun.write(heading(told.run_id))
    try:
        yield told
    except BaseException as error:
        failure = error
        raise
    finally:
        if file is not None:
            try:
                boxes = client.list(over=True, run_id=told.run_id)
                box = boxes[-1].document() if boxes else None
                text = markdown(timeline.steps, timeline.elapsed_s, box, told.code, failure)
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(text)
            except (OSError, GpucloudError) as error:
                app.output.say(f"cannot write the summary to {file}: {error}")


def _reasons(text: str | None) -> frozenset[str]:
    given = frozenset(filter(None, (text or "").replace(" ", "").split(",")))
    unknown = sorted(given - set(REASONS))
    if unknown:
        raise UsageError(
            f"--retry-on: unknown reason {unknown[0]!r}", hint=f"allowed: one or more of {', '.join(REASONS)}"
        )
    return given
