"""``gpucloud exec``: one command on a box, with the command's exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.cli.ssh import Node

if TYPE_CHECKING:
    from gpucloud.cli.documents import ExecDocument


def exec_command(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    command: Annotated[list[str], typer.Argument(help="Command to run, after --.", metavar="-- COMMAND...")],
    tty: Annotated[bool, typer.Option("-t", "--tty", help="Allocate a terminal for the command.")] = False,
    node: Node = 0,
) -> int:
    """Run a command on a box, its arguments unchanged.

    Exits with the command's exit code, or 125 if gpucloud itself fails.
    """
    from gpucloud.ssh.client import relay

    target = app.client.connect(name, node=node)
    if not app.output.json:
        return relay(target, command, terminal=tty)
    code = relay(target, command, terminal=tty, out=sys.stderr.buffer)
    answer: ExecDocument = {"box": name, "exit_code": code}
    app.output.document("exec", answer)
    return code
