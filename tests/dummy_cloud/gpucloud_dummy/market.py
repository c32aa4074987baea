"""What this cloud sells, for gpucloud's market."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from gpucloud_pricing import Billing, Market
from gpucloud_pricing.values import InstanceType, Price, Source

CENTS = {"attic": 40, "cellar": 41, "garage": 42, "shed": 43}
"""What an hour costs in each region."""


def offers() -> Market:
    """One type with one T4, in four regions without zones."""
    t4 = InstanceType(
        cloud="dummy",
        name="d1.t4",
        gpu_model="T4",
        gpu_count=Decimal(1),
        gpu_memory_gib=Decimal(16),
        vcpus=4,
        memory_gib=Decimal(16),
        source="price-list",
        billing=Billing(vendor="The Dummy Company", minimum_s=3600, disk_sizes_gib=(64, 128)),
    )
    today: date = datetime.now(UTC).date()
    return Market.build(
        types=[t4],
        offers=[
            Price(
                cloud="dummy",
                region=region,
                zone=None,
                instance_type=t4.name,
                purchase="on_demand",
                amount=Decimal(cents) / 100,
                currency="USD",
                as_of=today,
                source="price-list",
            )
            for region, cents in CENTS.items()
        ],
        sources=[Source(id="price-list", repository="", path="", commit="", date="", licence="", note="")],
    )
