"""Mistakes in the command of a run that are certain before a box is bought for it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path

from gpucloud.errors import UsageError
from gpucloud.sources.selection import Selection
from gpucloud.spec.model import Spec

SCRIPTS = frozenset({".bash", ".jl", ".js", ".lua", ".pl", ".py", ".r", ".rb", ".sh"})
"""How the names of programs end that an interpreter reads."""


def refuse_absent(command: Sequence[str] | str, spec: Spec, travelling: Sequence[Selection]) -> None:
    """Refuses a command with a script that is here, and would not be on the box.

    A set-up, an image or a volume of the user's may bring it: with these nothing is refused.

    Args:
        command: a shell command, which is not read, or the arguments of a program.
        spec: the spec of the box.
        travelling: the files that travel.

    Raises:
        UsageError: so it is.
    """
    if isinstance(command, str) or spec.setup or spec.image or spec.volumes or spec.data:
        return
    there = {each.there(entry) for each in travelling for entry in each.entries}
    for word in command:
        if not _is_script(word) or posixpath.normpath(word) in there:
            continue
        if any(Path(each.source.local).resolve() in Path(word).resolve().parents for each in travelling):
            raise UsageError(
                f"{word} is here, and would not be at this place on the box",
                hint="see what travels, and where to: add --dry-run",
            )
        raise UsageError(f"{word} is here, not on the box", hint="add --sync .")


def _is_script(word: str) -> bool:
    """Whether a word names a script in or below the working folder."""
    begins = word.startswith("./") or posixpath.splitext(word)[1].lower() in SCRIPTS
    return begins and not word.startswith(("/", "-", "../")) and Path(word).is_file()
