"""What of a box may still be billed, and the error that says so."""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.errors import CloudError, GpucloudError, OwedError
from gpucloud.journal.kinds import Kind
from gpucloud.journal.lifecycle import Owed
from gpucloud.journal.records import Box
from gpucloud.resources import Ref, ResourceKind
from gpucloud.runtime.context import Context


def owed(context: Context, box: Box) -> list[Owed]:
    """What may still be billed of a box: billable resources, and create calls with an unknown outcome."""
    left: list[Owed] = []
    for row in context.journal.resources(box.id):
        if row.ref.kind.billable and row.state != "gone_once":
            instance = row.ref.kind is ResourceKind.INSTANCE
            left.append(
                Owed(
                    ref=row.ref,
                    name=row.name,
                    price_per_hour=box.price_per_hour if instance else None,
                    currency=box.currency,
                )
            )
    for intent in context.journal.intents(box.id, unresolved=True):
        if intent.status == "open":
            ref = Ref(
                cloud=intent.cloud,
                account=intent.account,
                region=intent.region,
                kind=ResourceKind.INSTANCE if box.kind is Kind.BOX else ResourceKind.DISK,
                id="",
            )
            name = f"the {ref.kind} of {intent.token}, if it was created"
            left.append(Owed(ref=ref, name=name, price_per_hour=box.price_per_hour, currency=box.currency))
    return left


def owed_refs(box: Box, refs: Sequence[Ref]) -> list[Owed]:
    """Resources of a box that may still be billed and are not in the journal."""
    return [
        Owed(ref=ref, name=box.name, price_per_hour=box.price_per_hour, currency=box.currency) for ref in refs
    ]


def owed_error(box: Box, left: Sequence[Owed], cause: GpucloudError | None) -> OwedError:
    """The error with what is left, the cloud's answer, and the command that deletes it."""
    said = f"; {cause.message}" if cause else ""
    names = ", ".join(f"{item.ref.kind} {item.ref.id or item.name}" for item in left)
    error = OwedError(
        f"{box.kind} {box.name!r} may still be billed: {names}{said}",
        hint="repeat the command below until it reports that nothing is left",
        left=[dict(item.as_dict()) for item in left],
        owed_command=box.removal,
    )
    if isinstance(cause, CloudError):
        error.cloud, error.code, error.request_id = cause.cloud, cause.code, cause.request_id
    return error
