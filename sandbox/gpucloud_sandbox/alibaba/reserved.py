"""Reserved instances. The sandbox's control grants them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpucloud_sandbox.alibaba.region import Region, page_by_number
from gpucloud_sandbox.clock import end_of
from gpucloud_sandbox.database import Document

_FIELDS = ("InstanceType", "OfferingType", "ReservedInstanceName", "Scope", "ZoneId")


def grant(region: Region, values: Mapping[str, Any]) -> Document:
    """Gives the account reserved instances.

    Args:
        region: where.
        values: ``instance_type``, ``until`` (the last day), ``count``, and ``zone`` for one zone only.

    Raises:
        ValueError: the region or the zone does not sell the type.
    """
    name, zone = values["instance_type"], values.get("zone")
    zones = region.zones_of(name)
    if not zones or (zone and zone not in zones):
        raise ValueError(f"{zone or region.name} does not sell {name}")
    return region.put(
        "reserved",
        {
            "ReservedInstanceId": region.new_id("reserved"),
            "ReservedInstanceName": "reserved",
            "RegionId": region.name,
            "Scope": "Zone" if zone else "Region",
            "ZoneId": zone or "",
            "InstanceType": name,
            "InstanceAmount": int(values.get("count", 1)),
            "Platform": "Linux",
            "OfferingType": "No Upfront",
            "AllocationStatus": "",
            "CreationTime": region.minute,
            "StartTime": region.minute,
            "ExpiredTime": f"{end_of(values['until']):%Y-%m-%dT%H:%MZ}",
            "Tags": {"Tag": []},
        },
    )


def describe_reserved_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeReservedInstances."""
    known = (
        {
            **each,
            "Status": "Active" if datetime.fromisoformat(each["ExpiredTime"]) > region.now else "Expired",
        }
        for each in region.all("reserved").values()
    )
    wanted = {name: parameters[name] for name in _FIELDS if name in parameters}
    ids, states = parameters.get("ReservedInstanceId"), parameters.get("Status")
    found = [
        each
        for each in known
        if (not ids or each["ReservedInstanceId"] in ids)
        and (not states or each["Status"] in states)
        and all(each[name] == value for name, value in wanted.items())
    ]
    shown, about = page_by_number(found, parameters, 100)
    return {"ReservedInstances": {"ReservedInstance": shown}, **about}
