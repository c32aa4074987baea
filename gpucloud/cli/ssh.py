"""``gpucloud ssh``: a shell on a box."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpucloud.cli.context import App

Node = Annotated[int, typer.Option("--node", help="Node number, from 0.", metavar="N")]


def ssh(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="Command to run instead of a shell, after --.", metavar="[-- COMMAND...]"),
    ] = None,
    node: Node = 0,
) -> int:
    """Open a shell on a box. Exits with the shell's exit code."""
    from gpucloud.ssh.client import relay

    target = app.client.connect(name, node=node)
    return relay(target, command or [], terminal=sys.stdin.isatty())
