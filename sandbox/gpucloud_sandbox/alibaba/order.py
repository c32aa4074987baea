"""Checks a launch in the cloud's order: parameters, network, price, quota, capacity."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from gpucloud_sandbox.alibaba import account
from gpucloud_sandbox.alibaba.deployment_sets import Place, place_of
from gpucloud_sandbox.alibaba.disks import DiskOrder, check_disk_count, read_data_disk, read_system_disk
from gpucloud_sandbox.alibaba.images import Image, find_image
from gpucloud_sandbox.alibaba.interfaces import (
    InterfaceOrder,
    check_count,
    check_erdma,
    read_interfaces,
)
from gpucloud_sandbox.alibaba.names import check_names
from gpucloud_sandbox.alibaba.prices import price_of, way_of
from gpucloud_sandbox.alibaba.quotas import check_quota
from gpucloud_sandbox.alibaba.region import Region, asked_tags
from gpucloud_sandbox.alibaba.reservations import find_pool
from gpucloud_sandbox.alibaba.review import review_launch, review_metadata
from gpucloud_sandbox.alibaba.stock import free
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType, Price

USER_DATA_LIMIT = 32 * 1024
"""Bytes before base64. Source: ECS API reference, RunInstances."""

SOONEST, LATEST = timedelta(minutes=30), timedelta(days=3 * 365)
"""Between which a release time must be. Source: as above."""

MOST_BANDWIDTH_MBPS = 100
"""The most that a public address takes. Source: as above, ``InternetMaxBandwidthOut``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be launched, all checked."""

    parameters: Mapping[str, Any]
    type: InstanceType
    image: Image
    zone: str
    interfaces: list[InterfaceOrder]
    purchase: str
    count: int
    price: Price
    pool: Document | None
    place: Place
    system_disk: DiskOrder
    data_disks: list[DiskOrder]
    public_key: str
    public: bool
    user_data: str
    release_at: str | None
    tags: Mapping[str, str]


def read_order(region: Region, parameters: Mapping[str, Any]) -> Order:
    """Checks the parameters of RunInstances.

    Raises:
        AlibabaError: the cloud, or the sandbox's reviewer, would refuse.
    """
    _check_given(parameters)
    review_launch(parameters)
    account.check(region)
    least, most = _amounts(parameters)
    type_ = _type(region, parameters["InstanceType"])
    check_names(parameters, "InstanceName", "HostName", "Description")
    image = _image(region, parameters, type_)
    interfaces = _interfaces(region, parameters, type_.name, most)
    zone, purchase = interfaces[0].vswitch["ZoneId"], _purchase(parameters)
    pool = _pool(region, parameters, zone=zone, purchase=purchase, least=least)
    price = _price(region, parameters, zone, type_.name, purchase)
    order = Order(
        parameters=parameters,
        type=type_,
        image=image,
        zone=zone,
        interfaces=interfaces,
        purchase="reserved" if pool else purchase,
        count=most,
        price=replace(price, amount=Decimal(0)) if pool else price,  # paid for, used or not
        pool=pool,
        place=place_of(region, parameters, zone=zone, purchase=purchase, least=least),
        system_disk=read_system_disk(parameters.get("SystemDisk") or {}, image.size_gib),
        data_disks=_data_disks(region, parameters),
        public_key=_public_key(region, parameters.get("KeyPairName")),
        public=_bandwidth(parameters) > 0,
        user_data=read_user_data(parameters.get("UserData")),
        release_at=release_at(region, parameters.get("AutoReleaseTime")),
        tags=asked_tags(parameters),
    )
    check_quota(region, type_, order.purchase, least)
    return order


def available(region: Region, order: Order) -> int:
    """How many machines of an order the zone has in stock.

    Raises:
        AlibabaError: fewer than the least that was asked for.
    """
    if order.pool is not None:
        return order.count
    left = free(region, order.zone, order.type.name, order.purchase)
    least = int(order.parameters.get("MinAmount", order.count))
    if left is not None and left < least:
        raise AlibabaError(
            "OperationDenied.NoStock",
            "The resource is out of stock in the specified zone. Please try other types, or choose other "
            "regions and zones.",
            403,
        )
    return order.count if left is None else min(order.count, left)


def release_at(region: Region, text: str | None) -> str | None:
    """A release time, its seconds cut off; ``None`` for none.

    Raises:
        AlibabaError: it is no time, or too near or too far.
    """
    if not text:
        return None
    refusal = AlibabaError("InvalidAutoReleaseTime.Malformed", "The specified AutoReleaseTime is not valid.")
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise refusal from None
    if not SOONEST <= moment - region.now <= LATEST:
        raise refusal
    return f"{moment:%Y-%m-%dT%H:%MZ}"


def _check_given(parameters: Mapping[str, Any]) -> None:
    for name in ("InstanceType", "ImageId"):
        if not parameters.get(name):
            raise AlibabaError(
                f"MissingParameter.{name}",
                f'The input parameter "{name}" that is mandatory for this request is not supplied.',
            )


def _amounts(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """The least and the most machines that are asked for."""
    most = int(parameters.get("Amount", 1))
    least = int(parameters.get("MinAmount", most))
    if not 1 <= least <= most <= 100:
        raise AlibabaError("InvalidParameter.Amount", f"The Amount {most} or MinAmount {least} is not valid.")
    return least, most


def _type(region: Region, name: str) -> InstanceType:
    type_ = region.type_of(name)
    if type_ is None:
        raise AlibabaError(
            "InvalidInstanceType.ValueNotSupported",
            "The specified InstanceType does not exist or beyond the permitted range.",
            403,
        )
    return type_


def _image(region: Region, parameters: Mapping[str, Any], type_: InstanceType) -> Image:
    """The image, which fits the type and the metadata options."""
    image = find_image(region, parameters["ImageId"])
    review_metadata(parameters, image.imds)
    if image.imds == "v1" and parameters.get("HttpTokens") == "required":
        raise AlibabaError(
            "InvalidHttpTokens.NotSupported", "The image does not support HttpTokens required."
        )
    if image.arch != type_.arch:
        text = f"The image does not support {type_.name}."
        raise AlibabaError("ImageNotSupportInstanceType", text, 403)
    return image


def _pool(
    region: Region, parameters: Mapping[str, Any], *, zone: str, purchase: str, least: int
) -> Document | None:
    """The private pool of the order; ``None`` for public capacity, if the zone has the type."""
    name = parameters["InstanceType"]
    pool = find_pool(region, parameters.get("PrivatePoolOptions") or {}, zone, name, least)
    if pool is not None and purchase == "spot":
        raise AlibabaError("SpotNotSupported", "The specified spot instance cannot use a private pool.")
    if zone not in region.zones_of(name):
        raise AlibabaError(
            "InvalidResourceType.NotSupported",
            f"user order resource type [{name}] not exists in [{zone}]",
        )
    return pool


def _interfaces(
    region: Region, parameters: Mapping[str, Any], type_name: str, count: int
) -> list[InterfaceOrder]:
    interfaces = read_interfaces(region, parameters, count)
    if parameters.get("ZoneId") not in {None, interfaces[0].vswitch["ZoneId"]}:
        raise AlibabaError("InvalidParameter.Mismatch", "The VSwitch is in another zone than ZoneId.")
    check_count(type_name, len(interfaces), "InvalidParameter.EniNumExceededWithLaunchEcs")
    check_erdma(type_name, *interfaces)
    return interfaces


def _purchase(parameters: Mapping[str, Any]) -> str:
    way = way_of(parameters)
    if way == "spot":
        if not parameters.get("ZoneId"):
            raise AlibabaError("InvalidSpotParam.EmptyZoneID", "A spot instance needs ZoneId.")
        if parameters.get("SpotDuration", "1") not in {"0", "1"}:
            raise AlibabaError("InvalidSpotDuration", "The specified SpotDuration is not valid.")
    return way


def _price(region: Region, parameters: Mapping[str, Any], zone: str, name: str, purchase: str) -> Price:
    price = price_of(region, zone, name, purchase)
    if price is None and purchase == "spot":
        raise AlibabaError(
            "OperationDenied.NoStock", "There is no spot capacity of this type in the zone.", 403
        )
    if price is None:
        raise AlibabaError(
            "OperationDenied.PaygNotAvailable", f"{name} is not sold by the hour in {zone}.", 403
        )
    if parameters.get("SpotStrategy") == "SpotWithPriceLimit":
        try:
            limit = Decimal(str(parameters["SpotPriceLimit"]))
        except (KeyError, InvalidOperation):
            raise AlibabaError(
                "InvalidSpotPriceLimit", "The specified SpotPriceLimit is not valid."
            ) from None
        if limit != limit.quantize(Decimal("0.001")):
            raise AlibabaError("InvalidSpotPriceLimit", "SpotPriceLimit has more than three decimals.")
        if limit < price.amount:
            raise AlibabaError(
                "InvalidSpotPriceLimit.LowerThanPublicPrice",
                f"The specified SpotPriceLimit {limit} is lower than the public price {price.amount}.",
                403,
            )
    return price


def _data_disks(region: Region, parameters: Mapping[str, Any]) -> list[DiskOrder]:
    orders = [read_data_disk(region, each) for each in parameters.get("DataDisk") or ()]
    check_disk_count(len(orders))
    return orders


def _bandwidth(parameters: Mapping[str, Any]) -> int:
    bandwidth = int(parameters.get("InternetMaxBandwidthOut", 0))
    if not 0 <= bandwidth <= MOST_BANDWIDTH_MBPS:
        raise AlibabaError(
            "InvalidInternetMaxBandwidthOut.ValueNotSupported",
            "The specified InternetMaxBandwidthOut is beyond the permitted range.",
        )
    return bandwidth


def _public_key(region: Region, name: str | None) -> str:
    if not name:
        return ""
    pair = region.all("keypair").get(name)
    if pair is None:
        raise AlibabaError("InvalidKeyPairName.NotFound", "The KeyPairName provided does not exist.", 404)
    key: str = pair["PublicKey"]
    return key


def read_user_data(encoded: str | None) -> str:
    """User data as it came, checked.

    Raises:
        AlibabaError: it is not in base64, or too long.
    """
    if not encoded:
        return ""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise AlibabaError("InvalidUserData.Base64FormatInvalid", "The UserData is not in base64.") from None
    if len(raw) > USER_DATA_LIMIT:
        raise AlibabaError("InvalidUserData.SizeExceeded", "The UserData is over 32 KB.")
    return encoded


def is_dry(parameters: Mapping[str, Any]) -> bool:
    """Whether a call only asks whether it would work."""
    return true(parameters.get("DryRun"))
