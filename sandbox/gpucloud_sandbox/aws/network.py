"""What a region has from the start, zones and types; and the networks that launches use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.hardware import hardware
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import CLOUD, Region, region_opt_in
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType


def region_names(region: Region) -> list[str]:
    """The regions that have zones: those of AWS's commercial partition that the catalog knows."""
    zones = region.world.market.catalog(CLOUD).zones
    return [name for name in zones if zones[name] and not name.startswith(("cn-", "us-gov-"))]


def describe_regions(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeRegions."""
    names = region_names(region)
    asked = parameters.get("RegionNames") or names
    for name in asked:
        if name not in names:
            raise AwsError("InvalidParameterValue", f"Invalid region name: {name}")
    rows = [
        {"RegionName": name, "Endpoint": f"ec2.{name}.amazonaws.com", "OptInStatus": region_opt_in(name)}
        for name in asked
    ]
    fields: dict[str, Field] = {
        "region-name": "RegionName",
        "opt-in-status": "OptInStatus",
        "endpoint": "Endpoint",
    }
    return {"Regions": select(rows, parameters.get("Filters"), fields)}


def describe_availability_zones(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeAvailabilityZones."""
    rows = [_zone(region, name, id_, "availability-zone") for name, id_ in region.zones.items()]
    if parameters.get("AllAvailabilityZones"):
        rows += [
            _zone(region, id_, id_, "wavelength-zone" if "-wl" in id_ else "local-zone")
            for id_ in region.other_zones
        ]
    for parameter, field in (("ZoneNames", "ZoneName"), ("ZoneIds", "ZoneId")):
        for asked in parameters.get(parameter) or ():
            if asked not in {row[field] for row in rows}:
                raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{asked}]")
        if parameter in parameters:
            rows = [row for row in rows if row[field] in parameters[parameter]]
    fields: dict[str, Field] = {
        "zone-name": "ZoneName",
        "zone-id": "ZoneId",
        "zone-type": "ZoneType",
        "state": "State",
        "opt-in-status": "OptInStatus",
        "region-name": "RegionName",
        "group-name": "GroupName",
    }
    return {"AvailabilityZones": select(rows, parameters.get("Filters"), fields)}


def describe_instance_type_offerings(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceTypeOfferings."""
    by = parameters.get("LocationType", "region")
    rows: list[Document] = []
    for type_ in region.world.market.catalog(CLOUD).types:
        zones = {name: id_ for name, id_ in region.zones.items() if region.offers(type_, id_)}
        places = {
            "region": [region.name] if zones else [],
            "availability-zone": list(zones),
            "availability-zone-id": list(zones.values()),
        }.get(by, [])
        rows += [{"InstanceType": type_, "LocationType": by, "Location": place} for place in places]
    fields: dict[str, Field] = {"instance-type": "InstanceType", "location": "Location"}
    shown, token = page(select(rows, parameters.get("Filters"), fields), parameters)
    return {"InstanceTypeOfferings": shown, "NextToken": token}


def describe_instance_types(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeInstanceTypes, as far as the catalog knows them."""
    names: list[str] | None = parameters.get("InstanceTypes")
    for name in names or ():
        if region.type_of(name) is None:
            raise AwsError("InvalidInstanceType", f"The following instance types do not exist: [{name}]")
    known = names or [name for name in region.world.market.catalog(CLOUD).types if region.type_of(name)]
    rows = [_type(type_) for name in known if (type_ := region.type_of(name))]
    fields: dict[str, Field] = {
        "instance-type": "InstanceType",
        "network-info.efa-supported": "NetworkInfo.EfaSupported",
        "processor-info.supported-architecture": "ProcessorInfo.SupportedArchitectures",
        "vcpu-info.default-vcpus": "VCpuInfo.DefaultVCpus",
    }
    shown, token = page(select(rows, parameters.get("Filters"), fields), parameters, highest=100)
    return {"InstanceTypes": shown, "NextToken": token}


def _zone(region: Region, name: str, id_: str, kind: str) -> Document:
    own = kind == "availability-zone"
    return {
        "ZoneName": name,
        "ZoneId": id_,
        "ZoneType": kind,
        "State": "available",
        "OptInStatus": "opt-in-not-required" if own else "not-opted-in",
        "RegionName": region.name,
        "GroupName": f"{region.name}-zg-1" if own else name,
        "NetworkBorderGroup": region.name if own else name,
        "Messages": [],
    }


def _type(type_: InstanceType) -> Document:
    return {
        **hardware(type_.name),
        "InstanceType": type_.name,
        "CurrentGeneration": True,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": type_.name.endswith(".metal"),
        "ProcessorInfo": {"SupportedArchitectures": [type_.arch]},
        "VCpuInfo": {**hardware(type_.name).get("VCpuInfo", {}), "DefaultVCpus": type_.vcpus},
        "MemoryInfo": {"SizeInMiB": int(type_.memory_gib * 1024)},
        **({"GpuInfo": _gpus(type_)} if type_.whole_gpus else {}),
    }


def _gpus(type_: InstanceType) -> Document:
    count, memory_mib = type_.whole_gpus, type_.gpu_memory_mib
    return {
        "Gpus": [
            {
                "Name": type_.gpu_model.removesuffix("-80GB").removesuffix("-32GB"),
                "Manufacturer": "NVIDIA",
                "Count": count,
                "MemoryInfo": {"SizeInMiB": memory_mib},
            }
        ],
        "TotalGpuMemoryInMiB": memory_mib * count,
    }
