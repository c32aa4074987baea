"""Prices other than compute, for a refresh: volumes, snapshots, public addresses, data transfer.

Sources of the shapes: AWS Price List API, "Understanding the price list"; the names of usage types as bills
and readers of the price list have them (UNVERIFIED: no live answer was read). A usage type begins with a code
of the region, which us-east-1 does not always have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import MISSING, NO_PRICE, ROW_SHOWN, Inquiry, PriceList
from gpucloud.clouds.kit import step_amount
from gpucloud_aws import prices
from gpucloud_aws.errors import reading
from gpucloud_aws.price_list import LIST
from gpucloud_aws.prices import CLOUD
from gpucloud_pricing import Tariff
from gpucloud_pricing.history import Coverage, SetAside

Steps = Sequence[Tariff]
_REGION = "AWS Region"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """What a tariff is for, in the words of the price list.

    Attributes:
        kind: the kind of tariff.
        sku: its name, for people.
        service: the service that it is listed under.
        asked: the attributes to filter by.
        usage: the usage type, without the codes of regions before it.
        unit: the unit of the list.
        ours: the unit of the tariff.
    """

    kind: str
    sku: str
    service: str
    asked: Mapping[str, str]
    usage: str
    unit: str
    ours: str

    def is_usage(self, usage_type: str) -> bool:
        """Whether a usage type is this one in some region."""
        return bool(re.fullmatch(rf"([A-Z0-9]+-)*{re.escape(self.usage)}", usage_type))


SOLD = (
    Sold(
        kind="disk",
        sku="EBS gp3 storage",
        service="AmazonEC2",
        asked={"productFamily": "Storage", "volumeApiName": "gp3"},
        usage="EBS:VolumeUsage.gp3",
        unit="GB-Mo",
        ours="gib_month",
    ),
    Sold(
        kind="snapshot",
        sku="EBS snapshot, standard tier",
        service="AmazonEC2",
        asked={"productFamily": "Storage Snapshot"},
        usage="EBS:SnapshotUsage",
        unit="GB-Mo",
        ours="gib_month",
    ),
    Sold(
        kind="address",
        sku="Public IPv4 address, in use",
        service="AmazonVPC",
        asked={"group": "VPCPublicIPv4Address"},
        usage="PublicIPv4:InUseAddress",
        unit="Hrs",
        ours="hour",
    ),
    Sold(
        kind="egress",
        sku="Data transfer out to internet",
        service="AWSDataTransfer",
        asked={"transferType": "AWS Outbound"},
        usage="DataTransfer-Out-Bytes",
        unit="GB",
        ours="gb",
    ),
    Sold(
        kind="inter_region",
        sku="Data transfer to another region",
        service="AWSDataTransfer",
        asked={"transferType": "InterRegion Outbound"},
        usage="AWS-Out-Bytes",
        unit="GB",
        ours="gb",
    ),
)
"""What gpucloud buys, and what a box uses. The free allowance of transfer is not in the list: it is of the
account, and stays as shipped."""


def inquiries(
    pricing: Any, regions: Sequence[str] | None, *, currency: str, now: datetime
) -> Iterator[Inquiry]:
    """A query for each kind of tariff, in all regions: fewer calls than region by region."""
    for sold in SOLD:
        yield Inquiry(
            name=f"tariffs: {sold.kind.replace('_', '-')}",
            covers=Coverage(
                cloud=CLOUD, source=LIST, regions=regions, instance_types=(), tariffs=(sold.kind,)
            ),
            ask=partial(_ask, pricing, sold, regions, currency, now.date()),
        )


def _ask(pricing: Any, sold: Sold, regions: Sequence[str] | None, currency: str, today: date) -> PriceList:
    pages = pricing.get_paginator("get_products").paginate(
        ServiceCode=sold.service,
        Filters=[
            {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in sold.asked.items()
        ],
    )
    with reading("GetProducts"):
        texts = [text for page in prices.whole(pages) for text in page["PriceList"]]
    lists: list[Steps] = []
    aside: list[SetAside] = []
    for text in texts:
        read = _read(text, sold, currency, today)
        if isinstance(read, SetAside):
            aside.append(read)
        elif read and (regions is None or read[0].region in regions):
            lists.append(read)
    return PriceList(prices=(), tariffs=lists, set_aside=aside)


def _read(text: str, sold: Sold, currency: str, today: date) -> Steps | SetAside:
    """The steps in one element of ``PriceList``; none for another thing; set aside if one is malformed."""
    shown = str(text)[:ROW_SHOWN]
    try:
        row: Any = json.loads(text)
        attributes: Mapping[str, str] = row["product"]["attributes"]
        place = _place(attributes, sold)
        if place is None:
            return ()
        terms: Iterable[Any] = row["terms"]["OnDemand"].values()
        dimensions = [each for term in terms for each in term["priceDimensions"].values()]
        told = sorted(_steps(dimensions, sold, currency))
        if not told:
            return SetAside(reason=MISSING, row=shown)
    except _NoPriceError as error:
        return SetAside(reason=str(error), row=shown)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return SetAside(reason=MISSING, row=shown)
    region, to = place
    return [
        Tariff(
            cloud=CLOUD,
            region=region,
            kind=sold.kind,
            sku=f"Data transfer to {to}" if to else sold.sku,
            unit=sold.ours,
            amount=amount,
            currency=currency,
            as_of=today,
            source=LIST,
            tier_from=begin,
            tier_to=end if end.is_finite() else None,
            to=to,
        )
        for begin, end, amount in told
    ]


def _place(attributes: Mapping[str, str], sold: Sold) -> tuple[str, str] | None:
    """The region and, of transfer between regions, the destination; ``None`` for a row of another thing.

    Other things are usage with a type of its own (archived snapshots, Outposts), and Local and Wavelength
    Zones.
    """
    if not sold.is_usage(attributes["usagetype"]):
        return None
    if sold.service != "AWSDataTransfer":
        here = attributes.get("locationType") == _REGION
        return (attributes["regionCode"], "") if here else None
    if attributes.get("fromLocationType") != _REGION:
        return None
    if sold.kind == "egress":
        return (attributes["fromRegionCode"], "") if attributes.get("toLocation") == "External" else None
    to_region = attributes.get("toLocationType") == _REGION
    return (attributes["fromRegionCode"], attributes["toRegionCode"]) if to_region else None


def _steps(
    dimensions: Iterable[Mapping[str, Any]], sold: Sold, currency: str
) -> Iterator[tuple[Decimal, Decimal, Decimal]]:
    """The steps of a price: where each begins and ends, infinite for no end, and its amount."""
    for each in dimensions:
        if each["unit"] != sold.unit:
            raise _NoPriceError(f"unknown unit {each['unit']!r}")
        told = each["pricePerUnit"].get(currency)
        if told is None:
            raise _NoPriceError(f"not in {currency}")
        amount = step_amount(told)
        if amount is None:
            raise _NoPriceError(NO_PRICE)
        yield Decimal(each["beginRange"]), Decimal(each["endRange"]), amount


class _NoPriceError(Exception):
    """Why a row is set aside."""
