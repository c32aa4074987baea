"""What a launch asks for, checked in EC2's order: parameters, network, zone, price, quota, capacity."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud.sandbox.market import InstanceType
from gpucloud_aws.sandbox.groups import default_group, find_group
from gpucloud_aws.sandbox.images import Image, find_image
from gpucloud_aws.sandbox.instances import in_use
from gpucloud_aws.sandbox.quotas import check_quota
from gpucloud_aws.sandbox.region import CLOUD, Region
from gpucloud_aws.sandbox.reservations import find_reservation
from gpucloud_aws.sandbox.review import review_launch
from gpucloud_aws.sandbox.tags import tags_for
from gpucloud_aws.sandbox.wire import AwsError, part

USER_DATA_LIMIT = 16384
"""Bytes before base64 (EC2 user guide, "Add user data")."""

_METADATA_TAG = re.compile(r"[\w+\-=.,:@]{1,128}", re.ASCII)

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


def read_order(region: Region, parameters: Mapping[str, Any]) -> Order:
    """Checks the parameters of RunInstances.

    Raises:
        AwsError: EC2, or the sandbox's reviewer, would refuse.
    """
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
    _check_metadata_tags(parameters)
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
    if reservation is None:
        most = _available(region, name, zone, purchase, least=least, most=most)
    return Order(
        parameters=parameters,
        type=type_,
        image=image,
        zone=zone,
        purchase=purchase,
        count=most,
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
            raise AwsError("InvalidParameterValue", f"Invalid volume type {kind}")
        if size is None:
            raise AwsError("MissingParameter", "The request must contain the parameter size or snapshotId")
        low, high = _DISK_GIB[kind]
        if not low <= size <= high:
            raise AwsError("InvalidParameterValue", f"Volume of {size}GiB: must be in [{low}, {high}]")
        if root and size < image.root_gib:
            text = f"Volume of size {size}GB is smaller than snapshot, expect size >= {image.root_gib}GB"
            raise AwsError("InvalidBlockDeviceMapping", text)


def _check_metadata_tags(parameters: Mapping[str, Any]) -> None:
    """Tags that the metadata shows have stricter names (EC2 user guide, "View tags in metadata")."""
    if part(parameters, "MetadataOptions").get("InstanceMetadataTags") != "enabled":
        return
    for tag in tags_for(parameters, "instance"):
        if not _METADATA_TAG.fullmatch(tag["Key"]) or tag["Key"] in {".", "..", "_index"}:
            text = f"'{tag['Key']}' is not a valid key of a tag in instance metadata"
            raise AwsError("InvalidParameterValue", text)


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
    interfaces: list[dict[str, Any]] = parameters.get("NetworkInterfaces") or []
    top = [key for key in ("SubnetId", "SecurityGroupIds", "SecurityGroups") if parameters.get(key)]
    if interfaces and top:
        text = (
            "Network interfaces and an instance-level subnet ID or security groups may not be specified "
            "on the same request"
        )
        raise AwsError("InvalidParameterCombination", text)
    if len(interfaces) > 1 and any("AssociatePublicIpAddress" in each for each in interfaces):
        text = (
            "The associatePublicIPAddress parameter cannot be specified when launching with "
            "multiple network interfaces."
        )
        raise AwsError("InvalidParameterCombination", text)
    if parameters.get("SecurityGroups"):
        raise AwsError("InvalidParameterValue", "The sandbox takes security groups by id only")
    first = (each for each in interfaces if each.get("DeviceIndex", 0) == 0)
    primary = next(first, dict[str, Any]())
    if interfaces and not primary:
        raise AwsError("InvalidParameterValue", "A network interface with device index 0 is needed")
    ids = primary.get("Groups") if interfaces else parameters.get("SecurityGroupIds")
    groups = [find_group(region, id_) for id_ in ids] if ids else [default_group(region)]
    subnet = primary.get("SubnetId") if interfaces else parameters.get("SubnetId")
    public = primary.get("AssociatePublicIpAddress", True) and len(interfaces) <= 1
    return groups, subnet, public, max(1, len(interfaces))


def _purchase(parameters: Mapping[str, Any]) -> tuple[str, str | None]:
    """The way of paying, in the market's terms, and the price ceiling that was named."""
    market = part(parameters, "InstanceMarketOptions")
    match market.get("MarketType"):
        case "spot":
            return "spot", part(market, "SpotOptions").get("MaxPrice")
        case "capacity-block":
            return "capacity_block", None
        case None:
            return "on_demand", None
        case other:
            raise AwsError("InvalidParameterValue", f"The sandbox has no market type {other}")


def _zone(region: Region, parameters: Mapping[str, Any], subnet: str | None, purchase: str) -> str:
    """The zone's name: what the caller says, or else the first that can."""
    name = parameters["InstanceType"]
    named = part(parameters, "Placement").get("AvailabilityZone")
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
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone "
            f"({named}). Please retry your request by not specifying an Availability Zone{others}.",
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


def _available(region: Region, name: str, zone: str, purchase: str, *, least: int, most: int) -> int:
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
        f"We currently do not have sufficient {name} capacity in the Availability Zone you requested "
        f"({zone}). Our system will be working on provisioning additional capacity. You can currently get "
        f"{name} capacity by not specifying an Availability Zone in your request{choice}."
    )
    raise AwsError("InsufficientInstanceCapacity", _NO_SPOT if purchase == "spot" else text, 500)
