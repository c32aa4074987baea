"""The reports of boxes' guards: read over ssh at the same time, and journalled. Changes nothing on a box."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from gpucloud.errors import GpucloudError
from gpucloud.journal.facts import Facts, GuardReport, read_guard
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud.runtime.tasks import Call
from gpucloud.ssh.client import Target
from gpucloud.ssh.guard import guard_status

GUARD_TIMEOUT_S = 30.0

Asked = Sequence[tuple[Box, Sequence[tuple[Target, Call]]]]
"""The calls under way to the nodes of each box."""


def ask_guards(context: Context, boxes: Iterable[tuple[Box, Sequence[Target]]]) -> Asked:
    """Starts to read the guard of each node of these boxes; :func:`write_answers` waits.

    Args:
        context: clouds, journal, clock and progress of this call.
        boxes: each with its nodes.
    """
    return [
        (box, [(target, context.tasks.start(partial(guard_status, target))) for target in targets])
        for box, targets in boxes
    ]


def write_answers(context: Context, asked: Asked) -> list[GpucloudError]:
    """Waits for the reports of the guards and journals them.

    Returns:
        One error per node whose guard could not be read.
    """
    troubles: list[GpucloudError] = []
    for box, calls in asked:
        reports: list[GuardReport | None] = []
        for target, call in calls:
            with isolated(troubles, f"the guard of {target.alias}"):
                said = context.tasks.wait(call, GUARD_TIMEOUT_S)
                reports.append(None if said is None else read_guard(said))
        if reports:
            with isolated(troubles, f"box {box.name!r}"):
                context.journal.observe(box, Facts(guards=tuple(reports)))
    return troubles
