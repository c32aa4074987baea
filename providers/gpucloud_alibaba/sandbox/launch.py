"""RunInstances: its client token, and what it makes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from gpucloud.sandbox.addresses import NoAddressError
from gpucloud.sandbox.database import Document
from gpucloud.sandbox.ledger import Entry
from gpucloud.sandbox.market import Price
from gpucloud_alibaba.sandbox import boxes
from gpucloud_alibaba.sandbox.network import free_address
from gpucloud_alibaba.sandbox.order import Order, available, is_dry, read_order
from gpucloud_alibaba.sandbox.region import CLOUD, Region, ecs_tags
from gpucloud_alibaba.sandbox.tokens import once, spend
from gpucloud_alibaba.sandbox.wire import AlibabaError

VANISHING = "alibaba_vanishing"
"""The setting that says for which types (globs) ids are given that come to nothing."""

VANISHES_AFTER_S = 2.0


def run_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RunInstances.

    Raises:
        KeptError: there is no stock; the token is spent.
    """

    def make() -> Document:
        order = read_order(region, parameters)
        if is_dry(parameters):
            raise AlibabaError("DryRunOperation", "Request validation has been passed with DryRun flag set.")
        count = available(region, order)
        made = [_make(region, order, index) for index in range(count)]
        return {
            "InstanceIdSets": {"InstanceIdSet": made},
            "OrderId": "",
            "TradePrice": float(order.price.amount * count),
        }

    try:
        return once(region, "RunInstances", parameters, make)
    except AlibabaError as failure:
        if failure.code == "OperationDenied.NoStock" and not is_dry(parameters):
            spend(region, "RunInstances", parameters, failure)
            raise KeptError(failure.code, failure.message, failure.status) from failure
        raise


class KeptError(AlibabaError):
    """A refusal that nevertheless changed something, which is kept."""


def _make(region: Region, order: Order, index: int) -> str:
    id_, world = region.new_id("instance"), region.world
    instance = _instance(region, order, id_, index) | _unseen(region, order)
    [instance["_private_ip"]] = instance["VpcAttributes"]["PrivateIpAddress"]["IpAddress"]
    if order.public:
        try:
            instance["_public_ip"] = world.addresses.take(id_, but=world.dials.caller_address)
        except NoAddressError:
            text = "There are no public addresses left in the zone."
            raise AlibabaError("InvalidOperation.PublicIpAddressNoStock", text, 403) from None
    _make_parts(region, order, instance)
    region.put("instance", instance)
    _bill(region, order, instance)
    boxes.boot(region, instance)
    return id_


def _instance(region: Region, order: Order, id_: str, index: int) -> Document:
    """An instance as ``DescribeInstances`` shows it."""
    parameters = order.parameters
    return {
        "InstanceId": id_,
        "InstanceName": _name(order, id_, index),
        "Description": parameters.get("Description", ""),
        "HostName": parameters.get("HostName", f"iZ{id_[5:]}Z"),
        "RegionId": region.name,
        "ZoneId": order.zone,
        "ImageId": order.image.id,
        "InstanceType": order.type.name,
        "InstanceTypeFamily": order.type.name.rpartition(".")[0],
        "Cpu": order.type.vcpus,
        "Memory": int(order.type.memory_gib * 1024),
        "GPUSpec": f"NVIDIA {order.type.gpu_model}",
        "GPUAmount": order.type.whole_gpus,
        "Status": "Pending",
        "OSName": order.image.os,
        "OSType": "linux",
        "CreationTime": region.minute,
        "StartTime": "",
        "AutoReleaseTime": order.release_at or "",
        "ExpiredTime": "2099-12-31T15:59Z",
        "InstanceChargeType": "PostPaid",
        "InternetChargeType": parameters.get("InternetChargeType", "PayByTraffic"),
        "InternetMaxBandwidthOut": int(parameters.get("InternetMaxBandwidthOut", 0)),
        "InternetMaxBandwidthIn": 100,
        "InstanceNetworkType": "vpc",
        "IoOptimized": True,
        "StoppedMode": "Not-applicable",
        "DeletionProtection": str(parameters.get("DeletionProtection")).lower() == "true",
        "SpotStrategy": parameters.get("SpotStrategy", "NoSpot"),
        "SpotDuration": int(parameters.get("SpotDuration", 1)),
        "SpotInterruptionBehavior": parameters.get("SpotInterruptionBehavior", "Terminate"),
        "KeyPairName": parameters.get("KeyPairName", ""),
        "SecurityGroupIds": {"SecurityGroupId": order.groups},
        "VpcAttributes": {
            "VpcId": order.vswitch["VpcId"],
            "VSwitchId": order.vswitch["VSwitchId"],
            "NatIpAddress": "",
            "PrivateIpAddress": {"IpAddress": [free_address(region, order.vswitch)]},
        },
        "EipAddress": {"AllocationId": "", "IpAddress": "", "InternetChargeType": ""},
        "InnerIpAddress": {"IpAddress": []},
        "RdmaIpAddress": {"IpAddress": []},
        "OperationLocks": {"LockReason": []},
        "MetadataOptions": {
            "HttpEndpoint": parameters.get("HttpEndpoint", "enabled"),
            "HttpTokens": parameters.get("HttpTokens", "optional"),
            "HttpPutResponseHopLimit": int(parameters.get("HttpPutResponseHopLimit", 1)),
        },
        "EcsCapacityReservationAttr": {
            "CapacityReservationId": order.pool["PrivatePoolOptionsId"] if order.pool else "",
            "CapacityReservationPreference": "",
        },
        "Tags": ecs_tags(order.tags),
    }


def _name(order: Order, id_: str, index: int) -> str:
    name = str(order.parameters.get("InstanceName", id_))
    numbered = order.count > 1 and str(order.parameters.get("UniqueSuffix")).lower() == "true"
    return f"{name}{index + 1:03d}" if numbered else name


def _unseen(region: Region, order: Order) -> Document:
    """What the emulator knows of an instance, and no answer shows."""
    world = region.world
    vanishing = order.type.name in (world.database.setting(VANISHING) or ())
    return {
        "_token": order.parameters.get("ClientToken", ""),
        "_purchase": order.purchase,
        "_pool": order.pool["PrivatePoolOptionsId"] if order.pool else "",
        "_user_data": order.user_data,
        "_driver": order.image.driver,
        "_running_at": region.later(world.dials.pace.transition_s),
        "_visible_at": region.later(world.dials.pace.lag_s),
        "_hidden_reads": world.dials.pace.lag_calls,
        "_gone_at": None,
        "_vanishes_at": region.later(VANISHES_AFTER_S) if vanishing else None,
        "_interrupted_at": None,
        "_billed": str(order.price.amount),
        "_currency": order.price.currency,
    }


def _make_parts(region: Region, order: Order, instance: Document) -> None:
    """The root disk and the primary interface; both carry the instance's tags."""
    disk: Mapping[str, Any] = order.parameters.get("SystemDisk") or {}
    region.put(
        "disk",
        {
            "DiskId": region.new_id("disk"),
            "DiskName": disk.get("DiskName", ""),
            "Type": "system",
            "Category": disk.get("Category", "cloud_essd"),
            "PerformanceLevel": disk.get("PerformanceLevel", "PL1"),
            "Size": order.disk_gib,
            "Encrypted": True,
            "KMSKeyId": "",
            "RegionId": region.name,
            "ZoneId": order.zone,
            "Status": "In_use",
            "InstanceId": instance["InstanceId"],
            "Device": "/dev/xvda",
            "DeleteWithInstance": True,
            "Portable": False,
            "DiskChargeType": "PostPaid",
            "CreationTime": region.second,
            "Tags": ecs_tags(order.tags),
        },
    )
    address = instance["_private_ip"]
    digits = hashlib.sha256(address.encode()).hexdigest()
    region.put(
        "nic",
        {
            "NetworkInterfaceId": region.new_id("nic"),
            "NetworkInterfaceName": "",
            "Type": "Primary",
            "Status": "InUse",
            "InstanceId": instance["InstanceId"],
            "VpcId": order.vswitch["VpcId"],
            "VSwitchId": order.vswitch["VSwitchId"],
            "ZoneId": order.zone,
            "PrivateIpAddress": address,
            "MacAddress": ":".join(["00", "16", *(digits[at : at + 2] for at in range(0, 8, 2))]),
            "SecurityGroupIds": {"SecurityGroupId": order.groups},
            "CreationTime": region.second,
            "DeleteOnRelease": True,
            "Tags": ecs_tags(order.tags),
        },
    )


def _bill(region: Region, order: Order, instance: Document) -> None:
    market = region.world.market
    own = order.price
    _born(region, order, "instance", instance["InstanceId"], own)
    for disk in region.all("disk").values():
        if disk["InstanceId"] == instance["InstanceId"]:
            _born(
                region,
                order,
                "disk",
                disk["DiskId"],
                market.disk_price(CLOUD, region.name, disk["Size"]),
            )
    if address := instance.get("_public_ip"):
        _born(region, order, "address", address, market.address_price(CLOUD, region.name))


def _born(region: Region, order: Order, kind: str, id_: str, price: Price) -> None:
    tags = order.tags
    entry = Entry(
        kind=kind,
        id=id_,
        cloud=CLOUD,
        region=region.name,
        zone=order.zone,
        price=price.amount,
        currency=price.currency,
        box=tags.get("gpucloud:box"),
        owner=tags.get("gpucloud:owner"),
        op=tags.get("gpucloud:op"),
        token=order.parameters.get("ClientToken"),
        tags=tags,
    )
    region.world.ledger.born(entry, region.now)
