"""How clouds bill: facts from their documentation that are in no price list.

Every instance type of a market has those of its cloud; the shipped market takes them from here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Billing:
    """How one cloud bills.

    Attributes:
        vendor: the issuer of the bill.
        minimum_s: the least time that is billed for each start of a machine.
        disk_sizes_gib: a disk is billed as the next larger of these; empty if its own size is billed.
        iops: the performance of a box's disk at no extra price.
        account_type: the cloud's word for the account that a bill is for.
        bucket_over_internet: whether traffic between a bucket and a machine of its region is billed as
            traffic of the internet; otherwise it is free.
        images_are_billed: whether an image of a box is billed by itself, at the price of a snapshot;
            otherwise by the snapshot that it holds.
    """

    vendor: str = ""
    minimum_s: int = 0
    disk_sizes_gib: tuple[int, ...] = ()
    iops: str = ""
    account_type: str = "Account"
    bucket_over_internet: bool = False
    images_are_billed: bool = False

    def disk_gib(self, gib: int) -> int:
        """The billed size of a disk of ``gib`` GiB."""
        return next((size for size in self.disk_sizes_gib if size >= gib), gib)


NOTHING_SPECIAL = Billing()

BILLING = {
    # Sources: re:Post, "ec2-instance-hour-billing"; EBS User Guide, "General Purpose SSD volumes".
    # Buckets: "if an internet gateway is used to send data to an AWS public service (Amazon S3 …) in the same
    # Region, then there are no data transfer charges" (AWS Certified Cloud Practitioner Exam Guide, Packt,
    # chapter 15, seen 2026-11-25; AWS's own page of prices could not be read).
    "aws": Billing(vendor="Amazon Web Services", minimum_s=60, iops="3,000 IOPS and 125 MiB/s of gp3"),
    # Sources: Azure PSRule, Azure.VM.DiskSizeAlignment; "Azure managed disk types", premium SSD.
    # Buckets: "no data transfer charges when services in the same region communicate" (cloud.netapp.com,
    # azure-cvo-blg-hidden-azure-data-transfer-costs, seen 2026-11-25; Microsoft's page could not be read).
    # Images: "charged as a snapshot", by the "occupied size of the image version" and its replicas
    # (azure-compute-docs, azure-compute-gallery.md, "Billing", read 2026-11-26).
    "azure": Billing(
        vendor="Microsoft",
        disk_sizes_gib=(4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32767),
        iops="the IOPS of its size of premium SSD",
        account_type="Subscription",
        images_are_billed=True,
    ),
    # Source: ECS documentation, "Block storage billing": an ESSD is billed by its size and performance level.
    # Buckets: only internal endpoints are without traffic charges in a region, and public ones are billed as
    # internet traffic (help.aliyun.com, functioncompute/fc/developer-reference/fc-endpoints, of OSS and ECS
    # too, seen 2026-11-25). Boxes use the public one. UNVERIFIED: that OSS charges what ECS's list says.
    "alibaba": Billing(
        vendor="Alibaba Cloud", iops="the IOPS of its size of ESSD", bucket_over_internet=True
    ),
}
"""The billing of the clouds whose prices are shipped, by provider's name."""


def billing_of(cloud: str) -> Billing:
    """How a shipped cloud bills; the default for any other cloud."""
    return BILLING.get(cloud, NOTHING_SPECIAL)
