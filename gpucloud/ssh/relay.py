"""Runs a command on a box in the foreground: an interruption ends it there, a lost connection does not.

ssh passes a signal on only through a terminal. So the command notes its process group on the box, and a
second session ends that group: SIGHUP, SIGTERM after two seconds, SIGKILL after ten.
"""

from __future__ import annotations

import secrets
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import IO

from gpucloud.ssh.client import (
    ConnectionFailedError,
    Target,
    check_not_broken,
    client,
    connected,
    passing_signals_to,
    run,
    users_words,
)

FOLDER = ".gpucloud/groups"
"""A file for each command that is waited for, in the home folder of a node's user; it has its group."""
END_S = 20.0

_NOTE = f"""(
umask 077; mkdir -p {FOLDER}; cd {FOLDER} || exit
for each in *; do read -r group <"$each" && kill -0 -- "-$group" || rm -f "$each"; done
read -r _ _ _ _ group _ </proc/self/stat; echo "$group" >"$0"
) 2>/dev/null; """
"""Shell text before a command; files of groups that have ended are removed. ``$0`` is the new file."""
_END = """
for i in $(seq 10); do [ ! -e "$1" ] || break; sleep 0.1; done
read -r group <"$1" || exit 0
kill -HUP -- "-$group"
for i in $(seq 100); do
  kill -0 -- "-$group" || exit 0
  [ "$i" != 20 ] || kill -TERM -- "-$group"
  sleep 0.1
done
kill -KILL -- "-$group"
"""


def relay(
    target: Target,
    argv: Sequence[str],
    *,
    terminal: bool = False,
    out: IO[bytes] | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> int:
    """Runs a command, or the login shell if ``argv`` is empty, on our own stdin, stdout and stderr.

    Args:
        target: the node; its commands have the variables of the launch.
        argv: the command's arguments, passed unchanged.
        terminal: whether to allocate a terminal on the box.
        out: another place for its stdout.
        tell: receives what is done once a signal has come.

    Returns:
        The command's own exit code; 128 + the signal's number when a signal ended it, or us. A signal to us
        ends the command on the box as well.

    Raises:
        ConnectionFailedError: the box could not be reached, or the connection broke.
    """
    connected(target)
    group, words = new_group(), users_words(target, argv)
    if argv:
        words = ["--", noted(group, words[-1])]
    command = [*client(target), "-tt" if terminal else "-T", target.alias, *words]
    with subprocess.Popen(command, stdout=out) as child, passing_signals_to(child) as signals:
        code = child.wait()
    if signals:
        if argv:
            end_groups([target], group, tell)
        return 128 + signals[0]
    check_not_broken(target, code, "the connection was lost")
    return code if code >= 0 else 128 - code


def new_group() -> str:
    """The file of a new command, in the home folder of its node's user."""
    return f"{FOLDER}/{secrets.token_hex(6)}"


def noted(group: str, words: str) -> str:
    """Shell text that notes its process group in a file of :func:`new_group`, and then runs other text."""
    return _NOTE.replace("$0", group.rpartition("/")[2]) + words


def end_groups(targets: Sequence[Target], group: str, tell: Callable[[str], object]) -> None:
    """Ends the processes of a command on nodes at the same time; what does not answer is told."""

    def end(target: Target) -> None:
        try:
            end_group(target, group)
        except ConnectionFailedError as error:
            tell(f"the command may still run on {target.alias}: {error.message}")

    tell("ending the command on the box, within 10 s; Ctrl-C once more leaves it running")
    threads = [threading.Thread(target=end, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def end_group(target: Target, file: str) -> None:
    """Ends the process group whose number is in a file on a node, and waits until it has ended.

    Raises:
        ConnectionFailedError: the node does not answer.
    """
    run(target, ["bash", "-c", _END, "bash", file], timeout_s=END_S)
