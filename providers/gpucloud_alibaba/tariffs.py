"""Prices other than compute, for a refresh: disks, and data sent to the internet.

ECS tells no price of snapshots, addresses, object storage, or transfer between regions and zones: those
stay as shipped. Source of the requests: ECS documentation, DescribePrice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import NO_PRICE, Inquiry, PriceList
from gpucloud.clouds.kit import amount_of
from gpucloud.errors import ErrorClass
from gpucloud_alibaba.describe import CLOUD
from gpucloud_alibaba.errors import classify, named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.price_list import LIST
from gpucloud_alibaba.prices import DISK_CATEGORY
from gpucloud_pricing import Tariff
from gpucloud_pricing.history import Coverage, SetAside
from gpucloud_pricing.purchases import HOURS_PER_MONTH

DISK_GIB = 1000
"""The size of the disk that is asked for: an ESSD is billed by the GiB, and prices are rounded."""
_MILLIONTH = Decimal("0.000001")
_REFUSALS = {ErrorClass.BAD_PARAM, ErrorClass.UNSUPPORTED, ErrorClass.CAPACITY, ErrorClass.NOT_FOUND}
"""What an error means that says that a region sells no such thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """What a tariff is for.

    Attributes:
        kind: the kind of tariff.
        sku: its name, for people.
        unit: the unit of the tariff.
        units: how many of them the price in the answer is for.
    """

    kind: str
    sku: str
    unit: str
    units: Decimal


DISK = Sold(
    kind="disk",
    sku="ESSD PL1, pay-as-you-go",
    unit="gib_month",
    units=DISK_GIB / HOURS_PER_MONTH,
)
"""The answer is the price of an hour of the whole disk."""
EGRESS = Sold(kind="egress", sku="Public network pay-by-traffic", unit="gb", units=Decimal(1))
"""The answer is the price of a GB, the unit of the vendor's list (UNVERIFIED: no live answer was read)."""


def inquiries(ecs: Any, region: str, now: datetime) -> Iterator[Inquiry]:
    """The queries for one region."""
    for sold in (DISK, EGRESS):
        covers = Coverage(
            cloud=CLOUD, source=LIST, regions=(region,), instance_types=(), tariffs=(sold.kind,)
        )
        yield Inquiry(
            name=f"tariffs: {sold.kind} in {region}",
            covers=covers,
            ask=partial(_ask, ecs, region, sold, now),
        )


def _ask(ecs: Any, region: str, sold: Sold, now: datetime) -> PriceList:
    try:
        told, currency = _price(ecs, region, sold)
    except Exception as error:
        verdict = classify(error)
        if verdict is None or verdict.error_class not in _REFUSALS:
            raise
        reason = f"the cloud has no such price: {verdict.code}"
        return PriceList(prices=(), set_aside=[SetAside(reason=reason, row=f"{sold.kind} {region}")])
    amount = amount_of(told)
    if amount is None:
        return PriceList(prices=(), set_aside=[SetAside(reason=NO_PRICE, row=f"{sold.kind} {region} {told}")])
    tariff = Tariff(
        cloud=CLOUD,
        region=region,
        kind=sold.kind,
        sku=sold.sku,
        unit=sold.unit,
        amount=(amount / sold.units).quantize(_MILLIONTH),
        currency=currency,
        as_of=now.date(),
        source=LIST,
    )
    return PriceList(prices=(), tariffs=[(tariff,)])


def _price(ecs: Any, region: str, sold: Sold) -> tuple[Any, str]:
    """The price in the answer, unparsed, and its currency."""
    models = ecs_models()
    disk = models.DescribePriceRequestDataDisk(category=DISK_CATEGORY, performance_level="PL1", size=DISK_GIB)
    asked: dict[str, Any] = (
        {"resource_type": "disk", "data_disk": [disk], "price_unit": "Hour"}
        if sold is DISK
        else {
            "resource_type": "bandwidth",
            "internet_charge_type": "PayByTraffic",
            "internet_max_bandwidth_out": 1,
        }
    )
    body = ecs.describe_price(models.DescribePriceRequest(region_id=region, **asked)).body
    with reading("DescribePrice"):
        price = body.price_info.price
        return price.trade_price, named(price.currency)
