"""RunInstances: what it checks, in EC2's order, and what it makes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.addresses import NoAddressError
from gpucloud.sandbox.database import Document
from gpucloud.sandbox.ledger import Entry
from gpucloud.sandbox.market import InstanceType
from gpucloud_aws.sandbox.boxes import boot
from gpucloud_aws.sandbox.groups import default_group, find_group
from gpucloud_aws.sandbox.images import Image, find_image
from gpucloud_aws.sandbox.instances import PENDING, alive, in_use, show
from gpucloud_aws.sandbox.quotas import check_quota
from gpucloud_aws.sandbox.region import ACCOUNT, CLOUD, Region, tags_of
from gpucloud_aws.sandbox.reservations import find_reservation
from gpucloud_aws.sandbox.review import review_launch
from gpucloud_aws.sandbox.spot import new_request
from gpucloud_aws.sandbox.tags import tags_for
from gpucloud_aws.sandbox.wire import AwsError

USER_DATA_LIMIT = 16384
"""Bytes before base64 (EC2 user guide, "Add user data")."""

_DISK_GIB = {"gp2": (1, 16384), "gp3": (1, 65536), "io1": (4, 16384), "io2": (4, 65536)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be launched, all checked."""

    parameters: Mapping[str, Any]
    type: InstanceType
    image: Image
    zone: str
    purchase: str
    count: int
    price: Decimal
    groups: list[Document]
    public: bool
    interfaces: int
    reservation: Document | None
    user_data: str
    max_price: str


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
    order = _order(region, parameters)
    if parameters.get("DryRun"):
        raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    reservation_id = region.new_id("r")
    instances = [_make(region, order, reservation_id, index) for index in range(order.count)]
    if token is not None:
        ids = [instance["InstanceId"] for instance in instances]
        region.put("token", {"_token": token, "_digest": digest, "_instances": ids, "_reservation": reservation_id})
    return _answer(region, reservation_id, instances)


def _repeated(region: Region, token: str, digest: str) -> Document | None:
    """What an earlier call with this token made; ``None`` if there was none."""
    known = region.all("token").get(token)
    if known is None:
        return None
    if known["_digest"] != digest:
        raise AwsError(
            "IdempotentParameterMismatch",
            "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
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
    """A hash of what must not change under one token: everything but the zone (EC2, "Ensuring idempotency")."""
    placement = {k: v for k, v in (parameters.get("Placement") or {}).items() if k != "AvailabilityZone"}
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


def _order(region: Region, parameters: Mapping[str, Any]) -> Order:
    least, most = parameters["MinCount"], parameters["MaxCount"]
    if not 1 <= least <= most:
        text = f"Value ({least}-{most}) for parameters minCount and maxCount is invalid."
        raise AwsError("InvalidParameterValue", text)
    for name in ("ImageId", "InstanceType"):
        if name not in parameters:
            raise AwsError("MissingParameter", f"The request must contain the parameter {name}")
    name = parameters["InstanceType"]
    type_ = region.type_of(name)
    if type_ is None:
        raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    image = find_image(region, parameters["ImageId"])
    if image.arch != type_.arch:
        raise AwsError(
            "InvalidParameterValue",
            f"The architecture '{type_.arch}' of the specified instance type does not match "
            f"the architecture '{image.arch}' of the specified AMI.",
        )
    _check_disks(parameters, image)
    review_launch(parameters, image.root_device)
    user_data = _user_data(parameters.get("UserData"))
    groups, subnet, public, interfaces = _network(region, parameters)
    purchase, max_price = _purchase(parameters)
    zone = _zone(region, parameters, subnet, purchase)
    reservation = find_reservation(region, parameters, zone, least)
    price = _price(region, name, zone, purchase, max_price)
    if reservation is not None:
        most = min(most, reservation["AvailableInstanceCount"])
        if reservation["ReservationType"] == "capacity-block":
            price = Decimal(0)  # paid in advance
    check_quota(region, type_, purchase, least)
    count = most if reservation is not None else _available(region, name, zone, purchase, least, most)
    return Order(
        parameters=parameters,
        type=type_,
        image=image,
        zone=zone,
        purchase=purchase,
        count=count,
        price=price,
        groups=groups,
        public=public,
        interfaces=interfaces,
        reservation=reservation,
        user_data=user_data,
        max_price=max_price or format(price, "f"),
    )


def _check_disks(parameters: Mapping[str, Any], image: Image) -> None:
    for each in parameters.get("BlockDeviceMappings") or ():
        disk = each.get("Ebs")
        if disk is None:
            continue
        root = each.get("DeviceName") == image.root_device
        kind = disk.get("VolumeType", "gp3")
        size = disk.get("VolumeSize", image.root_gib if root else None)
        if kind not in _DISK_GIB:
            raise AwsError("InvalidParameterValue", f"Invalid volume type {kind}: the sandbox has {list(_DISK_GIB)}")
        if size is None:
            raise AwsError("MissingParameter", "The request must contain the parameter size or snapshotId")
        low, high = _DISK_GIB[kind]
        if not low <= size <= high:
            raise AwsError("InvalidParameterValue", f"Volume of {size}GiB is invalid; must be in [{low}, {high}]")
        if root and size < image.root_gib:
            text = f"Volume of size {size}GB is smaller than snapshot, expect size >= {image.root_gib}GB"
            raise AwsError("InvalidBlockDeviceMapping", text)


def _user_data(encoded: str | None) -> str:
    try:
        raw = base64.b64decode(encoded or "", validate=True)
    except binascii.Error:
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(raw) > USER_DATA_LIMIT:
        raise AwsError("InvalidParameterValue", f"User data is limited to {USER_DATA_LIMIT} bytes")
    return encoded or ""


def _network(region: Region, parameters: Mapping[str, Any]) -> tuple[list[Document], str | None, bool, int]:
    """The groups, the subnet, whether there is to be a public address, and how many interfaces."""
    interfaces = parameters.get("NetworkInterfaces") or []
    top = [key for key in ("SubnetId", "SecurityGroupIds", "SecurityGroups") if parameters.get(key)]
    if interfaces and top:
        text = "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request"
        raise AwsError("InvalidParameterCombination", text)
    if len(interfaces) > 1 and any("AssociatePublicIpAddress" in each for each in interfaces):
        text = "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces."
        raise AwsError("InvalidParameterCombination", text)
    if parameters.get("SecurityGroups"):
        raise AwsError("InvalidParameterValue", "The sandbox takes security groups by id only")
    primary = next((each for each in interfaces if each.get("DeviceIndex", 0) == 0), {})
    if interfaces and not primary:
        raise AwsError("InvalidParameterValue", "A network interface with device index 0 is needed")
    ids = primary.get("Groups") if interfaces else parameters.get("SecurityGroupIds")
    groups = [find_group(region, id_) for id_ in ids] if ids else [default_group(region)]
    subnet = primary.get("SubnetId") if interfaces else parameters.get("SubnetId")
    public = primary.get("AssociatePublicIpAddress", True) and len(interfaces) <= 1
    return groups, subnet, public, max(1, len(interfaces))


def _purchase(parameters: Mapping[str, Any]) -> tuple[str, str | None]:
    """The way of paying, in the market's terms, and the price ceiling that was named."""
    market = parameters.get("InstanceMarketOptions") or {}
    match market.get("MarketType"):
        case "spot":
            return "spot", (market.get("SpotOptions") or {}).get("MaxPrice")
        case "capacity-block":
            return "capacity_block", None
        case None:
            return "on_demand", None
        case other:
            raise AwsError("InvalidParameterValue", f"The sandbox has no market type {other}")


def _zone(region: Region, parameters: Mapping[str, Any], subnet: str | None, purchase: str) -> str:
    """The zone's name: what the caller says, or else the first that can."""
    name = parameters["InstanceType"]
    named = (parameters.get("Placement") or {}).get("AvailabilityZone")
    if subnet is not None:
        zone = region.zone_of_subnet(subnet)
        if zone is None:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist")
        if named not in {None, zone}:
            text = "The parameter availabilityZone does not fit the zone of the subnet"
            raise AwsError("InvalidParameterCombination", text)
        named = zone
    if named is not None and named not in region.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{named}]")
    offering = [zone for zone, id_ in region.zones.items() if region.offers(name, id_)]
    if named is None and offering:
        open_ = (zone for zone in offering if _free(region, name, zone, purchase) != 0)
        return next(open_, offering[0])
    if named is None or named not in offering:
        others = f" or choosing {', '.join(offering)}" if offering else ""
        raise AwsError(
            "Unsupported",
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({named}). "
            f"Please retry your request by not specifying an Availability Zone{others}.",
        )
    return str(named)


def _price(region: Region, name: str, zone: str, purchase: str, max_price: str | None) -> Decimal:
    market = region.world.market
    on_demand = market.price(CLOUD, region.name, "", name, "on_demand")
    if purchase != "spot":
        if on_demand is None and purchase == "on_demand":
            raise AwsError("Unsupported", f"The instance type {name} is not sold on demand in {region.name}.")
        return on_demand.amount if on_demand else Decimal(0)
    spot = market.price(CLOUD, region.name, region.zones[zone], name, "spot")
    if spot is None:
        raise AwsError("InsufficientInstanceCapacity", _NO_SPOT, 500)
    try:
        ceiling = Decimal(max_price) if max_price else on_demand.amount if on_demand else spot.amount
    except ArithmeticError:
        raise AwsError("InvalidParameterValue", f"Invalid value '{max_price}' for spot price.") from None
    if spot.amount > ceiling:
        raise AwsError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {ceiling} is lower than the minimum required "
            f"Spot request fulfillment price of {spot.amount}.",
        )
    return spot.amount


_NO_SPOT = "There is no Spot capacity available that matches your request."


def _free(region: Region, name: str, zone: str, purchase: str) -> int | None:
    limit = region.world.market.limit(CLOUD, region.name, region.zones[zone], name, purchase)
    return None if limit is None else max(0, limit - in_use(region, zone, name, purchase))


def _available(region: Region, name: str, zone: str, purchase: str, least: int, most: int) -> int:
    free = _free(region, name, zone, purchase)
    if free is None or free >= most:
        return most
    if free >= least:
        return free
    others = [
        other
        for other, id_ in region.zones.items()
        if other != zone and region.offers(name, id_) and _free(region, name, other, purchase) != 0
    ]
    choice = f" or choosing {', '.join(others)}" if others else ""
    text = (
        f"We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone}). "
        f"Our system will be working on provisioning additional capacity. You can currently get {name} capacity "
        f"by not specifying an Availability Zone in your request{choice}."
    )
    raise AwsError("InsufficientInstanceCapacity", _NO_SPOT if purchase == "spot" else text, 500)


def _make(region: Region, order: Order, reservation_id: str, index: int) -> Document:
    parameters = order.parameters
    world = region.world
    id_ = region.new_id("i")
    tags = tags_for(parameters, "instance")
    ip = _private_ip(region, order.zone)
    host = f"ip-{ip.replace('.', '-')}.ec2.internal"
    transition = world.dials.pace.transition_s
    instance: Document = {
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
            "GroupName": (parameters.get("Placement") or {}).get("GroupName", ""),
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
        "PrivateDnsName": host,
        "SourceDestCheck": True,
        "SecurityGroups": [_group_name(group) for group in order.groups],
        "CpuOptions": {"CoreCount": max(1, order.type.vcpus // 2), "ThreadsPerCore": min(2, order.type.vcpus)},
        "MetadataOptions": {
            "State": "applied",
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "InstanceMetadataTags": "disabled",
            **parameters["MetadataOptions"],
        },
        "CapacityReservationSpecification": parameters.get("CapacityReservationSpecification")
        or {"CapacityReservationPreference": "open"},
        "Tags": tags,
        "_order": len(region.all("instance")),
        "_reservation": reservation_id,
        "_purchase": order.purchase,
        "_shutdown_behavior": "terminate",
        "_protected": parameters.get("DisableApiTermination", False),
        "_user_data": order.user_data,
        "_driver": order.image.driver,
        "_running_at": region.later(transition),
        "_visible_at": region.later(world.dials.pace.lag_s),
        "_hidden_reads": world.dials.pace.lag_calls,
    }
    if order.public:
        try:
            instance["_public_ip"] = world.addresses.take(id_, but=world.dials.caller_address)
        except NoAddressError:
            text = "Not enough available addresses to satisfy the requested operation."
            raise AwsError("InsufficientAddressCapacity", text) from None
    if order.purchase == "spot":
        instance["InstanceLifecycle"] = "spot"
        instance["SpotInstanceRequestId"] = new_request(region, parameters, instance, order.max_price)
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
        price = region.world.market.disk_price(CLOUD, region.name, volume["Size"])
        _born(region, "disk", volume["VolumeId"], price, tags_of(volume), order)
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
    wanted = order.parameters.get("NetworkInterfaces") or [{}]
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
    at = next(
        (f"172.31.{base + number // 256}.{number % 256}" for number in range(4, 4091)
         if f"172.31.{base + number // 256}.{number % 256}" not in used),
        None,
    )
    if at is None:
        text = "There are not enough free addresses in the subnet to satisfy the requested number of instances."
        raise AwsError("InsufficientFreeAddressesInSubnet", text)
    return at


def _group_name(group: Document) -> Document:
    return {"GroupId": group["GroupId"], "GroupName": group["GroupName"]}


def _bill(region: Region, instance: Document, order: Order) -> None:
    tags = tags_of(instance)
    _born(region, "instance", instance["InstanceId"], order.price, tags, order)
    if order.public:
        price = region.world.market.address_price(CLOUD, region.name)
        _born(region, "address", instance["_public_ip"], price, tags, order)


def _born(region: Region, kind: str, id_: str, price: Decimal, tags: Mapping[str, str], order: Order) -> None:
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


