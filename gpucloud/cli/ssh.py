"""``gpucloud ssh``: a shell on a box."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpucloud.cli.context import App

Node = Annotated[int, typer.Option("--node", help="Which of several nodes, from 0.", metavar="N")]


def ssh(
    app: App,
    name: Annotated[str, typer.Argument(help="The box's name or id.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command instead of a shell, after --.", metavar="[-- COMMAND...]"),
    ] = None,
    node: Node = 0,
) -> int:
    """Open a shell on a box. Gives its exit code."""
    from gpucloud.ssh.client import relay

    target = app.client.connect(name, node=node)
    return relay(target, command or [], terminal=sys.stdin.isatty())
