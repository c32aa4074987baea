"""Reads a lock file of uv: exact versions, their hashes, and what needs what."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "all.txt"
"""The lock of the program with every extra of ``all``, annotated with what needs each package."""
PYPROJECT = ROOT / "pyproject.toml"
ITSELF = "gpucloud"
_PINNED = re.compile(r"(?P<name>[a-z0-9-]+)(?:\[[^]]*\])?==(?P<version>[^ ;]+)(?: ; (?P<marker>[^\\]+?))? \\")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NEEDED_BY = re.compile(r"^ +# (?:via |  )(?P<name>[a-z0-9][a-z0-9-]*)")
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A package of a lock file.

    Attributes:
        name: as the lock spells it: normalized.
        version: exact.
        marker: where this version is installed (PEP 508); empty for everywhere.
        sha256: the digests of its files, sorted.
        needed_by: the names of the packages that ask for it; ``gpucloud`` for the program itself.
        text: its lines in the lock, which pip reads.
    """

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]
    needed_by: frozenset[str]
    text: str


def read_lock(text: str) -> tuple[Locked, ...]:
    """The packages of a lock file, in its order.

    Raises:
        ValueError: a line is not understood, or a package has no hash or nobody who needs it.
    """
    blocks = re.split(r"\n(?=\S)", text.strip("\n"))
    return tuple(_locked(block) for block in blocks)


def extras(project: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The names that each extra of ``pyproject.toml`` asks for; those of no extra are under ``base``.

    An extra that consists of others (``all``, ``sandbox``) holds their names too.
    """
    asked: Mapping[str, Sequence[str]] = project["optional-dependencies"]

    def named(requirements: Iterable[str]) -> set[str]:
        names: set[str] = set()
        for requirement in requirements:
            if others := re.match(rf"{ITSELF}\[(.+)\]", requirement):
                names |= named(each for other in others[1].split(",") for each in asked[other])
            else:
                names.add(_normalized(requirement))
        return names

    base = named(project["dependencies"])
    return {"base": tuple(sorted(base))} | {
        extra: tuple(sorted(base | named(requirements))) for extra, requirements in asked.items()
    }


def locked_for(lock: Sequence[Locked], roots: Iterable[str]) -> tuple[Locked, ...]:
    """The packages of a lock that some of them need, these included.

    A lock does not tell for which of its extras a package asks for another, so there may be a few more than
    are installed.

    Raises:
        ValueError: one of the roots is not in the lock.
    """
    wanted = set(roots)
    if missing := wanted - {each.name for each in lock}:
        raise ValueError(f"not in the lock: {', '.join(sorted(missing))}; run make lock")
    while more := {each.name for each in lock if each.needed_by & wanted} - wanted:
        wanted |= more
    return tuple(each for each in lock if each.name in wanted)


def project_of(pyproject: Path = PYPROJECT) -> Mapping[str, Any]:
    """The table ``project`` of ``pyproject.toml``."""
    project: Mapping[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return project


def _locked(block: str) -> Locked:
    head = _PINNED.match(block)
    hashes = _HASH.findall(block)
    needed_by = frozenset(
        found["name"] for line in block.splitlines() if (found := _NEEDED_BY.match(line)) is not None
    )
    if head is None or not hashes or not needed_by:
        raise ValueError(f"not a package of an annotated lock: {block.splitlines()[0]}")
    return Locked(
        name=head["name"],
        version=head["version"],
        marker=head["marker"] or "",
        sha256=tuple(sorted(hashes)),
        needed_by=needed_by,
        text=block,
    )


def _normalized(requirement: str) -> str:
    """The name of a requirement, as PEP 503 normalizes it."""
    found = _NAME.match(requirement)
    if found is None:
        raise ValueError(f"not a requirement: {requirement}")
    return re.sub(r"[-_.]+", "-", found[0]).lower()
