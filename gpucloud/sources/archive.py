"""What travels to the boxes of a run, frozen: an archive, named by its content, below the state folder."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpucloud.config import make_private
from gpucloud.errors import UsageError
from gpucloud.sources.ignoring import commit_of
from gpucloud.sources.selection import Selection

FOLDER = "code"
"""The folder of the archives, below that of the state."""
MOST_BYTES = 2 << 30
"""The most that is frozen: more is data."""
HOME, ROOT = "home", "root"
"""The folders of an archive: what goes into the home folder, and what has an absolute path."""
LEVEL = 4
"""Of the compression: code is small, and what is large does hardly pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What was frozen.

    Attributes:
        sha256: the digest of the archive, which is its name.
        size_bytes: the size of the archive.
        files: how many files and links it has.
        commit: the commit of the repository that the first source in one is from, with ``+dirty`` if it has
            changes; ``None`` outside of one.
        absolute: whether it has files with absolute paths.
    """

    sha256: str
    size_bytes: int
    files: int
    commit: str | None
    absolute: bool


def refuse_large(selections: Sequence[Selection]) -> None:
    """Refuses what is too large to be frozen.

    Raises:
        UsageError: it is; the message names the largest files.
    """
    total = sum(each.size_bytes for each in selections)
    if total <= MOST_BYTES:
        return
    sizes = [(entry.size, each.here(entry)) for each in selections for entry in each.entries]
    largest = ", ".join(f"{path} ({size_text(size)})" for size, path in sorted(sizes, reverse=True)[:3])
    much = f"{size_text(total)} would travel, {size_text(MOST_BYTES)} are allowed"
    raise UsageError(
        f"--sync: {much}; the largest: {largest}",
        hint="leave data out (--exclude PATTERN), and bring it from a bucket: --data s3://BUCKET/SET:/data",
    )


def freeze(selections: Sequence[Selection], folder: Path) -> Frozen:
    """Writes one archive of what travels; the same files, with the same times, give the same archive.

    Args:
        selections: what travels.
        folder: the folder of the archives.

    Raises:
        UsageError: a file vanished or changed while it was read, or the archive cannot be written.
    """
    try:
        make_private(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".draft-", delete=False) as draft:
            try:
                digest = _write(selections, draft)
                size, name = draft.tell(), path_of(folder, digest)
                os.replace(draft.name, name)  # noqa: PTH105
            except BaseException:
                os.unlink(draft.name)  # noqa: PTH108
                raise
    except OSError as error:
        what = f"{error.filename or folder}: {error.strerror or error}"
        raise UsageError(f"--sync: the files cannot be frozen: {what}", hint="try again") from error
    places = [each.there(entry) for each in selections for entry in each.entries[:1]]
    commits = (commit_of(each.source.local if each.is_folder else each.root) for each in selections)
    return Frozen(
        sha256=digest,
        size_bytes=size,
        files=sum(each.files for each in selections),
        commit=next(filter(None, commits), None),
        absolute=any(place.startswith("/") for place in places),
    )


def folder_of(state: Path, owner: str) -> Path:
    """The folder of an owner's archives: who deletes them knows the runs of one owner."""
    return state / FOLDER / hashlib.sha256(owner.encode()).hexdigest()[:16]


def path_of(folder: Path, sha256: str) -> Path:
    """Where the archive with this digest is, if it is here."""
    return folder / f"{sha256}.tar.gz"


def is_whole(file: Path, sha256: str) -> bool:
    """Whether an archive is here, and is what its name says."""
    with suppress(OSError), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
    return False


def size_text(size: int) -> str:
    """A number of bytes for people: ``1.2 MB``."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


class _Digest:
    """A file that is written, and the digest of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _write(selections: Sequence[Selection], draft: IO[bytes]) -> str:
    """Writes the archive; returns its digest."""
    out = _Digest(draft)
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=out, mtime=0) as packed,
        tarfile.open(
            fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):
        for folder in (HOME, ROOT):
            archive.addfile(_folder(folder))
        for there, here in sorted(_members(selections)):
            _add(archive, there, here)
    draft.flush()
    return out.sha256.hexdigest()


def _members(selections: Sequence[Selection]) -> Iterator[tuple[str, str]]:
    """Each entry with its name in the archive, and its path here."""
    for selection in selections:
        for entry in selection.entries:
            there = selection.there(entry)
            name = f"{ROOT}{there}" if there.startswith("/") else f"{HOME}/{there}"
            yield name, selection.here(entry)


def _add(archive: tarfile.TarFile, there: str, here: str) -> None:
    """Adds a file, link or folder; one that is gone meanwhile was deleted in time.

    Raises:
        OSError: it cannot be read, or has become shorter meanwhile.
    """
    with suppress(FileNotFoundError):
        about = os.lstat(here)
        member = tarfile.TarInfo(there)
        member.mode, member.mtime = stat.S_IMODE(about.st_mode) & 0o777, int(about.st_mtime)
        if stat.S_ISLNK(about.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(here)  # noqa: PTH115
            archive.addfile(member)
        elif stat.S_ISDIR(about.st_mode):
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
        else:
            descriptor = os.open(here, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as stream:
                member.size = os.fstat(descriptor).st_size
                archive.addfile(member, stream)


def _folder(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    return member
