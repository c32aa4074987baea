"""RunInstances: its client token, and what it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.addresses import NoAddressError
from gpucloud_sandbox.alibaba import bills, boxes
from gpucloud_sandbox.alibaba.disks import attach, make_disk
from gpucloud_sandbox.alibaba.interfaces import hold, make_interface
from gpucloud_sandbox.alibaba.order import Order, available, is_dry, read_order
from gpucloud_sandbox.alibaba.region import CLOUD, Region, ecs_tags, gpu_spec
from gpucloud_sandbox.alibaba.tokens import once, spend
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType

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
    instance["_private_ip"] = order.interfaces[0].addresses[index]
    if order.public:
        try:
            instance["_public_ip"] = world.addresses.take(id_, but=world.dials.caller_address)
        except NoAddressError:
            text = "There are no public addresses left in the zone."
            raise AlibabaError("InvalidOperation.PublicIpAddressNoStock", text, 403) from None
    region.put("instance", instance)
    _bill(region, order, instance)
    _make_disks(region, order, instance)
    _make_interfaces(region, order, instance, index)
    boxes.boot(region, instance)
    return id_


def _instance(region: Region, order: Order, id_: str, index: int) -> Document:
    """An instance as ``DescribeInstances`` shows it."""
    parameters, primary = order.parameters, order.interfaces[0]
    return {
        "InstanceId": id_,
        "InstanceName": _numbered(order, "InstanceName", id_, index),
        "Description": parameters.get("Description", ""),
        "HostName": _numbered(order, "HostName", f"iZ{id_[5:]}Z", index),
        "RegionId": region.name,
        "ZoneId": order.zone,
        "ImageId": order.image.id,
        **hardware(order.type),
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
        "DeletionProtection": true(parameters.get("DeletionProtection")),
        "SpotStrategy": parameters.get("SpotStrategy", "NoSpot"),
        "SpotDuration": int(parameters.get("SpotDuration", 1)),
        "SpotInterruptionBehavior": parameters.get("SpotInterruptionBehavior", "Terminate"),
        "KeyPairName": parameters.get("KeyPairName", ""),
        "SecurityGroupIds": {"SecurityGroupId": primary.groups},
        "VpcAttributes": {
            "VpcId": primary.vswitch["VpcId"],
            "VSwitchId": primary.vswitch["VSwitchId"],
            "NatIpAddress": "",
            "PrivateIpAddress": {"IpAddress": [primary.addresses[index]]},
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
        "DeploymentSetId": order.place.set_id,
        "DeploymentSetGroupNo": order.place.group,
        "Tags": ecs_tags(order.tags),
    }


def hardware(type_: InstanceType) -> Document:
    """What an instance shows of its type."""
    return {
        "InstanceType": type_.name,
        "InstanceTypeFamily": type_.name.rpartition(".")[0],
        "Cpu": type_.vcpus,
        "Memory": int(type_.memory_gib * 1024),
        "GPUSpec": gpu_spec(type_),
        "GPUAmount": type_.whole_gpus,
    }


def _numbered(order: Order, member: str, unnamed: str, index: int) -> str:
    """A name of an instance, with its number where several are to have one each."""
    name = order.parameters.get(member)
    if not name:
        return unnamed
    return (
        f"{name}{index + 1:03d}" if order.count > 1 and true(order.parameters.get("UniqueSuffix")) else name
    )


def _unseen(region: Region, order: Order) -> Document:
    """What the emulator knows of an instance, and no answer shows."""
    world = region.world
    vanishing = order.type.name in (world.database.setting(VANISHING) or ())
    return {
        "_token": order.parameters.get("ClientToken", ""),
        "_purchase": order.purchase,
        "_pool": order.pool["PrivatePoolOptionsId"] if order.pool else "",
        "_user_data": order.user_data,
        "_public_key": order.public_key,
        "_driver": order.image.driver,
        "_running_at": region.later(world.dials.pace.transition_s),
        "_visible_at": region.later(world.dials.pace.lag_s),
        "_hidden_reads": world.dials.pace.lag_calls,
        "_gone_at": None,
        "_vanishes_at": region.later(VANISHES_AFTER_S) if vanishing else None,
        "_interrupted_at": None,
    }


def _make_disks(region: Region, order: Order, instance: Document) -> None:
    """The disks; all carry the instance's tags."""
    about: dict[str, Any] = {
        "zone": order.zone,
        "tags": order.tags,
        "token": order.parameters.get("ClientToken", ""),
    }
    made = [make_disk(region, order.system_disk, image=order.image, **about)]
    made += [make_disk(region, disk, **about) for disk in order.data_disks]
    for disk in made:
        attach(region, disk, instance["InstanceId"])


def _make_interfaces(region: Region, order: Order, instance: Document, index: int) -> None:
    """The interfaces; only the primary one carries the instance's tags."""
    for number, wanted in enumerate(order.interfaces):
        primary = number == 0
        nic = make_interface(region, wanted, index, order.tags if primary else {}, primary=primary)
        hold(region, nic, instance["InstanceId"], card=wanted.card)


def _bill(region: Region, order: Order, instance: Document) -> None:
    about: dict[str, Any] = {
        "tags": order.tags,
        "zone": order.zone,
        "token": order.parameters.get("ClientToken", ""),
    }
    bills.begin(region, "instance", instance["InstanceId"], order.price, **about)
    if address := instance.get("_public_ip"):
        bills.begin(
            region, "address", address, region.world.market.address_price(CLOUD, region.name), **about
        )
