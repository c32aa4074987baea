"""From AWS's resources to the ledger."""

from __future__ import annotations

from decimal import Decimal

from gpucloud_sandbox.aws.region import CLOUD, Region, tags_of
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.ledger import Entry


def begin(
    region: Region,
    kind: str,
    id_: str,
    price: Decimal,
    *,
    billed: Document,
    zone: str | None = None,
    token: str | None = None,
) -> None:
    """Bills a resource from now on.

    Args:
        region: where.
        kind: of the ledger's entry.
        id_: of the resource.
        price: in USD per hour.
        billed: the resource whose tags say for whom it is.
        zone: the name of its zone, if it is in one.
        token: the client token of the call that made it.
    """
    tags = tags_of(billed)
    entry = Entry(
        kind=kind,
        id=id_,
        cloud=CLOUD,
        region=region.name,
        zone=None if zone is None else region.zones[zone],
        price=price,
        box=tags.get("gpucloud:box"),
        owner=tags.get("gpucloud:owner"),
        op=tags.get("gpucloud:op"),
        token=token,
        tags=tags,
    )
    region.world.ledger.begin_billing(entry, region.now)


def end(region: Region, id_: str, reason: str) -> None:
    """Bills a resource no longer; does nothing for one that is not billed."""
    region.world.ledger.end_billing(CLOUD, id_, region.now, reason)
