"""``gpucloud audit``: what was done to which cloud, when, by whom."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpucloud.audit import FILE, read
from gpucloud.cli.context import App
from gpucloud.cli.engine import now
from gpucloud.cli.logs import SINCE, read_since
from gpucloud.model import rfc3339, short_id


def audit(
    app: App,
    box: Annotated[str | None, typer.Option("--box", help="Only of this box: its id.", metavar="ID")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Not what is older: {SINCE}.", metavar="TIME")
    ] = None,
) -> None:
    """Show every call that changed something in a cloud, or tried to.

    Each is written down before it is sent: what has no outcome was sent by a process that ended first.
    """
    calls, damaged = read(app.paths.state)
    if box is not None:
        calls = [call for call in calls if call.get("box") == box]
    if since is not None:
        first = rfc3339(read_since(since, now()))
        calls = [call for call in calls if str(call.get("at")) >= first]
    if damaged:
        app.output.say(f"{damaged} lines of {app.paths.state / FILE} make no sense, and were passed over.")
    if app.output.json:
        app.output.document("audit", {"calls": calls, "damaged": damaged})
        return
    columns = (
        "WHEN",
        "WHO",
        "COMMAND",
        "CLOUD",
        "REGION",
        "CALL",
        "WHAT",
        "BOX",
        "PER HOUR",
        "OUTCOME",
        "REQUEST ID",
    )
    app.output.table(columns, [_row(call) for call in calls])


def _row(call: Any) -> list[Any]:
    return [
        call.get("at"),
        f"{call.get('user')}@{call.get('host')}",
        call.get("command"),
        call.get("cloud"),
        call.get("region"),
        call.get("action"),
        short_id(str(call.get("target") or "")) or None,
        call.get("box"),
        f"{call['price']} {call.get('currency')}" if call.get("price") else None,
        call.get("outcome") or "unanswered",
        call.get("request_id"),
    ]
