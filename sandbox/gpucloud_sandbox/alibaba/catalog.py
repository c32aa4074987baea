"""Regions, zones, types, and what a zone has now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba.interfaces import limits_of
from gpucloud_sandbox.alibaba.region import CLOUD, Region, gpu_spec, known_regions
from gpucloud_sandbox.alibaba.stock import free
from gpucloud_sandbox.database import Document


def describe_regions(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeRegions."""
    regions = [
        {
            "RegionId": name,
            "LocalName": name,
            "RegionEndpoint": f"ecs.{name}.aliyuncs.com",
            "Status": "available",
        }
        for name in known_regions(region.world)
    ]
    return {"Regions": {"Region": regions}}


def describe_zones(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeZones."""
    return {
        "Zones": {
            "Zone": [
                {"ZoneId": zone, "LocalName": zone, "ZoneType": "AvailabilityZone"} for zone in region.zones
            ]
        }
    }


def describe_instance_types(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceTypes."""
    wanted = parameters.get("InstanceTypes")
    types = [
        {
            "InstanceTypeId": each.name,
            "InstanceTypeFamily": each.name.rpartition(".")[0],
            "CpuCoreCount": each.vcpus,
            "CpuArchitecture": "X86" if each.arch == "x86_64" else "ARM",
            "MemorySize": float(each.memory_gib),
            "GPUSpec": gpu_spec(each),
            "GPUAmount": each.whole_gpus,
            "GPUMemorySize": float(each.gpu_memory_gib),
            "EniQuantity": limits_of(each.name).enis,
            "EriQuantity": limits_of(each.name).eris,
            "QueuePairNumber": limits_of(each.name).queue_pairs,
        }
        for each in region.world.market.catalog(CLOUD).types.values()
        if (wanted is None or each.name in wanted)
        and each.whole_gpus >= int(parameters.get("MinimumGPUAmount", 0))
        and parameters.get("GPUSpec") in {None, gpu_spec(each)}
        and parameters.get("InstanceTypeFamily") in {None, each.name.rpartition(".")[0]}
    ]
    size, at = int(parameters.get("MaxResults", 100)), int(parameters.get("NextToken") or 0)
    following = str(at + size) if at + size < len(types) else ""
    return {"InstanceTypes": {"InstanceType": types[at : at + size]}, "NextToken": following}


def describe_available_resource(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeAvailableResource: which zones sell a type, and whether they have any now."""
    purchase = "on_demand" if parameters.get("SpotStrategy", "NoSpot") == "NoSpot" else "spot"
    wanted = parameters.get("InstanceType")
    names = [wanted] if wanted else sorted(region.world.market.catalog(CLOUD).types)
    zones: list[Document] = []
    for zone in region.zones:
        if parameters.get("ZoneId") not in {None, zone}:
            continue
        resources = [
            {"Value": name, **_status(free(region, zone, name, purchase))}
            for name in names
            if zone in region.zones_of(name)
        ]
        if not resources:
            continue
        stocked = any(each["Status"] == "Available" for each in resources)
        zones.append(
            {
                "RegionId": region.name,
                "ZoneId": zone,
                **_status(None if stocked else 0),
                "AvailableResources": {
                    "AvailableResource": [
                        {"Type": "InstanceType", "SupportedResources": {"SupportedResource": resources}}
                    ]
                },
            }
        )
    return {"AvailableZones": {"AvailableZone": zones}}


def _status(left: int | None) -> Document:
    if left == 0:
        return {"Status": "SoldOut", "StatusCategory": "WithoutStock"}
    return {"Status": "Available", "StatusCategory": "WithStock"}
