"""``gpucloud metrics``: boxes and what they cost, for Prometheus."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.token_file import read_token
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.api.metrics import Metrics
    from gpucloud.cli.documents.monitoring import MetricsDocument, MetricsFilesDocument, MetricsServeDocument

PORT = 9420
TARGETS_EVERY_S = 10.0


class ServeAction(StrEnum):
    """What is done until a signal."""

    SERVE = "serve"


def metrics(
    app: App,
    action: Annotated[
        ServeAction | None, typer.Argument(help="serve: answer Prometheus until a signal.", metavar="[serve]")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics of the journal.")] = False,
    port: Annotated[
        int,
        typer.Option("--port", help="Port of serve, on loopback; 0 for any.", min=0, max=65535, metavar="N"),
    ] = PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", help="File with the token that callers of serve must send.", metavar="FILE"
        ),
    ] = None,
    file_sd: Annotated[
        Path | None,
        typer.Option("--file-sd", help="Also write targets.json into this folder.", metavar="DIR"),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(
            "--files", help="Write alert rules, configurations and a dashboard there.", metavar="DIR"
        ),
    ] = None,
) -> None:
    """Export Prometheus metrics.

    With --once, the metrics of the journal: for a textfile collector, by cron. With serve, an address on
    loopback: /metrics is the same, /sd has a target for each node, and /box/ID/metrics is what the guard of a
    box measures (its GPUs, by DCGM's names), read over ssh. No port of a box is opened.

    Examples:
        gpucloud metrics --once
        gpucloud metrics serve --port 9420
    """
    if not (once or action or files):
        raise UsageError("say what to do", hint="gpucloud metrics --once, or gpucloud metrics serve")
    if files is not None:
        _write_files(app, files)
    if once:
        _print(app, app.client.metrics, file_sd, port)
    if action is ServeAction.SERVE:
        _serve(app, port, token_file, file_sd)


def _write_files(app: App, folder: Path) -> None:
    from gpucloud.api.metrics import write_files

    written = write_files(folder)
    if app.output.json:
        answer: MetricsFilesDocument = {"files": [str(file) for file in written]}
        app.output.document("metrics-files", answer)
        return
    for file in written:
        app.output.line(str(file))


def _print(app: App, found: Metrics, file_sd: Path | None, port: int) -> None:
    if file_sd is not None:
        found.write_targets(file_sd, f"127.0.0.1:{port}")
    if not app.output.json:
        app.output.line(found.text().rstrip("\n"))
        return
    answer: MetricsDocument = {
        "samples": [
            {"name": each.family.name, "labels": dict(each.labels), "value": each.value}
            for each in found.samples()
        ]
    }
    app.output.document("metrics", answer)


def _serve(app: App, port: int, token_file: Path | None, file_sd: Path | None) -> None:
    from gpucloud.runtime.tasks import Tasks

    found, tasks = app.client.metrics, Tasks()
    with (
        tasks.listening(),
        found.serving(port, token=read_token(token_file) if token_file else None) as address,
    ):
        if app.output.json:
            answer: MetricsServeDocument = {"address": address}
            app.output.record("metrics-serve", answer)
        app.output.say(f"Listening at http://{address}. End with Ctrl-C.")
        while True:
            if file_sd is not None:
                found.write_targets(file_sd, address)
            tasks.pause(TARGETS_EVERY_S)
