"""The logs of boxes that failed or were deleted, kept beside the journal.

Each box has a folder (0700) with one file (0600) per node and kind of log: the end
of each file on the box, without secrets. The folders of the newest :data:`MOST_BOXES` boxes are kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gpucloud.config import make_private
from gpucloud.errors import GpucloudError
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target
from gpucloud.ssh.keys import host_alias
from gpucloud.ssh.logs import log_ends

MOST_BOXES = 100
KEPT_WITHIN_S = 5.0
"""How long a deletion waits for the logs; what has not arrived then is lost."""
AT_ONCE = 16
"""The number of nodes that are read at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A log that was kept, and when it was read."""

    text: str
    at: datetime


def keep_logs(context: Context, nodes: Sequence[Target]) -> None:
    """Reads the logs of nodes over ssh and keeps them; a node that does not answer keeps what it has.

    Raises:
        InterruptedBySignal: a signal came.
    """
    tasks = context.tasks
    with tasks.within(KEPT_WITHIN_S):
        for first in range(0, len(nodes), AT_ONCE):
            if not tasks.left_s:
                break
            chosen = nodes[first : first + AT_ONCE]
            for node, call in zip(
                chosen, tasks.run_all([partial(log_ends, node) for node in chosen]), strict=True
            ):
                if call.done and call.error is None:
                    _keep(_folder_of(node), node, call.result)


def kept_log(state: Path, box_id: str, kind: str, *, node: int = 0) -> Kept | None:
    """A log that was kept; ``None`` if there is none."""
    file = _folder(state, box_id) / f"{host_alias(box_id, node)}-{kind}.log"
    try:
        return Kept(
            text=file.read_text(encoding="utf-8", errors="replace"),
            at=datetime.fromtimestamp(file.stat().st_mtime, UTC),
        )
    except FileNotFoundError:
        return None


def _folder(state: Path, box_id: str) -> Path:
    return state / "logs" / host_alias(box_id)


def _folder_of(node: Target) -> Path:
    """The folder of a node's box, next to that of its keys."""
    return _folder(node.keys.parents[1], node.box_id)


def _keep(folder: Path, node: Target, logs: dict[str, str]) -> None:
    """Writes the logs of a node, each all at once; a failure is ignored: they are for information alone."""
    with suppress(OSError, GpucloudError):
        _forget_oldest(folder)
        make_private(folder)
        for kind, text in logs.items():
            draft = folder / f".{node.alias}-{kind}.log"
            draft.touch(mode=0o600)
            draft.write_text(text, encoding="utf-8", newline="")
            draft.replace(folder / f"{node.alias}-{kind}.log")


def _forget_oldest(folder: Path) -> None:
    """Makes room for another box. Ids of boxes sort by the time of their launch."""
    others = sorted(path.name for path in folder.parent.glob("*") if path != folder)
    for name in others[: max(len(others) - MOST_BOXES + 1, 0)]:
        shutil.rmtree(folder.parent / name, ignore_errors=True)
