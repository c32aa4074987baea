"""Separate ssh connections to a box, for ports, an agent or a display; what they open closes with them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from gpucloud.errors import InterruptedBySignal
from gpucloud.ssh.bounded import error_output
from gpucloud.ssh.client import (
    Target,
    command_line,
    explained,
    passing_signals_to,
    settings,
    users_words,
)


def relay_with_options(
    target: Target, options: Sequence[str], argv: Sequence[str], *, terminal: bool = False
) -> int:
    """:func:`gpucloud.ssh.client.relay` with options of ssh's own, on a connection of its own.

    Host, key and pinned host key stay as they are; an agent or a display may be forwarded.

    Args:
        target: the node.
        options: options as ``ssh(1)`` has them: ``-L 8080:localhost:80``, ``-A``, ``-N``.
        argv: the command's arguments; the login shell if empty.
        terminal: whether to allocate a terminal on the box for the command.

    Raises:
        ConnectionFailedError: the box could not be reached, or the connection broke.
    """
    words = users_words(target, argv)
    terminals = ["-tt"] if terminal and words else []
    command = [*command_line(_separate(target)), *terminals, *options, target.alias, *words]
    with subprocess.Popen(command) as child, passing_signals_to(child) as signals:
        code = child.wait()
    if signals:
        return 128 + signals[0]
    return code if code >= 0 else 128 - code


def forward(target: Target, ports: Sequence[tuple[int, int]], ready: Callable[[], None]) -> None:
    """Makes ports of a node reachable at this machine's loopback address, until the connection ends.

    Args:
        target: the node.
        ports: pairs of a port on the node's own loopback address and a local port.
        ready: is called once, when the local ports are open.

    Raises:
        ConnectionFailedError: the box could not be reached, a port could not be opened, or the connection
            was lost.
    """
    options = {**_separate(target), "ExitOnForwardFailure": "yes", "SessionType": "none"}
    # ssh runs the local command once it is connected and the ports are open.
    options |= {"PermitLocalCommand": "yes", "LocalCommand": "echo ready"}
    command = command_line(options)
    for remote, local in ports:
        command += ["-L", f"127.0.0.1:{local}:127.0.0.1:{remote}"]
    with error_output() as words:
        with (
            subprocess.Popen(
                [*command, target.alias], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words.file
            ) as child,
            passing_signals_to(child) as signals,
        ):
            assert child.stdout is not None  # noqa: S101  (it is a pipe)
            words.of(child)
            try:
                if child.stdout.readline():
                    ready()
                child.wait()
            finally:
                child.terminate()
        if signals:
            raise InterruptedBySignal("stopped; the ports are no longer forwarded", signum=signals[0])
        raise explained(target, words.text or "the connection was lost")


def _separate(target: Target) -> dict[str, str]:
    """The options for a connection that shares nothing, whose user may forward an agent or a display."""
    dropped = {"IdentityAgent", "ForwardAgent", "ForwardX11"}
    options = {name: value for name, value in settings(target).items() if name not in dropped}
    return {**options, "ControlPath": "none"}
