"""Copies files from one box to another with rsync: no box gets a key, an agent or an address of the other.

The first box runs rsync, whose remote shell hands its input and output over to our ssh session; we join them
with rsync's server on the second box. All data passes through this machine, and none of it is stored here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from typing import IO

from gpucloud.ssh.bounded import ErrorOutput, error_output
from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure, Target, client, connect, run
from gpucloud.ssh.files import FLAGS, refuse_failed

LEFT_OUT = (".ssh", ".cache", ".gpucloud", ".nv")
"""What a home folder has for its own machine: keys, caches, and gpucloud's files."""
LEFT_OUT_OF_VOLUMES = ("lost+found",)
"""What a file system keeps for its repair, and root alone may read."""
SIZE_TIMEOUT_S = 300.0

# 3 and 4 are our ssh session. rsync runs this shell with the server's command line added, and waits for its
# end: it ends with the server's output. A shell gives a command in the background no input of its own.
_REMOTE_SHELL = 'printf "%s\\n" "$*" >&4; exec 5<&0; cat <&5 >&4 3<&- 5<&- & exec cat <&3 3<&- 4>&- 5<&-'
_SERVER = re.compile(r"other rsync --server (-[qlRtprz]+(?:e\.[A-Za-z]+)?(?: --[a-z=-]+)*) \. \.")
"""Only the letters of :data:`FLAGS`, ``-q`` and ``-R``: with ``-s``, for one, options come out of sight."""
_LONG_OPTIONS = frozenset({"--partial", "--old-compress", "--new-compress"})
_LONGEST_LINE = 4096


def size_of(target: Target, paths: Sequence[str], *, volume: str | None = None) -> int:
    """The bytes of files and folders of a node, without :func:`left_out`; arguments as :func:`copy_between`.

    Raises:
        ConnectionFailedError: one of them does not exist or cannot be read, or the node cannot be reached.
    """
    excluded = [f"--exclude=./{name}" for name in left_out(volume)]
    asked = ["du", "-sbc", *excluded, "--", *(f"./{path}" for path in paths)]
    done = run(target, ["sh", "-c", inside(volume, f"exec {shlex.join(asked)}")], timeout_s=SIZE_TIMEOUT_S)
    if done.code:
        said = done.err.decode(errors="replace").strip().splitlines()
        raise ConnectionFailedError(
            f"files of {target.alias} cannot be read: {said[0] if said else 'no reason given'}",
            failure=ConnectionFailure.BROKEN,
        )
    return int(done.out.split()[-2])


def left_out(volume: str | None) -> tuple[str, ...]:
    """What is not copied of a volume, or of a home folder."""
    return LEFT_OUT if volume is None else LEFT_OUT_OF_VOLUMES


def inside(volume: str | None, command: str) -> str:
    """A command of a shell that works in a volume, or in the home folder, where every session begins."""
    return command if volume is None else f"cd {shlex.quote(volume)} && {command}"


def copy_between(
    source: Target, destination: Target, paths: Sequence[str], *, volume: str | None = None
) -> None:
    """Copies files and folders of one node to the same places on another.

    Args:
        source: a node of the first box.
        destination: a node of the second box.
        paths: relative to the home folder; ``.`` is all of it. What :func:`left_out` names is left out.
        volume: where both boxes have a volume, to which the paths are relative then.

    Raises:
        NotCopiedError: a file cannot be read or written.
        ConnectionFailedError: a box could not be reached, or rsync failed.
    """
    connect(source)
    connect(destination)
    with error_output() as words:
        with _session(source, _sender(paths, volume), words, subprocess.PIPE, subprocess.PIPE) as sender:
            assert sender.stdin is not None  # noqa: S101  (they are pipes)
            assert sender.stdout is not None  # noqa: S101
            server = server_line(sender.stdout)
            receiver = server and _session(
                destination, inside(volume, server), words, sender.stdout, sender.stdin
            )
            sender.stdin.close()
            sender.stdout.close()
            received = receiver.wait() if receiver else 0
        refuse_failed(sender.returncode or received, words.text)


def _session(
    target: Target, command: str, words: ErrorOutput, stdin: int | IO[bytes], stdout: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    line = [*client(target), "-T", target.alias, "--", command]
    session = subprocess.Popen(line, stdin=stdin, stdout=stdout, stderr=words.file, bufsize=0)
    words.of(session)
    return session


def _sender(paths: Sequence[str], volume: str | None) -> str:
    """The command of the first box. rsync reads a quote inside of quotes doubled."""
    shell = f"sh -c '{_REMOTE_SHELL}' sh"
    excluded = [f"--exclude=/{name}" for name in left_out(volume)]
    rsync = [
        "rsync",
        *FLAGS,
        "-qR",
        *excluded,
        "-e",
        shell,
        "--",
        *(f"./{path}" for path in paths),
        "other:.",
    ]
    return inside(volume, f"exec 3<&0 4>&1 </dev/null >/dev/null; exec {shlex.join(rsync)}")


def server_line(out: IO[bytes]) -> str | None:
    """The command that rsync's remote shell was asked to run on the other box; ``None`` if it did not start.

    It comes from a box: nothing but rsync's server, with options that change no other folder, is run.

    Raises:
        ConnectionFailedError: it is another command.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
        byte = out.read(1)
        if not byte:
            return None
        line += byte
    asked = _SERVER.fullmatch(line.decode(errors="replace").rstrip("\n"))
    if asked is None or not _LONG_OPTIONS.issuperset(asked[1].split()[1:]):
        raise ConnectionFailedError(
            f"the first box asked for another command than rsync's server: {line[:200]!r}",
            failure=ConnectionFailure.BROKEN,
        )
    return f"rsync --server {asked[1]} . ."
