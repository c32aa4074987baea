"""The first step of every changing command: finishes what earlier commands left."""

from __future__ import annotations

from gpucloud.ending.reconcile import settle
from gpucloud.errors import CleanupIncompleteError
from gpucloud.runtime.context import Context
from gpucloud.storage.attachments import free_unused

MOST_TROUBLES = 3
"""How many unsettled boxes to name one by one."""


def settle_first(context: Context) -> None:
    """Finishes what earlier commands left, within a budget of seconds; warns of the rest."""
    free_unused(context)
    troubles = settle(context)
    if free_unused(context):  # boxes have ended just now, and with them what was only theirs
        troubles = settle(context)
    for trouble in troubles[:MOST_TROUBLES]:
        prefix = "Still owed" if isinstance(trouble, CleanupIncompleteError) else "No answer"
        context.warn("settle", f"{prefix}: {trouble.message}", trouble.owed_command or trouble.hint)
    if len(troubles) > MOST_TROUBLES:
        context.warn("settle", f"{len(troubles) - MOST_TROUBLES} more boxes are not settled: gpucloud list")
