"""How many instances a zone has left."""

from __future__ import annotations

from gpucloud_sandbox.alibaba.region import CLOUD, Region
from gpucloud_sandbox.database import Document


def alive(instance: Document) -> bool:
    """Whether an instance exists. It holds capacity, and is billed, unless its charging was stopped."""
    return instance["_gone_at"] is None


def in_use(region: Region, zone: str, instance_type: str, purchase: str) -> int:
    """How many instances of a type a zone has given out."""
    return sum(
        alive(each)
        and each["StoppedMode"] != "StopCharging"
        and each["InstanceType"] == instance_type
        and each["ZoneId"] == zone
        and each["_purchase"] == purchase
        for each in region.all("instance").values()
    )


def free(region: Region, zone: str, instance_type: str, purchase: str) -> int | None:
    """How many are left; ``None`` for any number."""
    limit = region.world.market.limit(CLOUD, region.name, zone, instance_type, purchase)
    return None if limit is None else max(0, limit - in_use(region, zone, instance_type, purchase))
