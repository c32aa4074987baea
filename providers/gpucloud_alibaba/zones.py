"""Chooses a zone where an order names none: capacity is sold by zone, some prices are of a region."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from gpucloud.resources import Order
from gpucloud_alibaba.clients import listed
from gpucloud_alibaba.errors import NoZoneError, named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase

_PREFERENCE = ("WithStock", "ClosedWithStock")
"""Plenty of stock before little. Source: the SDK's reference of DescribeAvailableResource."""


def zone_for(order: Order, ecs: Any) -> str:
    """A zone of the order's region that has its type now, the same as long as stock does not change.

    Args:
        order: what is bought.
        ecs: the client of the region.

    Raises:
        NoZoneError: no zone has any.
    """
    models = ecs_models()
    body = ecs.describe_available_resource(
        models.DescribeAvailableResourceRequest(
            region_id=order.region,
            destination_resource="InstanceType",
            resource_type="instance",
            instance_type=order.instance_type,
            instance_charge_type="PostPaid",
            spot_strategy=_spot_strategy(order.purchase),
            io_optimized="optimized",
        )
    ).body
    with reading("DescribeAvailableResource"):
        zones = listed(body.available_zones.available_zone) if body.available_zones else []
        stocks = [(named(zone.zone_id), str(zone.status_category)) for zone in zones]
    chosen = best_of(stocks)
    if chosen is None:
        raise NoZoneError(f"no zone of {order.region} has {order.instance_type} now")
    return chosen


def _spot_strategy(purchase: Purchase) -> str:
    """Of which stock is asked for."""
    match purchase:
        case Purchase.SPOT:
            return "SpotAsPriceGo"
        case Purchase.ON_DEMAND | Purchase.RESERVED:
            return "NoSpot"
        case _:
            assert_never(purchase)


def best_of(stocks: Iterable[tuple[str, str]]) -> str | None:
    """The first zone by name among those with the most stock; ``None`` where none has any."""
    known = list(stocks)
    for category in _PREFERENCE:
        zones = sorted(zone for zone, has in known if has == category)
        if zones:
            return zones[0]
    return None
