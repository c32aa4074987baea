"""``gpucloud logs``: the boot, guard and job logs of a box."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.ssh import Node
from gpucloud.errors import UsageError
from gpucloud.rendering.texts import clean
from gpucloud.resources import rfc3339
from gpucloud.ssh.client import ConnectionFailedError, Target, lines
from gpucloud.ssh.job import RUN, JobState, jobs
from gpucloud.ssh.logs import LOGS, LOGS_TIMEOUT_S, MOST_LOG_BYTES, log_command

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import BootStepDocument, LogDocument, LogLineDocument

SINCE = "10m, 2h, 30d, or a time such as 2026-11-21 (UTC) or 2026-11-21T10:00:00Z"

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?= )")
_STEP = re.compile(r"\S+Z (?P<step>\S+): exit code (?P<code>\d+) after (?P<seconds>[0-9.]+) s")


def logs(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines as they are written.")
    ] = False,
    boot: Annotated[
        bool, typer.Option("--boot", help="Show the boot log, with seconds per step. The default.")
    ] = False,
    guard: Annotated[bool, typer.Option("--guard", help="Show the guard's log.")] = False,
    job: Annotated[
        str | None,
        typer.Option("--job", help="Show a job's log: an ID from exec --detach, or run.", metavar="ID"),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Leave out older lines: {SINCE}.", metavar="TIME")
    ] = None,
    node: Node = 0,
) -> int:
    """Show the boot, guard or job log of a box; the cloud's console log if the box does not answer.

    Of a box that failed or was deleted, shows the end of the log that was kept on this machine (0600, without
    secrets): a log is kept when the setup fails, and by run and down, if the box answers then.

    With --job and -f, ends with the job, and exits with its exit code.

    With --since, a line without a time counts as having the time of the line before it.

    Examples:
        gpucloud logs trainer -f
        gpucloud logs trainer --job run --since 1h
    """
    chosen = [kind for kind, asked in (("boot", boot), ("guard", guard), ("job", job is not None)) if asked]
    if len(chosen) > 1:
        raise UsageError(f"only one log at a time: {', '.join(f'--{kind}' for kind in LOGS)}")
    source = (chosen or ["boot"])[0]
    moment = None if since is None else read_since(since, datetime.now(UTC))
    kept = app.client.nodes.kept_log(name, source, node=node, job=job or RUN)
    if kept is not None:
        app.output.say(f"The box has ended; this log was kept at {rfc3339(kept.at)}:")
        _show(app, source, newer(map(clean, kept.text.splitlines()), moment), follow)
        if not node and (there := app.client.nodes.uploaded_log(name, source)) is not None:
            app.output.say(f"More of it is where the box has uploaded it, if it could: {there}")
        return 0
    try:
        target = app.client.nodes.connect(name, node=node)
    except ConnectionFailedError as error:
        text = "" if source == "job" else app.client.nodes.console(name, node=node)
        if not text:
            raise
        app.output.say(f"{error.message}\nThis is the console log that the cloud keeps:")
        _show(app, "console", clean(text).splitlines(), follow=False)
        return 0
    if job is None:
        _read(app, target, log_command(source, follow=follow), source, moment, follow=follow)
        return 0
    _job(name, target, job)
    _read(app, target, log_command(source, job=job, follow=follow), source, moment, follow=follow)
    state = _job(name, target, job)
    app.output.say(f"Job {job} {state_text(state)}.")
    return (state.exit_code or 0) if follow else 0


def _read(
    app: App, target: Target, command: list[str], source: str, since: datetime | None, *, follow: bool
) -> None:
    """Shows a log as its command on the node prints it."""
    with closing(lines(target, command, timeout_s=None if follow else LOGS_TIMEOUT_S)) as stream:
        written = map(clean, stream if follow else _at_most(app, stream))
        _show(app, source, newer(written, since), follow)


def _job(name: str, target: Target, job: str) -> JobState:
    """A job of a node.

    Raises:
        UsageError: the node has no such job.
    """
    found = {each.id: each for each in jobs(target)}
    if job not in found:
        known = ", ".join(f"{each.id} ({state_text(each)})" for each in found.values())
        raise UsageError(
            f"node {target.node} of {name!r} has no job {job!r}",
            hint=f"its jobs: {known}" if known else f"start one: gpucloud exec {name} --detach -- COMMAND",
        )
    return found[job]


def state_text(job: JobState) -> str:
    """How a job fares: ``ended with exit code 3``."""
    if job.running:
        return "is running"
    if job.exit_code is None:
        return "ended without an exit code: the node was restarted, or ran out of memory"
    return f"ended with exit code {job.exit_code}"


def read_since(text: str, today: datetime) -> datetime:
    """A time, or a duration before now. A date alone is its start in UTC.

    Raises:
        UsageError: it is neither.
    """
    from gpucloud.spec.fields import end

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            ago = end(text)
        except ValueError:
            ago = "none"
        if isinstance(ago, str):
            raise UsageError(f"--since: {text!r} is not a time", hint=f"allowed: {SINCE}") from None
        return today - ago
    if moment.tzinfo is None and _DATE.fullmatch(text):
        return moment.replace(tzinfo=UTC)
    if moment.tzinfo is None:
        raise UsageError(f"--since: {text!r} has no time zone", hint=f"for UTC: {text}Z")
    return moment.astimezone(UTC)


def newer(lines: Iterable[str], since: datetime | None) -> Iterator[str]:
    """The lines from a moment on; a line without a time has that of the line before it."""
    first = None if since is None else rfc3339(since)
    shown = since is None
    for line in lines:
        stamp = _STAMP.match(line) if first else None
        if stamp is not None and first is not None:
            shown = stamp[0] >= first  # as text: all are UTC, in seconds
        if shown:
            yield line


def steps_in(lines: Iterable[str]) -> list[BootStepDocument]:
    """The boot steps in a log: name, exit code, and seconds of each."""
    found = filter(None, map(_STEP.match, lines))
    return [
        {"step": step["step"], "exit_code": int(step["code"]), "seconds": float(step["seconds"])}
        for step in found
    ]


def _at_most(app: App, stream: Iterable[str]) -> Iterator[str]:
    """The lines of a log, up to a limit beyond any ordinary log; says if the rest was cut."""
    size = 0
    for line in stream:
        size += len(line) + 1
        if size > MOST_LOG_BYTES:
            app.output.say(f"Cut after {MOST_LOG_BYTES:,} characters; copy the whole log with gpucloud sync.")
            return
        yield line


def _show(app: App, source: str, lines: Iterable[str], follow: bool) -> None:
    if app.output.json and not follow:
        text = list(lines)
        answer: LogDocument = {"source": source, "text": "\n".join(text)}
        if source == "boot":
            answer["steps"] = steps_in(text)
        app.output.document("logs", answer)
        return
    empty = True
    for line in lines:
        empty = False
        if app.output.json:
            record: LogLineDocument = {"source": source, "line": line}
            app.output.record("logs", record)
        else:
            app.output.line_at_once(line)
    if empty:
        app.output.say(f"The {source} log has no such lines.")
