"""``gpucloud exec``: one command on a box, with its own exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.ssh import Node


def exec_command(
    app: App,
    name: Annotated[str, typer.Argument(help="The box's name or id.")],
    command: Annotated[list[str], typer.Argument(help="The command, after --.", metavar="-- COMMAND...")],
    tty: Annotated[bool, typer.Option("-t", "--tty", help="Give the command a terminal.")] = False,
    node: Node = 0,
) -> int:
    """Run a command on a box: its arguments arrive unchanged, its exit code is given; 125 is our own."""
    from gpucloud.ssh.client import relay

    target = app.client.connect(name, node=node)
    if not app.output.json:
        return relay(target, command, terminal=tty)
    code = relay(target, command, terminal=tty, out=sys.stderr.buffer)
    app.output.document("exec", {"box": name, "exit_code": code})
    return code
