"""Capacity blocks for sale: machines for some days that are paid for beforehand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.aws.query import page
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

SHARE = Decimal("0.6")
"""Of the price on demand: the sandbox's own, near what AWS takes."""
_SOLD = ("p4d.", "p5.", "p5e.", "p5en.", "p6-b200.")
_HANDOVER = time(11, 30)
"""When blocks begin and end, UTC."""
_DAYS = {*range(1, 15), *range(21, 183, 7)}
_MOST = 64


def describe_capacity_block_offerings(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeCapacityBlockOfferings: in each zone that has the type, from tomorrow and the day after.

    Source: EC2 API Reference, DescribeCapacityBlockOfferings; EC2 User Guide, "Capacity Blocks for ML".
    """
    days, rest = divmod(parameters["CapacityDurationHours"], 24)
    count = parameters.get("InstanceCount", 1)
    if rest or days not in _DAYS:
        text = "A capacity block lasts for 1 to 14 days, or for whole weeks up to 182 days"
        raise AwsError("UnsupportedException", text)
    if not 1 <= count <= _MOST:
        raise AwsError("UnsupportedException", f"A capacity block has 1 to {_MOST} instances")
    name = parameters.get("InstanceType")
    if name is None:
        raise AwsError("MissingParameter", "The request must contain the parameter InstanceType")
    if name not in region.world.market.catalog(CLOUD).types:
        raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    first, last = parameters.get("StartDateRange"), parameters.get("EndDateRange")
    found = [
        offering
        for offering in _offerings(region, name, days, count)
        if (first is None or datetime.fromisoformat(offering["StartDate"]) >= first)
        and (last is None or datetime.fromisoformat(offering["EndDate"]) <= last)
    ]
    shown, token = page(found, parameters, lowest=1)
    return {"CapacityBlockOfferings": shown, "NextToken": token}


def block_price(region: Region, name: str) -> tuple[Decimal, str] | None:
    """What an hour of a block costs, and in which currency; ``None`` where there are no blocks of a type."""
    price = region.world.market.price(CLOUD, region.name, "", name, "on_demand")
    if price is None or not name.startswith(_SOLD) or region.name.startswith("cn-"):
        return None
    return price.amount * SHARE, price.currency


def _offerings(region: Region, name: str, days: int, count: int) -> Iterator[Document]:
    price = block_price(region, name)
    if price is None:
        return
    amount, currency = price
    for zone, zone_id in region.zones.items():
        if not region.offers(name, zone_id):
            continue
        for ahead, dearer in ((1, Decimal("1.1")), (2, Decimal(1))):
            start = datetime.combine(region.now + timedelta(days=ahead), _HANDOVER, region.now.tzinfo)
            id_ = uuid.uuid5(uuid.NAMESPACE_OID, f"{zone}{name}{start}{days}{count}").hex[:17]
            yield {
                "CapacityBlockOfferingId": f"cb-{id_}",
                "InstanceType": name,
                "AvailabilityZone": zone,
                "InstanceCount": count,
                "StartDate": stamp(start),
                "EndDate": stamp(start + timedelta(days=days)),
                "CapacityBlockDurationHours": days * 24,
                "CapacityBlockDurationMinutes": days * 24 * 60,
                "UpfrontFee": f"{amount * dearer * days * 24 * count:.2f}",
                "CurrencyCode": currency,
                "Tenancy": "default",
            }
