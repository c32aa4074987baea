"""``gpucloud ssh``: a shell on a box, with ssh's own options where wanted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gpucloud.cli.context import App

Node = Annotated[int, typer.Option("--node", help="Node number, from 0.", metavar="N")]

_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
"""The options of OpenSSH's client that take a value (ssh(1), OpenSSH 9.2)."""


def ssh(
    app: App,
    name: Annotated[str, typer.Argument(help="Name or ID of the box.", metavar="NAME")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="Options of ssh (-L 8888:localhost:8888, -A), then a command to run instead of a shell.",
            metavar="[-- [SSH-OPTION...] [COMMAND...]]",
        ),
    ] = None,
    node: Node = 0,
) -> int:
    """Open a shell on a box. Exits with the shell's exit code.

    With options of ssh, the connection is one of its own: gpucloud ssh train -- -L 8888:localhost:8888

    Examples:
        gpucloud ssh trainer
        gpucloud ssh trainer -- -L 8888:localhost:8888
    """
    from gpucloud.ssh.forwarding import relay_with_options
    from gpucloud.ssh.relay import relay

    options, words = split_options(command or [])
    target = app.client.nodes.connect(name, node=node)
    terminal = sys.stdin.isatty()
    if options:
        return relay_with_options(target, options, words, terminal=terminal)
    return relay(target, words, terminal=terminal, tell=app.output.say)


def split_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of ssh at the beginning of some words, each with its value, and the command after them."""
    options: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        options.append(word)
        takes = next((at for at, letter in enumerate(word[1:], 1) if letter in _WITH_VALUE), None)
        if takes == len(word) - 1 and rest:  # -fNL: the value is the next word; -L8080:…: it is in this one
            options.append(rest.pop(0))
    return options, rest
