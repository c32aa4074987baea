"""Restoring: the newest whole set of a run, over all of its attempts.

A set is whole or is not used: its files go into the folder once all of them are there, in their sizes. Which
attempt is the newest is told by the store's own clock; what an attempt says of itself decides nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from calendar import timegm
from time import strptime

from . import files, manifest, own, rclone
from .manifest import DamagedError
from .rclone import FailedError, NothingThereError
from .uploading import FROZEN, KNOWN, SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

RESTORING = "restoring"
TRIES = 4
"""How many sets of an attempt are tried: more than that are not damaged by chance."""
SLACK, SLACK_BYTES = 2, 64 * 1024 * 1024
"""How much more may be downloaded than a set has: what is cut off is downloaded again."""
_MANIFEST = re.compile(r"([0-9]{1,9})/(?:sets/([0-9]{1,15})|latest)\.json")
_MANIFESTS = ("--filter", "+ /*/sets/*.json", "--filter", "+ /*/latest.json", "--filter", "- *")
_LISTED = ("lsjson", "--recursive", "--files-only", "--no-mimetype", "--use-server-modtime")


def begin(told: str) -> dict[str, Any]:
    """Restores the newest set, and gives the folder and what was restored. Raises ``FailedError``."""
    settings: dict[str, Any] = json.loads(told)
    home = os.path.expanduser("~")
    folder = os.path.abspath(os.path.join(home, os.path.expanduser(settings["folder"])))
    settings["folder"] = folder
    refuse_own(folder)
    os.makedirs(folder, exist_ok=True)
    for name, value in ((SETTINGS, settings), (KNOWN, {}), (manifest.LATEST, {})):
        own.save(name, value)
    own.reserve()
    shutil.rmtree(files.place_for(folder, FROZEN), ignore_errors=True)
    numbers = attempts(settings)
    found = candidates(settings) if numbers else {}
    without = [each for each in reversed(numbers) if each not in found]
    damaged = [f"attempt {each}: it has no whole checkpoint" for each in without]
    newest = max(found, default=0)
    for each, paths in found.items():
        for path in paths[:TRIES]:
            try:
                made = restore(settings, each, path)
            except DamagedError as error:
                damaged.append(f"attempt {each}: {error}")
                continue
            if each < newest and not any(words.startswith(f"attempt {newest}:") for words in damaged):
                damaged.append(f"attempt {newest}: attempt {each} has uploaded a newer one")
            own.save(manifest.LATEST, {**made, "restored": True})
            own.save(KNOWN, {"inodes": inodes(folder, made)})
            restored = {"attempt": each, **manifest.about(made)}
            return {"folder": folder, "restored": restored, "damaged": damaged}
    return {"folder": folder, "restored": None, "damaged": damaged}


def refuse_own(folder: str) -> None:
    """Refuses a folder that has files of this program, or is among them: lent keys are none of a checkpoint.

    Raises:
        FailedError: it is one.
    """
    ours, theirs = own.home(), os.path.realpath(folder)
    if os.path.commonpath([ours, theirs]) in (ours, theirs):
        raise FailedError(f"{folder} has files of gpucloud itself: choose a folder of its own")


def attempts(settings: Mapping[str, Any]) -> list[int]:
    """The numbers of the run's attempts, sorted. Raises ``FailedError``."""
    try:
        said = rclone.call(settings, "lsf", "--dirs-only", f"{rclone.READING}{settings['run']}/attempts/")
    except NothingThereError:
        return []
    names = [line.rstrip("/") for line in said.decode(errors="replace").splitlines()]
    return sorted(int(name) for name in names if name.isdecimal() and len(name) < 10)


def candidates(settings: Mapping[str, Any]) -> dict[int, list[str]]:
    """The manifests of each attempt, the newest first, from the folder of the attempts on.

    The attempt whose newest manifest the store got last comes first. Raises ``FailedError``.
    """
    place = f"{rclone.READING}{settings['run']}/attempts/"
    listed: list[Mapping[str, Any]] = json.loads(rclone.call(settings, *_LISTED, *_MANIFESTS, place))
    got_at: dict[int, float] = {}
    numbered: dict[int, list[tuple[int, str]]] = {}
    for each in listed:
        match = _MANIFEST.fullmatch(str(each["Path"]))
        if match:
            attempt = int(match[1])
            got_at[attempt] = max(got_at.get(attempt, 0.0), moment(str(each["ModTime"])))
            numbered.setdefault(attempt, []).append((int(match[2] or 0), str(each["Path"])))
    newest_first = sorted(numbered, key=lambda attempt: (got_at[attempt], attempt), reverse=True)
    # latest.json repeats one of the sets, which come before it.
    return {
        each: [
            path
            for number, path in sorted(numbered[each], reverse=True)
            if number or len(numbered[each]) == 1
        ]
        for each in newest_first
    }


def moment(text: str) -> float:
    """A time as rclone lists it, in UTC: seconds since 1970."""
    whole, _, rest = text.partition(".")
    fraction = re.match("[0-9]*", rest)
    try:
        seconds = timegm(strptime(whole[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0
    return seconds + float(f"0.{fraction[0] if fraction else ''}0")


def restore(settings: Mapping[str, Any], attempt: int, path: str) -> dict[str, Any]:
    """Restores a set: all of its files, or none. Raises ``DamagedError``, ``FailedError``."""
    attempts_folder = f"{rclone.READING}{settings['run']}/attempts"
    folder = str(settings["folder"])
    draft = files.place_for(folder, RESTORING)
    try:
        shown = rclone.call(settings, "cat", "--count", str(manifest.MOST_BYTES), f"{attempts_folder}/{path}")
        made = manifest.checked(shown)
        objects = manifest.objects(made)
        _download(settings, f"{attempts_folder}/{attempt}/", draft, objects)
        _refuse_outside(folder, made["files"])
        _put_in_place(folder, draft, made["files"])
    except NothingThereError as error:
        raise DamagedError(str(error)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return made


def _download(settings: Mapping[str, Any], place: str, draft: str, objects: Mapping[str, int]) -> None:
    """Downloads objects, not many more bytes than they should have.

    Raises:
        DamagedError: they are not as the manifest says.
        FailedError: the store did not answer, or the disk has no room for them.
    """
    size, free = sum(objects.values()), files.free_bytes(draft)
    if size > free:
        if size != _stored_bytes(settings, place, objects):
            raise DamagedError("its files are not as large as it says")
        raise FailedError(f"the newest checkpoint has {size:,} bytes, and the disk has room for {free:,}")
    most = ("--max-transfer", f"{SLACK * size + SLACK_BYTES}B", "--cutoff-mode", "HARD")
    try:
        rclone.copy(settings, place, draft, objects, size, *most)
    except FailedError:
        if size != _stored_bytes(settings, place, objects):
            raise DamagedError("its files are not as large as it says") from None
        raise
    there = files.look(draft).files
    if any(name not in there or there[name].size != each for name, each in objects.items()):
        raise DamagedError("not all of its files are there")


def _stored_bytes(settings: Mapping[str, Any], place: str, objects: Mapping[str, int]) -> int:
    """How large objects are, by the store. Raises ``FailedError``."""
    names = b"".join(os.fsencode(name) + b"\n" for name in objects)
    listed = rclone.call(settings, *_LISTED, "--no-modtime", "--files-from-raw", "-", place, sent=names)
    return sum(int(each["Size"]) for each in json.loads(listed))


def _refuse_outside(folder: str, names: Mapping[str, Any]) -> None:
    """Refuses files that would go through a link out of the folder. Raises ``DamagedError``."""
    real = os.path.realpath(folder)
    for each in {os.path.dirname(name) for name in names}:
        if os.path.realpath(os.path.join(folder, each)) != os.path.normpath(os.path.join(real, each)):
            raise DamagedError(f"{each!r} leads out of the folder")


def _put_in_place(folder: str, draft: str, entries: Mapping[str, Sequence[Any]]) -> None:
    """Moves the files into the folder, with their times; of one with several names a copy for each."""
    names: dict[str, list[str]] = {}
    for name, entry in entries.items():
        names.setdefault(manifest.object_of(name, entry), []).append(name)
    for stored, (name, *others) in names.items():
        source = os.path.join(draft, stored)
        for other in others:
            shutil.copyfile(source, f"{source}.copy")
            _move(f"{source}.copy", folder, other, entries[other][1])
        _move(source, folder, name, entries[name][1])


def _move(source: str, folder: str, name: str, mtime_ns: int) -> None:
    target = os.path.join(folder, name)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.utime(source, ns=(mtime_ns, mtime_ns))
    os.replace(source, target)


def inodes(folder: str, made: Mapping[str, Any]) -> dict[str, int]:
    """The inodes of a set's files in the folder."""
    there = files.look(folder).files
    return {name: there[name].inode for name in made["files"] if name in there}
