"""``gpucloud exec``: one command on a box or on all of its nodes, followed to its end or left to run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.errors import UsageError
from gpucloud.rendering.texts import clean

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import ExecAllDocument, ExecDetachedDocument, ExecDocument


def exec_command(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    command: Annotated[list[str], typer.Argument(help="Command to run, after --.", metavar="-- COMMAND...")],
    tty: Annotated[bool, typer.Option("-t", "--tty", help="Allocate a terminal for the command.")] = False,
    node: Annotated[
        int | None, typer.Option("--node", help="Node number, from 0. The default is 0.", metavar="N")
    ] = None,
    all_nodes: Annotated[
        bool, typer.Option("--all-nodes", help="Run the command on every node at the same time.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave the command running, and print the ID of its job.")
    ] = False,
) -> int:
    """Run a command on a box, without a shell; for pipes and && use: sh -c '...'

    Exits with the command's exit code, or 125 if gpucloud itself fails. With --all-nodes, with that of the
    first node whose command failed; each line of output begins with its node. Ctrl-C ends the command there
    too, with all that it started; a lost connection does not.

    Examples:
        gpucloud exec trainer -- nvidia-smi
        gpucloud exec trainer --detach -- nvidia-smi dmon -c 60
    """
    if all_nodes and node is not None:
        raise UsageError("--all-nodes runs the command on every node: leave --node out")
    if tty and (all_nodes or detach):
        raise UsageError("--tty needs one command that is waited for: leave --all-nodes and --detach out")
    if detach:
        return _detached(app, name, command, None if all_nodes else [node or 0])
    if all_nodes:
        return _on_all(app, name, command)
    from gpucloud.ssh.relay import relay

    target = app.client.nodes.connect(name, node=node or 0)
    if not app.output.json:
        return relay(target, command, terminal=tty, tell=app.output.say)
    code = relay(target, command, terminal=tty, out=sys.stderr.buffer, tell=app.output.say)
    answer: ExecDocument = {"box": name, "exit_code": code}
    app.output.document("exec", answer)
    return code


def _on_all(app: App, name: str, command: list[str]) -> int:
    """Runs the command on every node; returns the first code that is not 0, in the order of the nodes."""
    printing = Lock()

    def show(node: int, line: str, error: bool) -> None:
        with printing:
            stream = sys.stderr if error or app.output.json else sys.stdout
            print(f"{node}: {clean(line)}", file=stream, flush=True)

    codes = app.client.nodes.exec_all(name, command, show, tell=app.output.say)
    if app.output.json:
        answer: ExecAllDocument = {
            "box": name,
            "nodes": [{"node": node, "exit_code": code} for node, code in enumerate(codes)],
        }
        app.output.document("exec", answer)
    return next((code for code in codes if code), 0)


def _detached(app: App, name: str, command: list[str], nodes: Sequence[int] | None) -> int:
    job = app.client.nodes.start_job(name, command, nodes=nodes)
    if app.output.json:
        answer: ExecDetachedDocument = {"box": name, "job": job}
        app.output.document("exec", answer)
    else:
        app.output.line(job)
        app.output.say(f"The command is running: gpucloud logs {name} --job {job} -f")
    return 0
