"""The requirements for a box, to search the market with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from gpucloud_pricing.gpus import GpuRequirement
from gpucloud_pricing.purchases import Purchase

INTERCONNECTS = ("none", "pcie", "nvlink", "nvswitch")
"""The links between the GPUs of one machine, the slowest first."""

NO_RDMA, ANY_RDMA = "none", "any"
RDMA = (NO_RDMA, "efa", "infiniband", "erdma")
"""The networks between machines with access to the memory of remote GPUs; :data:`ANY_RDMA` asks for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlace:
    """Where a disk is that only machines in its place can use; ``zone`` is ``None`` for one in no zone."""

    name: str
    cloud: str
    region: str
    zone: str | None

    def __str__(self) -> str:
        """The name and the place, for people."""
        return f"{self.name} is in {self.cloud} {self.zone or self.region}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlace:
    """Where a bucket is, near which the machines are to be; ``url`` is for people."""

    url: str
    cloud: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlace:
    """Where an image is that only machines in its region can boot."""

    name: str
    cloud: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A search of the market. An empty or ``None`` field is no requirement.

    Attributes:
        gpus: alternatives; empty means any model, whole GPUs.
        instance_types: the clouds' names of types, globs, ``!x`` to leave out; case does not matter.
        gpu_memory_gib: at least this much on each GPU (of the share, if a share is rented).
        total_gpu_memory_gib: at least this much on all GPUs of the instance together.
        cpus: at least this many vCPUs.
        memory_gib: at least this much main memory.
        arch: ``x86_64`` or ``arm64``.
        interconnect: at least this between GPUs, of :data:`INTERCONNECTS`.
        rdma: this network, of :data:`RDMA`, or :data:`ANY_RDMA`; ``none`` is no requirement.
        purchases: ways of paying that may be used, of :data:`gpucloud_pricing.purchases.PURCHASES`.
        clouds: names, globs, ``!x`` to leave out.
        regions: names, globs (``us-*``), geo groups (eu us na cn ap sa me af), ``!x`` to leave out.
        residency: where anything may be at all, as ``regions``, which choose among these.
        zones: names, globs, ``!x`` to leave out.
        near: a bucket whose region the machine must be in.
        volumes: disks to use: one of each group must be in the place of the machine.
        image: an image to boot: the machine must be in its region.
        max_price_usd: per hour and box, compute only.
        max_age: quotes older than this are left out.
        include_hidden: include types that are retired, confidential or not sold publicly.
    """

    gpus: tuple[GpuRequirement, ...] = ()
    instance_types: tuple[str, ...] = ()
    gpu_memory_gib: Decimal | None = None
    total_gpu_memory_gib: Decimal | None = None
    cpus: int | None = None
    memory_gib: Decimal | None = None
    arch: str = "x86_64"
    interconnect: str | None = None
    rdma: str | None = None
    purchases: tuple[str, ...] = (Purchase.ON_DEMAND.value,)
    clouds: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    residency: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    near: BucketPlace | None = None
    volumes: tuple[tuple[VolumePlace, ...], ...] = ()
    image: ImagePlace | None = None
    max_price_usd: Decimal | None = None
    max_age: timedelta | None = None
    include_hidden: bool = False
