"""How clouds bill: facts of their documentation that no price list tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """One cloud's ways.

    Attributes:
        vendor: who sends the bill.
        minimum_s: for how long a machine is billed at least, each time that one starts.
        disk_sizes_gib: a disk is billed as the next of these; empty where its own size counts.
        iops: what the disk of a box does at no extra price.
    """

    vendor: str = ""
    minimum_s: int = 0
    disk_sizes_gib: tuple[int, ...] = ()
    iops: str = ""


BILLING = {
    # Sources: re:Post, "ec2-instance-hour-billing"; EBS User Guide, "General Purpose SSD volumes".
    "aws": Billing(vendor="Amazon Web Services", minimum_s=60, iops="3,000 IOPS and 125 MiB/s of gp3"),
    # Sources: Azure PSRule, Azure.VM.DiskSizeAlignment; "Azure managed disk types", premium SSD.
    "azure": Billing(
        vendor="Microsoft",
        disk_sizes_gib=(4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32767),
        iops="the IOPS of its size of premium SSD",
    ),
    # Source: ECS documentation, "Block storage billing": an ESSD is billed by its size and performance level.
    "alibaba": Billing(vendor="Alibaba Cloud", iops="the IOPS of its size of ESSD"),
}
"""By provider's name; of a cloud that is not there, nothing special is known."""


def billing_of(cloud: str) -> Billing:
    """How a cloud bills."""
    return BILLING.get(cloud, Billing())


def billed_disk_gib(cloud: str, gib: int) -> int:
    """As how large a disk is billed."""
    return next((size for size in billing_of(cloud).disk_sizes_gib if size >= gib), gib)
