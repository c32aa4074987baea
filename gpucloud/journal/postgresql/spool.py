"""What a server could not be told of the clouds: kept on this machine until the next command tells it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpucloud.journal.errors import JournalError

FILE = "pending-events.jsonl"
"""Its name in the state folder."""
OWNERS = "team-owners.json"
"""The owner id of this user in each journal that was reached from here."""


class Spool:
    """A file of changes, which only its user reads (0600). Safe to use from several processes.

    Args:
        file: the file; it need not be there.
        journal: where the changes belong; those of other journals stay.
    """

    def __init__(self, file: Path, journal: str) -> None:
        self.file = file
        self._journal = journal

    def add(self, change: Mapping[str, Any]) -> None:
        """Keeps a change.

        Raises:
            JournalError: the file cannot be written.
        """
        with self._locked() as handle:
            os.lseek(handle, 0, os.SEEK_END)
            os.write(handle, _line(self._journal, change))
            os.fsync(handle)

    def empty(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        """Sends the changes of this journal, in their order, and forgets them once all were sent.

        Raises:
            JournalError: the file cannot be read, or a change cannot be sent; then all of them stay.
        """
        if not self.file.exists():
            return
        with self._locked() as handle:
            lines = os.pread(handle, os.fstat(handle).st_size, 0).splitlines()
            entries = [self._entry(line) for line in lines if line.endswith(b"}")]  # else it was not finished
            for entry in entries:
                if entry["journal"] == self._journal:
                    send(entry["change"])
            rest = [
                _line(each["journal"], each["change"]) for each in entries if each["journal"] != self._journal
            ]
            os.ftruncate(handle, 0)
            os.pwrite(handle, b"".join(rest), 0)
            os.fsync(handle)

    def _entry(self, line: bytes) -> Mapping[str, Any]:
        try:
            entry: Any = json.loads(line)
            return {"journal": str(entry["journal"]), "change": dict(entry["change"])}
        except (LookupError, RecursionError, TypeError, ValueError) as error:
            raise JournalError(
                f"{self.file}, which keeps events for the journal, is damaged: {line[:80]!r}",
                hint="move it away; `gpucloud recover` finds what it would tell",
            ) from error

    @contextmanager
    def _locked(self) -> Generator[int]:
        try:
            handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield handle
            finally:
                os.close(handle)
        except OSError as error:
            raise JournalError(
                f"{self.file}, which keeps events for the journal, cannot be used: {error.strerror or error}",
                hint="make it yours and writable; `gpucloud recover` finds what it would tell",
            ) from error


def _line(journal: str, change: Mapping[str, Any]) -> bytes:
    return json.dumps({"journal": journal, "change": change}).encode() + b"\n"


# --- what a command needs while a server is away


def ended_without(state: Path, journal: str) -> Path:
    """The file with the boxes that were ended without a journal, an id on each line; it need not be there."""
    return state / f"ended-without-{hashlib.sha256(journal.encode()).hexdigest()[:12]}.txt"


def remember_owner(state: Path, journal: str, owner: str) -> None:
    """Keeps the owner id that a journal gave this user. What cannot be kept stops nothing."""
    known = _owners(state)
    if known.get(journal) == owner:
        return
    with suppress(OSError):
        draft = state / f".{OWNERS}"
        draft.write_text(json.dumps({**known, journal: owner}), encoding="utf-8")
        draft.replace(state / OWNERS)


def remembered_owner(state: Path, journal: str) -> str | None:
    """The owner id that a journal last gave this user; ``None`` if it never did."""
    return _owners(state).get(journal)


def _owners(state: Path) -> dict[str, str]:
    try:
        found = json.loads((state / OWNERS).read_text(encoding="utf-8"))
        return {str(journal): str(owner) for journal, owner in found.items()}
    except (OSError, ValueError, AttributeError):  # it is missing or damaged: nothing depends on it
        return {}
