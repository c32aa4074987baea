"""RunInstances: its client token, and what it makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.addresses import NoAddressError
from gpucloud.sandbox.database import Document
from gpucloud.sandbox.ledger import Entry
from gpucloud_aws.sandbox.boxes import boot
from gpucloud_aws.sandbox.instances import PENDING, alive, show
from gpucloud_aws.sandbox.order import Order, read_order
from gpucloud_aws.sandbox.region import ACCOUNT, CLOUD, Region, tags_of
from gpucloud_aws.sandbox.spot import new_request
from gpucloud_aws.sandbox.tags import tags_for
from gpucloud_aws.sandbox.wire import AwsError, part


def run_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RunInstances."""
    token = parameters.get("ClientToken")
    digest = _digest(parameters)
    if token is not None:
        if not (1 <= len(token) <= 64 and token.isascii()):
            raise AwsError("InvalidParameterValue", f"Value ({token}) for parameter clientToken is invalid.")
        before = _repeated(region, token, digest)
        if before is not None:
            return before
    order = read_order(region, parameters)
    if parameters.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    reservation_id = region.new_id("r")
    instances = [_make(region, order, reservation_id, index) for index in range(order.count)]
    if token is not None:
        ids = [instance["InstanceId"] for instance in instances]
        region.put(
            "token", {"_token": token, "_digest": digest, "_instances": ids, "_reservation": reservation_id}
        )
    return _answer(region, reservation_id, instances)


def _repeated(region: Region, token: str, digest: str) -> Document | None:
    """What an earlier call with this token made; ``None`` if there was none."""
    known = region.all("token").get(token)
    if known is None:
        return None
    if known["_digest"] != digest:
        raise AwsError(
            "IdempotentParameterMismatch",
            "Arguments on this idempotent request are inconsistent with arguments used in previous "
            "request(s).",
        )
    instances = [region.all("instance").get(id_) for id_ in known["_instances"]]
    standing = [each for each in instances if each is not None and alive(each)]
    if len(standing) < len(instances):
        raise AwsError(
            "IdempotentInstanceTerminated",
            "The instance that was launched with this client token has been terminated.",
        )
    return _answer(region, known["_reservation"], standing)


def _digest(parameters: Mapping[str, Any]) -> str:
    """A hash of what must not change under one token: all but the zone (EC2, "Ensuring idempotency")."""
    placement = {k: v for k, v in part(parameters, "Placement").items() if k != "AvailabilityZone"}
    relevant = {**parameters, "Placement": placement}
    for key in ("ClientToken", "DryRun"):
        relevant.pop(key, None)
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()


def _answer(region: Region, reservation_id: str, instances: list[Document]) -> Document:
    return {
        "ReservationId": reservation_id,
        "OwnerId": ACCOUNT,
        "Groups": [],
        "Instances": [show(region, instance) for instance in instances],
    }


def _make(region: Region, order: Order, reservation_id: str, index: int) -> Document:
    id_, world = region.new_id("i"), region.world
    instance = _instance(region, order, id_, index) | _unseen(region, order, reservation_id)
    if order.public:
        try:
            instance["_public_ip"] = world.addresses.take(id_, but=world.dials.caller_address)
        except NoAddressError:
            text = "Not enough available addresses to satisfy the requested operation."
            raise AwsError("InsufficientAddressCapacity", text) from None
    if order.purchase == "spot":
        instance["InstanceLifecycle"] = "spot"
        instance["SpotInstanceRequestId"] = new_request(region, order.parameters, instance, order.max_price)
    elif order.purchase == "capacity_block":
        instance["InstanceLifecycle"] = "capacity-block"
    if order.reservation is not None:
        instance["CapacityReservationId"] = order.reservation["CapacityReservationId"]
    instance["BlockDeviceMappings"] = _make_disks(region, order, instance)
    instance["_interfaces"] = _make_interfaces(region, order, instance)
    region.put("instance", instance)
    _bill(region, instance, order)
    boot(region, instance)
    return instance


def _instance(region: Region, order: Order, id_: str, index: int) -> Document:
    """An instance as ``DescribeInstances`` shows it."""
    parameters, ip = order.parameters, _private_ip(region, order.zone)
    return {
        "InstanceId": id_,
        "ImageId": order.image.id_in(region.name),
        "State": PENDING,
        "StateReason": {"Code": "pending", "Message": "pending"},
        "StateTransitionReason": "",
        "AmiLaunchIndex": index,
        "ClientToken": parameters.get("ClientToken", ""),
        "InstanceType": order.type.name,
        "LaunchTime": region.stamp,
        "Placement": {
            "AvailabilityZone": order.zone,
            "AvailabilityZoneId": region.zones[order.zone],
            "GroupName": part(parameters, "Placement").get("GroupName", ""),
            "Tenancy": "default",
        },
        "KeyName": parameters.get("KeyName"),
        "Monitoring": {"State": "disabled"},
        "Architecture": order.type.arch,
        "RootDeviceType": "ebs",
        "RootDeviceName": order.image.root_device,
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": True,
        "EbsOptimized": parameters.get("EbsOptimized", False),
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "SubnetId": region.subnet_id(order.zone),
        "VpcId": region.vpc_id,
        "PrivateIpAddress": ip,
        "PrivateDnsName": f"ip-{ip.replace('.', '-')}.ec2.internal",
        "SourceDestCheck": True,
        "SecurityGroups": [_group_name(group) for group in order.groups],
        "CpuOptions": {
            "CoreCount": max(1, order.type.vcpus // 2),
            "ThreadsPerCore": min(2, order.type.vcpus),
        },
        "MetadataOptions": {
            "State": "applied",
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "InstanceMetadataTags": "disabled",
            **parameters["MetadataOptions"],
        },
        "CapacityReservationSpecification": parameters.get("CapacityReservationSpecification")
        or {"CapacityReservationPreference": "open"},
        "Tags": tags_for(parameters, "instance"),
    }


def _unseen(region: Region, order: Order, reservation_id: str) -> Document:
    """What the emulator knows of an instance, and no answer shows."""
    pace = region.world.dials.pace
    return {
        "_order": len(region.all("instance")),
        "_reservation": reservation_id,
        "_purchase": order.purchase,
        "_shutdown_behavior": "terminate",
        "_protected": order.parameters.get("DisableApiTermination", False),
        "_user_data": order.user_data,
        "_driver": order.image.driver,
        "_running_at": region.later(pace.transition_s),
        "_visible_at": region.later(pace.lag_s),
        "_hidden_reads": pace.lag_calls,
    }


def _make_disks(region: Region, order: Order, instance: Document) -> list[Document]:
    mappings: list[Document] = []
    for each in order.parameters.get("BlockDeviceMappings") or ():
        disk = each.get("Ebs")
        if disk is None:
            continue
        root = each["DeviceName"] == order.image.root_device
        ends = disk.get("DeleteOnTermination", root)
        kind = disk.get("VolumeType", "gp3")
        volume: Document = {
            "VolumeId": region.new_id("vol"),
            "Size": disk.get("VolumeSize", order.image.root_gib),
            "VolumeType": kind,
            "Iops": disk.get("Iops", 3000),
            "Throughput": disk.get("Throughput", 125) if kind == "gp3" else None,
            "Encrypted": disk["Encrypted"],
            "KmsKeyId": f"arn:aws:kms:{region.name}:{ACCOUNT}:key/aws/ebs",
            "AvailabilityZone": order.zone,
            "AvailabilityZoneId": region.zones[order.zone],
            "State": "in-use",
            "CreateTime": region.stamp,
            "SnapshotId": "",
            "MultiAttachEnabled": False,
            "Tags": tags_for(order.parameters, "volume"),
            "Attachments": [
                {
                    "InstanceId": instance["InstanceId"],
                    "Device": each["DeviceName"],
                    "State": "attached",
                    "AttachTime": region.stamp,
                    "DeleteOnTermination": ends,
                }
            ],
        }
        volume["Attachments"][0]["VolumeId"] = volume["VolumeId"]
        region.put("volume", volume)
        price = region.world.market.disk_price(CLOUD, region.name, volume["Size"]).amount
        _born(region, "disk", volume["VolumeId"], price, tags=tags_of(volume), order=order)
        mappings.append(
            {
                "DeviceName": each["DeviceName"],
                "Ebs": {
                    "VolumeId": volume["VolumeId"],
                    "Status": "attached",
                    "AttachTime": region.stamp,
                    "DeleteOnTermination": ends,
                },
            }
        )
    return mappings


def _make_interfaces(region: Region, order: Order, instance: Document) -> list[str]:
    wanted: list[dict[str, Any]] = order.parameters.get("NetworkInterfaces") or [{}]
    ids: list[str] = []
    for index, each in enumerate(wanted):
        address = instance["PrivateIpAddress"] if index == 0 else _private_ip(region, order.zone)
        digits = hashlib.sha256(address.encode()).hexdigest()
        interface: Document = {
            "NetworkInterfaceId": region.new_id("eni"),
            "SubnetId": instance["SubnetId"],
            "VpcId": region.vpc_id,
            "AvailabilityZone": order.zone,
            "AvailabilityZoneId": region.zones[order.zone],
            "Description": each.get("Description", ""),
            "OwnerId": ACCOUNT,
            "RequesterManaged": False,
            "Status": "in-use",
            "MacAddress": ":".join(["02", *(digits[at : at + 2] for at in range(0, 10, 2))]),
            "PrivateIpAddress": address,
            "PrivateIpAddresses": [{"PrivateIpAddress": address, "Primary": True}],
            "SourceDestCheck": True,
            "Groups": [_group_name(group) for group in order.groups],
            "InterfaceType": each.get("InterfaceType", "interface"),
            "TagSet": tags_for(order.parameters, "network-interface"),
            "Attachment": {
                "AttachmentId": region.new_id("eni-attach"),
                "InstanceId": instance["InstanceId"],
                "InstanceOwnerId": ACCOUNT,
                "DeviceIndex": each.get("DeviceIndex", index),
                "NetworkCardIndex": each.get("NetworkCardIndex", 0),
                "Status": "attached",
                "AttachTime": region.stamp,
                "DeleteOnTermination": each.get("DeleteOnTermination", True),
            },
        }
        region.put("interface", interface)
        ids.append(interface["NetworkInterfaceId"])
    return ids


def _private_ip(region: Region, zone: str) -> str:
    base = int(region.subnet_block(zone).split(".")[2])
    used = {each["PrivateIpAddress"] for each in region.all("interface").values()}
    addresses = (f"172.31.{base + number // 256}.{number % 256}" for number in range(4, 4091))
    free = next((address for address in addresses if address not in used), None)
    if free is None:
        text = (
            "There are not enough free addresses in the subnet to satisfy the requested number of instances."
        )
        raise AwsError("InsufficientFreeAddressesInSubnet", text)
    return free


def _group_name(group: Document) -> Document:
    return {"GroupId": group["GroupId"], "GroupName": group["GroupName"]}


def _bill(region: Region, instance: Document, order: Order) -> None:
    tags = tags_of(instance)
    _born(region, "instance", instance["InstanceId"], order.price, tags=tags, order=order)
    if order.public:
        price = region.world.market.address_price(CLOUD, region.name).amount
        _born(region, "address", instance["_public_ip"], price, tags=tags, order=order)


def _born(
    region: Region, kind: str, id_: str, price: Decimal, *, tags: Mapping[str, str], order: Order
) -> None:
    entry = Entry(
        kind=kind,
        id=id_,
        cloud=CLOUD,
        region=region.name,
        zone=region.zones[order.zone],
        price=price,
        box=tags.get("gpucloud:box"),
        owner=tags.get("gpucloud:owner"),
        op=tags.get("gpucloud:op"),
        token=order.parameters.get("ClientToken"),
        tags=tags,
    )
    region.world.ledger.born(entry, region.now)
