"""``gpucloud tend``: one pass over runs and boxes, or one again and again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.costs.amounts import time
from gpucloud.errors import CleanupIncompleteError, UsageError
from gpucloud.rendering.table import Role
from gpucloud.rendering.texts import counted

if TYPE_CHECKING:
    from gpucloud.api.results import Tending
    from gpucloud.cli.documents.runs import TendDocument

LEAST = timedelta(seconds=5)


def tend(
    app: App,
    every: Annotated[
        str | None,
        typer.Option("--every", help="Look again and again, with this pause: 60s, 5m.", metavar="TIME"),
    ] = None,
    install: Annotated[
        bool,
        typer.Option(
            "--install", help="Have a timer of your system (systemd, launchd, cron) do it every 2 minutes."
        ),
    ] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Take the timer of --install back.")] = False,
) -> int:
    """Look after detached runs: restart lost ones, fetch results, delete finished and overdue boxes.

    One look, then exit, for cron, a timer or a CI schedule; several at the same time do nothing twice. A run
    is restarted within its --restarts, deadline, --max-price and budget. A box of a launch with
    --on-unhealthy replace whose guard reports faulty hardware is replaced elsewhere, with its files, within
    the same limits: three times at most. Exit code: 8 if something may still be billed, else that of the
    first thing that could not be done; the next look goes on with it. With --every, until a signal. --install
    is refused while credentials, or values that living runs need (--env), are only in this shell.

    Examples:
        gpucloud tend
        gpucloud tend --every 60s
    """
    if sum((install, uninstall, every is not None)) > 1:
        raise UsageError("--install, --uninstall and --every contradict each other", hint="choose one")
    if install:
        app.output.say(f"Installed: {app.client.tend.install()}. Take it back: gpucloud tend --uninstall")
        return 0
    if uninstall:
        was_there = app.client.tend.uninstall()
        app.output.say(
            "The timer is gone." if was_there else "There was no timer of gpucloud tend --install."
        )
        return 0
    pause = None if every is None else time("--every", every)
    if pause is not None and pause < LEAST:
        raise UsageError(f"--every: {every!r} is too often; allowed: {LEAST.seconds}s or more")
    with app.working(quiet=pause is not None) as (client, _):
        if pause is None:
            done = client.tend.once()
            _tell(app, done)
            return _code(done)
        for each in client.tend.every(pause):
            _tell(app, each, again=True)
    return 0


def _code(done: Tending) -> int:
    """That of what is owed, else that of the first thing that could not be done."""
    codes = [trouble.exit_code for trouble in done.troubles]
    return (
        CleanupIncompleteError.exit_code
        if CleanupIncompleteError.exit_code in codes
        else next(iter(codes), 0)
    )


def _tell(app: App, done: Tending, *, again: bool = False) -> None:
    """Writes what was done; of a look among many, only what is news."""
    if app.output.json and again:
        app.output.record("tend", _document(done))
    elif app.output.json:
        app.output.document("tend", _document(done))
    for each in done.runs:
        if not again or each.did != "left":
            app.output.say(f"{each.run_id}: {_done(each.did)}: {each.message}")
    for box in done.boxes:
        if not again or box.did != "left":
            app.output.say(f"{box.name}: {_done(box.did)}: {box.message}")
    for trouble in done.troubles:
        app.output.say(f"{trouble.message}{f' ({trouble.hint})' if trouble.hint else ''}", role=Role.ERROR)
    if not again:
        boxes = f" and {counted(len(done.boxes), 'box')}" if done.boxes else ""
        app.output.say(f"{counted(len(done.runs), 'run')}{boxes} tended.")


def _done(did: str) -> str:
    return "nothing to do" if did == "left" else did


def _document(done: Tending) -> TendDocument:
    return {
        "runs": [
            {"run_id": each.run_id, "did": str(each.did), "message": each.message} for each in done.runs
        ],
        "boxes": [
            {
                "id": box.id,
                "name": box.name,
                "did": str(box.did),
                "message": box.message,
                "replaced_by": box.replaced_by,
            }
            for box in done.boxes
        ],
        "troubles": [
            {"message": each.message, "hint": each.hint, "owed_command": each.owed_command}
            for each in done.troubles
        ],
    }
