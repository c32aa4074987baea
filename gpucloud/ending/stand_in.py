"""Ends boxes while the journal of a team cannot be reached or written: by their tags, with the clouds alone.

A journal of this machine stands in for it, for one call. The next command that changes something, and has the
team's journal again, tells it which boxes were ended.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gpucloud.ending.discovery import DiscoveryResult, begin, by_box, finish
from gpucloud.ending.down import end_all, merged
from gpucloud.ending.recover import adopt_box, state_of
from gpucloud.errors import GpucloudError
from gpucloud.journal.lifecycle import OVER, BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.resources import BOX_ID, Tags
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud_pricing import Market


@contextmanager
def standing_in(state: Path, spool: Path, clock: Callable[[], datetime], kind: str) -> Generator[Journal]:
    """An empty journal for one call: what it has is what the clouds say now. What it ends is kept in a file.

    Args:
        state: the folder in which it is meanwhile.
        spool: the file for the boxes that were ended, or that are to be.
        clock: gives the time in UTC.
        kind: of the boxes: ``real`` or ``sandbox``.
    """
    with TemporaryDirectory(prefix="stand-in-", dir=state) as folder:
        journal = Journal.open(Path(folder, "journal.db"), clock, kind=kind)
        try:
            yield journal
        finally:
            boxes = journal.boxes(owner=None, over=True)
            ended = [box.id for box in boxes if box.state in {*OVER, BoxState.DELETING}]
            journal.close()
            if ended:
                with spool.open("a", encoding="utf-8") as lines:
                    lines.writelines(f"{id_}\n" for id_ in ended)


def take_in(
    context: Context, market: Callable[[], Market], troubles: list[GpucloudError], *, remains: bool
) -> DiscoveryResult:
    """Writes down, in the journal that stands in, which boxes of the owner the clouds have.

    What stores data is left out: it outlives boxes, and nothing here ends it.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: the source of types and prices; loaded only if something was found.
        troubles: receives an error for each box that could not be written down.
        remains: also boxes that are past their deadline or have no machine: whoever ends them judges by age.
    """
    context.tell("down", "looking for your boxes in every region of every cloud")
    discovery = finish(context, begin(context, context.search()))
    for _, resources in by_box(discovery.resources):
        tags = resources[0].tags
        if not isinstance(tags, Tags) or tags.volume or tags.snapshot:
            continue
        with isolated(troubles, f"{resources[0].ref.kind} {resources[0].ref.id}"):
            state = state_of(resources, discovery.clocks[resources[0].ref.cloud]) or BoxState.DELETING
            if remains or state is not BoxState.DELETING:
                adopt_box(context, resources, state, market())
    return discovery


def tell(context: Context) -> None:
    """Ends in the journal what was ended while it was away; then forgets the file that kept it.

    A box of which the clouds still have something is ended anew: somebody wanted that.
    """
    spool = context.ended_without
    if spool is None or not spool.exists():
        return
    ended = [line for line in spool.read_text(encoding="utf-8").splitlines() if BOX_ID.fullmatch(line)]
    boxes = [box for box in context.journal.known(Box, set(ended)) if box.state not in OVER]
    troubles: list[GpucloudError] = []
    end_all(context, boxes, troubles)
    trouble = merged(troubles)
    if trouble is None:
        spool.unlink(missing_ok=True)
    else:
        context.warn("settle", f"Still owed: {trouble.message}", trouble.owed_command or trouble.hint)
