"""The record of every call that changes something in a cloud: who, when, what, for which box, its outcome.

A file of its own next to the journal, one JSON object a line, append-only. A call is recorded before it is
sent and again with its outcome: one without an outcome was sent by a process that ended first, or is under
way. The record has no parameters, so it has no secrets: only the names of the call and of its target.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpucloud.clouds.provider import Answered, ApiCall
from gpucloud.resources import rfc3339

if TYPE_CHECKING:
    from gpucloud.clouds.documents import AuditDocument, CallDocument

FILE = "audit.jsonl"
LONGEST = 2000
"""The most characters of one value: a longer one is cut, so that a line is one write."""

FOLLOW_S = 0.5
BLOCK = 65536
LONGEST_LINE = 65536
MOST_UNDER_WAY = 10_000
"""How many halves of calls to keep until the other half is found: more are never under way at once."""

Entry = Mapping[str, Any]
_about: ContextVar[Mapping[str, Any]] = ContextVar("about", default={})  # noqa: B039  (never changed)


@contextmanager
def about(**facts: Any) -> Generator[None]:
    """Records calls of the body with these fields: ``box``, and ``price`` per hour and node."""
    token = _about.set({**_about.get(), **facts})
    try:
        yield
    finally:
        _about.reset(token)


class AuditLog:
    """Writes the record. Safe to use from several threads and processes: each line is one write.

    Args:
        folder: the state folder.
        owner: the owner of the boxes.
        command: the command that makes the calls: its name, no arguments.
        clock: returns the time in UTC.
        new_id: returns a unique text for a call.
        complain: called once if the record cannot be written: that is no reason to leave a box running.
        trace: the id of the OpenTelemetry trace that the command is a part of; ``None`` without one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        owner: str,
        command: str,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        complain: Callable[[str], None],
        trace: str | None = None,
    ) -> None:
        self._path = folder / FILE
        self._clock = clock
        self._new_id = new_id
        self._complain = complain
        self._complained = False
        self._who = {"owner": owner, "user": _user(), "host": socket.gethostname(), "pid": os.getpid()}
        self._command = command
        self._trace = {"trace": trace} if trace else {}

    def observe(self, call: ApiCall, /) -> Answered:
        """Records a call that is about to be sent; returns the function that records its outcome."""
        number = self._new_id()
        what = {
            "cloud": call.cloud,
            "region": call.region,
            "action": call.action,
            "target": call.target,
        }
        self._write(
            {"call": number, **self._who, "command": self._command, **what, **_about.get(), **self._trace}
        )

        def answered(outcome: str, request_id: str | None) -> None:
            self._write({"call": number, "outcome": outcome, "request_id": request_id})

        return answered

    def _write(self, fields: Mapping[str, Any]) -> None:
        cut = {name: value[:LONGEST] if isinstance(value, str) else value for name, value in fields.items()}
        line = json.dumps({"at": rfc3339(self._clock()), **cut}) + "\n"
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, line.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._complained:
                self._complained = True
                self._complain(f"the audit record {self._path} cannot be written: {error.strerror}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Calls that were read from the record.

    Attributes:
        calls: in the order in which they were sent, each with ``outcome``, ``request_id`` and ``answered_at``
            (``None`` if unknown).
        damaged: how many lines cannot be parsed: the disk may have been full in the middle of one.
        more: whether there are older calls that match.
    """

    calls: Sequence[Entry]
    damaged: int
    more: bool

    def document(self) -> AuditDocument:
        """The fields of ``gpucloud.audit/v1``."""
        calls = cast("list[CallDocument]", list(self.calls))
        return {"calls": calls, "damaged": self.damaged, "more": self.more}


def calls_on_record(
    folder: Path, *, box: str | None = None, since: datetime | None = None, most: int | None = None
) -> AuditRecord:
    """The newest calls on record, of all boxes or one, and not older than a moment; see :func:`read`."""
    first = "" if since is None else rfc3339(since)

    def wanted(call: Entry) -> bool:
        return box in {None, call.get("box")} and str(call.get("at")) >= first

    return read(folder, wanted, most=most)


def read(folder: Path, wanted: Callable[[Entry], object] = bool, *, most: int | None = None) -> AuditRecord:
    """The newest calls on record. The file is read from its end, and no further than is needed.

    Args:
        folder: the state folder.
        wanted: whether a call matches.
        most: the maximum number of calls; ``None`` for all.
    """
    calls: list[dict[str, Any]] = []
    outcomes: dict[str, dict[str, Any]] = {}
    damaged, more = 0, False
    for line in _backwards(folder / FILE):
        number, entry = _entry(line)
        if number is None:
            damaged += 1
            continue
        if "action" not in entry:
            _keep(outcomes, number, entry)
            continue
        call = _call(entry, outcomes.pop(number, {}))
        if not wanted(call):
            continue
        if most is not None and len(calls) == most:
            more = True
            break
        calls.append(call)
    return AuditRecord(calls=calls[::-1], damaged=damaged, more=more)


def follow(
    folder: Path, pause: Callable[[], object], wanted: Callable[[Entry], object] = bool
) -> Generator[Entry]:
    """The calls from now on: each as it is about to be sent, and again with its outcome. Never ends.

    Args:
        folder: the state folder.
        pause: is called when there is nothing new.
        wanted: whether a call matches.

    Yields:
        As :class:`AuditRecord` has them, with ``call``: the same text for both.
    """
    rest, under_way = b"", dict[str, dict[str, Any]]()
    for new in _written(folder / FILE):
        *lines, rest = (rest + new).split(b"\n")
        rest = rest[-LONGEST_LINE:]
        for line in lines:
            number, entry = _entry(line)
            if number is None:
                continue
            if "action" in entry:
                _keep(under_way, number, entry)
                call = _call(entry, {})
            elif number in under_way:
                call = _call(under_way.pop(number), entry)
            else:
                continue
            if wanted(call):
                yield {"call": number, **call}
        if not new:
            pause()


def _written(path: Path) -> Generator[bytes]:
    """What is written to a file from now on, and to one that takes its place; empty for nothing new."""
    at, known = 0, ""
    with suppress(FileNotFoundError):
        found = path.stat()
        at, known = found.st_size, f"{found.st_dev}:{found.st_ino}"
    while True:
        new = b""
        with suppress(FileNotFoundError), path.open("rb") as file:
            found = os.fstat(file.fileno())
            this = f"{found.st_dev}:{found.st_ino}"
            at, known = (at if this == known and found.st_size >= at else 0), this
            file.seek(at)
            new = file.read(BLOCK)
        at += len(new)
        yield new


def _entry(line: bytes) -> tuple[str | None, dict[str, Any]]:
    """The id of the call of a line, and its other fields; ``None`` for a line that cannot be parsed."""
    try:
        entry: dict[str, Any] = json.loads(line)
        return str(entry.pop("call")), entry
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, {}


def _call(entry: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **entry,
        "outcome": answer.get("outcome"),
        "request_id": answer.get("request_id"),
        "answered_at": answer.get("at"),
    }


def _keep(lines: dict[str, dict[str, Any]], number: str, entry: dict[str, Any]) -> None:
    """Keeps half of a call until the other half is found."""
    lines[number] = entry
    if len(lines) > MOST_UNDER_WAY:
        del lines[next(iter(lines))]


def _backwards(path: Path) -> Generator[bytes]:
    """The lines of a file, the last one first; only the end of a line that is longer than any of ours."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        at = file.seek(0, os.SEEK_END)
        rest = b""
        while at:
            size = min(BLOCK, at)
            at = file.seek(at - size)
            first, *lines = (file.read(size) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line)
            rest = first[-LONGEST_LINE:]
        if rest:
            yield rest


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
