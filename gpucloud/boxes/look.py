"""Updates boxes by what clouds and guards say, all at the same time, and holds one box for a call."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from gpucloud.bring_up import guards
from gpucloud.bring_up.bring_up import targets
from gpucloud.ending import reconcile
from gpucloud.ending.discovery import DiscoveryResult, PendingQuery, WaitPolicy, finish
from gpucloud.ending.reading import begin_reading
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import UsageError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud.ssh.client import Target
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.attachments import differences

LOOK_S = 3.5
"""How long to wait for a cloud or a guard that does not answer."""
SEARCH_S = 20.0
"""How long to wait for a cloud that answers and is still searching its regions."""
NEWS_S = 1.0
"""The least time to wait after the last answer of any cloud."""


def look(context: Context, boxes: Sequence[Box], asked: Mapping[str, PendingQuery]) -> DiscoveryResult:
    """Reads the state of these boxes from clouds and guards, all at the same time, and journals it.

    A cloud or guard that does not answer is named in a warning, and holds up nothing else.

    Args:
        context: clouds, journal, clock and progress of this call.
        boxes: the boxes to update.
        asked: a discovery that was started before, if any.

    Returns:
        The result of the discovery.
    """
    assert context.state is not None  # noqa: S101  (who looks has a state folder)
    began = time.monotonic()
    clouds, troubles = begin_reading(context, boxes)
    ready = [box for box in boxes if box.state is BoxState.READY]
    nodes: list[tuple[Box, Sequence[Target]]] = []
    for box in ready:
        with isolated(troubles, f"box {box.name!r}"):
            nodes.append((box, targets(box, key_folder(context.state, box.id), context.proxy_command)))
    told = guards.ask_guards(context, nodes)
    discovery = finish(context, asked, WaitPolicy(first_s=LOOK_S, whole_s=SEARCH_S, news_s=NEWS_S))
    with context.tasks.within(max(LOOK_S - (time.monotonic() - began), NEWS_S)):
        troubles += reconcile.write_answers(context, clouds)
        living = {box.id for box in ready if context.journal.box(box.id).state is BoxState.READY}
        troubles += guards.write_answers(context, [each for each in told if each[0].id in living])
    for trouble in troubles:
        context.warn("look", f"No answer: {trouble.message}")
    for difference in differences(context, discovery) if asked else ():
        context.warn("look", difference, "see the volumes: gpucloud volume list")
    return discovery


AGAIN_S = 0.25


@contextmanager
def holding(context: Context, box: Box, *, within_s: float = 0.0) -> Generator[Box]:
    """Takes the lease of a box and reads its state; releases it at the end.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box.
        within_s: how long another process that holds it is waited for.

    Raises:
        UsageError: another process holds it.
    """
    tries = int(within_s / AGAIN_S)
    while (taken := context.take(box)) is None and tries:
        context.tasks.pause(AGAIN_S)
        tries -= 1
    if taken is None:
        raise UsageError(f"another process works on box {box.name!r}", hint="see its state: gpucloud list")
    try:
        refresh(context, taken)
        yield context.journal.held(taken)
    finally:
        context.journal.release(taken)
