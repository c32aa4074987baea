"""``gpucloud audit``: the record of calls that changed something in a cloud."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from gpucloud.cli.context import App
from gpucloud.cli.listing import lists
from gpucloud.cli.logs import SINCE, read_since
from gpucloud.cli.output import utc_now
from gpucloud.clouds.audit import FILE, Entry
from gpucloud.rendering.table import Table
from gpucloud.rendering.texts import clean, counted
from gpucloud.resources import short_id
from gpucloud_pricing import format_money

if TYPE_CHECKING:
    from gpucloud.clouds.documents import FollowedCallDocument

NEWEST = 200
"""How many calls are shown by default."""
ROWS_AT_ONCE = 1000
COLUMNS = (
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


@lists("calls", name="target")
def audit(
    app: App,
    box: Annotated[
        str | None,
        typer.Option("--box", help="Only calls for the box with this name or ID.", metavar="NAME"),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help=f"Leave out older calls: {SINCE}.", metavar="TIME")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", "-n", help="Number of calls, newest first.", min=1, metavar="N")
    ] = NEWEST,
    all: Annotated[bool, typer.Option("--all", "-a", help="Show all calls.")] = False,  # noqa: A002
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Show calls from now on, until a signal.")
    ] = False,
) -> None:
    """Show the newest calls that changed something in a cloud, or tried to.

    Each call is recorded before it is sent: one without an outcome was sent by a process that ended first.
    With --follow, a call is shown as it is sent, and again with its outcome; with --json, each as a line.

    Examples:
        gpucloud audit --last 20
        gpucloud audit --since 1h
    """
    if follow:
        _follow(app, box)
        return
    first = None if since is None else read_since(since, utc_now())
    record = app.client.audit.calls(box=box, since=first, most=None if all else last)
    if record.damaged:
        are = "is damaged and is" if record.damaged == 1 else "are damaged and are"
        words = f"{counted(record.damaged, 'line')} of {app.client.state / FILE} {are} not shown."
        app.output.say(words)
    if app.output.json:
        app.output.document("audit", record.document())
    else:
        # In parts: the layout of one table of very many rows takes far more time and memory.
        for part in range(0, len(record.calls), ROWS_AT_ONCE):
            _show(app, record.calls[part : part + ROWS_AT_ONCE])
        if not record.calls:
            app.output.say(_nothing_text(box, since))
    if record.more:
        newest = counted(len(record.calls), "call")
        app.output.say(f"Shown: the newest {newest}. More: --last N, --since TIME; all: --all")


def _follow(app: App, box: str | None) -> None:
    with app.working(quiet=True) as (client, _):
        for call in client.audit.follow(box=box):
            if app.output.json:
                app.output.record("audit-call", cast("FollowedCallDocument", call))
            else:
                app.output.line(clean("  ".join(str(each) for each in _row(call) if each)))
                sys.stdout.flush()


def _nothing_text(box: str | None, since: str | None) -> str:
    """Says that there is no call, and which options left others out."""
    asked = [f"the box {box}"] if box else []
    asked += [f"the time since {since}"] if since else []
    return f"No calls are on record{' for ' + ' and '.join(asked) if asked else ''}."


def _show(app: App, calls: Sequence[Entry]) -> None:
    app.output.table(
        Table.of_rows(
            COLUMNS,
            map(_row, calls),
            right=("PER HOUR",),
            optional=("REQUEST ID", "WHO", "PER HOUR", "BOX", "REGION", "WHAT", "CLOUD"),
        )
    )


def _price_text(price: object) -> str | None:
    match price:
        case {"amount": str(amount), "currency": str(currency)}:
            return format_money(Decimal(amount), currency)
        case _:
            return None


def _row(call: Entry) -> list[Any]:
    return [
        call.get("at"),
        f"{call.get('user')}@{call.get('host')}",
        call.get("command"),
        call.get("cloud"),
        call.get("region"),
        call.get("action"),
        short_id(str(call.get("target") or "")) or None,
        call.get("box"),
        _price_text(call.get("price")),
        call.get("outcome") or "unanswered",
        call.get("request_id"),
    ]
