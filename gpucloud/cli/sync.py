"""``gpucloud sync``: files to and from a box."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from gpucloud.cli.context import App
from gpucloud.cli.ssh import Node
from gpucloud.errors import UsageError

_REMOTE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*):(.*)", re.DOTALL)
_HINT = "one end is NAME:PATH, the other a path here; a path here with a colon is written ./a:b"


class Way(NamedTuple):
    """What is copied where: to the box where ``up``, else from it; paths are rsync's."""

    box: str
    up: bool
    source: str
    destination: str


def sync(
    app: App,
    source: Annotated[str, typer.Argument(help="What: a path here, or NAME:PATH.", metavar="SRC")],
    destination: Annotated[str, typer.Argument(help="Where to: NAME:PATH, or a path here.", metavar="DST")],
    node: Node = 0,
) -> None:
    """Copy files to or from a box, as rsync does: `SRC/` is what is in a folder, `SRC` the folder itself."""
    way = read_way(source, destination)
    if way.up and not Path(way.source).exists():
        raise UsageError(f"there is no {way.source}", hint=_HINT)
    from gpucloud.ssh.files import rsync_down, rsync_up
    from gpucloud.ssh.keys import find_program

    find_program("rsync")
    target = app.client.connect(way.box, node=node)
    copy = rsync_up if way.up else rsync_down
    copy(target, way.source, way.destination, quiet=not app.output.styled(sys.stderr))
    if app.output.json:
        app.output.document("sync", way._asdict())


def read_way(source: str, destination: str) -> Way:
    """Reads the two ends: one is on a box, ``NAME:PATH``, the other is here.

    Raises:
        UsageError: both ends are here, or both on boxes.
    """
    there, to = _REMOTE.fullmatch(source), _REMOTE.fullmatch(destination)
    if there and to:
        raise UsageError("both ends are on a box; files go between a box and here", hint=_HINT)
    if to:
        return Way(box=to[1], up=True, source=source, destination=to[2])
    if there:
        return Way(box=there[1], up=False, source=there[2], destination=destination)
    raise UsageError("both ends are here; one must be on a box", hint=_HINT)
