"""What the account is billed for, written into the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from gpucloud_sandbox.alibaba.region import CLOUD, Region
from gpucloud_sandbox.ledger import Entry
from gpucloud_sandbox.market import Price


def begin(
    region: Region,
    kind: str,
    id_: str,
    price: Price,
    *,
    tags: Mapping[str, str],
    zone: str = "",
    token: str = "",
) -> None:
    """The bill of a resource begins.

    Args:
        region: where it is.
        kind: what the ledger calls it.
        id_: its id.
        price: per hour.
        tags: its tags when it was made.
        zone: its zone, if it has one.
        token: the client token of the call that made it.
    """
    entry = Entry(
        kind=kind,
        id=id_,
        cloud=CLOUD,
        region=region.name,
        zone=zone or None,
        price=price.amount,
        currency=price.currency,
        box=tags.get("gpucloud:box"),
        owner=tags.get("gpucloud:owner"),
        op=tags.get("gpucloud:op"),
        token=token or None,
        tags=dict(tags),
    )
    region.world.ledger.begin_billing(entry, region.now)


def end(region: Region, id_: str, reason: str) -> None:
    """The bill of a resource ends."""
    region.world.ledger.end_billing(CLOUD, id_, region.now, reason)
