"""``gpucloud runs``: what became of runs, and their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.api.run import command_text, ends_at, state_cell
from gpucloud.api.texts import sums_text
from gpucloud.cli.boxes import answering, living_after, paying_text
from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.logs import logs
from gpucloud.cli.ssh import Node
from gpucloud.cli.sync import fetched
from gpucloud.errors import CloudError, UsageError
from gpucloud.journal.runs import Code, Loss
from gpucloud.rendering.table import Table
from gpucloud.rendering.tabular import Listing
from gpucloud.rendering.texts import clean, counted, duration_text
from gpucloud.resources import rfc3339
from gpucloud.runtime.tasks import TimedOutError
from gpucloud.sources.archive import size_text
from gpucloud.ssh.job import RUN
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.api.run import Run, RunAttempt
    from gpucloud.api.stored import RunStore
    from gpucloud.cli.documents.nodes import LogLineDocument
    from gpucloud.cli.documents.runs import (
        RunsCancelDocument,
        RunsDeleteDocument,
        RunsFetchDocument,
        RunsListDocument,
        RunsShowDocument,
    )
    from gpucloud.cli.timeline import Timeline

RECENT = timedelta(days=30)
"""For how long a run that is over is listed by default."""
GIB = 1 << 30
RunName = Annotated[str, typer.Argument(help="ID of the run.", metavar="RUN")]


@lists("runs", name="run_id")
def list_runs(
    app: App,
    all: Annotated[  # noqa: A002
        bool, typer.Option("--all", "-a", help="Include runs that ended long ago, and nodes of clusters.")
    ] = False,
    active: Annotated[bool, typer.Option("--active", help="Only runs that are not over.")] = False,
) -> None:
    """List runs, with those that ended in the last 30 days: state, restarts, cost so far, time left.

    Examples:
        gpucloud runs list
        gpucloud runs list --all --sort-by=-age
    """
    if all and active:
        raise UsageError("--all and --active: choose one")
    since = None if all else datetime.now(UTC) - RECENT
    runs = [
        each
        for each in app.client.runs.list(over=not active, since=since)
        if all or each.ended_at is None or each.cluster is None
    ]
    if app.output.json:
        answer: RunsListDocument = {"runs": [run.document() for run in runs]}
        app.output.document("runs-list", answer)
        return
    if not runs:
        over = " that are not over. Those of the last 30 days: gpucloud runs list" if active else ""
        app.output.say(f"No runs{over or '. Start one: gpucloud run --gpu T4 -- nvidia-smi'}")
        return
    app.output.table(Listing(runs).table())
    say_kept(app, runs)


def show(app: App, run: RunName) -> None:
    """Show one run with its attempts: where each was, what it cost, how it was lost.

    Examples:
        gpucloud runs show nightly
        gpucloud runs show nightly --json
    """
    found = app.client.runs.get(run)
    store, unknown = _store(app, run)
    if app.output.json:
        answer: RunsShowDocument = {
            "run": found.document(),
            "store": None if store is None else store.document(),
        }
        app.output.document("runs-show", answer)
        return
    texts = {
        "run": found.run_id,
        "state": state_cell(found).text,
        "command": command_text(found),
        "restarts": None if found.cluster else f"{found.restarts} of at most {found.most_restarts}",
        "restart_at": rfc3339(found.restart_at) if found.restart_at else None,
        "waits_until": rfc3339(found.waits_until) if found.waits_until else None,
        "created_at": rfc3339(found.created_at),
        "expires_at": rfc3339(end) if (end := ends_at(found)) else None,
        "ended_at": rfc3339(found.ended_at) if found.ended_at else None,
        "cost_so_far": sums_text(found.cost_so_far),
        "code": None if found.code is None else _frozen(found.code),
        "newest_whole_checkpoint": _saved(found, datetime.now(UTC)),
        "failure": f"{found.failure.message} ({found.failure.error_class})" if found.failure else None,
        "not_fetched": found.kept.why if found.kept else None,
        "store": store_text(store) if store else unknown,
    }
    app.output.fields({name.replace("_", " "): text for name, text in texts.items()})
    _show_attempts(app, found.attempts)
    say_kept(app, [found])


def _store(app: App, run: str) -> tuple[RunStore | None, str | None]:
    """What the store of a run holds; or why that is not known."""
    try:
        return app.client.runs.store(run), None
    except (CloudError, UsageError, TimedOutError) as error:
        app.output.say(f"What the store of {run} holds is not known: {error}")
        return None, "not known"


def store_text(store: RunStore) -> str:
    """What the store of a run holds, and what that costs."""
    cost = store.per_month
    price = f"about {format_money(cost.amount, cost.currency)} per month" if cost else "at an unknown price"
    gib = Decimal(store.size_bytes) / GIB
    sets = f"{counted(store.sets, 'set')} of {counted(store.attempts, 'attempt')}"
    return f"{sets}, {gib:,.1f} GiB in {store.url}, {price}"


def delete(
    app: App,
    run: RunName,
    checkpoints: Annotated[
        bool,
        typer.Option("--checkpoints", help="Delete its checkpoints, logs and results in --checkpoint-to."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete what the store of a run that is over holds: its checkpoints, logs and results.

    What gpucloud has not written there stays, and the run stays in the journal.

    Examples:
        gpucloud runs delete nightly --checkpoints
        gpucloud runs delete nightly --checkpoints --yes
    """
    if not checkpoints:
        hint = f"delete what its store holds: gpucloud runs delete {run} --checkpoints"
        raise UsageError("say what is to be deleted: --checkpoints", hint=hint)
    with app.working() as (client, timeline):
        done = client.runs.delete_store(
            run, confirm=None if yes else lambda store: _agreed(app, timeline, store)
        )
    if app.output.json:
        answer: RunsDeleteDocument = {"run_id": run, "deleted": done.document()}
        app.output.document("runs-delete", answer)
    others = f"; {counted(done.others, 'object')} that gpucloud has not written stay" if done.others else ""
    app.output.say(f"Deleted {counted(done.objects, 'object')}: {store_text(done)}{others}.")


def _agreed(app: App, timeline: Timeline, store: RunStore) -> bool:
    if not app.output.interactive:
        raise UsageError("deleting needs confirmation, and there is no terminal to ask on", hint="add --yes")
    timeline.pause()
    agreed = app.output.ask(f"Delete {counted(store.objects, 'object')}: {store_text(store)}?")
    timeline.resume()
    return agreed


def cancel(
    app: App,
    run: RunName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """End a run and delete its box, also a run that another process works on.

    Examples:
        gpucloud runs cancel nightly
        gpucloud runs cancel nightly --yes
    """
    with app.working() as (client, timeline):
        done = client.runs.cancel(run, confirm=None if yes else lambda each: _confirmed(app, timeline, each))
        living = living_after(client)
    with answering(f"run {done.run_id} is {done.state}", ()):
        if app.output.json:
            answer: RunsCancelDocument = {"run": done.document()}
            app.output.document("runs-cancel", answer)
    app.output.say(f"Run {done.run_id} is {state_cell(done).text}. {paying_text(living)}")


def show_logs(
    app: App,
    run: RunName,
    follow: Annotated[
        bool,
        typer.Option("-f", "--follow", help="Print new lines, also of further attempts, until the run ends."),
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", min=1, help="The attempt with this number of `runs show`.", metavar="N"),
    ] = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="All attempts, oldest first.")] = False,  # noqa: A002
    node: Node = 0,
) -> int:
    """Show the output of a run's command on its last box, or what was kept of it.

    With -f, goes on over interruptions until the run ends, and exits with its command's exit code, or with
    125 if it ended without one. What an attempt has printed is kept on this machine when its box is deleted,
    and in the bucket of --checkpoint-to.

    Examples:
        gpucloud runs logs nightly -f
        gpucloud runs logs nightly --attempt 1
    """
    attempts = app.client.runs.get(run).attempts
    with_box = {number: each for number, each in enumerate(attempts, start=1) if each.box_id}
    if attempt is not None:
        if all or attempt not in with_box:
            raise UsageError(
                "--attempt and --all: choose one"
                if all
                else f"run {run!r} has no attempt {attempt} with a box",
                hint=f"see its attempts: gpucloud runs show {run}",
            )
        return logs(app, with_box[attempt].box_id or "", follow=follow, job=RUN, node=node)
    if not follow and not with_box:
        raise UsageError(f"run {run!r} has no box yet", hint=f"see its state: gpucloud runs show {run}")
    if not follow and not all:
        return logs(app, with_box[max(with_box)].box_id or "", job=RUN, node=node)
    if all:
        for number in sorted(with_box)[: -1 if follow else None]:
            _show_log_of(app, number, with_box[number], node)
    return app.client.runs.follow(run, partial(_line, app), tell=app.output.say, node=node) if follow else 0


def _line(app: App, attempt: int, line: str) -> None:
    """Prints a line of the output of a run."""
    if app.output.json:
        record: LogLineDocument = {"source": "job", "line": clean(line), "attempt": attempt}
        app.output.record("logs", record)
    else:
        app.output.line_at_once(clean(line))


def _show_log_of(app: App, number: int, attempt: RunAttempt, node: int) -> None:
    """Prints what an attempt has printed, below its number; says if nothing of it was kept."""
    lost = f", lost by {attempt.loss}" if attempt.loss else ""
    app.output.say(f"Attempt {number} on {attempt.box}{lost}:")
    try:
        text = app.client.nodes.logs(attempt.box_id or "", "job", node=node)
    except UsageError as error:
        app.output.say(f"{error.message}; {error.hint}" if error.hint else error.message)
        return
    for line in text.splitlines():
        _line(app, number, line)


def fetch(
    app: App,
    run: RunName,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="What to copy instead of the run's --fetch: PATH or PATH:LOCAL.", metavar="[PATH]..."
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The --checkpoint-to of a run that this machine does not know: copy out of it alone.",
            metavar="URL",
        ),
    ] = None,
) -> None:
    """Copy the files of a run that could not be copied when its command had ended; then delete its box.

    A box of a run with --checkpoint-to has stored them when its command has ended: they are copied from there
    where the box is gone or does not answer, also from another machine, and also later. Exit code 8 if some
    are not here: the box is kept until its deadline.

    Examples:
        gpucloud runs fetch nightly
        gpucloud runs fetch nightly out/model.pt:model.pt
    """
    files = [fetched(each) for each in paths or ()]
    if store is not None:
        with app.working() as (client, _):
            place = client.runs.fetch_from_store(run, store, files=files)
        _tell_fetched(app, None, f"The files of {run} are here, out of {place}.")
        return
    with app.working() as (client, _):
        done = client.runs.fetch(run, files=files)
        living = living_after(client)
    with answering(f"the files of run {done.run_id} are here", ()):
        _tell_fetched(app, done, f"The files of {done.run_id} are here. {paying_text(living)}")


def _tell_fetched(app: App, run: Run | None, text: str) -> None:
    if app.output.json:
        answer: RunsFetchDocument = {"run": None if run is None else run.document()}
        app.output.document("runs-fetch", answer)
    app.output.say(text)


def say_kept(app: App, runs: Iterable[Run]) -> None:
    """Says which boxes are kept for files that could not be copied, and how to get them."""
    for run in runs:
        if kept := run.kept:
            app.output.say(f"Results of run {run.run_id} are not fetched: {kept.text}: {kept.command}")


COMMANDS = {
    "list": list_runs,
    "show": show,
    "cancel": cancel,
    "logs": show_logs,
    "fetch": fetch,
    "delete": delete,
}


def _confirmed(app: App, timeline: Timeline, run: Run) -> bool:
    if not app.output.interactive:
        raise UsageError(
            f"cancelling {run.run_id} needs confirmation, and there is no terminal to ask on",
            hint="add --yes",
        )
    timeline.pause()
    agreed = app.output.ask(f"Cancel {run.run_id}, and delete its box with all data on it?")
    timeline.resume()
    return agreed


def _frozen(code: Code) -> str:
    """What every attempt of a run gets, in words."""
    size = f"{counted(code.files, 'file')}, {size_text(code.size_bytes)} packed"
    commit = f", commit {code.commit}" if code.commit else ""
    where = f"frozen on {code.machine}" + (" and in its store" if code.stored else "")
    return f"{size}{commit}, {where}: {code.sha256}"


def _saved(run: Run, now: datetime) -> str | None:
    """The newest whole checkpoint that was seen; whether a whole upload fits into the notices of clouds."""
    saved = next((each.saved for each in reversed(run.attempts) if each.saved), None)
    if saved is None:
        return None
    words = [f"{saved.newest}, {duration_text(now - saved.at)} old"]
    if saved.upload_s is not None:
        words.append(f"a whole upload takes {saved.upload_s:.0f} s")
    if saved.notices:
        told = ", ".join(f"{cloud} {seconds} s" for cloud, seconds in saved.notices.items())
        words.append(f"notices give: {told}")
    return "; ".join(words)


def _show_attempts(app: App, attempts: Sequence[RunAttempt]) -> None:
    if not attempts:
        return
    in_vain = [each for each in attempts[:-1] if each.loss is Loss.CAPACITY and not each.cost_so_far]
    numbers = [number for number, each in enumerate(attempts, start=1) if each not in in_vain]
    attempts = [attempts[number - 1] for number in numbers]
    app.output.line("")
    columns: dict[str, Sequence[object]] = {
        "ATTEMPT": [str(number) for number in numbers],
        "BOX": [each.box for each in attempts],
        "TYPE": [each.instance_type for each in attempts],
        "WHERE": [" ".join(filter(None, (each.cloud, each.zone or each.region))) for each in attempts],
        "BEGUN": [rfc3339(each.at) for each in attempts],
        "SO FAR": [sums_text(each.cost_so_far) for each in attempts],
        "LOST BY": [each.loss and str(each.loss) for each in attempts],
    }
    app.output.table(Table(columns, right=("ATTEMPT", "SO FAR"), optional=("TYPE", "BEGUN")))
    for each in attempts:
        if each.traffic:
            app.output.say(f"{each.box}: {each.traffic}")
    lost = [each for each in attempts if each.message]
    for each in lost:
        app.output.say(f"{each.box}: {each.message}")
    app.output.say(f"{counted(len(lost), 'attempt')} lost.")
    if in_vain:
        app.output.say(f"{counted(len(in_vain), 'try')} before found no capacity.")
