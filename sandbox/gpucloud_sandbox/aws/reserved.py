"""Reserved Instances. The sandbox's control grants them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpucloud_sandbox.aws.query import Field, select
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import end_of, stamp
from gpucloud_sandbox.database import Document

_FILTERS: dict[str, Field] = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "reserved-instances-id": "ReservedInstancesId",
    "scope": "Scope",
    "state": "State",
}


def grant(region: Region, values: Mapping[str, Any]) -> Document:
    """Gives the account Reserved Instances.

    Args:
        region: where.
        values: ``instance_type``, ``until`` (the last day), ``count``, and a zone's id as ``zone`` for that
            alone.

    Raises:
        ValueError: the region or the zone does not have the type.
    """
    name, zone_id = values["instance_type"], values.get("zone")
    zone = next((each for each, id_ in region.zones.items() if id_ == zone_id), None)
    if region.type_of(name) is None or (zone_id and (zone is None or not region.offers(name, zone_id))):
        raise ValueError(f"{zone_id or region.name} has no {name}")
    return region.put(
        "reserved",
        {
            "ReservedInstancesId": str(uuid.UUID(region.world.token(32))),
            "InstanceType": name,
            "InstanceCount": int(values.get("count", 1)),
            "Scope": "Availability Zone" if zone else "Region",
            **({"AvailabilityZone": zone, "AvailabilityZoneId": zone_id} if zone else {}),
            "ProductDescription": "Linux/UNIX",
            "InstanceTenancy": "default",
            "OfferingClass": "standard",
            "OfferingType": "No Upfront",
            "CurrencyCode": "USD",
            "FixedPrice": 0.0,
            "UsagePrice": 0.0,
            "Duration": 31536000,
            "Start": region.stamp,
            "End": stamp(end_of(values["until"])),
            "Tags": [],
        },
    )


def describe_reserved_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeReservedInstances, which knows no pages."""
    ids = parameters.get("ReservedInstancesIds") or ()
    for id_ in ids:
        if id_ not in region.all("reserved"):
            text = f"The ReservedInstances ID '{id_}' does not exist"
            raise AwsError("InvalidReservedInstancesId", text)
    known = [
        {**each, "State": "active" if datetime.fromisoformat(each["End"]) > region.now else "retired"}
        for id_, each in region.all("reserved").items()
        if (not ids or id_ in ids)
        and all(parameters.get(name) in {None, each[name]} for name in ("OfferingClass", "OfferingType"))
    ]
    return {"ReservedInstances": select(known, parameters.get("Filters"), _FILTERS)}
