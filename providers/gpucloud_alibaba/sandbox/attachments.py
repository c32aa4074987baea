"""Disks and interfaces: what an instance is made of, and what may be left of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_alibaba.sandbox.disks import (
    attach,
    check_count,
    detach,
    disks_of,
    drop,
    find_disk,
    make_disk,
    read_data_disk,
    resize,
)
from gpucloud_alibaba.sandbox.instances import find_instance
from gpucloud_alibaba.sandbox.region import Region, asked_tags, has_tags, page, shown
from gpucloud_alibaba.sandbox.review import review_disk
from gpucloud_alibaba.sandbox.tokens import once
from gpucloud_alibaba.sandbox.wire import AlibabaError, json_list, true

_DISK = (
    "InstanceId",
    "ZoneId",
    "Category",
    "Status",
    "DiskName",
    "PerformanceLevel",
    "DiskChargeType",
    "Encrypted",
    "DeleteWithInstance",
    "Portable",
)
"""Parameters of a search that are members of a disk."""

_NIC = {
    "InstanceId": "InstanceId",
    "VpcId": "VpcId",
    "VSwitchId": "VSwitchId",
    "NetworkInterfaceName": "NetworkInterfaceName",
    "PrimaryIpAddress": "PrivateIpAddress",
    "Status": "Status",
    "Type": "Type",
}
"""Parameters of a search, and the members of an interface that they ask about."""


def create_disk(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateDisk."""
    review_disk(parameters)
    zone = parameters.get("ZoneId")
    if not zone:
        raise AlibabaError(
            "MissingParameter", 'The input parameter "ZoneId" is mandatory without InstanceId.'
        )
    if zone not in region.zones:
        raise AlibabaError("InvalidZoneId.NotFound", "The ZoneId provided does not exist.", 404)
    category = parameters.get("DiskCategory", "cloud")
    order = read_data_disk(region, {**parameters, "Category": category, "DeleteWithInstance": "false"})
    tags = asked_tags(parameters)

    def make() -> Document:
        token = parameters.get("ClientToken", "")
        return {
            "DiskId": make_disk(region, order, zone=zone, tags=tags, token=token)["DiskId"],
            "OrderId": "",
        }

    return once(region, "CreateDisk", parameters, make)


def attach_disk(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AttachDisk."""
    disk = find_disk(region, parameters["DiskId"])
    instance = find_instance(region, parameters["InstanceId"])
    if disk["Status"] != "Available":
        raise _wrong_state()
    if instance["Status"] not in {"Running", "Stopped"}:
        raise AlibabaError(
            "IncorrectInstanceStatus",
            "The current status of the resource does not support this operation.",
            403,
        )
    if disk["ZoneId"] != instance["ZoneId"]:
        text = "The specified instance and disk are not in the same zone."
        raise AlibabaError("ResourcesNotInSameZone", text, 403)
    attached = disks_of(region, instance["InstanceId"])
    check_count(1 + sum(each["Type"] == "data" for each in attached))
    with_instance = {"DeleteWithInstance": true(parameters.get("DeleteWithInstance"))}
    attach(region, {**disk, **with_instance}, instance["InstanceId"])
    return {}


def detach_disk(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DetachDisk."""
    disk = find_disk(region, parameters["DiskId"])
    find_instance(region, parameters["InstanceId"])
    if not disk["Portable"]:
        raise AlibabaError("DiskNotPortable", "The specified disk is not a portable disk.", 403)
    if disk["InstanceId"] != parameters["InstanceId"]:
        raise _wrong_state()
    if "DeleteWithInstance" in parameters:
        disk = {**disk, "DeleteWithInstance": true(parameters["DeleteWithInstance"])}
    detach(region, disk)
    return {}


def resize_disk(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ResizeDisk: larger only."""
    disk = find_disk(region, parameters["DiskId"])

    def make() -> Document:
        resize(region, disk, int(parameters["NewSize"]), parameters.get("ClientToken", ""))
        return {"OrderId": ""}

    return once(region, "ResizeDisk", parameters, make)


def delete_disk(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteDisk."""
    disk = find_disk(region, parameters["DiskId"])
    if disk["InstanceId"]:
        raise _wrong_state()
    drop(region, disk, "deleted")
    return {}


def describe_disks(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeDisks."""
    ids = json_list(parameters.get("DiskIds"), "DiskIds")
    wanted = {
        name: parameters[name].lower() for name in _DISK if parameters.get(name) not in {None, "", "All"}
    }
    found = [
        each
        for each in region.all("disk").values()
        if (ids is None or each["DiskId"] in ids)
        and all(str(each[name]).lower() == value for name, value in wanted.items())
        and parameters.get("DiskType", "all") in {"all", each["Type"]}
        and has_tags(each, parameters)
    ]
    items, about = page(found, parameters)
    return {"Disks": {"Disk": [shown(each) for each in items]}, **about}


def _wrong_state() -> AlibabaError:
    return AlibabaError(
        "IncorrectDiskStatus", "The current disk status does not support this operation.", 403
    )


def describe_nics(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeNetworkInterfaces."""
    ids = parameters.get("NetworkInterfaceId")
    found = [
        each
        for each in region.all("nic").values()
        if (ids is None or each["NetworkInterfaceId"] in ids)
        and all(parameters.get(name) in {None, each[member]} for name, member in _NIC.items())
        and (
            not (group := parameters.get("SecurityGroupId"))
            or group in each["SecurityGroupIds"]["SecurityGroupId"]
        )
        and has_tags(each, parameters)
    ]
    items, about = page(found, parameters)
    return {"NetworkInterfaceSets": {"NetworkInterfaceSet": [shown(each) for each in items]}, **about}


def delete_nic(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteNetworkInterface: what is not there is no error."""
    nic = region.all("nic").get(parameters["NetworkInterfaceId"])
    if nic is not None:
        raise AlibabaError("InvalidOperation.InvalidEniState", "The interface is in use.", 403)
    return {}
