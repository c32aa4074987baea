"""``gpucloud sync``: files to and from a box."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from gpucloud.cli.context import App
from gpucloud.cli.reached import reached
from gpucloud.cli.ssh import Node
from gpucloud.errors import UsageError

_REMOTE = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*):(.*)", re.DOTALL)


class Way(NamedTuple):
    """What is copied where: ``box`` is at the end that ``up`` says; paths are rsync's."""

    box: str
    up: bool
    sources: list[str]
    destination: str


def sync(
    app: App,
    paths: Annotated[
        list[str],
        typer.Argument(help="Local paths or NAME:PATH; the last is where to.", metavar="SRC... DST"),
    ],
    node: Node = 0,
) -> None:
    """Copy files to or from a box, as rsync does: `SRC/` is what is in it, `SRC` the folder itself."""
    way = read_way(paths)
    if way.up:
        missing = [source for source in way.sources if not Path(source).exists()]
        if missing:
            raise UsageError(f"there is no {missing[0]}", hint="a box's path is written NAME:PATH")
    from gpucloud.ssh_files import rsync_down, rsync_up
    from gpucloud.ssh_keys import find_program

    find_program("rsync")
    target = reached(app, way.box, node=node)
    copy = rsync_up if way.up else rsync_down
    copy(target, way.sources, way.destination)
    if app.output.json:
        app.output.document("sync", way._asdict())


def read_way(paths: list[str]) -> Way:
    """Reads ``SRC... DST``: one end is a box, ``NAME:PATH``; the other is here.

    Raises:
        UsageError: both ends are here or on a box, or several boxes are named.
    """
    if len(paths) < 2:
        raise UsageError("say what to copy and where to: gpucloud sync SRC DST")
    *sources, destination = [_REMOTE.fullmatch(path) for path in paths]
    boxes = {found[1] for found in (*sources, destination) if found}
    hint = "one end is NAME:PATH, the other is a path here; a path here with a colon is written ./a:b"
    if len(boxes) != 1:
        raise UsageError("one end must be on a box" if not boxes else "only one box at a time", hint=hint)
    (box,) = boxes
    if destination and not any(sources):
        return Way(box, True, paths[:-1], destination[2])
    if not destination and all(sources):
        return Way(box, False, [found[2] for found in sources if found], paths[-1])
    raise UsageError("both ends are on the box", hint=hint)
