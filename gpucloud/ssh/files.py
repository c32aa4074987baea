"""Files to and from a box, by rsync over the shared ssh connection."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.ssh.client import ConnectionFailedError, Failure, Target, client, connect
from gpucloud.ssh.keys import find_program

FLAGS = ("-rlptz", "--no-devices", "--no-specials", "--partial")
"""Not ``-a``: owners and devices are useless on another machine."""
BLOCK = 4096
FILE_CODES = frozenset({3, 11, 23, 24})
"""rsync's exit codes for files that are missing, vanish, or cannot be read or written (rsync(1))."""


_MISSING = re.compile(r"(link_stat|change_dir) .* failed: No such file or directory")


class NotCopiedError(GpucloudError):
    """The box was reached, and a file could not be copied: it cannot be read there, or written here."""

    error_class = "not_copied"


class NotThereError(NotCopiedError):
    """There is no such file on the box, or on this machine, where it was to be copied from."""


def rsync_up(target: Target, source: str, destination: str, *, quiet: bool = True) -> None:
    """Copies a file or folder of this machine to the box; a slash at the source's end means its contents.

    Raises:
        ConnectionFailedError: the box could not be reached, or rsync failed.
    """
    _rsync(target, [_local(source), _remote(target, destination)], quiet=quiet)


def rsync_down(target: Target, source: str, destination: str, *, quiet: bool = True) -> None:
    """Copies a file or folder of the box to this machine. Nothing can be written outside ``destination``.

    A folder that is here already keeps its mode.

    Raises:
        NotThereError: there is no such file.
        NotCopiedError: it cannot be read or written.
        ConnectionFailedError: the box could not be reached, or rsync failed.
    """
    # Links that point out of the tree are not created: later files could be written through them.
    safe = ["--safe-links", "--no-perms", "--chmod=u-s,g-s"]
    _rsync(target, [*safe, _remote(target, source), _local(destination)], quiet=quiet)


def make_target(path: str) -> None:
    """Makes the folder to which a copy goes, and sees that a block can be written there.

    Raises:
        UsageError: it cannot.
    """
    here = Path(path)
    folder = here if path.endswith(("/", "/.")) or here.is_dir() else here.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(BLOCK))
            probe.flush()
    except OSError as error:
        raise UsageError(
            f"nothing can be copied to {folder}: {error.strerror}", hint="choose another place: PATH:LOCAL"
        ) from error


def _rsync(target: Target, arguments: Sequence[str], *, quiet: bool) -> None:
    connect(target)
    # -s: no shell of the box sees the paths.
    command = [find_program("rsync"), *FLAGS, "-s", "-q" if quiet else "--info=progress2"]
    command += ["-e", _rsync_shell(client(target))]
    done = subprocess.run(
        [*command, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    refuse_failed(done.returncode, done.stderr.decode(errors="replace"))


def refuse_failed(code: int, words: str) -> None:
    """Raises the failure of an rsync that ended with an exit code other than 0, and said this.

    Raises:
        NotThereError: there is no such file.
        NotCopiedError: it cannot be read or written.
        ConnectionFailedError: any other failure.
    """
    if code:
        said = words.strip().splitlines()
        missing = any("rsync: command not found" in line for line in said)
        hint = (
            "install rsync on the box: gpucloud exec NAME -- sudo apt-get install -y rsync"
            if missing
            else None
        )
        message = f"rsync failed with exit code {code}: {said[0] if said else 'no reason given'}"
        if code not in FILE_CODES:
            raise ConnectionFailedError(message, failure=Failure.BROKEN, hint=hint)
        kind = NotThereError if said and _MISSING.search(said[0]) else NotCopiedError
        raise kind(message, hint=hint)


def _remote(target: Target, path: str) -> str:
    return f"{target.alias}:{path.removeprefix('~/') or '.'}"


def _local(path: str) -> str:
    """A path that rsync reads as neither an option nor a remote path."""
    return path if path.startswith("/") else f"./{path}"


def _rsync_shell(argv: Sequence[str]) -> str:
    """An argument list for rsync's ``-e``: a quote inside quotes is doubled."""
    return " ".join("'" + argument.replace("'", "''") + "'" for argument in argv)
