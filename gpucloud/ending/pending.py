"""What of a box may still be billed, and the error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from math import isfinite

from gpucloud.costs.resource_prices import ADDRESS, DISK
from gpucloud.errors import CleanupIncompleteError, CloudError, GpucloudError
from gpucloud.journal.lifecycle import PendingDeletion
from gpucloud.journal.records import Box, Holding
from gpucloud.journal.store import Journal
from gpucloud.resources import Ref, ResourceKind, short_id
from gpucloud.runtime.context import Context
from gpucloud_pricing.billing import billing_of
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Money

SAY_EVERY_S = 15.0
"""How often a command that waits for an end says so."""
MOST_NAMED = 4
"""How much of what it waits for it names then."""


def pending_deletions(journal: Journal, holding: Holding) -> list[PendingDeletion]:
    """What may still be billed of a box: billable resources, and create calls with an unknown outcome."""
    left: list[PendingDeletion] = []
    for row in journal.resources(holding.id):
        if row.ref.kind.billable and row.state != "gone_once":
            left.append(_pending(holding, row.ref, row.name))
    for intent in journal.intents(holding.id, unresolved=True):
        if intent.status == "open":
            ref = Ref(
                cloud=intent.cloud,
                account=intent.account,
                region=intent.region,
                kind=ResourceKind.INSTANCE if isinstance(holding, Box) else ResourceKind.DISK,
                id="",
            )
            name = f"the {ref.kind} of {intent.token}, if it was created"
            left.append(_pending(holding, ref, name))
    return left


def _pending(holding: Holding, ref: Ref, name: str) -> PendingDeletion:
    price = price_per_hour(holding, ref)
    return PendingDeletion(
        ref=ref,
        name=name,
        price_per_hour=price.amount if price else None,
        currency=price.currency if price else holding.currency,
    )


def price_per_hour(holding: Holding, ref: Ref) -> Money | None:
    """What a resource of a box costs per hour, at the prices of its launch; ``None`` if that is not known.

    What a snapshot costs depends on what it holds, which nobody knows.
    """
    if ref.kind is ResourceKind.INSTANCE:
        found, quantity = holding.price if isinstance(holding, Box) else None, Decimal(1)
    elif ref.kind is ResourceKind.ADDRESS:
        found, quantity = holding.listed.get(ADDRESS), Decimal(1)
    elif ref.kind is ResourceKind.DISK and holding.disk_gib:
        billed_gib = billing_of(ref.cloud).disk_gib(holding.disk_gib)
        found, quantity = holding.listed.get(DISK), Decimal(billed_gib) / HOURS_PER_MONTH
    else:
        return None
    return None if found is None else Money(amount=round(found.amount * quantity, 6), currency=found.currency)


def pending_refs(holding: Holding, refs: Sequence[Ref]) -> list[PendingDeletion]:
    """Resources of a box that may still be billed and are not in the journal."""
    return [_pending(holding, ref, holding.name) for ref in refs]


def say_waiting(
    context: Context, left: Sequence[PendingDeletion], cause: GpucloudError | None = None
) -> None:
    """Tells what a command still waits for, until when, and what the cloud last said."""
    left_s = context.tasks.left_s
    until = f", until {context.clock() + timedelta(seconds=left_s):%H:%M:%S} UTC" if isfinite(left_s) else ""
    said = f"; the last answer: {cause.message}" if cause else ""
    names = [f"{item.ref.kind} {short_id(item.ref.id) or item.name}" for item in left]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    what = ", ".join(names[:MOST_NAMED]) + more or "what is left"
    context.tell("down", f"waiting for the end of {what}{until}{said}")


def incomplete_error(
    holding: Holding, left: Sequence[PendingDeletion], cause: GpucloudError | None
) -> CleanupIncompleteError:
    """The error with what is left, the cloud's answer, and the command that deletes it."""
    said = f"; {cause.message}" if cause else ""
    names = ", ".join(f"{item.ref.kind} {item.ref.id or item.name}" for item in left)
    error = CleanupIncompleteError(
        f"{holding.kind} {holding.name!r} may still be billed: {names}{said}",
        hint="repeat the command below until it reports that nothing is left",
        left=[dict(item.as_dict()) for item in left],
        owed_command=holding.removal,
    )
    if isinstance(cause, CloudError):
        error.cloud, error.code, error.request_id = cause.cloud, cause.code, cause.request_id
    return error
