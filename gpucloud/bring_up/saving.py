"""Saves the work on a box before its files are copied: its checkpoint command, then what is in memory."""

from __future__ import annotations

from functools import partial

from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target, run
from gpucloud.ssh.environment import loading

CHECKPOINT_TIMEOUT_S = 600.0
SYNC_TIMEOUT_S = 300.0


def save_work(context: Context, box: Box, node: Target) -> None:
    """Runs the checkpoint command of a box, if it has one; a failure is told, and ends nothing.

    Raises:
        ConnectionFailedError: the node does not answer.
    """
    command = box.wanted.spec.get("checkpoint")
    if not command:
        return
    context.tell("copy", f"running the checkpoint command of {box.name}")
    asked = partial(run, node, loading(["sh", "-c", str(command)]), timeout_s=CHECKPOINT_TIMEOUT_S)
    code = context.tasks.run(asked, CHECKPOINT_TIMEOUT_S).code
    if code:
        context.warn("copy", f"The checkpoint command of {box.name} ended with exit code {code}.")


def write_all(context: Context, box: Box, node: Target) -> None:
    """Writes to the disks of a node what is only in its memory yet.

    Raises:
        ConnectionFailedError: the node does not answer.
    """
    context.tell("copy", f"writing what {box.name} has not written yet")
    context.tasks.run(partial(run, node, ["sync"], timeout_s=SYNC_TIMEOUT_S), SYNC_TIMEOUT_S)
