"""Checks a launch in EC2's order: parameters, network, zone, price, quota, capacity."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.aws import moto_backend
from gpucloud_sandbox.aws.disks import Disk, read_disks
from gpucloud_sandbox.aws.hardware import hardware
from gpucloud_sandbox.aws.images import Image, check_available, find_image
from gpucloud_sandbox.aws.instances import in_use
from gpucloud_sandbox.aws.interfaces import EFA, Interface, check_address, read_interfaces, room
from gpucloud_sandbox.aws.parts import default_vpc, in_vpc
from gpucloud_sandbox.aws.placement import group_of_launch
from gpucloud_sandbox.aws.quotas import check_quota
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.reservations import find_reservation
from gpucloud_sandbox.aws.review import review_fabric, review_launch
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError, not_emulated, part
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType

USER_DATA_LIMIT = 16384
"""Bytes before base64 (EC2 user guide, "Add user data")."""

_METADATA_TAG = re.compile(r"[\w+\-=.,:@]{1,128}", re.ASCII)


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
    subnet: Document
    placement: Document | None
    interfaces: list[Interface]
    disks: list[Disk]
    profile: Document | None
    reservation: Document | None
    user_data: str
    max_price: str

    @property
    def public(self) -> bool:
        """Whether an instance gets a public address."""
        public = self.interfaces[0].public
        return len(self.interfaces) == 1 and (
            self.subnet["MapPublicIpOnLaunch"] if public is None else public
        )

    @property
    def token(self) -> str | None:
        """The client token."""
        token: str | None = self.parameters.get("ClientToken")
        return token


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
    _check_image(region, image, type_)
    disks = read_disks(region, parameters, image, name)
    review_launch(parameters, image.root_device)
    check_metadata(parameters)
    user_data = encoded_user_data(parameters.get("UserData"))
    _check_key(region, parameters.get("KeyName"))
    profile = _profile(part(parameters, "IamInstanceProfile"))
    interfaces = read_interfaces(region, parameters, name)
    review_fabric([of for each in interfaces if each.kind in EFA for of in each.groups])
    purchase, max_price = _purchase(parameters)
    zone, subnet = _place(region, parameters, interfaces, purchase)
    for each in interfaces:
        if each.address is not None and each.existing is None:
            check_address(region, subnet, each.address)
    most = room(region, subnet, interfaces, least, most)
    group, most = group_of_launch(region, parameters, zone, most)
    reservation = find_reservation(region, parameters, zone, least)
    price = current_price(region, name, zone, purchase, max_price)
    own = reservation is not None and "_billed" in reservation  # its instances count from its start
    if reservation is not None:
        most = min(most, reservation["AvailableInstanceCount"])
        if not own:
            price = Decimal(0)  # a block, or granted: paid for whether it is used or not
    check_quota(region, type_, purchase, 0 if own else least)
    if reservation is None:
        most = available(region, name, zone, purchase, least=least, most=most)
    return Order(
        parameters=parameters,
        type=type_,
        image=image,
        zone=zone,
        purchase=purchase,
        count=most,
        price=price,
        subnet=subnet,
        placement=group,
        interfaces=interfaces,
        disks=disks,
        profile=profile,
        reservation=reservation,
        user_data=user_data,
        max_price=max_price or format(price, "f"),
    )


def _check_image(region: Region, image: Image, type_: InstanceType) -> None:
    shown = image.shown_in(region.name)
    check_available(shown)
    if image.arch != type_.arch:
        raise AwsError(
            "InvalidParameterValue",
            f"The architecture '{type_.arch}' of the specified instance type does not match "
            f"the architecture '{image.arch}' of the specified AMI.",
        )
    if shown["VirtualizationType"] != "hvm":
        text = (
            f"The instance type '{type_.name}' does not support the virtualization type "
            f"'{shown['VirtualizationType']}' of the specified AMI."
        )
        raise AwsError("InvalidParameterCombination", text)  # UNVERIFIED
    if hardware(type_.name)["NetworkInfo"].get("EnaSupport") == "required" and not shown["EnaSupport"]:
        text = (
            "Enhanced networking with the Elastic Network Adapter (ENA) is required for the "
            f"'{type_.name}' instance type. Ensure that you are using an AMI that is enabled for ENA."
        )
        raise AwsError("InvalidParameterCombination", text)


def check_metadata(parameters: Mapping[str, Any]) -> None:
    """Checks ``MetadataOptions``. Tags that the metadata shows have stricter names.

    Source: EC2 user guide, "View tags in metadata". Raises :class:`AwsError`.
    """
    options = part(parameters, "MetadataOptions")
    limit = options.get("HttpPutResponseHopLimit", 1)
    if not 1 <= limit <= 64:
        raise AwsError(
            "InvalidParameterValue", f"The HttpPutResponseHopLimit {limit} is not between 1 and 64"
        )
    if options.get("InstanceMetadataTags") != "enabled":
        return
    for tag in tags_for(parameters, "instance"):
        if not _METADATA_TAG.fullmatch(tag["Key"]) or tag["Key"] in {".", "..", "_index"}:
            text = f"'{tag['Key']}' is not a valid key of a tag in instance metadata"
            raise AwsError("InvalidParameterValue", text)


def _check_key(region: Region, name: str | None) -> None:
    if name is not None and moto_backend.public_key(region.name, name) is None:
        raise AwsError("InvalidKeyPair.NotFound", f"The key pair '{name}' does not exist")


def _profile(named: Mapping[str, Any]) -> Document | None:
    """The instance profile of a launch: name or ARN, as instances show it."""
    if not named:
        return None
    arn = named.get("Arn")
    name = named.get("Name") if arn is None else arn.rpartition("/")[2]
    found = moto_backend.instance_profile(name or "")
    if found is None or arn not in {None, found["Arn"]}:
        text = f"Invalid IAM Instance Profile {'name' if arn is None else 'ARN'}: {arn or name}"
        raise AwsError("InvalidParameterValue", text)
    return found


def encoded_user_data(encoded: str | None) -> str:
    """User data in base64, checked; empty for none.

    Raises:
        AwsError: it is no base64, or too long.
    """
    try:
        raw = base64.b64decode(encoded or "", validate=True)
    except binascii.Error:
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(raw) > USER_DATA_LIMIT:
        raise AwsError("InvalidParameterValue", f"User data is limited to {USER_DATA_LIMIT} bytes")
    return encoded or ""


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


def _place(
    region: Region, parameters: Mapping[str, Any], interfaces: list[Interface], purchase: str
) -> tuple[str, Document]:
    """The zone's name and the subnet: what the caller says, or else the first zone that can."""
    named = {each.subnet["SubnetId"]: each.subnet for each in interfaces if each.subnet is not None}
    if len(named) > 1:
        raise not_emulated("interfaces of one launch in several subnets")
    subnets = {each["AvailabilityZone"]: each for each in named.values()}
    of_subnet = next(iter(subnets), None)
    subnets = subnets or _default_subnets(region)
    zone = _zone(region, parameters, of_subnet, purchase, subnets)
    return zone, subnets[zone]


def _default_subnets(region: Region) -> dict[str, Document]:
    """The default subnets by zone.

    Raises:
        AwsError: all were deleted.
    """
    vpc = default_vpc(region)
    all_ = in_vpc(region, "subnet", vpc["VpcId"])
    subnets = {each["AvailabilityZone"]: each for each in all_ if each["DefaultForAz"]}
    if not subnets:
        text = f"No subnets found for the default VPC '{vpc['VpcId']}'. Please specify a subnet."
        raise AwsError("MissingInput", text)
    return subnets


def _zone(
    region: Region,
    parameters: Mapping[str, Any],
    of_subnet: str | None,
    purchase: str,
    subnets: Mapping[str, Document],
) -> str:
    name = parameters["InstanceType"]
    placement = part(parameters, "Placement")
    named = placement.get("AvailabilityZone") or None  # Terraform names no zone by an empty text
    id_ = placement.get("AvailabilityZoneId") or None
    if id_ is not None:
        by_id = next((zone for zone, known in region.zones.items() if known == id_), None)
        if by_id is None or named not in {None, by_id}:
            raise AwsError("InvalidParameterValue", f"Invalid availability zone ID: [{id_}]")
        named = by_id
    if of_subnet is not None:
        if named not in {None, of_subnet}:
            text = "The parameter availabilityZone does not fit the zone of the subnet"
            raise AwsError("InvalidParameterCombination", text)
        named = of_subnet
    if named is not None and named not in region.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{named}]")
    if named not in {None, *subnets}:
        raise AwsError("InvalidInput", f"No default subnet for availability zone: '{named}'.")
    offering = [zone for zone, id_ in region.zones.items() if region.offers(name, id_)]
    able = [zone for zone in offering if zone in subnets]
    if named is None and able:
        open_ = (zone for zone in able if _free(region, name, zone, purchase) != 0)
        return next(open_, able[0])
    if named is None or named not in offering:
        others = f" or choosing {', '.join(offering)}" if offering else ""
        raise AwsError(
            "Unsupported",
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone "
            f"({named}). Please retry your request by not specifying an Availability Zone{others}.",
        )
    return str(named)


def current_price(region: Region, name: str, zone: str, purchase: str, max_price: str | None) -> Decimal:
    """What an hour costs today.

    Raises:
        AwsError: it is not sold, or spot costs more than ``max_price``.
    """
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


def available(region: Region, name: str, zone: str, purchase: str, *, least: int, most: int) -> int:
    """How many instances, of ``least`` to ``most``, a zone's stock has.

    Raises:
        AwsError: fewer than ``least``.
    """
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
