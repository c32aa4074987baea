"""Capacity that the account's reservations hold: how much of it no instance uses."""

from __future__ import annotations

from collections.abc import Iterator

from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.database import Document


def with_free(region: Region, reservation: Document) -> Document:
    """A reservation with what is free of it: nothing once it has ended."""
    used = sum(
        each.get("CapacityReservationId") == reservation["CapacityReservationId"]
        and each["State"]["Name"] in {"pending", "running"}
        for each in region.all("instance").values()
    )
    total = reservation["TotalInstanceCount"] if reservation["State"] == "active" else used
    return {**reservation, "AvailableInstanceCount": max(0, total - used)}


def unused(region: Region) -> Iterator[Document]:
    """The reservations of the caller's making, with what is free of them. It counts as in use.

    Those that were granted by who steers the sandbox are beside the stock.
    """
    for reservation in region.all("reservation").values():
        if "_billed" in reservation:
            yield with_free(region, reservation)
