"""One command on several nodes of a box at the same time."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import IO

from gpucloud.errors import InterruptedBySignal
from gpucloud.ssh.client import (
    LONGEST_LINE,
    SSH_FAILED,
    ConnectionFailedError,
    ConnectionFailure,
    Target,
    client,
    is_connected,
    passing_signals_to,
)
from gpucloud.ssh.environment import loading
from gpucloud.ssh.relay import end_groups, new_group, noted

Show = Callable[[int, str, bool], None]
"""Receives a line as it arrives: the node's number, the line, and whether it is of the standard error."""


def run_on_all(
    targets: Sequence[Target],
    command: Sequence[str],
    show: Show,
    tell: Callable[[str], object] = lambda _: None,
) -> list[int]:
    """Runs a command on connected nodes, without input; returns their exit codes when all have ended.

    Its arguments are passed unchanged; it has the variables of the launch.

    Raises:
        ConnectionFailedError: a connection was lost; the commands on the other nodes have ended.
        InterruptedBySignal: a signal came; the commands were ended, as ``tell`` was told.
    """
    group = new_group()
    children = [_start(target, command, group) for target in targets]
    with ThreadPoolExecutor(2 * len(children)) as pool, passing_signals_to(*children) as signals:
        try:
            readers = [
                pool.submit(_pump, target.node, stream, error, show)
                for target, child in zip(targets, children, strict=True)
                for stream, error in ((child.stdout, False), (child.stderr, True))
            ]
            for reader in wait(readers, return_when=FIRST_EXCEPTION).done:
                reader.result()
            codes = [child.wait() for child in children]
        finally:
            for child in children:
                child.kill()
    if signals:
        end_groups(targets, group, tell)
        raise InterruptedBySignal("stopped; the commands were ended", signum=signals[0])
    lost = [
        target.alias
        for target, code in zip(targets, codes, strict=True)
        if code == SSH_FAILED and not is_connected(target)
    ]
    if lost:
        raise ConnectionFailedError(
            f"lost the connection to {', '.join(lost)}", failure=ConnectionFailure.BROKEN
        )
    return codes


def _start(target: Target, command: Sequence[str], group: str) -> subprocess.Popen[bytes]:
    words = loading(command) if target.has_environment else command
    return subprocess.Popen(
        [*client(target), "-T", target.alias, "--", noted(group, shlex.join(words))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _pump(node: int, stream: IO[bytes] | None, error: bool, show: Show) -> None:
    assert stream is not None  # noqa: S101  (it is a pipe)
    while line := stream.readline(LONGEST_LINE):
        show(node, line.decode(errors="replace").rstrip("\n"), error)
