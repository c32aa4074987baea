"""Private pools: capacity that the account holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba.region import Region, page, shown
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document


def grant(region: Region, *, zone: str, instance_type: str, count: int) -> Document:
    """Holds capacity for the account, as if it had been bought."""
    if zone not in region.zones_of(instance_type):
        raise ValueError(f"{zone} does not sell {instance_type}")
    return region.put(
        "reservation",
        {
            "PrivatePoolOptionsId": region.new_id("reservation"),
            "PrivatePoolOptionsName": "held",
            "PrivatePoolOptionsMatchCriteria": "Target",
            "Status": "Active",
            "RegionId": region.name,
            "InstanceChargeType": "PostPaid",
            "StartTime": region.second,
            "EndTimeType": "Unlimited",
            "_zone": zone,
            "_type": instance_type,
            "_count": count,
        },
    )


def left(region: Region, pool: Document) -> int:
    """How much of a pool is free."""
    taken = sum(
        alive(each) and each["_pool"] == pool["PrivatePoolOptionsId"]
        for each in region.all("instance").values()
    )
    left_: int = pool["_count"] - taken
    return max(0, left_)


def find_pool(
    region: Region, options: Mapping[str, Any], zone: str, instance_type: str, count: int
) -> Document | None:
    """The pool that a launch names; ``None`` for none.

    Raises:
        AlibabaError: it does not fit, or is used up.
    """
    match options.get("MatchCriteria", "None"):
        case "None":
            return None
        case "Target":
            pool = region.all("reservation").get(options.get("Id", ""))
        case other:
            raise AlibabaError(
                "Invalid.PrivatePoolOptions.MatchCriteria", f"The criteria {other!r} are not valid."
            )
    if pool is None:
        raise AlibabaError(
            "Invalid.PrivatePoolOptions.Id", "The specified PrivatePoolOptions.Id is not valid."
        )
    if (pool["_zone"], pool["_type"]) != (zone, instance_type):
        raise AlibabaError(
            "Invalid.PrivatePoolOptions.NotMatch", "The private pool is of another zone or type."
        )
    if left(region, pool) < count:
        raise AlibabaError(
            "Invalid.PrivatePoolOptions.NoStock", "The private pool has no capacity left.", 403
        )
    return pool


def describe_capacity_reservations(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeCapacityReservations."""
    items = [
        {
            **shown(pool),
            "AllocatedResources": {
                "AllocatedResource": [
                    {
                        "zoneId": pool["_zone"],
                        "InstanceType": pool["_type"],
                        "TotalAmount": pool["_count"],
                        "UsedAmount": pool["_count"] - left(region, pool),
                        "AvailableAmount": left(region, pool),
                    }
                ]
            },
        }
        for pool in region.all("reservation").values()
        if parameters.get("Status") in {None, "All", pool["Status"]}
    ]
    found, about = page(items, {"MaxResults": 100, **parameters})
    return {"CapacityReservationSet": {"CapacityReservationItem": found}, **about}


def describe_elasticity_assurances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeElasticityAssurances: the sandbox's account has none."""
    return {"ElasticityAssuranceSet": {"ElasticityAssuranceItem": []}, "TotalCount": 0, "NextToken": ""}
