"""Prices other than compute, for a refresh: managed disks by size, snapshots, addresses, data transfer.

Sources of the names: rows of the Retail Prices API as its readers have published them; Azure documentation,
"Azure managed disk types" (UNVERIFIED: no live answer was read). The price of transfer between regions is in
the API by groups of regions, which it does not name: it stays as shipped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

from gpucloud.clouds.abilities import MISSING, NO_PRICE, ROW_SHOWN, Inquiry, PriceList
from gpucloud.clouds.kit import step_amount
from gpucloud_azure.clients import Clients
from gpucloud_azure.find import CLOUD
from gpucloud_azure.price_list import CURRENCY, SOURCE
from gpucloud_azure.prices import rows_where
from gpucloud_pricing import Tariff
from gpucloud_pricing.history import Coverage, SetAside

Row = Mapping[str, Any]

DISK_GIB: dict[str, int] = dict(
    zip(
        ("P1", "P2", "P3", "P4", "P6", "P10", "P15", "P20", "P30", "P40", "P50", "P60", "P70", "P80"),
        (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32767),
        strict=True,
    )
)
"""The sizes of premium SSDs in GiB. Source: Azure documentation, "Azure managed disk types", premium SSD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """What a tariff is for, in the words of the price list.

    Attributes:
        kind: the kind of tariff.
        sku: its name, for people.
        service: the name of the service.
        product: the name of the product.
        meter: a pattern for the name of the meter.
        unit: the unit of the list.
        ours: the unit of the tariff.
    """

    kind: str
    sku: str
    service: str
    product: str
    meter: str
    unit: str
    ours: str


SOLD = (
    Sold(
        kind="disk",
        sku="Premium SSD LRS",
        service="Storage",
        product="Premium SSD Managed Disks",
        meter=r"(P\d+) LRS Disk",
        unit="1/Month",
        ours="disk_month",
    ),
    Sold(
        kind="snapshot",
        sku="Managed disk snapshot, Standard HDD LRS",
        service="Storage",
        product="Standard HDD Managed Disks",
        meter="LRS Snapshots",
        unit="1 GB/Month",
        ours="gib_month",
    ),
    Sold(
        kind="address",
        sku="Standard static IPv4",
        service="Virtual Network",
        product="IP Addresses",
        meter="Standard IPv4 Static Public IP",
        unit="1 Hour",
        ours="hour",
    ),
    Sold(
        kind="egress",
        sku="Internet egress via Microsoft network",
        service="Bandwidth",
        product="Rtn Preference: MGN",
        meter="Standard Data Transfer Out",
        unit="1 GB",
        ours="gb",
    ),
)
"""What gpucloud buys, and what a box uses. Transfer takes the Microsoft network: the default routing."""


def inquiries(clients: Clients, regions: Sequence[str] | None, now: datetime) -> Iterator[Inquiry]:
    """A query for each kind of tariff, in all regions: fewer calls than region by region."""
    for sold in SOLD:
        yield Inquiry(
            name=f"tariffs: {sold.kind}",
            covers=Coverage(
                cloud=CLOUD, source=SOURCE, regions=regions, instance_types=(), tariffs=(sold.kind,)
            ),
            ask=partial(_ask, clients, sold, regions, now.date()),
        )


def condition_for(sold: Sold) -> str:
    """The API's ``$filter``."""
    return (
        f"serviceName eq '{sold.service}' and productName eq '{sold.product}' and priceType eq 'Consumption'"
    )


def _ask(clients: Clients, sold: Sold, regions: Sequence[str] | None, today: date) -> PriceList:
    by_region: dict[str, list[Row]] = defaultdict(list)
    for row in rows_where(clients, condition_for(sold)):
        region = str(row.get("armRegionName") or "")
        if re.fullmatch(sold.meter, str(row.get("meterName"))) and (regions is None or region in regions):
            by_region[region].append(row)
    lists: list[Sequence[Tariff]] = []
    aside: list[SetAside] = []
    for region, rows in by_region.items():
        read = _read(region, rows, sold, today)
        if isinstance(read, SetAside):
            aside.append(read)
        else:
            lists.append(read)
    return PriceList(prices=(), tariffs=lists, set_aside=aside)


def _read(region: str, rows: Sequence[Row], sold: Sold, today: date) -> Sequence[Tariff] | SetAside:
    """The steps of a region. One malformed row sets all of them aside: another step would take its place."""
    amounts: dict[Decimal, Decimal] = {}
    for row in rows:
        checks = {
            MISSING: region,
            f"unknown unit {row.get('unitOfMeasure')!r}": row.get("unitOfMeasure") == sold.unit,
            f"not in {CURRENCY}": row.get("currencyCode") == CURRENCY,
        }
        refused = next((reason for reason, holds in checks.items() if not holds), None)
        amount, bound = step_amount(row.get("retailPrice")), _bound(row, sold)
        if refused or amount is None or bound is None:
            return SetAside(reason=refused or NO_PRICE, row=str(dict(row))[:ROW_SHOWN])
        amounts[bound] = max(amount, amounts.get(bound, amount))  # a meter may be listed twice
    bounds = sorted(amounts)
    if sold.kind == "disk":  # each class by its size, and from the size of the class below
        steps = list(pairwise([Decimal(0), *bounds]))
        prices = [amounts[bound] for bound in bounds]
    else:  # each step by where it begins
        steps = [*pairwise(bounds), (bounds[-1], Decimal("Infinity"))]
        prices = [amounts[begin] for begin, _ in steps]
    names = {Decimal(gib): f"{sold.sku} {name} ({gib} GiB)" for name, gib in DISK_GIB.items()}
    return [
        Tariff(
            cloud=CLOUD,
            region=region,
            kind=sold.kind,
            sku=names[end] if sold.kind == "disk" else sold.sku,
            unit=sold.ours,
            amount=amount,
            currency=CURRENCY,
            as_of=today,
            source=SOURCE,
            tier_from=begin,
            tier_to=end if end.is_finite() else None,
        )
        for (begin, end), amount in zip(steps, prices, strict=True)
    ]


def _bound(row: Row, sold: Sold) -> Decimal | None:
    """The size of a class of disks in GiB, or the quantity at which a step begins; ``None`` if malformed."""
    if sold.kind != "disk":
        return step_amount(row.get("tierMinimumUnits"))
    match = re.fullmatch(sold.meter, str(row.get("meterName")))
    size = DISK_GIB.get(match[1]) if match else None
    return None if size is None else Decimal(size)
