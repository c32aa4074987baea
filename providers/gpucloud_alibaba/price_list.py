"""Every price of some types, for a refresh: by the hour, by subscription, and spot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import NO_PRICE, ROW_SHOWN, Inquiry, PriceList
from gpucloud.clouds.kit import amount_of
from gpucloud_alibaba.clients import listed
from gpucloud_alibaba.describe import CLOUD
from gpucloud_alibaba.errors import named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.prices import if_sold, price_of, spot
from gpucloud_pricing import Interruption, Price
from gpucloud_pricing.history import Coverage, SetAside
from gpucloud_pricing.purchases import KINDS

LIST, SPOT, ADVICE = "alibaba-price", "alibaba-spot-price-history", "alibaba-spot-advice"
"""The sources of prices: ids of the market's sources."""
SELLING = "alibaba-available-resource"
"""The source of the list of sold types; it has no prices."""
UNITS = {"on_demand": "Hour", "subscription_1m": "Month", "subscription_1y": "Year"}
_MILLIONTH = Decimal("0.000001")
_TYPES_PER_CALL = 10
_RATE = re.compile(r"(\d{1,3})(?:\s*-\s*(\d{1,3}))?\s*%")


def sold(ecs: Any, region: str) -> frozenset[str]:
    """The types that a region sells in some zone, independently of their stock."""
    models = ecs_models()
    body = ecs.describe_available_resource(
        models.DescribeAvailableResourceRequest(
            region_id=region,
            destination_resource="InstanceType",
            resource_type="instance",
            instance_charge_type="PostPaid",
            io_optimized="optimized",
        )
    ).body
    with reading("DescribeAvailableResource"):
        return frozenset(
            named(resource.value)
            for zone in listed(body.available_zones.available_zone if body.available_zones else None)
            for kind in listed(zone.available_resources.available_resource)
            for resource in listed(kind.supported_resources.supported_resource)
        )


def region_inquiry(ecs: Any, region: str, instance_types: Sequence[str], now: datetime) -> Inquiry:
    """The types that a region sells, with further inquiries for their prices."""

    def ask() -> PriceList:
        known = sold(ecs, region)
        return PriceList(prices=(), further=list(_inquiries(ecs, region, known, instance_types, now)))

    covers = Coverage(cloud=CLOUD, source=SELLING, regions=(region,), instance_types=instance_types)
    return Inquiry(name=f"what {region} sells", covers=covers, ask=ask)


def _inquiries(
    ecs: Any, region: str, known: frozenset[str], instance_types: Sequence[str], now: datetime
) -> Iterator[Inquiry]:
    """The inquiries for one region, type by type."""
    for name in instance_types:
        if name in known:
            yield _inquiry(LIST, "list prices", region, name, partial(_listed, ecs, region, name, now))
            yield _inquiry(SPOT, "spot prices", region, name, partial(_spot, ecs, region, name, now))
    sold_here = [name for name in instance_types if name in known]
    for first in range(0, len(sold_here), _TYPES_PER_CALL):
        names = sold_here[first : first + _TYPES_PER_CALL]
        covers = Coverage(cloud=CLOUD, source=ADVICE, regions=(region,), instance_types=names)
        yield Inquiry(
            name=f"interruptions of {names[0]} and {len(names) - 1} more in {region}",
            covers=covers,
            ask=partial(_advised, ecs, region, names, now),
        )
    # An empty answer of a region proves nothing.
    gone = sorted(set(instance_types) - known) if known else ()
    for source in (LIST, SPOT) if gone else ():
        covers = Coverage(cloud=CLOUD, source=source, regions=(region,), instance_types=gone)
        yield Inquiry(
            name=f"{source}: what {region} does not sell", covers=covers, ask=lambda: PriceList(prices=())
        )


def _advised(ecs: Any, region: str, names: Sequence[str], now: datetime) -> PriceList:
    """The recent rates of spot interruptions; the worst of a type's zones counts."""
    body = ecs.describe_spot_advice(
        ecs_models().DescribeSpotAdviceRequest(region_id=region, instance_types=list(names))
    ).body
    bands: dict[tuple[str, str], Interruption] = {}
    aside: list[SetAside] = []
    with reading("DescribeSpotAdvice"):
        zones = listed(body.available_spot_zones.available_spot_zone)
        rows = [
            row for zone in zones for row in listed(zone.available_spot_resources.available_spot_resource)
        ]
        for row in rows:
            place = (region, named(row.instance_type))
            band = _band(row, now)
            if band is None:
                aside.append(SetAside(reason="no rate of interruption", row=str(row.to_map())[:ROW_SHOWN]))
            elif place not in bands or bands[place].high < band.high:
                bands[place] = band
    return PriceList(prices=(), set_aside=aside, interruptions=bands)


def _band(row: Any, now: datetime) -> Interruption | None:
    """A band such as ``3-5%``, or ``10%`` and more; ``None`` if it is not valid.

    Source: DescribeSpotAdvice, "InterruptRateDesc": the share that was reclaimed in the last thirty days.
    """
    found = _RATE.search(str(row.interrupt_rate_desc or ""))
    if found is None:
        return None
    low, high = int(found[1]), int(found[2] or 100)
    paid = row.average_spot_discount
    if not low <= high <= 100 or not isinstance(paid, int) or not 0 <= paid <= 100:
        return None
    return Interruption(low=low, high=high, savings_percent=100 - paid, as_of=now.date(), source=ADVICE)


def _inquiry(source: str, what: str, region: str, name: str, ask: Callable[[], PriceList]) -> Inquiry:
    covers = Coverage(cloud=CLOUD, source=source, regions=(region,), instance_types=(name,))
    return Inquiry(name=f"{what} of {name} in {region}", covers=covers, ask=ask)


def _listed(ecs: Any, region: str, name: str, now: datetime) -> PriceList:
    prices: list[Price] = []
    aside: list[SetAside] = []
    for purchase, unit in UNITS.items():
        for told, currency in if_sold(partial(_one, ecs, region, name, unit)):
            amount = amount_of(told)
            if amount is None:
                aside.append(SetAside(reason=NO_PRICE, row=f"{name} {purchase} {told}"))
                continue
            hours = KINDS[purchase].term_hours
            prices.append(
                Price(
                    cloud=CLOUD,
                    region=region,
                    zone=None,
                    instance_type=name,
                    purchase=purchase,
                    amount=(amount / hours).quantize(_MILLIONTH) if hours else amount,
                    currency=currency,
                    as_of=now.date(),
                    source=LIST,
                    upfront=amount if hours else Decimal(0),
                )
            )
    return PriceList(prices=prices, set_aside=aside)


def _one(ecs: Any, region: str, name: str, unit: str) -> list[tuple[Any, str]]:
    return [price_of(ecs, region, name, unit)]


def _spot(ecs: Any, region: str, name: str, now: datetime) -> PriceList:
    aside: list[SetAside] = []

    def refused(reason: str, row: object) -> None:
        aside.append(SetAside(reason=reason, row=str(row)[:ROW_SHOWN]))

    quotes = if_sold(lambda: spot(ecs, region, name, now, refused))
    return PriceList.of(quotes, SPOT, aside)
