"""What would travel to a box: ``--dry-run`` of ``run`` and ``sync``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpucloud.cli.context import App
from gpucloud.spec.model import Spec

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import SyncListDocument
    from gpucloud.sources.selection import Selection

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List the files that would travel, with their size; do nothing.")
]


def list_sources(app: App, spec: Spec) -> int:
    """Lists what would travel of the files of a spec."""
    from gpucloud.sources.selection import select_all

    list_files(app, select_all(spec.sync, spec.exclude))
    return 0


def list_files(app: App, chosen: Sequence[Selection]) -> None:
    """Lists what would travel, as the answer of a command; what is left out is said beside it."""
    from gpucloud.bring_up.sending import files_text, printable, remarks
    from gpucloud.sources.archive import size_text
    from gpucloud.sources.selection import EntryKind

    files = [(each, entry) for each in chosen for entry in each.entries if entry.kind is not EntryKind.FOLDER]
    size = sum(entry.size for _, entry in files)
    if app.output.json:
        answer: SyncListDocument = {
            "files": [
                {
                    "here": _exact(each.here(entry)),
                    "there": _exact(each.there(entry)),
                    "size_bytes": entry.size,
                }
                for each, entry in files
            ],
            "size_bytes": size,
            "left_out_files": sum(each.left_files for each in chosen),
            "left_out_bytes": sum(each.left_bytes for each in chosen),
            "secrets": [_exact(path) for each in chosen for path in each.secrets],
        }
        app.output.document("sync-list", answer)
    else:
        for each, entry in files:
            app.output.line(f"{size_text(entry.size):>11}  {printable(each.there(entry))}")
    app.output.say(f"{files_text(len(files))}, {size_text(size)} would travel.")
    app.output.say_each(remarks(chosen))


def _exact(path: str) -> str:
    """A path for programs, as it is; bytes of it that are no text as escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")
