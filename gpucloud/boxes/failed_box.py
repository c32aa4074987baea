"""Keeps a box whose set-up failed, so that its user can enter it: ``--keep-on-failure``.

A box is kept only if it can be entered and ends by itself: every node answers over ssh, and its guard runs.
Until that is journalled, in one event, the box is the remains of a launch, which the next command deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpucloud.bring_up.bring_up import NotReadyError, UnfitError, hand_over, targets
from gpucloud.bring_up.setup import CommandsFailedError, store_environment
from gpucloud.ending.pending import pending_deletions
from gpucloud.errors import GpucloudError, SetupFailedError
from gpucloud.journal.facts import Facts
from gpucloud.journal.records import Box
from gpucloud.redaction import redact
from gpucloud.runtime.context import Context
from gpucloud.ssh.boot import boot_state
from gpucloud.ssh.client import ConnectionFailedError, Target
from gpucloud.ssh.data import DataNotCopiedError
from gpucloud.ssh.files import NotCopiedError

ANSWER_TIMEOUT_S = 30.0
MOST_OF_MESSAGE = 2000
"""The most characters of an error to journal: it may quote the end of a log."""
SETUP_FAILURES = (
    *(NotReadyError, CommandsFailedError, ConnectionFailedError),
    *(NotCopiedError, DataNotCopiedError),
)
"""What a set-up ends with on machines that are there."""


def may_keep(cause: BaseException) -> bool:
    """Whether a box may be kept after this failure: its machines are those that were bought, and there."""
    return isinstance(cause, SETUP_FAILURES) and not isinstance(cause, UnfitError)


def keep_failed(
    context: Context, box: Box, keys: Path, environment: Mapping[str, str], cause: BaseException
) -> SetupFailedError | None:
    """Keeps a box after a failure of its set-up, and gives up its lease.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: a box in state ``bootstrapping`` that this process holds.
        keys: the folder of its keys.
        environment: its variables, for a repeated set-up.
        cause: what failed.

    Returns:
        The error that reports the box; ``None`` if the box cannot be kept.

    Raises:
        InterruptedBySignal: a signal came; the box is not kept.
        JournalError: the box is not kept, as far as the journal knows.
    """
    if not may_keep(cause):
        return None
    nodes = targets(box, keys, context.proxy_command)
    try:
        refused = _reason_not_to_keep(context, box, nodes)
        if refused is None:
            store_environment(context, nodes, environment)
    except GpucloudError as error:
        if context.tasks.signum is not None:
            raise
        refused = error.message
    if refused is not None:
        context.warn("setup", f"The box is not kept: {refused}")
        return None
    kept = hand_over(context, box, keys, replace(failure_facts(cause), attended=False))
    context.journal.release(kept)
    return setup_failed(context, kept, cause)


def failure_facts(cause: BaseException) -> Facts:
    """What the journal says of a box whose set-up failed; credentials in the quoted log are removed."""
    return Facts(setup_error=redact(str(cause))[:MOST_OF_MESSAGE])


def setup_failed(context: Context, box: Box, cause: BaseException) -> SetupFailedError:
    """The error that reports a kept box: why its set-up failed, what is billed, and what can be done."""
    name = box.name
    return SetupFailedError(
        f"{cause}\n{name} is kept (state failed), and billed until its deadline",
        hint=f"enter it: gpucloud ssh {name}; repeat its setup: gpucloud setup {name}",
        left=[dict(item.as_dict()) for item in pending_deletions(context.journal, box)],
        owed_command=f"gpucloud down {name} --yes",
    )


def _reason_not_to_keep(context: Context, box: Box, nodes: list[Target]) -> str | None:
    """Why a box cannot be entered, or would not end by itself.

    Raises:
        ConnectionFailedError: a node does not answer.
    """
    if len(nodes) < len(box.nodes):
        return "a node has no public address"
    for node in nodes:
        state = context.tasks.run(partial(boot_state, node), ANSWER_TIMEOUT_S)
        if not state.guarded and box.expires_at is not None:
            return f"the guard of {node.alias}, which ends it at its deadline, does not run"
    return None
