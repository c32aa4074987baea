"""``gpucloud share``: a colleague's key on a box."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.boxes import answering
from gpucloud.cli.context import App
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.api.client import Client
    from gpucloud.api.results import Shared
    from gpucloud.cli.documents.boxes import ShareDocument

_LONGEST = 16384
"""More characters than any public key has."""


def share(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="The colleague's public key: a .pub file, or - for stdin.", metavar="FILE"
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", help="The colleague's login in the team's journal, which has the key.", metavar="LOGIN"
        ),
    ] = None,
    allow_from: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-from",
            help="Also accept the colleague's address, such as 203.0.113.7/32. Repeatable.",
            metavar="CIDR",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take the key, and these addresses, away again.")
    ] = False,
) -> None:
    """Let a colleague in on a box, with a key of their own; private keys stay where they are.

    Whoever uses the same journal of a team then enters with gpucloud, everybody else with ssh and the host
    key that is shown. With --remove, connections that are open stay open.

    Examples:
        gpucloud share trainer --key bob.pub --allow-from 203.0.113.7/32
        gpucloud share trainer --user bob
    """
    if (key is None) == (user is None):
        raise UsageError("share needs one of --key and --user", hint="gpucloud share NAME --key bob.pub")
    with app.working() as (client, _):
        text = _key_of(app, client, user) if user is not None else text_of(key or "", "--key")
        done = client.boxes.share(name, text, allow_from=allow_from or (), remove=remove)
    with answering(_what_was_done(done, remove=remove), [done.box]):
        if app.output.json:
            app.output.document("share", _document(done))
            return
        app.output.say(f"{_what_was_done(done, remove=remove)}.")
        if not remove:
            _show_ways_in(app, done)


def text_of(file: str, source: str) -> str:
    """The content of a public key's file; ``-`` for stdin.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with sys.stdin if file == "-" else Path(file).expanduser().open(encoding="utf-8") as stream:
            return stream.read(_LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{source}: cannot read {file!r}: {why}", hint="give the .pub file") from error


def _key_of(app: App, client: Client, user: str) -> str:
    """The key of a colleague; says who else has said that it is theirs."""
    published = client.journals.key_of(user)
    if published.by != user:
        app.output.say(f"The key of {user} was set by {published.by}.")
    return published.key


def _what_was_done(done: Shared, *, remove: bool) -> str:
    already = "" if done.changed else " already"
    verb = f"lets {done.fingerprint} in no longer" if remove else f"lets {done.fingerprint} in"
    return f"{done.box.name} {verb}{already}"


def _show_ways_in(app: App, done: Shared) -> None:
    """What the colleague needs."""
    if done.in_team:
        app.output.say("With gpucloud and the same journal (GPUCLOUD_IDENTITY names the key):")
        app.output.line(_command(done))
    app.output.say("With any ssh client; the line below each belongs in ~/.ssh/known_hosts:")
    for node, host_key in zip(done.nodes, done.host_keys, strict=True):
        app.output.line(f"ssh {node.user}@{node.host}")
        app.output.line(f"{node.host} {host_key}")
    app.output.say(f"It accepts connections from {', '.join(done.allow_from)}; more: --allow-from.")


def _command(done: Shared) -> str:
    return f"GPUCLOUD_OWNER={done.box.owner} gpucloud ssh {done.box.name}"


def _document(done: Shared) -> ShareDocument:
    return {
        "box": done.box.document(),
        "fingerprint": done.fingerprint,
        "changed": done.changed,
        "nodes": [
            {
                "node": node.node,
                "address": node.host,
                "port": node.port,
                "user": node.user,
                "host_key": host_key,
            }
            for node, host_key in zip(done.nodes, done.host_keys, strict=True)
        ],
        "allow_from": list(done.allow_from),
        "command": _command(done) if done.in_team else None,
    }
