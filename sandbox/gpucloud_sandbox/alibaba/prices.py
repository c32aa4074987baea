"""Prices: today's, and those of the last days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.alibaba.disks import DiskOrder, read_data_disk, read_system_disk
from gpucloud_sandbox.alibaba.region import CLOUD, Region
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import HOURS_PER_MONTH, Price

_TERMS = {"Month": Decimal(HOURS_PER_MONTH), "Year": HOURS_PER_MONTH * 12 * Decimal("0.85")}
"""How many hours of a month's subscription are paid for a term; 15 % off a year is the sandbox's own."""
LEAST_DISK_GIB = 20
"""The size of a system disk that is priced without one: an ESSD of level PL1 has no less."""
HISTORY_ROWS = 4
"""How many prices of each zone the history shows: one for every six hours."""


def way_of(parameters: Mapping[str, Any]) -> str:
    """The way of paying, in the market's terms.

    Raises:
        AlibabaError: there is no such strategy.
    """
    match parameters.get("SpotStrategy", "NoSpot"):
        case "NoSpot":
            return "on_demand"
        case "SpotAsPriceGo" | "SpotWithPriceLimit":
            return "spot"
        case other:
            raise AlibabaError("InvalidSpotStrategy", f"The specified SpotStrategy {other!r} is not valid.")


def price_of(region: Region, zone: str, instance_type: str, purchase: str) -> Price | None:
    """Today's price of a type; ``None`` where it is not sold so."""
    return region.world.market.price(CLOUD, region.name, zone, instance_type, purchase)


def describe_price(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribePrice: of instances by the hour, or a month or a year in advance; of a disk; of traffic."""
    match parameters.get("ResourceType", "instance"):
        case "disk":
            return _disk_alone(region, parameters)
        case "bandwidth":
            return _traffic(region, parameters)
        case _:
            pass
    unit = parameters.get("PriceUnit", "Hour")
    if unit not in {"Hour", *_TERMS}:
        raise AlibabaError("InvalidParameter", "The gpucloud sandbox prices hours, months and years.")
    if int(parameters.get("Period", 1)) != 1:
        raise AlibabaError("InvalidParameter", "The gpucloud sandbox knows one month and one year.")
    name = parameters.get("InstanceType")
    if not name:
        raise AlibabaError("MissingParameter", 'The input parameter "InstanceType" is mandatory.')
    if parameters.get("SystemDisk", {}).get("Size") and not parameters.get("ImageId"):
        raise AlibabaError(
            "MissingParameter", 'The input parameter "ImageId" is mandatory with a system disk.'
        )
    zone = parameters.get("ZoneId", "")
    way = way_of(parameters) if unit == "Hour" else "subscription_1m"
    price = price_of(region, zone, name, way) if region.type_of(name) else None
    if price is None or (zone and zone not in region.zones_of(name)):
        raise AlibabaError(
            "InvalidInstanceType.ValueNotSupported",
            "The specified InstanceType does not exist or beyond the permitted range.",
            403,
        )
    amount = price.amount * int(parameters.get("Amount", 1)) * _TERMS.get(unit, Decimal(1))
    parts = [_part("instanceType", amount)]
    if disk := parameters.get("SystemDisk"):
        order = read_system_disk({"Size": LEAST_DISK_GIB, **disk}, image_gib=0)
        parts.append(_disk_part(region, "systemDisk", order))
    for disk in parameters.get("DataDisk") or ():
        parts.append(_disk_part(region, "dataDisk", read_data_disk(region, disk)))
    return _answer(parts, price.currency)


def _answer(parts: Sequence[Document], currency: str) -> Document:
    total = sum((Decimal(str(part["TradePrice"])) for part in parts), Decimal(0))
    return {
        "PriceInfo": {
            "Price": {
                "OriginalPrice": float(total),
                "DiscountPrice": 0.0,
                "TradePrice": float(total),
                "Currency": currency,
                "DetailInfos": {"DetailInfo": parts},
            },
            "Rules": {"Rule": []},
        }
    }


def _disk_alone(region: Region, parameters: Mapping[str, Any]) -> Document:
    """The price of an hour of a data disk."""
    disks: Sequence[Mapping[str, Any]] = parameters.get("DataDisk") or [{}]
    for name in ("Category", "Size"):
        if name not in disks[0]:
            raise AlibabaError(
                "MissingParameter", f'The input parameter "DataDisk.1.{name}" is mandatory for a disk.'
            )
    if parameters.get("PriceUnit", "Hour") != "Hour":
        raise AlibabaError("InvalidParameter", "The specified PriceUnit is not valid for a disk.")
    order = read_data_disk(region, disks[0])
    if not region.world.market.tariffs(CLOUD, region.name, "disk"):
        raise AlibabaError("InvalidParameter", "The gpucloud sandbox knows no price of disks here.")
    price = region.world.market.disk_price(CLOUD, region.name, order.gib)
    return _answer([_part("disk", price.amount)], price.currency)


def _traffic(region: Region, parameters: Mapping[str, Any]) -> Document:
    """The price of a GB sent to the internet."""
    if parameters.get("InternetChargeType", "PayByTraffic") != "PayByTraffic":
        raise AlibabaError("InvalidParameter", "The gpucloud sandbox prices traffic, and no bandwidth.")
    steps = region.world.market.tariffs(CLOUD, region.name, "egress")
    if not steps:
        raise AlibabaError("InvalidParameter", "The gpucloud sandbox knows no price of traffic here.")
    return _answer([_part("bandwidth", steps[0].amount)], steps[0].currency)


def _disk_part(region: Region, resource: str, disk: DiskOrder) -> Document:
    return _part(resource, region.world.market.disk_price(CLOUD, region.name, disk.gib).amount)


def _part(resource: str, amount: Decimal) -> Document:
    return {
        "Resource": resource,
        "OriginalPrice": float(amount),
        "DiscountPrice": 0.0,
        "TradePrice": float(amount),
        "Rules": {"Rule": []},
    }


def describe_spot_price_history(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSpotPriceHistory: the newest last, in no order of zones."""
    name = parameters["InstanceType"]
    if parameters["NetworkType"] != "vpc":
        raise AlibabaError("InvalidNetworkType.ValueNotSupported", "The specified NetworkType is not valid.")
    rows: list[Document] = []
    currency = ""
    for zone in region.zones_of(name):
        price = price_of(region, zone, name, "spot")
        if price is None or parameters.get("ZoneId") not in {None, zone}:
            continue
        currency = price.currency
        full = price_of(region, zone, name, "on_demand")
        for age in range(HISTORY_ROWS - 1, -1, -1):
            at = region.now - timedelta(hours=6 * age, minutes=10)
            # Yesterday's was another price: who takes the wrong row is to notice.
            amount = price.amount if age == 0 else price.amount * (100 + age) / 100
            rows.append(
                {
                    "ZoneId": zone,
                    "InstanceType": name,
                    "IoOptimized": "optimized",
                    "NetworkType": "vpc",
                    "SpotPrice": float(amount),
                    "OriginPrice": float(full.amount if full else price.amount),
                    "Timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                }
            )
    start, end = parameters.get("StartTime", ""), parameters.get("EndTime", "9")
    rows = [row for row in rows if start <= row["Timestamp"] <= end]
    offset = int(parameters.get("Offset", 0))
    shown = rows[offset : offset + 1000]
    return {
        "Currency": currency or "CNY",
        "NextOffset": offset + len(shown),
        "SpotPrices": {"SpotPriceType": shown},
    }


def describe_spot_advice(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSpotAdvice: no rates of this cloud are known, so the middle band is given for all."""
    names: list[str] = parameters.get("InstanceTypes") or []
    zones: list[Document] = []
    for zone in region.zones:
        if parameters.get("ZoneId") not in {None, zone}:
            continue
        advised: list[Document] = []
        for name in names:
            spot, full = (price_of(region, zone, name, way) for way in ("spot", "on_demand"))
            if zone in region.zones_of(name) and spot and full:
                advised.append(
                    {
                        "InstanceType": name,
                        "AverageSpotDiscount": int(spot.amount / full.amount * 100),
                        "InterruptionRate": 0.05,
                        "InterruptRateDesc": "3-5%",
                    }
                )
        if advised:
            zones.append({"ZoneId": zone, "AvailableSpotResources": {"AvailableSpotResource": advised}})
    return {"RegionId": region.name, "AvailableSpotZones": {"AvailableSpotZone": zones}}
