"""Rows of the Retail Prices API other than machines, with those that lead careless readers astray."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpucloud_pricing import Tariff
from gpucloud_sandbox.azure.subscription import CLOUD
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """How the API names what a kind of tariff is for, and the meters beside it that cost another price.

    ``meter`` has the class of a disk in place of ``{}``.
    """

    service: str
    product: str
    meter: str
    unit: str
    beside: Sequence[tuple[str, str]]


_LISTED = {
    "disk": _Listed(
        service="Storage",
        product="Premium SSD Managed Disks",
        meter="{} LRS Disk",
        unit="1/Month",
        beside=(("{} ZRS Disk", "1/Month"), ("{} LRS Disk Mount", "1/Month")),
    ),
    "snapshot": _Listed(
        service="Storage",
        product="Standard HDD Managed Disks",
        meter="LRS Snapshots",
        unit="1 GB/Month",
        beside=(("ZRS Snapshots", "1 GB/Month"),),
    ),
    "address": _Listed(
        service="Virtual Network",
        product="IP Addresses",
        meter="Standard IPv4 Static Public IP",
        unit="1 Hour",
        beside=(("Basic IPv4 Static Public IP", "1 Hour"), ("Global IPv4 Static Public IP", "1 Hour")),
    ),
    "egress": _Listed(
        service="Bandwidth",
        product="Rtn Preference: MGN",
        meter="Standard Data Transfer Out",
        unit="1 GB",
        beside=(("Standard Data Transfer In", "1 GB"),),
    ),
}


def rows(market: Market) -> Iterator[Document]:
    """The rows of all regions: each step of a tariff, and the meters beside it at a tenth of its price."""
    for kind, listed in _LISTED.items():
        for region in market.catalog(CLOUD).zones:
            for step in market.tariffs(CLOUD, region, kind):
                yield _row(listed, listed.meter, listed.unit, step, step.amount)
                for meter, unit in listed.beside:
                    yield _row(listed, meter, unit, step, step.amount / 10)


def _row(listed: _Listed, meter: str, unit: str, step: Tariff, amount: Decimal) -> Document:
    disk = re.search(r"P\d+", step.sku) if step.unit == "disk_month" else None
    name = meter.format(disk[0] if disk else "")
    return {
        "currencyCode": step.currency,
        "tierMinimumUnits": 0.0 if disk else float(step.tier_from),
        "retailPrice": float(amount),
        "unitPrice": float(amount),
        "armRegionName": step.region,
        "location": step.region,
        "effectiveStartDate": "2026-01-01T00:00:00Z",
        "meterId": f"{step.region}-{name}".lower().replace(" ", "-"),
        "meterName": name,
        "productId": "DZH318Z0",
        "skuId": "DZH318Z0/0002",
        "productName": listed.product,
        "skuName": name.removesuffix(" Disk"),
        "serviceName": listed.service,
        "serviceFamily": "Storage" if listed.service == "Storage" else "Networking",
        "unitOfMeasure": unit,
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": "",
    }
