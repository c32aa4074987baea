"""Which files of a folder are a set: pure functions.

With a marker: the files of the newest marker that is whole. Without: all that nobody is writing, where a new
folder counts once it is filled: when it was renamed, or nothing has changed in it for a while.
"""

from __future__ import annotations

import fnmatch

from .files import QUIET_S
from .manifest import folders_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from .files import Look

FILLED_WITHIN_S = 60.0
"""A new folder in which something changes for longer than that is no checkpoint: its files count alone."""
LOOSE_BYTES = 1024 * 1024
"""What lies beside markers in the folder goes along up to this size: it often names the newest checkpoint."""


class Choice:
    """The names of a set, and those that wait for another look, with the reason."""

    def __init__(self, names: set[str], waiting: dict[str, str]) -> None:
        self.names = names
        self.waiting = waiting


def marked(look: Look, pattern: str, is_written: Callable[[str], bool]) -> Choice:
    """The files of the newest marker none of whose files is being written; no names without one.

    What was changed after a marker belongs to the next one.
    """
    newest_first = sorted(
        (name for name in look.files if matches(name, pattern)),
        key=lambda name: (look.files[name].mtime_ns, name),
        reverse=True,
    )
    waiting: dict[str, str] = {}
    for marker in newest_first:
        until = look.files[marker].mtime_ns
        unit = {
            name
            for name, file in look.files.items()
            if file.mtime_ns <= until and belongs(name, marker, pattern)
        }
        torn = next((name for name in sorted(unit) if is_written(name)), None)
        if torn is None:
            return Choice(unit | _loose(look, marker, pattern), waiting)
        waiting[marker] = f"{torn!r} is being written"
    return Choice(set(), waiting)


def matches(name: str, pattern: str) -> bool:
    """Whether a path is that of a marker: each part of the pattern stands for one part of the path."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def belongs(name: str, marker: str, pattern: str) -> bool:
    """Whether a file belongs to a marker.

    ``*/done`` stands for all that is in its folder; ``*.index``, whose name varies up to an ending, for all
    in its folder that has the same name up to that ending, alone, before a dot or as a folder.
    """
    folder, _, last = marker.rpartition("/")
    ending = pattern.rpartition("/")[2]
    if not set(ending) & set("*?["):
        return not folder or name.startswith(f"{folder}/")
    literal = max(ending.rfind(each) for each in "*?]") + 1
    stem = last[: len(last) - len(ending[literal:])]
    whole = f"{folder}/{stem}" if folder else stem
    return name in (marker, whole) or name.startswith((f"{whole}.", f"{whole}/"))


def _loose(look: Look, marker: str, pattern: str) -> set[str]:
    """Small files that lie in the folder itself, and belong to no marker."""
    small = {name for name, file in look.files.items() if "/" not in name and file.size <= LOOSE_BYTES}
    return {name for name in small if not matches(name, pattern) and not belongs(name, marker, pattern)}


def unmarked(
    look: Look,
    known: Collection[str],
    first_seen: Mapping[str, float],
    now: float,
    is_written: Callable[[str], bool],
) -> Choice:
    """All files but those of new folders that are still being filled.

    Args:
        look: the moment's list.
        known: the files of the last set.
        first_seen: when each new folder was seen first, in seconds since 1970.
        now: the same, now.
        is_written: whether somebody may be writing a file.
    """
    old = {folder for name in known for folder in folders_of(name)}
    inside = new_folders(look, old)
    names = set(look.files)
    waiting: dict[str, str] = {}
    for folder, found in inside.items():
        is_young = now - first_seen.get(folder, now) < FILLED_WITHIN_S
        if is_young and not (_is_filled(look, folder, found, now) and not any(map(is_written, found))):
            names.difference_update(found)
            waiting[folder] = "it is being filled"
    return Choice(names, waiting)


def new_folders(look: Look, old: Collection[str]) -> dict[str, list[str]]:
    """The outermost folders of which the last set has nothing, with their files."""
    found: dict[str, list[str]] = {}
    for name in look.files:
        folder = next((each for each in folders_of(name) if each not in old), None)
        if folder is not None:
            found.setdefault(folder, []).append(name)
    return found


def _is_filled(look: Look, folder: str, names: Collection[str], now: float) -> bool:
    """Whether a folder was renamed since something in it has changed, or nothing has for a while."""
    folders = {folder, *(each for name in names for each in folders_of(name) if len(each) > len(folder))}
    changes = [look.files[name].mtime_ns for name in names]
    changes += [look.folders[each][0] for each in folders if each in look.folders]
    newest = max(changes, default=0)
    renamed = folder in look.folders and look.folders[folder][1] > newest
    return renamed or now - newest / 1e9 >= QUIET_S
