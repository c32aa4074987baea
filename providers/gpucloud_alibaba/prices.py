"""Reads current prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, TypeVar

from gpucloud.clouds.abilities import MISSING, NO_PRICE, OTHER_TYPE
from gpucloud.clouds.kit import amount_of
from gpucloud.errors import ErrorClass
from gpucloud.resources import Quote
from gpucloud_alibaba.clients import listed
from gpucloud_alibaba.describe import CLOUD, moment
from gpucloud_alibaba.errors import MalformedAnswerError, classify, named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase

T = TypeVar("T")

DISK_CATEGORY = "cloud_essd"
"""The category of a box's disk. Also named where only a machine's price is wanted: types that take ESSDs
alone refuse the default, an ultra disk (alibabacloud-ecs20140526 7.11.8, DescribePrice)."""
WINDOW = timedelta(hours=24)
PAGES = 100  # of 1000 prices each; more is a broken endpoint


def if_sold(ask: Callable[[], Iterable[T]]) -> list[T]:
    """The results of a query; empty if the cloud does not sell the type."""
    try:
        return list(ask())
    except Exception as error:
        verdict = classify(error)
        if verdict is None or not _unsold(verdict.error_class, verdict.code):
            raise
        return []


def _unsold(error_class: ErrorClass, code: str) -> bool:
    return error_class in {ErrorClass.UNSUPPORTED, ErrorClass.CAPACITY} or code.startswith(
        "InvalidInstanceType"
    )


# --- on-demand


def on_demand(ecs: Any, region: str, instance_type: str, now: datetime) -> Iterator[Quote]:
    """The price of the machine alone: one price for all zones of a region."""
    told, currency = price_of(ecs, region, instance_type)
    if (amount := amount_of(told)) is not None:
        yield Quote(
            cloud=CLOUD,
            region=region,
            zone=None,
            instance_type=instance_type,
            purchase=Purchase.ON_DEMAND,
            price_per_hour=amount,
            currency=currency,
            as_of=now,
            source="Alibaba Cloud, ecs:DescribePrice",
        )


def price_of(ecs: Any, region: str, instance_type: str, unit: str = "Hour") -> tuple[Any, str]:
    """The price of a machine alone per ``Hour``, ``Month`` or ``Year``, unparsed, and its currency."""
    body = _priced(ecs, region, instance_type, unit)
    with reading("DescribePrice"):
        price = body.price_info.price
        parts = price.detail_infos.detail_info if price.detail_infos else None
        # The total includes the smallest disk of the category.
        alone = [part.trade_price for part in listed(parts) if part.resource == "instanceType"]
        return (alone[0] if alone else price.trade_price), named(price.currency)


def _priced(ecs: Any, region: str, instance_type: str, unit: str = "Hour") -> Any:
    models = ecs_models()

    return ecs.describe_price(
        models.DescribePriceRequest(
            region_id=region,
            resource_type="instance",
            instance_type=instance_type,
            price_unit=unit,
            period=None if unit == "Hour" else 1,
            system_disk=models.DescribePriceRequestSystemDisk(category=DISK_CATEGORY),
            amount=1,
        )
    ).body


def currency_of(ecs: Any, region: str, instance_type: str) -> str:
    """The currency of the account: CNY on the China site, USD on the international one."""
    body = _priced(ecs, region, instance_type)
    with reading("DescribePrice"):
        return named(body.price_info.price.currency)


# --- spot


def spot(
    ecs: Any,
    region: str,
    instance_type: str,
    now: datetime,
    refused: Callable[[str, Any], object] = lambda _reason, _row: None,
) -> Iterator[Quote]:
    """The newest price of each zone, without a protected hour; ``refused`` is called with invalid rows."""
    newest: dict[str, tuple[datetime, Quote]] = {}
    for row, currency in _history(ecs, region, instance_type, now):
        amount = amount_of(row.spot_price)
        since = _since(row)
        if amount is None:
            refused(NO_PRICE, row.to_map())
            continue
        if since is None or not row.zone_id:
            refused(MISSING, row.to_map())
            continue
        if row.instance_type != instance_type:
            refused(OTHER_TYPE, row.to_map())
            continue
        if row.zone_id in newest and newest[row.zone_id][0] >= since:
            continue
        quote = Quote(
            cloud=CLOUD,
            region=region,
            zone=row.zone_id,
            instance_type=instance_type,
            purchase=Purchase.SPOT,
            price_per_hour=amount,
            currency=currency,
            as_of=now,
            source="Alibaba Cloud, ecs:DescribeSpotPriceHistory",
        )
        newest[row.zone_id] = (since, quote)
    for _, (_, quote) in sorted(newest.items()):
        yield quote


def _since(row: Any) -> datetime | None:
    """The start of a price in the history; ``None`` if unknown."""
    try:
        return moment(row.timestamp)
    except (TypeError, ValueError):
        return None


def _history(ecs: Any, region: str, instance_type: str, now: datetime) -> Iterable[tuple[Any, str]]:
    models = ecs_models()

    offset = 0
    for _ in range(PAGES):
        body = ecs.describe_spot_price_history(
            models.DescribeSpotPriceHistoryRequest(
                region_id=region,
                instance_type=instance_type,
                network_type="vpc",
                spot_duration=0,
                start_time=f"{now - WINDOW:%Y-%m-%dT%H:%M:%SZ}",
                end_time=f"{now:%Y-%m-%dT%H:%M:%SZ}",
                offset=offset,
            )
        ).body
        with reading("DescribeSpotPriceHistory"):
            rows = listed(body.spot_prices.spot_price_type)
            following = int(body.next_offset or 0)
            currency = named(body.currency) if rows else ""
        yield from ((row, currency) for row in rows)
        if not rows or following <= offset:
            return
        offset = following
    raise MalformedAnswerError(f"the history of spot prices gave {PAGES} pages and still more")
