"""Every price of some types, for a refresh: list prices with reservations, spot prices, savings plans."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from gpucloud.clouds.abilities import MISSING, NO_PRICE, OTHER_TYPE, ROW_SHOWN, Inquiry, PriceList
from gpucloud.clouds.kit import amount_of
from gpucloud_aws import prices
from gpucloud_aws.errors import code_of, reading
from gpucloud_aws.prices import CLOUD
from gpucloud_pricing import Price
from gpucloud_pricing.history import Coverage, SetAside
from gpucloud_pricing.purchases import CAPACITY_BLOCK, KINDS, Purchase

if TYPE_CHECKING:
    from gpucloud_aws.clients import Clients

LIST, SPOT, SAVINGS = "aws-price-list", "aws-spot-price-history", "aws-savings-plans"
BLOCKS = "aws-capacity-blocks"
"""The sources of prices: ids of the market's sources."""
_TERMS = {"1yr": "reserved_1y", "3yr": "reserved_3y"}
PLANS = {31536000: "savings_1y", 94608000: "savings_3y"}
PLAN_NAMES = {"Compute": "compute plan", "EC2Instance": "instance plan"}
_PAID_UPFRONT = {"No Upfront": Decimal(0), "Partial Upfront": Decimal("0.5"), "All Upfront": Decimal(1)}
"""The share of a savings plan that is paid upfront. Source: Savings Plans User Guide, "Payment options"."""
_OURS = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
_TYPES_PER_CALL = 10
_MILLIONTH = Decimal("0.000001")
_BLOCK_HOURS = 24
"""The shortest block; longer ones cost the same per hour, by the published rates."""
_NOT_IN_BLOCKS = {"InvalidParameterValue", "Unsupported", "UnsupportedException", "UnsupportedOperation"}
"""The error codes of a region without blocks of a type."""

Row = Price | SetAside


def sorted_out(rows: Iterable[Row]) -> PriceList:
    """A price list from rows of both kinds."""
    found: list[Price] = []
    set_aside: list[SetAside] = []
    for row in rows:
        if isinstance(row, SetAside):
            set_aside.append(row)
        else:
            found.append(row)
    return PriceList(prices=found, set_aside=set_aside)


def _rows(told: Iterable[Any], read: Callable[[Any], Iterable[Row]]) -> Iterator[Row]:
    """The rows of each part of an answer; a part of an unexpected form is set aside."""
    for each in told:
        try:
            yield from list(read(each))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            yield _aside(MISSING, str(each)[:ROW_SHOWN])


# --- list prices and reservations


def list_inquiry(
    pricing: Any, instance_type: str, regions: Sequence[str] | None, *, currency: str, now: datetime
) -> Inquiry:
    """On-demand and reserved prices of all regions: fewer calls than region by region."""

    def ask() -> PriceList:
        pages = pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonEC2",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in {**prices.ASKED, "instanceType": instance_type}.items()
            ],
        )
        with reading("GetProducts"):
            texts = [text for page in prices.whole(pages) for text in page["PriceList"]]
        rows = _rows(texts, lambda text: list_rows(text, instance_type, currency, now))
        return sorted_out(row for row in rows if _is_in(row, regions))

    covers = Coverage(cloud=CLOUD, source=LIST, regions=regions, instance_types=(instance_type,))
    return Inquiry(name=f"list prices of {instance_type}", covers=covers, ask=ask)


def _is_in(row: Row, regions: Sequence[str] | None) -> bool:
    return regions is None or isinstance(row, SetAside) or row.region in regions


def list_rows(text: str, instance_type: str, currency: str, now: datetime) -> Iterator[Row]:
    """The prices in one element of ``PriceList``, a JSON text.

    Source of the shapes: AWS Price List API, "Understanding the price list".
    """
    aside = partial(_aside, row=text[:ROW_SHOWN])
    try:
        row: Any = json.loads(text)
        attributes = cast("Mapping[str, Any]", row["product"]["attributes"])
        terms = cast("Mapping[str, Any]", row["terms"])
        place = str(attributes["regionCode"])
    except (ValueError, TypeError, LookupError):
        yield aside(MISSING)
        return
    if attributes.get("instanceType") != instance_type:
        yield aside(OTHER_TYPE)
        return
    if any(attributes.get(name) != value for name, value in _OURS.items()):
        yield aside("not Linux on shared hardware")
        return
    if attributes.get("marketoption", "OnDemand") != "OnDemand":
        yield aside("a capacity block")
        return
    zone = None if attributes.get("locationType", "AWS Region") == "AWS Region" else place
    region = place if zone is None else region_of(place)

    def price(purchase: str, amount: Decimal, terms: str = "", upfront: Decimal = Decimal(0)) -> Price:
        return Price(
            cloud=CLOUD,
            region=region,
            zone=zone,
            instance_type=instance_type,
            purchase=purchase,
            amount=amount,
            currency=currency,
            as_of=now.date(),
            source=LIST,
            terms=terms,
            upfront=upfront,
        )

    for term in terms.get("OnDemand", {}).values():
        hourly, upfront, reason = _dimensions(term, currency)
        yield aside(reason or NO_PRICE) if not hourly or upfront else price(Purchase.ON_DEMAND.value, hourly)
    for term in terms.get("Reserved", {}).values():
        said = term.get("termAttributes", {})
        if said.get("OfferingClass") != "standard":
            continue  # a convertible one costs more, and cannot be resold either
        purchase = _TERMS.get(said.get("LeaseContractLength"))
        if purchase is None:
            yield aside("unknown length of a term")
            continue
        hourly, upfront, reason = _dimensions(term, currency)
        amount = hourly + upfront / KINDS[purchase].term_hours
        if reason or not amount:
            yield aside(reason or NO_PRICE)
            continue
        amount = amount if not upfront else amount.quantize(_MILLIONTH)
        yield price(purchase, amount, str(said.get("PurchaseOption", "")).lower(), upfront)


def region_of(place: str) -> str:
    """The region of a group of Local or Wavelength Zones: ``us-west-2-lax-1`` is in ``us-west-2``."""
    match = re.match(r"[a-z]+(-[a-z]+)+-[0-9]+", place)
    return match[0] if match else place


def _dimensions(term: Mapping[str, Any], currency: str) -> tuple[Decimal, Decimal, str]:
    """The price of a term per hour and upfront, and the reason why it does not count, if any."""
    hourly = upfront = Decimal(0)
    for dimension in term.get("priceDimensions", {}).values():
        text = dimension.get("pricePerUnit", {}).get(currency)
        if text is None:
            return hourly, upfront, f"not in {currency}"
        amount = amount_of(text)
        if amount is None and not _is_zero(text):
            return hourly, upfront, NO_PRICE
        match dimension.get("unit"):
            case "Hrs":
                hourly = max(hourly, amount or hourly)
            case "Quantity":
                upfront += amount or 0
            case unit:
                return hourly, upfront, f"unknown unit {unit!r}"
    return hourly, upfront, ""


def _is_zero(text: Any) -> bool:
    return bool(re.fullmatch(r"0*\.?0*", str(text))) and str(text) not in {"", "."}


def _aside(reason: str, row: str) -> SetAside:
    return SetAside(reason=reason, row=row)


# --- spot


def spot_inquiry(
    clients: Clients,
    region: str,
    instance_types: Sequence[str],
    *,
    currency: str,
    now: datetime,
    zone_id: Callable[[str], str],
) -> Inquiry:
    """The spot prices of a region."""

    def ask() -> PriceList:
        aside: list[SetAside] = []
        with clients.briefly(region) as ec2:
            quotes = prices.spot(
                ec2,
                region,
                instance_types,
                currency=currency,
                now=now,
                zone_id=zone_id,
                refused=lambda reason, row: aside.append(_aside(reason, str(row)[:ROW_SHOWN])),
            )
        return PriceList.of(quotes, SPOT, aside)

    covers = Coverage(cloud=CLOUD, source=SPOT, regions=(region,), instance_types=instance_types)
    return Inquiry(name=f"spot prices in {region}", covers=covers, ask=ask)


# --- savings plans


def savings_inquiries(
    plans: Any, instance_types: Sequence[str], regions: Sequence[str] | None, *, currency: str, now: datetime
) -> Iterator[Inquiry]:
    """The rates of savings plans, some types at a time."""
    for start in range(0, len(instance_types), _TYPES_PER_CALL):
        some = instance_types[start : start + _TYPES_PER_CALL]
        yield Inquiry(
            name=f"savings plans, {some[0]} to {some[-1]}",
            covers=Coverage(cloud=CLOUD, source=SAVINGS, regions=regions, instance_types=some),
            ask=partial(_ask_savings, plans, some, regions, currency, now),
        )


def _ask_savings(
    plans: Any, instance_types: Sequence[str], regions: Sequence[str] | None, currency: str, now: datetime
) -> PriceList:
    filters = {
        "instanceType": list(instance_types),
        "productDescription": ["Linux/UNIX"],
        "tenancy": ["shared"],
        **({"region": list(regions)} if regions else {}),
    }

    def pages() -> Iterator[Mapping[str, Any]]:
        token: str | None = ""
        while token is not None:
            page = plans.describe_savings_plans_offering_rates(
                savingsPlanTypes=list(PLAN_NAMES),
                products=["EC2"],
                serviceCodes=["AmazonEC2"],
                filters=[{"name": name, "values": values} for name, values in filters.items()],
                maxResults=1000,
                **({"nextToken": token} if token else {}),
            )
            yield page
            token = page.get("nextToken") or None

    with reading("DescribeSavingsPlansOfferingRates"):
        rates = [rate for page in prices.whole(pages()) for rate in page["searchResults"]]
    return sorted_out(_rows(rates, lambda rate: filter(None, [savings_row(rate, currency, now)])))


def savings_row(rate: Mapping[str, Any], currency: str, now: datetime) -> Row | None:
    """A rate; ``None`` for one that is not of a running machine: unused reserved capacity has rates too."""
    if "BoxUsage" not in str(rate.get("usageType")):
        return None
    said = {each.get("name"): each.get("value") for each in rate.get("properties", ())}
    offering = rate.get("savingsPlanOffering", {})
    paid = offering.get("paymentOption")
    purchase, plan = PLANS.get(offering.get("durationSeconds")), PLAN_NAMES.get(offering.get("planType"))
    amount = amount_of(rate.get("rate"))
    checks = {
        "not Linux on shared hardware": said.get("productDescription") == "Linux/UNIX"
        and said.get("tenancy") == "shared",
        MISSING: said.get("region") and said.get("instanceType"),
        "unknown kind of plan": plan and paid in _PAID_UPFRONT,
        f"unknown unit {rate.get('unit')!r}": rate.get("unit") == "Hrs",
        f"not in {currency}": offering.get("currency") == currency,
    }
    for reason, holds in checks.items():
        if not holds:
            return _aside(reason, str(rate)[:ROW_SHOWN])
    if amount is None or purchase is None:
        return _aside(NO_PRICE, str(rate)[:ROW_SHOWN])
    return Price(
        cloud=CLOUD,
        region=str(said["region"]),
        zone=None,
        instance_type=str(said["instanceType"]),
        purchase=purchase,
        amount=amount,
        currency=currency,
        as_of=now.date(),
        source=SAVINGS,
        terms=f"{plan}, {paid.lower()}",
        upfront=amount * KINDS[purchase].term_hours * _PAID_UPFRONT[paid],
    )


# --- capacity blocks


def block_inquiry(
    clients: Clients,
    region: str,
    instance_types: Sequence[str],
    *,
    currency: str,
    now: datetime,
    zone_id: Callable[[str], str],
) -> Inquiry:
    """The prices of a day in a capacity block, in a region."""

    def ask() -> PriceList:
        with clients.briefly(region) as ec2:
            rows = [
                block_row(offering, region, currency, now, zone_id)
                for name in instance_types
                for offering in _block_offerings(ec2, name)
            ]
        return sorted_out(_cheapest_starts(rows))

    covers = Coverage(cloud=CLOUD, source=BLOCKS, regions=(region,), instance_types=instance_types)
    return Inquiry(name=f"capacity blocks in {region}", covers=covers, ask=ask)


def sold_in_blocks(instance_type: str) -> bool:
    """Whether a type is offered in capacity blocks.

    Source: EC2 User Guide, "Capacity Blocks for ML": p4d, p4de, p5 and p6 with their variants.
    """
    return bool(re.match(r"p(4d|4de|5|5e|5en|6-b[0-9]+)\.", instance_type))


def _block_offerings(ec2: Any, instance_type: str) -> Iterator[Mapping[str, Any]]:
    pages = ec2.get_paginator("describe_capacity_block_offerings").paginate(
        InstanceType=instance_type, InstanceCount=1, CapacityDurationHours=_BLOCK_HOURS
    )
    try:
        with reading("DescribeCapacityBlockOfferings"):
            for page in prices.whole(cast("Iterable[Mapping[str, Any]]", pages)):
                yield from page["CapacityBlockOfferings"]
    except Exception as error:
        if code_of(error) not in _NOT_IN_BLOCKS:
            raise


def block_row(
    offering: Mapping[str, Any], region: str, currency: str, now: datetime, zone_id: Callable[[str], str]
) -> Row:
    """An offering of one machine for a day."""
    fee = amount_of(offering.get("UpfrontFee"))
    checks = {
        MISSING: offering.get("InstanceType") and offering.get("AvailabilityZone"),
        "not on shared hardware": offering.get("Tenancy", "default") == "default",
        "another length or count than asked for": (
            offering.get("CapacityBlockDurationHours"),
            offering.get("InstanceCount"),
        )
        == (_BLOCK_HOURS, 1),
        f"not in {currency}": offering.get("CurrencyCode") == currency,
    }
    for reason, holds in checks.items():
        if not holds:
            return _aside(reason, str(offering)[:ROW_SHOWN])
    if fee is None:
        return _aside(NO_PRICE, str(offering)[:ROW_SHOWN])
    return Price(
        cloud=CLOUD,
        region=region,
        zone=zone_id(str(offering["AvailabilityZone"])),
        instance_type=str(offering["InstanceType"]),
        purchase=CAPACITY_BLOCK,
        amount=(fee / _BLOCK_HOURS).quantize(_MILLIONTH),
        currency=currency,
        as_of=now.date(),
        source=BLOCKS,
        upfront=fee,
    )


def _cheapest_starts(rows: Iterable[Row]) -> Iterator[Row]:
    """The cheapest of the blocks of a type in a zone, which start on different days."""
    cheapest: dict[tuple[str, str | None], Price] = {}
    for row in rows:
        if isinstance(row, SetAside):
            yield row
            continue
        place = (row.instance_type, row.zone)
        cheapest[place] = min(cheapest.get(place, row), row, key=lambda price: price.amount)
    yield from cheapest.values()
