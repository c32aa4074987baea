"""Reads current prices."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from gpucloud.clouds.abilities import MISSING, NO_PRICE, OTHER_TYPE
from gpucloud.clouds.kit import amount_of, in_threads
from gpucloud.resources import Quote
from gpucloud_aws.errors import MalformedAnswerError, reading
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

CLOUD = "aws"

ASKED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Without ``marketoption``, the list contains capacity blocks at a price of 0."""
_PAGES = 200
"""The most pages of up to 1000 rows each; more means a broken endpoint."""


def whole(pages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """All pages of an answer.

    Raises:
        MalformedAnswerError: there are too many.
    """
    for number, page in enumerate(pages):
        if number == _PAGES:
            raise MalformedAnswerError(f"an answer had {_PAGES} pages and still more")
        yield page


# --- on-demand


def list_price(products: Iterable[str], region: str, instance_type: str, currency: str) -> Decimal | None:
    """The hourly price of a type in the price list; the highest of several.

    Args:
        products: the elements of ``PriceList``: JSON texts.
        region: the region; rows for another one are left out.
        instance_type: the type; rows for another one are left out.
        currency: the currency of the partition; rows in another one are left out.
    """
    amounts: list[Decimal] = []
    for text in products:
        row = _row(text)
        attributes: Mapping[str, Any] = row.get("product", {}).get("attributes", {})
        if (attributes.get("regionCode"), attributes.get("instanceType")) != (region, instance_type):
            continue
        for term in row.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term.get("priceDimensions", {}).values():
                amount = amount_of(dimension.get("pricePerUnit", {}).get(currency))
                if dimension.get("unit") == "Hrs" and amount is not None:
                    amounts.append(amount)
    return max(amounts, default=None)


def on_demand(
    pricing: Any, region: str, instance_types: Sequence[str], *, currency: str, now: datetime
) -> Sequence[Quote]:
    """Today's list prices, for the whole region."""

    def ask(instance_type: str) -> Quote | None:
        asked = {**ASKED, "instanceType": instance_type, "regionCode": region}
        pages = pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonEC2",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in asked.items()
            ],
        )
        with reading("GetProducts"):
            products = [product for page in whole(pages) for product in page["PriceList"]]
            amount = list_price(products, region, instance_type, currency)
        if amount is None:
            return None
        return Quote(
            cloud=CLOUD,
            region=region,
            zone=None,
            instance_type=instance_type,
            purchase=Purchase.ON_DEMAND,
            price_per_hour=amount,
            currency=currency,
            as_of=now,
            source="AWS price list, pricing:GetProducts",
        )

    return [quote for quote in in_threads(ask, instance_types) if quote is not None]


def _row(text: str) -> Mapping[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", row) if isinstance(row, dict) else {}


# --- spot


def spot(
    ec2: EC2Client,
    region: str,
    instance_types: Sequence[str],
    *,
    currency: str,
    now: datetime,
    zone_id: Callable[[str], str],
    refused: Callable[[str, Mapping[str, Any]], object] = lambda _reason, _row: None,
) -> Sequence[Quote]:
    """The present spot prices, per zone. ``refused`` is called with each invalid row and the reason."""
    if not instance_types:
        return ()
    newest: dict[tuple[str, str], tuple[datetime, Decimal]] = {}
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=list(instance_types),  # type: ignore[arg-type]  # the stubs know only some types
        ProductDescriptions=["Linux/UNIX"],
        StartTime=now,
    )
    for row in _spot_rows(cast("Iterable[Mapping[str, Any]]", pages)):
        amount, since = amount_of(row.get("SpotPrice")), row.get("Timestamp")
        instance_type, name = str(row.get("InstanceType", "")), row.get("AvailabilityZone")
        zone = row.get("AvailabilityZoneId") or (name and zone_id(name))
        if amount is None:
            refused(NO_PRICE, row)
        elif not (instance_type and zone and since):
            refused(MISSING, row)
        elif instance_type not in instance_types:
            refused(OTHER_TYPE, row)
        elif (instance_type, zone) not in newest or newest[instance_type, zone][0] < since:
            newest[instance_type, zone] = (since, amount)
    return [
        Quote(
            cloud=CLOUD,
            region=region,
            zone=zone,
            instance_type=instance_type,
            purchase=Purchase.SPOT,
            price_per_hour=amount,
            currency=currency,
            as_of=now,
            source="AWS, ec2:DescribeSpotPriceHistory",
        )
        for (instance_type, zone), (_, amount) in sorted(newest.items())
    ]


def _spot_rows(pages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The rows page by page: a region has tens of thousands."""
    with reading("DescribeSpotPriceHistory"):
        for page in whole(pages):
            yield from page["SpotPriceHistory"]
