"""Which files of this machine travel to a box: those of ``sync``, without what is left out.

Paths are text in the file system's encoding, with any bytes in them (:func:`os.fsdecode`).
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from gpucloud.errors import UsageError
from gpucloud.sources.ignoring import (
    GIT,
    GIT_IGNORE,
    OWN_IGNORE,
    Layer,
    above,
    kept_by_git,
    layer_in,
    layer_of,
    verdict,
)

VENV = "pyvenv.cfg"
"""What a virtual environment has: it is of no use on another machine."""
LONGEST_KEY = 32768
_KEYS = (b"PRIVATE KEY-----", b"PuTTY-User-Key-File")
_SAMPLES = (".example", ".sample", ".template", ".dist")


class EntryKind(Enum):
    """What an entry is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file, folder or link that travels: its path below the root of its selection, its size in bytes."""

    path: str
    kind: EntryKind
    size: int = 0


@dataclass(frozen=True, slots=True)
class SyncSource:
    """One item of ``sync``: what is copied from here, to where on the box; ``.`` is the home folder there."""

    item: str
    local: str
    remote: str

    @property
    def contents(self) -> bool:
        """Whether the contents of a folder are meant, as rsync reads the path, and not the folder itself."""
        return self.local.endswith("/") or posixpath.basename(self.local) in {".", ".."}


def read_source(item: str) -> SyncSource:
    """Reads ``LOCAL`` or ``LOCAL:REMOTE``.

    Raises:
        UsageError: the place on the box is above the home folder, or not said from the root.
    """
    local, _, remote = item.partition(":")
    remote = remote.removeprefix("~/") or "."
    if ".." in remote.split("/"):
        raise UsageError(
            f"--sync: {remote!r} leads out of a folder", hint="name it from / or from the home folder"
        )
    return SyncSource(item, local, remote)


@dataclass(slots=True)
class Selection:
    """What travels of one source.

    Attributes:
        source: the source.
        root: the folder here to which the paths are relative.
        entries: what travels.
        left_files: how many files are left out, without those of ``.git``.
        left_bytes: their size.
        secrets: files that travel and look like secrets.
        out: links that travel and point out of the source.
        special: sockets, pipes and devices, which do not travel.
    """

    source: SyncSource
    root: str
    entries: list[FileEntry] = field(default_factory=list[FileEntry])
    left_files: int = 0
    left_bytes: int = 0
    secrets: list[str] = field(default_factory=list[str])
    out: list[str] = field(default_factory=list[str])
    special: list[str] = field(default_factory=list[str])

    @property
    def files(self) -> int:
        """How many files and links travel."""
        return sum(each.kind is not EntryKind.FOLDER for each in self.entries)

    @property
    def size_bytes(self) -> int:
        """The size of what travels."""
        return sum(each.size for each in self.entries)

    @property
    def named(self) -> FileEntry | None:
        """The entry of a folder that travels itself, and not its contents alone."""
        first = self.entries[0] if self.entries and not self.source.contents else None
        return first if first is not None and first.kind is EntryKind.FOLDER else None

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder."""
        return self.source.contents or self.named is not None

    def here(self, entry: FileEntry) -> str:
        """The path of an entry here."""
        return entry.path if self.root == "." else os.path.join(self.root, entry.path)  # noqa: PTH118  (paths of any bytes, as they are)

    def there(self, entry: FileEntry) -> str:
        """The path of an entry on the box: relative to the home folder, or absolute."""
        remote = self.source.remote
        if not self.is_folder and not remote.endswith("/") and posixpath.normpath(remote) != ".":
            return posixpath.normpath(remote)  # a file under a name of its own
        return posixpath.normpath(posixpath.join(remote, entry.path))


def refuse_missing(source: SyncSource) -> None:
    """Refuses a source that does not exist.

    Raises:
        UsageError: it does not.
    """
    if not os.path.lexists(source.local):
        raise UsageError(f"--sync: {source.local} does not exist")


def select(source: SyncSource, exclude: Sequence[str] = ()) -> Selection:
    """Chooses what travels of a source.

    A source that is a file travels as it is named. A folder travels without what git leaves out, ``.git``
    and virtual environments; on top of that come the patterns of ``exclude`` and of ``.gpucloudignore``
    files, which may bring something back: ``!.git/``.

    Raises:
        UsageError: the source does not exist, is a link, or a file of it cannot be read.
    """
    local = source.local
    try:
        found = os.stat(local) if source.contents else os.lstat(local)  # noqa: PTH116
    except OSError as error:
        raise _missing(source, error) from error
    if stat.S_ISLNK(found.st_mode):
        where = os.path.realpath(local)
        raise UsageError(
            f"--sync: {local} is a link, and what it points to would stay here", hint=f"name that: {where}"
        )
    if not stat.S_ISDIR(found.st_mode):
        name = posixpath.basename(local)
        chosen = Selection(source, posixpath.dirname(local) or ".")
        _add(chosen, name, found, name)
        return chosen
    try:
        if source.contents:
            chosen = _walk(Selection(source, local), "", exclude)
            if not chosen.entries and posixpath.normpath(source.remote) != ".":  # the home folder is there
                chosen.entries.append(FileEntry(".", EntryKind.FOLDER))
            return chosen
        folder = posixpath.normpath(local)
        name = posixpath.basename(folder)
        chosen = Selection(source, posixpath.dirname(folder) or ".", [FileEntry(name, EntryKind.FOLDER)])
        return _walk(chosen, f"{name}/", exclude)
    except PermissionError as error:
        raise _unreadable(source, os.fsdecode(error.filename or local).rstrip("/")) from error


def select_all(sync: Sequence[str], exclude: Sequence[str] = ()) -> list[Selection]:
    """Chooses what travels of several sources.

    Raises:
        UsageError: as :func:`select`; or two files would be at the same place on the box.
    """
    chosen = [select(read_source(item), exclude) for item in sync]
    taken: dict[str, tuple[Selection, FileEntry]] = {}
    for selection in chosen if len(chosen) > 1 else ():
        for entry in selection.entries:
            there = selection.there(entry)
            first, other = taken.setdefault(there, (selection, entry))
            if other is not entry and not _merge(first, other, selection, entry):
                both = f"{first.here(other)} and {selection.here(entry)}"
                raise UsageError(
                    f"--sync: {both} would both be {there!r} on the box",
                    hint=f"give one of them another place: --sync {selection.source.local}:FOLDER",
                )
    return chosen


def _merge(first: Selection, other: FileEntry, second: Selection, entry: FileEntry) -> bool:
    """Whether two entries may be at the same place: folders, of which one at least is no source by itself."""
    if other.kind is not EntryKind.FOLDER or entry.kind is not EntryKind.FOLDER:
        return False
    return not (other is first.named and entry is second.named)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is walked through.

    ``path`` is relative to the source, with a slash at its end; ``out`` says that git leaves it out, ``own``
    what the user's rules say of it, which holds for what is in it too.
    """

    path: str
    git: tuple[Layer, ...]
    user: tuple[Layer, ...]
    out: bool = False
    own: bool | None = None


def _walk(chosen: Selection, prefix: str, exclude: Sequence[str]) -> Selection:
    """Adds what travels of a folder, whose entries have this prefix."""
    top = os.path.join(chosen.root, prefix)  # noqa: PTH118
    kept = kept_by_git(top)
    git = above(top) if kept is None else ()
    if git and verdict(git, ""):  # asked for by its name, though its repository leaves it out
        git = ()
    waiting = deque([_Folder("", git, layer_of(exclude))])
    while waiting:
        folder = waiting.popleft()
        below = os.path.join(top, folder.path)  # noqa: PTH118
        user = folder.user + layer_in(below, OWN_IGNORE, below=folder.path)
        ignored = folder.git + (layer_in(below, GIT_IGNORE, below=folder.path) if kept is None else ())
        for found in _listed(below, ignore=folder.out or bool(folder.own)):
            path, is_folder = folder.path + found.name, found.is_dir(follow_symlinks=False)
            named = f"{path}/" if is_folder else path
            said = verdict(user, named)
            own = folder.own if said is None else said
            out = folder.out or (
                bool(verdict(ignored, named)) if kept is None else not is_folder and path not in kept
            )
            out = out or (own is None and _stays_home(found, is_folder))
            leaves = own is True or (own is None and out)
            if is_folder:
                if found.name == GIT and leaves and not _brings_back(user):
                    continue
                waiting.append(_Folder(named, ignored, user, out, own))
                if not leaves and (kept is None or own is False):
                    chosen.entries.append(FileEntry(f"{prefix}{path}", EntryKind.FOLDER))
                continue
            with suppress(FileNotFoundError):
                _take(chosen, prefix, path, found, leaves=leaves)
    chosen.entries.sort(key=lambda entry: entry.path)
    return chosen


def _listed(folder: str, *, ignore: bool) -> Iterator[os.DirEntry[str]]:
    """What is in a folder; nothing of one that vanished, or that cannot be read and does not travel.

    Raises:
        PermissionError: it cannot be read.
    """
    try:
        with os.scandir(folder) as found:
            yield from found
    except FileNotFoundError:
        return
    except PermissionError:
        if not ignore:
            raise


def _stays_home(found: os.DirEntry[str], is_folder: bool) -> bool:
    """Whether something stays here unless it is asked for: git's own folder, and virtual environments."""
    if found.name == GIT:
        return True
    return is_folder and os.path.lexists(os.path.join(found.path, VENV))  # noqa: PTH118


def _brings_back(layers: Sequence[Layer]) -> bool:
    """Whether a rule of the user brings something back."""
    return any(pattern.include is False for layer in layers for pattern in layer.patterns.patterns)


def _take(chosen: Selection, prefix: str, path: str, found: os.DirEntry[str], *, leaves: bool) -> None:
    about = found.stat(follow_symlinks=False)
    if not leaves:
        _add(chosen, f"{prefix}{path}", about, path)
    else:
        chosen.left_files += 1
        chosen.left_bytes += about.st_size


def _add(chosen: Selection, path: str, about: os.stat_result, inner: str) -> None:
    """Adds a file or a link, whose path in its source is ``inner``."""
    entry = FileEntry(path, EntryKind.FILE, about.st_size)
    here = chosen.here(entry)
    if stat.S_ISLNK(about.st_mode):
        target = os.readlink(here)  # noqa: PTH115
        if target.startswith("/") or posixpath.normpath(
            posixpath.join(posixpath.dirname(inner), target)
        ).startswith(".."):
            chosen.out.append(here)
        entry = FileEntry(path, EntryKind.LINK)
    elif not stat.S_ISREG(about.st_mode):
        chosen.special.append(here)
        return
    elif not os.access(here, os.R_OK):
        raise _unreadable(chosen.source, here)
    elif _is_secret(here, about.st_size):
        chosen.secrets.append(here)
    chosen.entries.append(entry)


def _is_secret(here: str, size: int) -> bool:
    """Whether a file has a name or a beginning of those that hold secrets."""
    name = posixpath.basename(here)
    if name in {".env", ".envrc"} or (name.startswith(".env.") and not name.endswith(_SAMPLES)):
        return True
    if not 0 < size <= LONGEST_KEY:
        return False
    with suppress(OSError), Path(here).open("rb") as stream:
        begins = stream.read(64)
        return any(mark in begins for mark in _KEYS)
    return False


def _missing(source: SyncSource, error: OSError) -> UsageError:
    if isinstance(error, PermissionError):
        return _unreadable(source, source.local)
    return UsageError(f"--sync: {source.local} does not exist")


def _unreadable(source: SyncSource, path: str) -> UsageError:
    hint = "change its rights, or leave it out: --exclude PATTERN"
    return UsageError(f"--sync {source.item}: {path} cannot be read", hint=hint)
