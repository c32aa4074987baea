"""A data set of a spec as a plan knows it: where it is, how large, and what its traffic costs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.clouds.object_store import StorageGrant, StorePlace, StoreSize
from gpucloud.costs.resource_prices import store_transfer_price
from gpucloud.errors import UsageError
from gpucloud.spec.mounts import DataSet
from gpucloud_pricing import Market
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.planning.documents import DataDocument

GIB = 1 << 30
NAME = "data"
"""What its rights are lent for, as the cloud's own log shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A data set whose bucket was looked at.

    Attributes:
        wanted: the data set of the spec.
        cloud: the cloud of the bucket.
        place: the bucket.
        folder: its folder there, without slashes at its ends.
        role: the role whose rights are lent; ``None`` for the caller's own.
        size: what is there; ``None`` if it was not counted.
        traffic: what copying it to all nodes of the plan's first attempt costs; ``None`` if unknown.
    """

    wanted: DataSet
    cloud: str
    place: StorePlace
    folder: str
    role: str | None
    size: StoreSize | None = None
    traffic: Money | None = None

    @property
    def grant(self) -> StorageGrant:
        """The rights on it: to list and to read, nothing else."""
        return StorageGrant(place=self.place, reads=self.folder, writes=None, name=NAME, role=self.role)

    @property
    def gib(self) -> Decimal:
        """How large it is at least, in GiB."""
        return Decimal(self.size.size_bytes if self.size else 0) / GIB

    def document(self) -> DataDocument:
        """Plain JSON."""
        return {
            "url": self.wanted.url,
            "path": self.wanted.path,
            "cache": "scratch" if self.wanted.scratch else None,
            "cloud": self.cloud,
            "region": self.place.region,
            "files": self.size.files if self.size else None,
            "bytes": self.size.size_bytes if self.size else None,
            "whole": self.size is not None and self.size.whole,
            "traffic": self.traffic.document() if self.traffic else None,
        }


def priced(
    market: Market, sources: Sequence[DataSource], target: tuple[str, str], nodes: int
) -> tuple[DataSource, ...]:
    """Data sets with what copying them costs (:func:`gpucloud.costs.resource_prices.store_transfer_price`).

    Requests are not counted.

    Args:
        market: the tariffs.
        sources: the data sets.
        target: the cloud and the region of the boxes.
        nodes: how many machines copy them.
    """

    def cost(source: DataSource) -> Money | None:
        origin = (source.cloud, source.place.region)
        whole = source.size is not None and source.size.whole
        return store_transfer_price(market, origin, target, source.gib * nodes if whole else None)

    return tuple(replace(source, traffic=cost(source)) for source in sources)


def refuse_too_large(sources: Sequence[DataSource], *, disk_gib: int, local_gib: Decimal) -> None:
    """Refuses data sets that do not fit on a machine's disks.

    Args:
        sources: the data sets.
        disk_gib: the size of the root disk.
        local_gib: the size of the local disks; where there are none, everything goes to the root disk.

    Raises:
        UsageError: they do not fit.
    """
    local = sum((each.gib for each in sources if each.wanted.scratch and local_gib), Decimal(0))
    whole = sum((each.gib for each in sources), Decimal(0))
    if local > local_gib:
        raise UsageError(
            f"data: {local:.1f} GiB do not fit on the local disks, which have {local_gib.normalize():f} GiB",
            hint="omit :scratch, with a larger --disk",
        )
    if whole - local > disk_gib:
        raise UsageError(
            f"data: {whole - local:.1f} GiB do not fit on the root disk, which has {disk_gib} GiB",
            hint="use a larger --disk",
        )
