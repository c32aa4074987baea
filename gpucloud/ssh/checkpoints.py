"""The program on a box that keeps a folder in an object store (:mod:`gpucloud_templates.checkpoints`).

It travels as one file, an archive that Python runs. Credentials travel on a pipe into a file that only the
box's user can read: no argument, log or journal has them.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any, cast
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from gpucloud.errors import GpucloudError
from gpucloud.ssh import rclone
from gpucloud.ssh.client import Target, run
from gpucloud_templates import CHECKPOINT
from gpucloud_templates.cloud_config import SELF_DELETE

FOLDER = ".gpucloud/checkpoints"
"""What belongs to the program, in the home folder of the box's user."""
NAME = "checkpoints.pyz"
PROGRAM = f"{FOLDER}/{NAME}"
TRANSFER_S = 24 * 3600.0
"""Transfers have no limit of their own: the deadline of the box comes first."""
MOST_BYTES = 65536
LATEST_S, FASTEST = 1 << 34, 1e13
"""No box has a time after that (in seconds since 1970), or uploads faster (in bytes per second)."""
READING, WRITING = "store", "own"
"""The remotes of rclone on a box, as its program calls them."""

_STORE = f'set -eu; umask 077; mkdir -p {FOLDER}; cat >"{FOLDER}/$1.$$"; mv "{FOLDER}/$1.$$" "{FOLDER}/$1"'
_WATCH = f'setsid python3 {PROGRAM} watch "$1" </dev/null >/dev/null 2>&1 & echo $! >{FOLDER}/pid'
_STOP = f'[ ! -e {FOLDER}/pid ] || kill -TERM -- "-$(cat {FOLDER}/pid)" 2>/dev/null || true'
_LEAVE = f"[ ! -e {SELF_DELETE} ] || python3 -sS {SELF_DELETE} {SELF_DELETE}.json; exec systemctl poweroff"
"""What ends a machine that may: as its guard does, by its own identity where it has one."""
_WAIT = f"setsid python3 {PROGRAM} wait </dev/null >/dev/null 2>&1 &"
_AGE = f"echo $(($(date +%s) - $(stat -c %Y {FOLDER}/rclone.conf)))"
_STATUS = f"[ ! -e {PROGRAM} ] || python3 {PROGRAM} status"
LONGEST_NAME = 200
MOST_WORDS = 20


class CheckpointFailedError(GpucloudError):
    """A checkpoint could not be uploaded or restored; the message quotes the box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint as the box counts it.

    Attributes:
        attempt: the attempt that wrote it; ``None`` for the box's own.
        number: its number in the attempt; 0 where there is none yet.
        files: how many files it has.
        size_bytes: their size.
    """

    attempt: int | None
    number: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEnd:
    """What a box does when its command has ended, besides its last upload.

    Attributes:
        job: the folder of the command.
        results: the paths that it stores.
        ends_itself: whether it ends itself once all is stored.
    """

    job: str
    results: Sequence[str] = ()
    ends_itself: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The folder of the checkpoints, absolute, and what was restored into it.

    ``damaged`` names the newer checkpoints that could not be used, each with the reason.
    """

    folder: str
    restored: Checkpoint | None
    damaged: Sequence[str]


def hook(command: str | None) -> str:
    """The guard's checkpoint command: uploads what there is while ``command`` runs, and then the rest."""
    upload = f"[ ! -e {PROGRAM} ] || python3 {PROGRAM} upload"  # the box may end before it has the program
    if command is None:
        return f"{upload}\n"
    first = f"({upload} early) &"
    return f"{first}\nbash -c {shlex.quote(command)}\nwait\n{upload}\n"


def install(target: Target) -> None:
    """Puts rclone, pinned by its digest, and the program on a box.

    Raises:
        CheckpointFailedError: it could not be installed.
        ConnectionFailedError: the box could not be reached.
    """
    if (said := rclone.install(target)) is not None:
        raise CheckpointFailedError(f"rclone could not be installed on {target.alias}: {said}")
    _store(target, NAME, archive())


@cache
def archive() -> bytes:
    """The program as one file, an archive that Python runs. The same program gives the same bytes."""
    package = files("gpucloud_templates").joinpath("checkpoints")
    texts = {
        f"checkpoints/{item.name}": item.read_bytes()
        for item in package.iterdir()
        if item.name.endswith(".py")
    }
    texts["__main__.py"] = b"from checkpoints.__main__ import main\n\nmain()\n"
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as file:
        for name in sorted(texts):
            file.writestr(ZipInfo(name), texts[name], ZIP_DEFLATED)
    return packed.getvalue()


def send_credentials(target: Target, reading: Mapping[str, str], writing: Mapping[str, str]) -> None:
    """Replaces the configuration of rclone on a box; uploads that begin from now on use it.

    Raises:
        CheckpointFailedError: it could not be written.
        ConnectionFailedError: the box could not be reached.
    """
    _store(target, "rclone.conf", rclone.configuration({READING: reading, WRITING: writing}))


def begin(
    target: Target,
    folder: str,
    run_folder: str,
    attempt: int,
    *,
    logs: Mapping[str, Sequence[str]],
    at_end: AtEnd,
    marker: str | None = None,
) -> Begun:
    """Restores the newest checkpoint of a run into a folder of the box.

    Args:
        target: the node.
        folder: a path on the box; relative to the home folder if it is not absolute.
        run_folder: the folder of the run, in rclone's words without the remote: ``bucket/path``.
        attempt: the number under which this box writes.
        logs: the files of each kind of log, which are uploaded at the end of the box.
        at_end: what it does then.
        marker: the pattern of the files that say that a checkpoint is whole; ``None`` without.

    Raises:
        CheckpointFailedError: the store refused, or the box cannot write the folder.
        ConnectionFailedError: the box could not be reached.
    """
    settings = {
        "rclone": rclone.PROGRAM,
        "folder": folder,
        "run": run_folder,
        "attempt": attempt,
        "logs": dict(logs),
        "marker": marker,
        "job": at_end.job,
        "results": list(at_end.results),
        "leave": ["sh", "-c", _LEAVE] if at_end.ends_itself else [],
    }
    said = _asked(target, "begin", json.dumps(settings))
    where, damaged = said.get("folder"), said.get("damaged")
    if not isinstance(where, str) or not where.startswith("/") or "\0" in where:
        raise CheckpointFailedError(f"{target.alias} returned no folder of checkpoints")
    listed = cast("list[object]", damaged) if isinstance(damaged, list) else []
    return Begun(
        folder=where,
        restored=_checkpoint(said["restored"]) if said.get("restored") else None,
        damaged=[rclone.last_words(str(each).encode()) for each in listed[:100]],
    )


def watch(target: Target, every_s: int) -> None:
    """Starts to upload every so many seconds, in the background of the box."""
    run(target, ["sh", "-c", _WATCH, "sh", str(every_s)])


def wait(target: Target) -> None:
    """Has the box wait, in the background, for the end of the command, and store what it leaves."""
    run(target, ["sh", "-c", _WAIT])


def stop(target: Target) -> None:
    """Stops what :func:`watch` has started, with an upload that is under way."""
    run(target, ["sh", "-c", _STOP])


def upload(target: Target) -> Checkpoint:
    """Uploads what has changed a last time, after an upload that is under way; returns the newest checkpoint.

    The box's logs are uploaded as well, if that goes.

    Raises:
        CheckpointFailedError: it failed, and the checkpoint before is the newest one.
        ConnectionFailedError: the box could not be reached.
    """
    return _checkpoint(_asked(target, "upload", reason="ended"))


def save(target: Target, reason: str, timeout_s: float) -> None:
    """Has a box save and upload what it has, as its guard does before it ends the box.

    Args:
        target: the node.
        reason: why the box ends, in a word, for the user's command.
        timeout_s: how long that may take.

    Raises:
        CheckpointFailedError: the last upload failed.
        ConnectionFailedError: the box could not be reached, or the time was over.
    """
    told = (f"GPUCLOUD_END_REASON={reason}", f"GPUCLOUD_SECONDS_LEFT={timeout_s:.0f}")
    argv = ["env", *told, "bash", CHECKPOINT]
    done = run(target, argv, timeout_s=timeout_s, most_bytes=MOST_BYTES, only_end=True)
    if done.code:
        raise CheckpointFailedError(f"{target.alias}: {rclone.last_words(done.err)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What a box says of its checkpoints.

    Attributes:
        newest: the newest whole one; ``None`` before the first one of this box.
        at: when its files were looked at, in seconds since 1970.
        newest_file: the path of its newest file in the folder.
        bytes_per_s: how fast the box uploads; ``None`` before it was measured.
        left_out: how many files are in the folder and not in it; links count.
        words: which and why, at most :data:`MOST_WORDS`.
        failure: when the last upload failed, in seconds since 1970, and why; ``None`` if it succeeded.
    """

    newest: Checkpoint | None
    at: int
    newest_file: str
    bytes_per_s: float | None
    left_out: int
    words: Sequence[str]
    failure: tuple[int, str] | None


def status(target: Target) -> Status:
    """Asks a box for its newest checkpoint, what is left out of it, and its last failure.

    Raises:
        ConnectionFailedError: the box could not be reached.
    """
    said = _document(run(target, ["sh", "-c", _STATUS], most_bytes=MOST_BYTES).out)
    left_out, failure = _object(said.get("left_out")), _object(said.get("failure"))
    words, rate = left_out.get("words"), said.get("rate")
    listed = cast("list[object]", words) if isinstance(words, list) else []
    return Status(
        newest=_checkpoint(said) if _count(said.get("number")) and _count(said.get("at")) else None,
        at=min(_count(said.get("at")), LATEST_S),
        newest_file=_words(said.get("newest"))[:LONGEST_NAME],
        bytes_per_s=float(rate) if isinstance(rate, int | float) and 0 < rate < FASTEST else None,
        left_out=_count(left_out.get("count")),
        words=[_words(each) for each in listed[:MOST_WORDS]],
        failure=(_count(failure.get("at")), _words(failure["words"])) if failure.get("words") else None,
    )


def _words(said: object) -> str:
    return rclone.last_words(str(said).encode(errors="replace")) if said is not None else ""


def _object(said: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def lease_age_s(target: Target) -> float:
    """The age of the configuration of rclone in seconds, by the box's clock; infinite without one."""
    said = run(target, ["sh", "-c", _AGE], most_bytes=MOST_BYTES).out.strip()
    return float(said) if said.isdigit() else math.inf


def _asked(target: Target, *words: str, reason: str = "") -> Mapping[str, Any]:
    told = f"GPUCLOUD_END_REASON={reason}"
    done = run(target, ["env", told, "python3", PROGRAM, *words], timeout_s=TRANSFER_S, most_bytes=MOST_BYTES)
    if done.code:
        raise CheckpointFailedError(f"{target.alias}: {rclone.last_words(done.err)}")
    return _document(done.out)


def _store(target: Target, name: str, text: bytes) -> None:
    done = run(target, ["sh", "-c", _STORE, "sh", name], stdin=text)
    if done.code:
        raise CheckpointFailedError(
            f"{name} could not be written to {target.alias}: {rclone.last_words(done.err)}"
        )


def _document(said: bytes) -> Mapping[str, Any]:
    """A JSON object that a box wrote, which may write anything; empty for anything else."""
    try:
        found: Any = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _checkpoint(said: Any) -> Checkpoint:
    found = _object(said)
    return Checkpoint(
        attempt=_count(found["attempt"]) if "attempt" in found else None,
        number=_count(found.get("number")),
        files=_count(found.get("files")),
        size_bytes=_count(found.get("bytes")),
    )


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int) and 0 <= value < 1 << 63 else 0
