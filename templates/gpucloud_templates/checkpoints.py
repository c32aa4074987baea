"""Keeps a folder of this box in an object store, from which the next box of the same run restores it.

``begin RCLONE FOLDER RUN ATTEMPT LOGS`` remembers its arguments and restores the newest checkpoint of the
run; ``watch SECONDS`` uploads every so many seconds; ``upload`` uploads once, now, and at the end of the box,
which ``GPUCLOUD_END_REASON`` tells, also its logs. RUN is a path of rclone, LOGS has the files of each kind.

An attempt writes ``RUN/attempts/ATTEMPT/`` alone: in it ``NUMBER/`` has the files that a checkpoint adds, and
``latest.json``, written last, lists the files of the newest whole checkpoint with their numbers. An upload
that is cut off leaves that file, and all that it lists, as it was. ``logs/KIND.log`` has the ends of the
box's logs. Nothing is ever deleted.

It needs Python 3.8 and rclone, runs as the box's user, and believes no file of another attempt: it may have
been written by a box that somebody else had taken over.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from typing import Any

OWN = os.path.expanduser("~/.gpucloud/checkpoints")
READING, WRITING = "store:", "own:"  # the remotes of rclone
MARKER = "latest.json"
MARKER_BYTES = 64 * 1024 * 1024
NOT_THERE = (3, 4)  # exit codes of rclone: no such folder, no such file
NOT_FOR_RCLONE = ("AWS_", "AZURE_", "RCLONE_")
LONGEST_WORDS = 500
END = "GPUCLOUD_END_REASON"
LOG_BYTES = 7 * 1000 * 1000  # of each file: with all seven, less than 50 MB
LOGS_S = 60.0
VARIABLES = "~/.gpucloud/env"
SHORTEST_VALUE = 4  # a shorter one is no secret, and replacing it would make a log unreadable


class FailedError(Exception):
    """What could not be done, in one line."""


class NothingThereError(FailedError):
    """A folder or file that does not exist."""


class DamagedError(Exception):
    """A checkpoint that is not whole; an older one is used."""


# --- rclone


def rclone(
    settings: Mapping[str, Any], *arguments: str, sent: bytes = b"", within_s: float | None = None
) -> bytes:
    """Runs rclone and gives its output. Raises ``FailedError``, and ``TimeoutExpired`` after ``within_s``."""
    command = [settings["rclone"], "--config", f"{OWN}/rclone.conf", "--stats", "0", "--log-level", "ERROR"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_RCLONE)}
    pipe = subprocess.PIPE
    done = subprocess.run(
        [*command, *arguments],
        input=sent,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        check=False,
        timeout=within_s,
    )
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip("- ")]
        words = " ".join(lines)[:LONGEST_WORDS] or f"exit code {done.returncode}"
        failed = NothingThereError if done.returncode in NOT_THERE else FailedError
        raise failed(f"rclone {arguments[0]}: {words}")
    return done.stdout


def copy(settings: Mapping[str, Any], source: str, target: str, names: Iterable[str]) -> None:
    """Copies these files from one folder to another. Raises ``FailedError``."""
    listed = b"".join(os.fsencode(name) + b"\n" for name in names)
    # An object's time cannot be changed without a right to copy it, and nothing here needs that.
    rclone(settings, "copy", source, target, "--files-from-raw", "-", "--no-update-modtime", sent=listed)


# --- files


def scan(folder: str) -> dict[str, list[int]]:
    """The files in a folder: size in bytes and time of change in ns. Links are left out."""
    found: dict[str, list[int]] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            if os.path.isfile(file) and not os.path.islink(file):
                status = os.stat(file)
                found[os.path.relpath(file, folder)] = [status.st_size, status.st_mtime_ns]
    unfit = sorted(name for name in found if "\n" in name or "\r" in name)
    if unfit:
        raise FailedError(f"the name of a file has a line break: {unfit[0]!r}")
    return found


def load(name: str) -> dict[str, Any]:
    """An own file of JSON; empty where there is none."""
    try:
        with open(f"{OWN}/{name}", encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
            return found
    except FileNotFoundError:
        return {}


def save(name: str, value: Mapping[str, Any]) -> None:
    """Replaces an own file of JSON."""
    draft = f"{OWN}/{name}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(draft, f"{OWN}/{name}")


@contextmanager
def alone() -> Generator[None]:
    """One upload at a time: waits for the end of another one."""
    with open(f"{OWN}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- uploading


def upload() -> dict[str, Any]:
    """Uploads what has changed since the last checkpoint, and gives the newest one. Raises ``FailedError``.

    An empty folder is no checkpoint.
    """
    with alone():
        settings, last = load("settings.json"), load(MARKER)
        known: dict[str, list[int]] = last.get("files", {})
        files = scan(settings["folder"])
        if not files or files == {name: each[:2] for name, each in known.items()}:
            return last
        # What was restored belongs to another attempt: the first checkpoint of each is whole.
        number = 1 if last.get("restored") else last.get("number", 0) + 1
        old: dict[str, list[int]] = {} if last.get("restored") else known
        changed = [name for name, each in files.items() if old.get(name, [])[:2] != each]
        target = f"{WRITING}{settings['run']}/attempts/{settings['attempt']}"
        copy(settings, settings["folder"], f"{target}/{number}/", changed)
        now = scan(settings["folder"])
        torn = sorted(name for name in changed if now.get(name) != files[name])
        if torn:
            raise FailedError(f"{torn[0]!r} was changed during its upload")
        listed = {name: [*each, number if name in changed else old[name][2]] for name, each in files.items()}
        marker: dict[str, Any] = {"number": number, "at": round(time.time()), "files": listed}
        rclone(settings, "rcat", f"{target}/{MARKER}", sent=json.dumps(marker).encode())
        save(MARKER, marker)
        return marker


def watch(every_s: float) -> None:
    """Uploads again and again; a failure is written down, and the next time may be better."""
    while True:
        time.sleep(every_s)
        try:
            upload()
            save("failure.json", {})
        except (FailedError, OSError, ValueError) as error:
            save("failure.json", {"at": round(time.time()), "words": str(error)})


# --- logs


def upload_logs() -> None:
    """Uploads the ends of the box's logs, without the values of its variables, as far as that goes."""
    settings, hidden = load("settings.json"), values()
    target = f"{WRITING}{settings['run']}/attempts/{settings['attempt']}/logs"
    until = time.monotonic() + LOGS_S
    for kind, names in settings["logs"].items():
        text = b"".join(map(end_of, names))
        for value in hidden:
            text = text.replace(value, b"[hidden]")
        if text:
            left_s = max(until - time.monotonic(), 0.0)
            rclone(settings, "rcat", f"{target}/{kind}.log", sent=text, within_s=left_s)


def end_of(name: str) -> bytes:
    """The end of a log, in whole lines; nothing of one that is not there, or not readable."""
    try:
        with open(os.path.join(os.path.expanduser("~"), name), "rb") as file:
            start = max(file.seek(0, os.SEEK_END) - LOG_BYTES, 0)
            file.seek(start)
            text = file.read(LOG_BYTES)
    except OSError:
        return b""
    return text.partition(b"\n")[2] if start else text


def values() -> list[bytes]:
    """The values of the box's variables, the longest first: one may be a part of another."""
    try:
        with open(os.path.expanduser(VARIABLES), encoding="utf-8") as file:
            words = shlex.split(file.read())
    except FileNotFoundError:
        return []
    found = {word.partition("=")[2] for word in words}
    return sorted((each.encode() for each in found if len(each) >= SHORTEST_VALUE), key=len, reverse=True)


# --- restoring


def begin(program: str, folder: str, run: str, attempt: str, logs: str) -> dict[str, Any]:
    """Restores the newest checkpoint, and gives the folder and what was restored. Raises ``FailedError``."""
    folder = os.path.abspath(os.path.join(os.path.expanduser("~"), os.path.expanduser(folder)))
    os.makedirs(folder, exist_ok=True)
    settings: dict[str, Any] = {"rclone": program, "folder": folder, "run": run, "attempt": int(attempt)}
    settings["logs"] = json.loads(logs)
    save("settings.json", settings)
    damaged: list[str] = []
    for each in reversed(attempts(settings)):
        try:
            marker = restore(settings, each)
        except DamagedError as error:
            damaged.append(f"attempt {each}: {error}")
            continue
        save(MARKER, {**marker, "restored": True})
        return {"folder": folder, "restored": {"attempt": each, **about(marker)}, "damaged": damaged}
    return {"folder": folder, "restored": None, "damaged": damaged}


def attempts(settings: Mapping[str, Any]) -> list[int]:
    """The numbers of the run's attempts, sorted."""
    try:
        said = rclone(settings, "lsf", "--dirs-only", f"{READING}{settings['run']}/attempts/")
    except NothingThereError:
        return []
    names = [line.rstrip("/") for line in said.decode(errors="replace").splitlines()]
    return sorted(int(name) for name in names if name.isdecimal() and len(name) < 10)


def restore(settings: Mapping[str, Any], attempt: int) -> dict[str, Any]:
    """Restores the checkpoint of an attempt: all of its files, or none. Raises ``DamagedError``."""
    place = f"{READING}{settings['run']}/attempts/{attempt}"
    draft = f"{settings['folder']}.gpucloud-restoring"
    try:
        if MARKER not in rclone(settings, "lsf", "--files-only", f"{place}/").decode().splitlines():
            raise DamagedError("it has no whole checkpoint")
        text = rclone(settings, "cat", "--count", str(MARKER_BYTES), f"{place}/{MARKER}")
        marker = checked(text)
        for number in sorted({each[2] for each in marker["files"].values()}):
            names = [name for name, each in marker["files"].items() if each[2] == number]
            copy(settings, f"{place}/{number}/", draft, names)
        if not whole(draft, marker["files"]):
            raise DamagedError("not all of its files are there")
        for name, each in marker["files"].items():
            target = os.path.join(str(settings["folder"]), name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.utime(os.path.join(draft, name), ns=(each[1], each[1]))
            os.replace(os.path.join(draft, name), target)
    except NothingThereError as error:
        raise DamagedError(str(error)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return marker


def whole(folder: str, files: Mapping[str, Sequence[int]]) -> bool:
    """Whether a folder has all these files, in their sizes."""
    there = scan(folder)
    return all(name in there and there[name][0] == each[0] for name, each in files.items())


def checked(text: bytes) -> dict[str, Any]:
    """The list of a checkpoint, with no name outside of its folder. Raises ``DamagedError``."""
    try:
        marker = json.loads(text)
        number, files = marker["number"], marker["files"]
        right = is_count(number) and all(
            is_inside(name) and len(each) == 3 and all(map(is_count, each)) for name, each in files.items()
        )
        if right:
            return {"number": number, "files": files}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise DamagedError("its list of files is damaged")


def is_count(value: object) -> bool:
    """Whether a value is a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_inside(name: str) -> bool:
    """Whether a relative path stays inside its folder."""
    parts = name.split("/")
    return not set(name) & set("\0\r\n") and not {"", ".", ".."} & set(parts)


def about(marker: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint in figures."""
    files = marker.get("files", {})
    return {
        "number": marker.get("number", 0),
        "files": len(files),
        "bytes": sum(each[0] for each in files.values()),
    }


def main(arguments: Sequence[str]) -> None:
    """Runs one command; its answer is a line of JSON."""
    command, *values = arguments
    try:
        if command == "begin":
            print(json.dumps(begin(*values)))
        elif command == "upload":
            try:
                print(json.dumps(about(upload())))
            finally:
                if os.environ.get(END):
                    with suppress(FailedError, OSError, ValueError, subprocess.TimeoutExpired):
                        upload_logs()
        else:
            watch(float(values[0]))
    except (FailedError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
