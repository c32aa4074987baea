"""Disks and interfaces: what an instance is made of, and what may be left of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_alibaba.sandbox.region import CLOUD, Region, has_tags, page, shown
from gpucloud_alibaba.sandbox.wire import AlibabaError, json_list


def describe_disks(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeDisks."""
    ids = json_list(parameters.get("DiskIds"), "DiskIds")
    found = [
        each
        for each in region.all("disk").values()
        if (ids is None or each["DiskId"] in ids)
        and all(
            parameters.get(name) in {None, each[name]}
            for name in ("InstanceId", "ZoneId", "Category", "Status")
        )
        and parameters.get("DiskType", "all") in {"all", each["Type"]}
        and has_tags(each, parameters)
    ]
    items, about = page(found, parameters)
    return {"Disks": {"Disk": [shown(each) for each in items]}, **about}


def delete_disk(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteDisk."""
    disk = region.all("disk").get(parameters["DiskId"])
    if disk is None:
        raise AlibabaError("InvalidDiskId.NotFound", "The specified disk does not exist.", 404)
    if disk["InstanceId"]:
        raise AlibabaError(
            "IncorrectDiskStatus", "The current disk status does not support this operation.", 403
        )
    region.drop("disk", disk["DiskId"])
    region.world.ledger.died(CLOUD, disk["DiskId"], region.now, "deleted")
    return {}


def describe_nics(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeNetworkInterfaces."""
    ids = parameters.get("NetworkInterfaceId")
    found = [
        each
        for each in region.all("nic").values()
        if (ids is None or each["NetworkInterfaceId"] in ids)
        and all(parameters.get(name) in {None, each[name]} for name in ("InstanceId", "VpcId", "VSwitchId"))
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
