"""Sends files of this machine to boxes: says what will be sent, then copies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote

from gpucloud.journal.runs import Code
from gpucloud.runtime.context import Context
from gpucloud.sources.archive import size_text
from gpucloud.sources.selection import Selection, select_all
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import Target
from gpucloud.ssh.code import unpack
from gpucloud.ssh.files import rsync_up

SELECT_S = 3600.0
FILES_S = 24 * 3600.0
"""Copying has no limit of its own: the deadline of the box comes first."""
TOLD_FROM_BYTES = 10_000_000
"""From this size on, progress is told."""
MOST_NAMED = 5


def look(context: Context, spec: Spec) -> list[Selection]:
    """Chooses what travels to a box, and says of it what a user should know before it is bought.

    Raises:
        UsageError: a source does not exist, cannot be read, or has the place of another one on the box.
    """
    if not spec.sync:
        return []
    chosen = context.tasks.run(partial(select_all, spec.sync, spec.exclude), SELECT_S)
    for text in remarks(chosen):
        context.notice("sync", text)
    return chosen


def remarks(chosen: Sequence[Selection]) -> list[str]:
    """What a user should know of what travels: what does not, what may be secret, what leads elsewhere."""
    said: list[str] = []
    left, size = sum(each.left_files for each in chosen), sum(each.left_bytes for each in chosen)
    if left:
        items = " ".join(f"--sync {quote(each.source.item)}" for each in chosen)
        listing = f"gpucloud run --dry-run {items}"
        said.append(f"--sync leaves out {files_text(left)}, {size_text(size)}; what travels: {listing}")
    for what, found in (
        ("look like secrets, and travel", [path for each in chosen for path in each.secrets]),
        ("are links that point out of their folder", [path for each in chosen for path in each.out]),
        ("are no files, and do not travel", [path for each in chosen for path in each.special]),
    ):
        if found:
            more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
            said.append(f"--sync: {', '.join(map(printable, found[:MOST_NAMED]))}{more}: these {what}")
    return said


def upload(
    node: Target, selection: Selection, *, quiet: bool = True, tell: Callable[[str], None] | None = None
) -> None:
    """Copies what travels of a source to a node.

    Args:
        node: the node.
        selection: what travels.
        quiet: shows no progress on the terminal.
        tell: is told the progress of what is large.

    Raises:
        NotCopiedError: a file cannot be read or written.
        ConnectionFailedError: the node could not be reached.
    """
    source, large = selection.source, selection.size_bytes >= TOLD_FROM_BYTES
    tell = tell if large else None
    if not selection.is_folder:
        for entry in selection.entries:
            rsync_up(node, selection.here(entry), source.remote, quiet=quiet, tell=tell)
        return
    paths = [entry.path for entry in selection.entries]
    rsync_up(node, f"{selection.root.rstrip('/')}/", source.remote, paths=paths, quiet=quiet, tell=tell)


def send_frozen(context: Context, nodes: Sequence[Target], archive: Path, code: Code) -> None:
    """Sends the frozen code of a run to all nodes at the same time, and unpacks it there.

    Raises:
        NotCopiedError: it arrived damaged, or a file cannot be written there.
        ConnectionFailedError: a node could not be reached.
    """
    send = partial(unpack, archive=archive, sha256=code.sha256, absolute=code.absolute)
    large = code.size_bytes >= TOLD_FROM_BYTES
    tells = [partial(context.tell, "sync") if large else None, *[None] * (len(nodes) - 1)]
    calls = [partial(send, node, tell=tell) for node, tell in zip(nodes, tells, strict=True)]
    for call in [context.tasks.start(each) for each in calls]:
        context.tasks.wait(call, FILES_S)


def files_text(count: int) -> str:
    """A number of files, for people."""
    return "1 file" if count == 1 else f"{count:,} files"


def printable(path: str) -> str:
    """A path for people, with what steers a terminal, or is no text, as escapes."""
    return path if path.isprintable() else ascii(path)
