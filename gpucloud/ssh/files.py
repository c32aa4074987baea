"""Files to and from a box, by rsync over the shared ssh connection."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from gpucloud.errors import GpucloudError, UsageError
from gpucloud.ssh.bounded import error_output
from gpucloud.ssh.client import ConnectionFailedError, ConnectionFailure, Target, client, connect, run
from gpucloud.ssh.keys import find_program

FLAGS = ("-rlptz", "--no-devices", "--no-specials", "--partial")
"""Not ``-a``: owners and devices are useless on another machine."""
ONLY_LISTED = "-dlptz"
"""Folders without what is in them."""
SAFE = ("--safe-links", "--no-perms", "--chmod=u-s,g-s", "--info=NAME,SYMSAFE")
"""Links that point out of the tree are not created: later files could be written through them."""
BLOCK = 4096
FILE_CODES = frozenset({3, 11, 23, 24})
"""rsync's exit codes for files that are missing, vanish, or cannot be read or written (rsync(1))."""


_PROGRESS = re.compile(rb"(\d+)% +(\S+B/s) +(\d+:\d\d:\d\d)")
_UNSAFE = re.compile(r'ignoring unsafe symlink "(.*)" -> "(.*)"')
_PATTERN = re.compile(r"[*?[]")
_CONTENTS = frozenset({"", ".", ".."})
"""How a path ends that means what is in a folder."""
LONGEST_LINE = 8192
_MISSING = re.compile(r"(link_stat|change_dir) .* failed: No such file or directory")
_KINDS = r"""
IFS=
for each in $1; do
  kind=folder
  if [ -h "$each" ] && [ ! -e "$each" ]; then kind=nothing
  elif [ ! -d "$each" ]; then
    [ -h "$each" ] || continue
    kind=file
  fi
  printf '%s %s\0' "$kind" "$each"
done
"""
"""What a path or pattern means on a box, but for plain files: each kind, of a link that of its target."""


class NotCopiedError(GpucloudError):
    """The box was reached, and a file could not be copied: it cannot be read there, or written here."""

    error_class = "not_copied"


class NotThereError(NotCopiedError):
    """There is no such file on the box, or on this machine, where it was to be copied from."""


def rsync_up(
    target: Target,
    source: str,
    destination: str,
    *,
    paths: Sequence[str] | None = None,
    quiet: bool = True,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Copies a file or folder of this machine to the box; a slash at the source's end means its contents.

    Args:
        target: the node.
        source: the path here.
        destination: the path on the box.
        paths: only these files, links and folders without their contents, relative to the source.
        quiet: shows no progress on the terminal.
        tell: is told the progress, at each tenth: ``30%, 12.5MB/s, 0:00:07 left``.

    Raises:
        NotCopiedError: a file cannot be read or written.
        ConnectionFailedError: the box could not be reached, or rsync failed.
    """
    flags: Sequence[str] = FLAGS
    listed = b""
    if paths is not None:
        flags = (ONLY_LISTED, *FLAGS[1:], "--files-from=-", "--from0")
        listed = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)  # "#a" would be a comment
    words = [_local(source), _remote(target, destination)]
    _rsync(target, words, flags=flags, stdin=listed, quiet=quiet, tell=tell)


def rsync_down(
    target: Target, source: str, destination: str, *, tell: Callable[[str], None] | None = None
) -> str | None:
    """Copies a file or folder of the box to this machine. Nothing can be written outside ``destination``.

    A folder that is here already keeps its mode. A path that is a link itself brings what it points to. Links
    inside of a folder that point out of it are not created.

    Args:
        target: the node.
        source: the path on the box.
        destination: the path here.
        tell: is told the progress, as of :func:`rsync_up`.

    Returns:
        Which links were not created, and how many, in words; ``None`` for none.

    Raises:
        NotThereError: there is no such file.
        NotCopiedError: it cannot be read or written.
        ConnectionFailedError: the box could not be reached, or rsync failed.
    """
    left_out = LinksLeftOut()

    def copy(path: str, here: str, *options: str, inside: str = "") -> None:
        words = [*SAFE, *options, f"{target.alias}:{path}", _local(here)]
        _rsync(target, words, quiet=True, tell=tell or _ignore, hear=partial(left_out.hear, inside))

    path = _on_box(source)
    if posixpath.basename(path) in _CONTENTS:
        copy(path, destination)
        return left_out.text
    kinds = _kinds(target, path)
    if kinds.get(path) == "nothing":
        raise NotThereError(f"{source!r} is a link to what is not there")
    apart = {name: kind for name, kind in kinds.items() if kind != "nothing"}
    if path not in apart:
        named = (f"--exclude=/{_literal(PurePosixPath(name).name)}" for name in apart)
        copy(path, destination, "--exclude=*/", *named)
    for name, kind in apart.items():
        here = destination if name == path else f"{destination}/"
        exactly = _literal(name) if _PATTERN.search(name) else name
        if (
            kind == "folder"
        ):  # a transfer of its own: what rsync takes for safe stays in the transferred folder
            folder = _own_folder(here, name)
            copy(f"{exactly}/", f"{folder}/", inside=f"{folder.name}/")
        else:
            copy(exactly, here, "--copy-links")
    return left_out.text


def _kinds(target: Target, path: str) -> dict[str, str]:
    """What a path or pattern means on a box: ``folder``, and for links also ``file`` or ``nothing``.

    rsync would copy such a link, or leave it out, and nothing of what it points to.
    """
    found = run(target, ["sh", "-c", _KINDS, "sh", path]).out.split(b"\0")[:-1]
    told = (os.fsdecode(each).partition(" ") for each in found)
    # A box has chosen the names: what goes into a folder here is named by the last part.
    return {name: kind for kind, _, name in told if posixpath.basename(name) not in _CONTENTS}


def _own_folder(here: str, name: str) -> Path:
    """The folder here that a folder of this name goes into; rsync makes it, with the mode of that one.

    Raises:
        NotCopiedError: there is a file of that name, or its place cannot be made.
    """
    at = Path(here, PurePosixPath(name).name)
    try:
        if at.is_symlink():  # rsync replaces such a link as well
            at.unlink()
        at.parent.mkdir(parents=True, exist_ok=True)
        if at.exists() and not at.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise NotCopiedError(f"{at}: {error.strerror}") from error
    return at


def _literal(name: str) -> str:
    """A name as a pattern of rsync that means nothing else."""
    return re.sub(r"([\\*?[])", r"\\\1", name)


class LinksLeftOut:
    """Links that were not created: the first few, and their number."""

    MOST = 5

    def __init__(self) -> None:
        self._count = 0
        self._some: list[str] = []

    def hear(self, inside: str, line: str) -> None:
        """A line of rsync, which may tell of one more inside of a folder; a box has chosen the names."""
        if found := _UNSAFE.fullmatch(line):
            self.add(f"{inside}{found[1]}", found[2])

    def add(self, name: str, to: str) -> None:
        """One more."""
        self._count += 1
        if len(self._some) < self.MOST:
            self._some.append("".join(c if c.isprintable() else "?" for c in f"{name} -> {to}"))

    @property
    def text(self) -> str | None:
        """All of them in words; ``None`` for none."""
        if not self._count:
            return None
        links = "1 link that points" if self._count == 1 else f"{self._count:,} links that point"
        more = ", …" if self._count > len(self._some) else ""
        return f"{links} out of the folder {'was' if self._count == 1 else 'were'} not created: " + (
            f"{', '.join(self._some)}{more}"
        )


def _ignore(_: str) -> None:
    """Takes progress that nobody asked for."""


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


def _rsync(
    target: Target,
    arguments: Sequence[str],
    *,
    flags: Sequence[str] = FLAGS,
    stdin: bytes = b"",
    quiet: bool,
    tell: Callable[[str], None] | None = None,
    hear: Callable[[str], None] = lambda _: None,
) -> None:
    connect(target)
    # -s: no shell of the box sees the paths.
    quiet = quiet and tell is None
    command = [find_program("rsync"), *flags, "-s", "-q" if quiet else "--info=progress2"]
    command += ["-e", _rsync_shell(client(target)), *arguments]
    with tempfile.TemporaryFile() as listed, error_output() as words:
        listed.write(stdin)
        listed.seek(0)
        out = None if tell is None else subprocess.PIPE
        with subprocess.Popen(command, stdin=listed, stdout=out, stderr=words.file) as copying:
            words.of(copying)
            if tell is not None and copying.stdout is not None:
                _tell_progress(copying.stdout, tell, hear)
            code = copying.wait()
        refuse_failed(code, words.text)


def _tell_progress(out: IO[bytes], tell: Callable[[str], None], hear: Callable[[str], None]) -> None:
    """Tells each tenth that rsync has copied, with its rate, and its estimate of the time that is left.

    Its other lines are heard.
    """
    tenths, rest = 0, b""
    while chunk := os.read(out.fileno(), BLOCK):
        *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
        rest = rest[-LONGEST_LINE:]
        for line in lines:
            hear(line.decode(errors="replace"))
        found = _PROGRESS.findall(chunk)
        if found and int(found[-1][0]) // 10 > tenths:
            done, rate, left = (each.decode() for each in found[-1])
            tenths = int(done) // 10
            tell(f"{done}%, {rate}, {left} left")


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
            raise ConnectionFailedError(message, failure=ConnectionFailure.BROKEN, hint=hint)
        kind = NotThereError if said and _MISSING.search(said[0]) else NotCopiedError
        raise kind(message, hint=hint)


def _remote(target: Target, path: str) -> str:
    return f"{target.alias}:{_on_box(path)}"


def _on_box(path: str) -> str:
    """A path of the user as rsync takes it there, from the home folder on."""
    return path.removeprefix("~/") or "."


def _local(path: str) -> str:
    """A path that rsync reads as neither an option nor a remote path."""
    return path if path.startswith("/") else f"./{path}"


def _rsync_shell(argv: Sequence[str]) -> str:
    """An argument list for rsync's ``-e``: a quote inside quotes is doubled."""
    return " ".join("'" + argument.replace("'", "''") + "'" for argument in argv)
