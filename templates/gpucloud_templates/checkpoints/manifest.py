"""The manifest of a set: which files it has, and where in the attempt's folder each is. Pure functions.

``{"number": 3, "at": 1764345600, "files": {"step-7.pt": [SIZE, MTIME_NS, 2], …}}``: the set, when its files
were looked at (seconds since 1970, by the box), and its files. Each has its size in bytes, its time of
change in ns and the number of the set that has added it; and a fourth value, the name of its object, where
that is not its own name: a file that was renamed since, or one whose name not every store takes.
"""

from __future__ import annotations

import hashlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

LATEST = "latest.json"
SETS = "sets"
MOST_BYTES = 64 * 1024 * 1024
LONGEST_OBJECT, LONGEST_NAME, LONGEST_PART = 700, 4000, 255
HASHED = "="
"""How the name of an object begins that is a digest of the file's name."""


class DamagedError(Exception):
    """A set that is not whole; an older one is used."""


def path_of(number: int) -> str:
    """Where the manifest of a set is, from the attempt's folder on."""
    return f"{SETS}/{number}.json"


def object_of(name: str, entry: Sequence[Any]) -> str:
    """Where a file of a manifest is, from the attempt's folder on."""
    return f"{entry[2]}/{entry[3] if len(entry) > 3 else name}"


def objects(manifest: Mapping[str, Any]) -> dict[str, int]:
    """All objects of a set, from the attempt's folder on, with their sizes in bytes."""
    return {object_of(name, entry): entry[0] for name, entry in manifest["files"].items()}


def entry(name: str, size: int, mtime_ns: int, number: int, stored: str) -> list[Any]:
    """A file as a manifest has it."""
    known = [size, mtime_ns, number]
    return known if stored == name else [*known, stored]


def stored_name(name: str) -> str:
    """The name of the object of a file: its own one, or a digest of a name that not every store takes."""
    if is_plain(name):
        return name
    return HASHED + hashlib.sha256(os.fsencode(name)).hexdigest()


def is_plain(name: str) -> bool:
    """Whether all stores take a name as it is."""
    return (
        name.isprintable()
        and len(name.encode()) <= LONGEST_OBJECT
        and all(part == part.strip() and part[-1] != "." and part[0] != HASHED for part in name.split("/"))
    )


def about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A set in figures."""
    files = manifest.get("files", {})
    return {
        "number": manifest.get("number", 0),
        "files": len(files),
        "bytes": sum(each[0] for each in files.values()),
    }


# --- reading what another box has written


def checked(text: bytes) -> dict[str, Any]:
    """A manifest that leads nowhere but into its folder. Raises ``DamagedError``."""
    try:
        manifest = json.loads(text)
        number, files = manifest["number"], manifest["files"]
        if is_count(number) and all(_is_right(*each) for each in files.items()) and not _meet(files):
            return {"number": number, "files": files}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise DamagedError("its list of files is damaged")


def _is_right(name: str, told: Sequence[Any]) -> bool:
    size, mtime_ns, number, stored = told if len(told) == 4 else (*told, name)
    return (
        all(map(is_count, (size, mtime_ns, number)))
        and is_inside(name)
        and len(os.fsencode(name)) <= LONGEST_NAME
        and all(len(os.fsencode(part)) <= LONGEST_PART for part in name.split("/"))
        and is_inside(stored)
        and stored.isprintable()
        and len(stored.encode()) <= LONGEST_OBJECT
    )


def _meet(names: Iterable[str]) -> bool:
    """Whether a file would be a folder too."""
    known = set(names)
    return any(folder in known for name in known for folder in folders_of(name))


def folders_of(name: str) -> list[str]:
    """The folders of a relative path, the outer one first."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def is_count(value: object) -> bool:
    """Whether a value is a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_inside(name: str) -> bool:
    """Whether a relative path stays inside its folder."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))
