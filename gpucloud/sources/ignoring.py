"""What is left out of a folder: by git, by ``.gitignore`` files, and by the user's own rules.

Inside a repository git itself says which files it would keep. Elsewhere, and where git cannot be asked, its
files are read here, by a library that follows its rules.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT_IGNORE, OWN_IGNORE = ".gitignore", ".gpucloudignore"
GIT = ".git"
GIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one file, which hold for the paths below its folder.

    Attributes:
        patterns: the patterns.
        below: the folder of the file, relative to the root, with a slash at its end; empty for the root.
        above: the path from the folder of the file to the root, where it is above the root.
    """

    patterns: GitIgnoreSpec
    below: str = ""
    above: str = ""

    def verdict(self, path: str) -> bool | None:
        """Whether a path below the root, a folder's with a slash, is left out; ``None``: nothing matches."""
        return self.patterns.check_file(self.above + path.removeprefix(self.below)).include


def verdict(layers: Sequence[Layer], path: str) -> bool | None:
    """Whether a path is left out, by the last pattern that matches in the file that is nearest to it."""
    said = (layer.verdict(path) for layer in reversed(layers))
    return next((each for each in said if each is not None), None)


def layer_of(lines: Sequence[str], *, below: str = "", above: str = "") -> tuple[Layer, ...]:
    """The patterns of a text; none of an empty one."""
    if not any(lines):
        return ()
    from pathspec import GitIgnoreSpec  # most folders need none

    return (Layer(GitIgnoreSpec.from_lines(lines), below, above),)


def layer_in(folder: str, name: str, *, below: str = "", above: str = "") -> tuple[Layer, ...]:
    """The patterns of a file in a folder; none where it is not there."""
    try:
        text = Path(folder, name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ()
    return layer_of(text.splitlines(), below=below, above=above)


def above(root: str) -> tuple[Layer, ...]:
    """The patterns of the repository around a folder, of the files above it; none outside of one."""
    folders = [Path(root).resolve(), *Path(root).resolve().parents]
    top = next((each for each in folders if (each / GIT).exists()), None)
    if top is None:
        return ()
    between = folders[: folders.index(top) + 1]
    layers = layer_in(str(top / GIT), "info/exclude", above=_from(top, folders[0]))
    for folder in reversed(between[1:]):
        layers += layer_in(str(folder), GIT_IGNORE, above=_from(folder, folders[0]))
    return layers


def _from(folder: Path, root: Path) -> str:
    inner = root.relative_to(folder).as_posix()
    return "" if inner == "." else f"{inner}/"


def kept_by_git(folder: str) -> frozenset[str] | None:
    """The files below a folder that git has, or would add, those of submodules too; relative to the folder.

    Returns:
        ``None`` if the folder is in no repository, if git leaves the folder itself out, or cannot be asked.
    """
    if _git(folder, "check-ignore", "--quiet", ".") is not None:
        return None
    listed = _git(folder, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    return None if listed is None else frozenset(_with_nested(folder, os.fsdecode(listed).split("\0")))


def commit_of(folder: str) -> str | None:
    """The commit of a folder, with ``+dirty`` if there are changes; ``None`` outside of a repository."""
    head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        return None
    changed = _git(folder, "status", "--porcelain", "--ignore-submodules=none")
    return head.decode(errors="replace").strip() + ("+dirty" if changed else "")


def _with_nested(folder: str, listed: Sequence[str]) -> Iterator[str]:
    """These paths, and in place of a submodule or another repository its files."""
    for path in filter(None, listed):
        full = os.path.join(folder, path)  # noqa: PTH118  (paths of any bytes, as they are)
        if os.path.isdir(full) and not os.path.islink(full):  # noqa: PTH112, PTH114
            if os.path.lexists(os.path.join(full, GIT)):  # noqa: PTH118
                nested = _git(full, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
                inner = os.fsdecode(nested or b"").split("\0")
                yield from (f"{path.rstrip('/')}/{each}" for each in _with_nested(full, inner))
        else:
            yield path


def _git(folder: str, *words: str) -> bytes | None:
    """What git says of a folder; ``None`` where it is not installed, fails, or does not trust the folder."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            ["git", "-C", folder, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            check=False,
            env=clean,
        )
        return done.stdout if done.returncode == 0 else None
    return None
