"""Disks and interfaces by themselves: making, attaching, detaching, ending, looking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba.disks import (
    attach,
    check_disk_count,
    detach,
    disks_of,
    drop,
    find_disk,
    make_disk,
    read_data_disk,
    resize,
)
from gpucloud_sandbox.alibaba.instances import find_instance
from gpucloud_sandbox.alibaba.interfaces import (
    ERDMA,
    check_card,
    check_count,
    check_same_place,
    check_traffic,
    hold,
    interfaces_of,
    let_loose,
    make_interface,
    read_interface,
)
from gpucloud_sandbox.alibaba.region import Region, asked_tags, has_tags, page, shown
from gpucloud_sandbox.alibaba.review import review_disk
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, json_list, true
from gpucloud_sandbox.database import Document

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
    check_disk_count(1 + sum(each["Type"] == "data" for each in attached))
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


# --- interfaces


def create_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateNetworkInterface."""
    order, tags = read_interface(region, parameters), asked_tags(parameters)
    return once(
        region,
        "CreateNetworkInterface",
        parameters,
        lambda: shown(make_interface(region, order, 0, tags)),
    )


def attach_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AttachNetworkInterface, while the instance runs or is stopped."""
    nic, instance = _interface(region, parameters), _instance(region, parameters)
    type_name = instance["InstanceType"]
    card = int(parameters["NetworkCardIndex"]) if "NetworkCardIndex" in parameters else None
    if nic["Type"] == "Primary":
        raise AlibabaError("InvalidOperation.InvalidEniType", "A primary interface stays where it is.", 403)
    if nic["Status"] != "Available":
        raise _wrong_interface_state(nic, "Available")
    check_same_place(nic, {**instance, **instance["VpcAttributes"]})
    check_card(type_name, card)
    attached = interfaces_of(region, instance["InstanceId"])
    check_count(type_name, len(attached) + 1)
    check_traffic(type_name, (each["NetworkInterfaceTrafficMode"] for each in (*attached, nic)))
    hold(region, nic, instance["InstanceId"], card=card, status="Attaching")
    return {}


def detach_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DetachNetworkInterface: an eRDMA interface only while the instance is stopped (code UNVERIFIED)."""
    nic, instance = _interface(region, parameters), _instance(region, parameters)
    if nic["Type"] == "Primary":
        text = "Detaching the primary interface of an instance is not allowed."
        raise AlibabaError("InvalidOperation.DetachPrimaryEniNotAllowed", text)
    if nic["Status"] != "InUse" or nic["InstanceId"] != instance["InstanceId"]:
        raise _wrong_interface_state(nic, "InUse")
    if nic["NetworkInterfaceTrafficMode"] == ERDMA and instance["Status"] != "Stopped":
        raise _wrong_instance_state()
    let_loose(region, nic)
    return {}


def delete_interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteNetworkInterface: what is not there is no error."""
    nic = region.all("nic").get(parameters["NetworkInterfaceId"])
    if nic is not None and nic["Status"] != "Available":
        raise _wrong_interface_state(nic, "Available")
    region.drop("nic", parameters["NetworkInterfaceId"])
    return {}


def describe_interfaces(region: Region, parameters: Mapping[str, Any]) -> Document:
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


def _interface(region: Region, parameters: Mapping[str, Any]) -> Document:
    nic = region.all("nic").get(parameters["NetworkInterfaceId"])
    if nic is None:
        raise AlibabaError("InvalidEniId.NotFound", "The specified EniId is not found.", 404)
    return nic


def _instance(region: Region, parameters: Mapping[str, Any]) -> Document:
    """The instance of a call about interfaces, which has codes of its own."""
    instance = region.all("instance").get(parameters["InstanceId"])
    if instance is None or not alive(instance):
        raise AlibabaError("InvalidEcsId.NotFound", "The specified EcsId is not found.", 404)
    if instance["Status"] not in {"Running", "Stopped"}:
        raise _wrong_instance_state()
    return instance


def _wrong_instance_state() -> AlibabaError:
    text = "The operation is not allowed in the current ECS state."
    return AlibabaError("InvalidOperation.InvalidEcsState", text)


def _wrong_interface_state(nic: Document, wanted: str) -> AlibabaError:
    text = f"The interface is {nic['Status']}, not {wanted}."
    return AlibabaError("InvalidOperation.InvalidEniState", text)
