"""The files of a living folder: a look at them, and frozen copies that what is done there no longer reaches.

A file is frozen by a hard link, which costs no room and keeps what is deleted or replaced by a rename. It
does not keep a file from being written in place: that shows in its size or time, at the latest after its
upload.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NamedTuple

    class Seen(NamedTuple):
        """A file at a moment: size in bytes, time of change in ns, inode."""

        size: int
        mtime_ns: int
        inode: int
else:
    from collections import namedtuple

    Seen = namedtuple("Seen", "size mtime_ns inode")

OURS = ".gpucloud-"
"""How a folder begins that is ours, in or beside the user's."""
COPIED_BYTES = 64 * 1024
"""Files up to this size are copied: nothing is known about them, and they are often written in place."""
QUIET_S = 2.0
"""What nobody has changed for so long is whole, where the system does not tell who has it open."""
OPEN_QUIET_S = 5.0
"""What somebody has open to write it, and has not changed for so long, is copied and looked at again."""
TICK_S = 0.02
"""The clock of file systems is coarser than that nowhere: a later write shows in the time."""
TRIES = 5
FICLONE = 0x40049409  # linux/fs.h
BLOCK = 8 * 1024 * 1024
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES)


class Look:
    """A moment's list of a folder.

    Attributes:
        files: its files by their paths in it.
        folders: its folders: when one was changed last in ns, in its entries and in any other way.
        left_out: what is there and never uploaded, with the reason.
    """

    def __init__(self) -> None:
        self.files: dict[str, Seen] = {}
        self.folders: dict[str, tuple[int, int]] = {}
        self.left_out: dict[str, str] = {}


def look(folder: str) -> Look:
    """What is in a folder now; nothing of one that is gone, or of what goes meanwhile."""
    found, todo = Look(), [""]
    while todo:
        path = todo.pop()
        try:
            with os.scandir(os.path.join(folder, path)) as entries:
                for entry in entries:
                    name = f"{path}/{entry.name}" if path else entry.name
                    if path or not entry.name.startswith(OURS):
                        _add(found, todo, name, entry)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            found.left_out[path or "."] = f"cannot be read: {error.strerror}"
    return found


def _add(found: Look, todo: list[str], name: str, entry: os.DirEntry[str]) -> None:
    with suppress(FileNotFoundError):
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            found.folders[name] = (status.st_mtime_ns, status.st_ctime_ns)
            todo.append(name)
        elif stat.S_ISREG(status.st_mode):
            found.files[name] = seen(status)
        else:
            found.left_out[name] = "a link" if stat.S_ISLNK(status.st_mode) else "no file"


def seen(status: os.stat_result) -> Seen:
    """A file by its status."""
    return Seen(status.st_size, status.st_mtime_ns, status.st_ino)


# --- who writes


def is_written(path: str) -> bool:
    """Whether somebody may be writing a file now; one that is gone is not written."""
    try:
        handle = _open(path)
    except OSError:
        return False
    try:
        return may_be_written(handle)
    finally:
        os.close(handle)


def may_be_written(handle: int) -> bool:
    """Whether somebody has a file open to write it, or may have: the system does not tell of all files.

    The kernel gives a lease for reading only while nobody has the file open for writing. It is given back at
    once; who opens the file in between waits for that.
    """
    try:
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return True
        return time.time() - os.fstat(handle).st_mtime < QUIET_S  # another's file, or a file system without
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _open(path: str) -> int:
    """Opens a file to read it; no link, and nothing that would wait for a writer."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


# --- freezing


class TornError(Exception):
    """A file that somebody writes, in words."""


class Frozen:
    """A file that was frozen: as it was then, and by what it can be told whether it still is that.

    ``handle`` is that of the user's file where a copy of it was made while somebody may have been writing it.
    """

    def __init__(self, path: str, file: Seen, *, linked: bool, handle: int | None = None) -> None:
        self.path = path
        self.file = file
        self.linked = linked
        self.handle = handle

    def is_whole(self) -> bool:
        """Whether nobody has written it since."""
        if self.linked:
            return seen(os.lstat(self.path)) == self.file
        return self.handle is None or seen(os.fstat(self.handle)) == self.file

    def close(self) -> None:
        """Lets go of the user's file."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def freeze(source: str, target: str, *, copied: bool) -> Frozen:
    """Freezes a file as it is now.

    Args:
        source: the user's file.
        target: where to freeze it; its folder is there.
        copied: whether to copy it in any case: it is small, or known to be written in place.

    Raises:
        FileNotFoundError: it is gone.
        TornError: it is being written.
        OSError: it cannot be read, or there is no room for it.
    """
    linked = not copied and _linked(source, target)
    try:
        handle = _open(target if linked else source)
    except OSError as error:
        if linked:
            os.unlink(target)
        if error.errno == errno.ELOOP:
            raise TornError("a link") from error
        raise
    keep = False
    try:
        file = os.fstat(handle)
        if not stat.S_ISREG(file.st_mode):
            raise TornError("no file")
        written = may_be_written(handle)
        if linked and not written:
            return Frozen(target, seen(file), linked=True)
        if linked:
            os.unlink(target)
        if written and time.time() - file.st_mtime < OPEN_QUIET_S:
            raise TornError("it is being written")
        whole = _copy(handle, target)
        keep = written
        return Frozen(target, whole, linked=False, handle=handle if written else None)
    finally:
        if not keep:
            os.close(handle)


def _linked(source: str, target: str) -> bool:
    """Whether a file could be linked."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in NO_LINKS:
            return False
        raise
    return True


def _copy(handle: int, target: str) -> Seen:
    """Copies an open file; gives what it was all the time meanwhile. Raises ``TornError``, ``OSError``."""
    for _ in range(TRIES):
        before = os.fstat(handle)
        if time.time() - before.st_mtime < TICK_S:  # another write might not show
            time.sleep(TICK_S)
        with open(target, "wb") as file:
            try:
                fcntl.ioctl(file.fileno(), FICLONE, handle)
            except OSError:
                for block in _blocks(handle):
                    file.write(block)
        if seen(os.fstat(handle)) == seen(before):
            os.utime(target, ns=(before.st_mtime_ns, before.st_mtime_ns))
            return seen(before)
    os.unlink(target)
    raise TornError("it is being written")


def _blocks(handle: int) -> Iterator[bytes]:
    at = 0
    while True:
        block = os.pread(handle, BLOCK, at)
        if not block:
            return
        at += len(block)
        yield block


def place_for(folder: str, purpose: str) -> str:
    """An empty folder of ours on the file system of the user's: beside it, or in it if that is a mount.

    Raises:
        OSError: it cannot be made.
    """
    real = os.path.realpath(folder)
    beside = os.path.join(os.path.dirname(real), f"{os.path.basename(real)}{OURS}{purpose}")
    inside = os.path.join(real, f"{OURS}{purpose}")
    with suppress(OSError):
        if os.stat(os.path.dirname(real)).st_dev == os.stat(real).st_dev:
            os.makedirs(beside, mode=0o700, exist_ok=True)
            return beside
    os.makedirs(inside, mode=0o700, exist_ok=True)
    return inside


def free_bytes(folder: str) -> int:
    """The room on the disk of a folder, for its user."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
