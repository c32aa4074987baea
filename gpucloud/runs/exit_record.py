"""What a box writes last into the folder of its attempt: how its command ended, and which results are stored.

``attempts/N/ended.json`` is there once the exit code, the log, the last checkpoint and the results are. A box
has written it, which somebody else may have taken over: nothing of it is believed that is not checked here.
Pure functions.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpucloud.errors import GpucloudError
from gpucloud_templates.checkpoints.manifest import folders_of

ENDED = "ended.json"
RESULTS = "results"
"""The folder of the results in that of an attempt: each in a folder of its own, by its number."""
MOST_BYTES = 64 * 1024 * 1024
MOST_FILES = 1_000_000
LONGEST_NAME, LONGEST_PART = 4000, 255
"""Bytes of a path, and of each of its parts: what file systems take."""


class DamagedRecordError(GpucloudError):
    """The record of the end of a command is none, or is that of another attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a result.

    Attributes:
        name: its path in the folder of the result; its own name where the result is a file.
        size_bytes: its size.
        changed_ns: when it was changed, in ns since 1970.
        object: where it is, from the folder of the attempt on.
    """

    name: str
    size_bytes: int
    changed_ns: int
    object: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResult:
    """One path of ``--fetch`` as it is in the store.

    Attributes:
        asked: the path as the user gave it.
        path: the path on the box; another one than ``asked`` where that is a pattern.
        is_folder: whether it is a folder.
        files: its files, each once.
        links: links inside of its folder, by their names: what each points to.
        outside: the same of those that point out of it, which are only told.
    """

    asked: str
    path: str
    is_folder: bool
    files: tuple[StoredFile, ...]
    links: Mapping[str, str]
    outside: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How the command of an attempt ended, and what of it is stored.

    Attributes:
        attempt: the number of the attempt in the store.
        exit_code: of the command.
        timed_out: whether its box has ended it, because its time was over.
        results: what is stored.
        absent: the paths of ``--fetch`` that were not there.
        left_out: what could not be stored, in words.
    """

    attempt: int
    exit_code: int
    timed_out: bool
    results: tuple[StoredResult, ...]
    absent: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def objects(self) -> dict[str, int]:
        """All objects of the results, from the folder of the attempt on, with their sizes in bytes."""
        return {file.object: file.size_bytes for each in self.results for file in each.files}

    @property
    def is_all(self) -> bool:
        """Whether what the command wrote is stored, so that its box has nothing that is not."""
        return not self.left_out and (self.exit_code != 0 or not self.absent)


def read_record(text: bytes, run: str, attempt: int) -> ExitRecord:
    """The record of an attempt.

    Args:
        text: what the store has.
        run: the name of the run's folder, which the record must have.
        attempt: the attempt, whose number the record must have.

    Raises:
        DamagedRecordError: it is none, or that of another run or attempt.
    """
    try:
        said = json.loads(text)
        if said["run"] != run or said["attempt"] != attempt:
            raise DamagedRecordError(
                f"it is that of attempt {said['attempt']!r} of run {said['run']!r}"[:300]
            )
        results = tuple(_result(number, each) for number, each in enumerate(_listed(said["results"])))
        if sum(len(each.files) + len(each.links) + len(each.outside) for each in results) > MOST_FILES:
            raise DamagedRecordError(f"it lists more than {MOST_FILES:,} files")
        return ExitRecord(
            attempt=attempt,
            exit_code=_count(said["exit_code"], 255),
            timed_out=said["timed_out"] is True,
            results=results,
            absent=tuple(map(_text, _listed(said["absent"]))),
            left_out=tuple(map(_text, _listed(said["left_out"]))),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRecordError(f"it is damaged: {type(error).__name__}") from error


def _result(number: int, said: Any) -> StoredResult:
    folder, files, links, outside = said["folder"], said["files"], said["links"], said["outside"]
    if not isinstance(folder, bool) or (not folder and (len(files) != 1 or links or outside)):
        raise ValueError(folder)
    taken: set[str] = set()
    for name in (*files, *links):
        _check_name(name)
        taken.update(folders_of(name))
    if taken & {*files, *links} or files.keys() & links.keys():
        raise ValueError("a file is a folder as well")
    for name, target in links.items():
        if not _stays_inside(name, target):
            raise ValueError(target)
    return StoredResult(
        asked=_text(said["asked"]),
        path=_text(said["path"]),
        is_folder=folder,
        files=tuple(_file(number, name, each) for name, each in files.items()),
        links=dict(links),
        outside={_text(name): _text(target) for name, target in outside.items()},
    )


def _file(number: int, name: str, said: Any) -> StoredFile:
    size, changed, *stored = _listed(said)
    if len(stored) > 1:
        raise ValueError(stored)
    for each in stored:
        _check_name(each)
    return StoredFile(
        name=name,
        size_bytes=_count(size),
        changed_ns=_count(changed),
        object=f"{RESULTS}/{number}/{stored[0] if stored else name}",
    )


def _check_name(name: Any) -> None:
    """Refuses a path that leaves its folder, or that no file can have."""
    parts = _text(name).split("/")
    long = len(_encoded(name)) > LONGEST_NAME or any(len(_encoded(part)) > LONGEST_PART for part in parts)
    if long or "\0" in name or {"", ".", ".."} & set(parts):
        raise ValueError(name)


def _stays_inside(name: str, target: Any) -> bool:
    """Whether a link stays in its folder: only its beginning may lead up, to that folder at most.

    Links are never made through links (no name is a folder as well), so that where each begins is known.
    """
    parts = _text(target).split("/")
    down = [part for part in parts if part not in {"", "."}]
    while down and down[0] == "..":
        down.pop(0)
    ups = sum(part == ".." for part in parts)
    known = parts[0] and "\0" not in target and _encoded(target)
    return bool(known) and ".." not in down and ups <= name.count("/")


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return [*value]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _count(value: Any, most: int = 2**63 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(value)
    return value


# --- where what is stored goes


def missing_from(record: ExitRecord, there: Mapping[str, int]) -> list[str]:
    """The objects of a record that a store does not show in their sizes.

    Args:
        record: the record.
        there: what the store has, from the folder of the attempt on, with sizes in bytes.
    """
    return [name for name, size in record.objects.items() if there.get(name) != size]


def selected(record: ExitRecord, path: str) -> tuple[StoredResult, ...]:
    """The results that a path of the box means: those of that path, or what is there inside of one."""
    whole = tuple(each for each in record.results if each.asked == path)
    return whole or tuple(_inside(record.results, _plain(path)))


def _inside(results: Sequence[StoredResult], path: str) -> Iterator[StoredResult]:
    for each in results:
        within = _plain(each.path)
        if path == within:
            yield each
        elif each.is_folder and (within == "." or path.startswith(f"{within}/")):
            inner = path if within == "." else path[len(within) + 1 :]
            if found := _part(each, inner):
                yield found


def _part(result: StoredResult, inner: str) -> StoredResult | None:
    """A file or folder inside of a result."""
    path, begin = f"{result.path.rstrip('/')}/{inner}", f"{inner}/"
    for file in result.files:
        if file.name == inner:
            own = replace(file, name=_last(inner))
            return replace(result, path=path, is_folder=False, files=(own,), links={}, outside={})
    files = tuple(
        replace(each, name=each.name[len(begin) :]) for each in result.files if each.name.startswith(begin)
    )
    below = {
        name[len(begin) :]: target
        for name, target in {**result.links, **result.outside}.items()
        if name.startswith(begin)
    }
    links = {
        name: target
        for name, target in below.items()
        if f"{begin}{name}" in result.links and _stays_inside(name, target)
    }
    outside = {name: target for name, target in below.items() if name not in links}
    return replace(result, path=path, files=files, links=links, outside=outside) if files or below else None


def _plain(path: str) -> str:
    """A path without what says nothing: ``~/./out/`` is ``out``."""
    return posixpath.normpath(path.removeprefix("~/") or ".")


def _last(path: str) -> str:
    """The last part of a path; empty where that is no name."""
    last = posixpath.basename(posixpath.normpath(path))
    return "" if last in {".", "..", "~"} else last


def placed(result: StoredResult, asked: str, here: str, *, is_folder: bool) -> str:
    """Where a result goes on this machine, as rsync has it: its folder, or the file that it is.

    Args:
        result: the result.
        asked: the path that was asked for; a slash at its end means the contents of a folder.
        here: the place on this machine.
        is_folder: whether that is a folder, or is to be one.
    """
    name = _last(result.path)
    if result.is_folder:
        return here if asked.endswith("/") or not name else posixpath.join(here, name)
    return posixpath.join(here, name) if is_folder else here
