"""``gpucloud sync``: files to and from a box."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from gpucloud.cli.context import App
from gpucloud.cli.ssh import Node
from gpucloud.cli.travelling import DryRun, list_files
from gpucloud.errors import UsageError

if TYPE_CHECKING:
    from gpucloud.cli.documents.nodes import SyncDocument

_REMOTE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*):(.*)", re.DOTALL)
_HINT = "one of SRC and DST is NAME:PATH, the other a local path; write a local path with a colon as ./a:b"


class CopyRequest(NamedTuple):
    """What is copied where: to the box if ``up``, else from it. Paths are as rsync reads them."""

    box: str
    up: bool
    source: str
    destination: str


def sync(
    app: App,
    source: Annotated[
        str, typer.Argument(help="Source: a local path, or NAME:PATH on a box.", metavar="SRC")
    ],
    destination: Annotated[
        str, typer.Argument(help="Destination: NAME:PATH on a box, or a local path.", metavar="DST")
    ],
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            help="Of a folder that goes to the box, leave this out too, as in .gitignore. Repeatable.",
            metavar="PATTERN",
        ),
    ] = None,
    dry_run: DryRun = False,
    node: Node = 0,
) -> None:
    """Copy files to or from a box with rsync: `SRC/` copies a folder's contents, `SRC` the folder itself.

    Of a folder that goes to a box, what git ignores stays here, as do .git, virtual environments, and what
    .gpucloudignore names; `!.git/` there, or as --exclude, brings something back.

    Examples:
        gpucloud sync ./src/ trainer:src
        gpucloud sync trainer:results/ ./results
    """
    way = read_way(source, destination)
    if not way.up and (exclude or dry_run):
        raise UsageError("--exclude and --dry-run are for files that go to a box", hint=_HINT)
    if way.up and not Path(way.source).exists():
        raise UsageError(f"no such file: {way.source}", hint=_HINT)
    if way.up and _sent(app, way, exclude or (), dry_run=dry_run, node=node):
        return
    if not way.up:
        from gpucloud.ssh.files import rsync_down

        tell = app.output.say if app.output.styled(sys.stderr) else None
        target = app.client.nodes.connect(way.box, node=node)
        if left_out := rsync_down(target, way.source, way.destination, tell=tell):
            app.output.say(f"warning: {left_out}")
    if app.output.json:
        answer: SyncDocument = {
            "box": way.box,
            "up": way.up,
            "source": way.source,
            "destination": way.destination,
        }
        app.output.document("sync", answer)


def _sent(app: App, way: CopyRequest, exclude: Sequence[str], *, dry_run: bool, node: int) -> bool:
    """Copies files to a box, or lists them; returns whether they were only listed."""
    from gpucloud.bring_up.sending import remarks, upload
    from gpucloud.sources.selection import SyncSource, select

    chosen = select(SyncSource(way.source, way.source, way.destination or "."), exclude)
    if dry_run:
        list_files(app, [chosen])
        return True
    app.output.say_each(remarks([chosen]))
    upload(app.client.nodes.connect(way.box, node=node), chosen, quiet=not app.output.styled(sys.stderr))
    return False


def read_way(source: str, destination: str) -> CopyRequest:
    """Reads source and destination: one is on a box, ``NAME:PATH``, the other is local.

    Raises:
        UsageError: both are local, or both are on boxes.
    """
    there, to = _REMOTE.fullmatch(source), _REMOTE.fullmatch(destination)
    if there and to:
        raise UsageError("source and destination are both on a box; one must be local", hint=_HINT)
    if to:
        return CopyRequest(box=to[1], up=True, source=source, destination=to[2])
    if there:
        return CopyRequest(box=there[1], up=False, source=there[2], destination=destination)
    raise UsageError("source and destination are both local; one must be on a box", hint=_HINT)


def fetched(item: str) -> tuple[str, str]:
    """What to copy back: (path on the box, local path). Alone, ``out/`` is the folder ``out``, as ``out`` is.

    Raises:
        UsageError: it says neither PATH nor PATH:LOCAL.
    """
    source, colon, destination = item.partition(":")
    if not source or (colon and not destination):
        raise UsageError(f"--fetch: {item!r} is not allowed; allowed: PATH or PATH:LOCAL")
    return (source, destination) if colon else (source.rstrip("/") or source, ".")
