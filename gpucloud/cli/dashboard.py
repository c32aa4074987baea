"""``gpucloud dashboard``: a local page of what boxes cost and do."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.output import refuse_unwritable, writing
from gpucloud.cli.token_file import read_token
from gpucloud.costs.amounts import time
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.cli.documents.program import DashboardDocument
    from gpucloud.dashboard.reading import PageReader

LEAST = timedelta(seconds=5)


def dashboard(
    app: App,
    port: Annotated[
        int,
        typer.Option("--port", help="Port at 127.0.0.1; 0 for any free one.", min=0, max=65535, metavar="N"),
    ] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not start a browser.")] = False,
    live: Annotated[
        str | None,
        typer.Option(
            "--live", help="Also ask the clouds, with this pause, while the page is open.", metavar="TIME"
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a still page into one file instead.", metavar="FILE"),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="File with the token with which Prometheus reads /metrics and /sd here.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Show what boxes cost and do, as a page for this machine's browsers, until Ctrl-C.

    It only reads. It is at 127.0.0.1 alone, and its address holds the secret that opens it.

    Examples:
        gpucloud dashboard
        gpucloud dashboard --html page.html
    """
    if html is not None and (live is not None or port or no_open or token_file):
        raise UsageError(
            "--html writes a file: it has no use for --live, --port, --no-open and --token-file",
            hint="ask the clouds before: gpucloud list --live",
        )
    every = None if live is None else time("--live", live)
    if every is not None and every < LEAST:
        raise UsageError(f"--live: {live!r} is too often; allowed: {LEAST.seconds}s or more")
    from gpucloud.dashboard.reading import PageReader

    reader = PageReader(client=app.client, sandbox=app.sandbox, live_every=every)
    if html is not None:
        _write(app, reader, html)
    else:
        token = None if token_file is None else read_token(token_file)
        _serve(app, reader, port, token, show=not no_open)


def _write(app: App, reader: PageReader, file: Path) -> None:
    from gpucloud.dashboard.page import encoded, still_page

    refuse_unwritable("the page", file)
    page = still_page(encoded(reader.read(still=True)))
    with writing("the page", file):
        file.write_text(page, encoding="utf-8")
    if app.output.json:
        answer: DashboardDocument = {"url": None, "file": str(file)}
        app.output.document("dashboard", answer)
    app.output.say(f"Written: {file}")


def _serve(app: App, reader: PageReader, port: int, token: str | None, *, show: bool) -> None:
    from gpucloud.runtime.tasks import Tasks

    try:
        from gpucloud.dashboard.server import serving
    except ImportError as error:
        raise UsageError(
            f"{error.name} is not installed", hint="install it: pip install 'gpucloud[dashboard]'"
        ) from error
    tasks = Tasks()
    with tasks.listening(), serving(reader, port, token) as access:
        if app.output.json:
            answer: DashboardDocument = {"url": access.url, "file": None}
            app.output.record("dashboard", answer)
        else:
            app.output.line(access.url)
            sys.stdout.flush()
        if show and sys.stdout.isatty() and _has_desktop(app.environment):
            import webbrowser

            webbrowser.open(access.url_once())
        app.output.say("It only reads. End with Ctrl-C.")
        tasks.pause(math.inf)


def _has_desktop(environment: Mapping[str, str]) -> bool:
    """Whether a browser has a window to open in; one of the terminal would take it over."""
    return sys.platform == "darwin" or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
