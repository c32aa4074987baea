"""What the program keeps for itself on the box: files of JSON in a folder of its own, and a lock."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from typing import Any

FOLDER = os.path.expanduser("~/.gpucloud/checkpoints")
RESERVE, RESERVE_BYTES = "reserve", 16 * 1024 * 1024
"""Room for these files on a disk that is full since: what was saved before must get up then, too."""


def home() -> str:
    """The folder of gpucloud on the box, with lent keys and the values of variables."""
    return os.path.realpath(os.path.dirname(FOLDER))


def load(name: str) -> dict[str, Any]:
    """A file of JSON; empty where there is none."""
    try:
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (FileNotFoundError, ValueError):
        return {}


def save(name: str, value: Mapping[str, Any]) -> None:
    """Replaces a file of JSON; on a full disk with the room that was reserved."""
    try:
        _replace(name, value)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with suppress(FileNotFoundError):
            os.remove(f"{FOLDER}/{RESERVE}")
        _replace(name, value)


def reserve() -> None:
    """Reserves room, where there is some."""
    with suppress(OSError), open(f"{FOLDER}/{RESERVE}", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)


def _replace(name: str, value: Mapping[str, Any]) -> None:
    draft = f"{FOLDER}/{name}.{os.getpid()}"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(draft, f"{FOLDER}/{name}")
    except OSError:
        with suppress(FileNotFoundError):
            os.remove(draft)
        raise


@contextmanager
def alone() -> Generator[None]:
    """One upload at a time: waits for the end of another one."""
    with open(f"{FOLDER}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
