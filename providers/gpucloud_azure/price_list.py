"""Every price of some sizes, for a refresh: consumption, spot, savings plans, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any

from gpucloud.clouds.abilities import MISSING, NO_PRICE, OTHER_TYPE, ROW_SHOWN, Inquiry, PriceList
from gpucloud.clouds.kit import amount_of
from gpucloud_azure.clients import Clients
from gpucloud_azure.find import CLOUD
from gpucloud_azure.prices import is_plain, is_spot, rows_where
from gpucloud_pricing import Price
from gpucloud_pricing.history import Coverage, SetAside
from gpucloud_pricing.purchases import KINDS, Purchase

SOURCE = "azure-retail-prices"
"""The source of prices: an id of the market's sources."""
CURRENCY = "USD"
_RESERVED = {"1 Year": "reserved_1y", "3 Years": "reserved_3y"}
_SAVINGS = {"1 Year": "savings_1y", "3 Years": "savings_3y"}
"""Terms; five years are sold too, for few sizes, and are not among the market's ways of paying."""


def inquiry(clients: Clients, size: str, regions: Sequence[str] | None, now: datetime) -> Inquiry:
    """All prices of a size in all regions: the API has no useful narrower filter."""
    quoted = size.replace("'", "''")
    return Inquiry(
        name=f"prices of {size}",
        covers=Coverage(cloud=CLOUD, source=SOURCE, regions=regions, instance_types=(size,)),
        ask=partial(
            _ask,
            clients,
            f"serviceName eq 'Virtual Machines' and armSkuName eq '{quoted}'",
            size,
            regions,
            now.date(),
        ),
    )


def _ask(
    clients: Clients, condition: str, size: str, regions: Sequence[str] | None, today: date
) -> PriceList:
    prices: list[Price] = []
    aside: list[SetAside] = []
    for row in rows_where(clients, condition):
        for price in _read(row, size, today):
            if isinstance(price, SetAside):
                aside.append(price)
            elif regions is None or price.region in regions:
                prices.append(price)
    return PriceList(prices=prices, set_aside=aside)


def _read(row: Mapping[str, Any], size: str, today: date) -> Iterable[Price | SetAside]:
    """The prices in a row, or why it has none; a row of an unexpected form is set aside."""
    try:
        return list(prices_in(row, size, today))
    except (AttributeError, LookupError, TypeError, ValueError):
        return [SetAside(reason=MISSING, row=str(row)[:ROW_SHOWN])]


def prices_in(row: Mapping[str, Any], size: str, today: date) -> Iterator[Price | SetAside]:
    """The prices in one row of the Retail Prices API, or why it has none.

    Rows that are not for Linux on a regular machine (Windows, dedicated hosts, low priority) are skipped.
    Source of the shapes: Azure Retail Prices overview.
    """
    if not is_plain(row) or row.get("type") not in {"Consumption", "Reservation"}:
        return
    checks = {
        MISSING: row.get("armRegionName") and row.get("armSkuName"),
        OTHER_TYPE: row.get("armSkuName") == size,
        f"unknown unit {row.get('unitOfMeasure')!r}": row.get("unitOfMeasure") == "1 Hour",
        f"not in {CURRENCY}": row.get("currencyCode") == CURRENCY,
        "a price from some quantity on": not row.get("tierMinimumUnits"),
    }
    refused = [reason for reason, holds in checks.items() if not holds]
    for purchase, told in _told(row) if not refused else ():
        amount = amount_of(told)
        if amount is None:
            refused.append(NO_PRICE)
            continue
        # A reservation has the price of the whole term, a savings plan that of an hour.
        per_hour = amount / KINDS[purchase].term_hours if purchase in _RESERVED.values() else amount
        yield Price(
            cloud=CLOUD,
            region=str(row["armRegionName"]),
            zone=None,
            instance_type=size,
            purchase=purchase,
            amount=round(per_hour, 6) if per_hour != amount else amount,
            currency=CURRENCY,
            as_of=today,
            source=SOURCE,
        )
    yield from (SetAside(reason=reason, row=str(dict(row))[:ROW_SHOWN]) for reason in refused)


def _told(row: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The ways of paying in a row, each with its price."""
    if row["type"] == "Reservation":
        purchase = _RESERVED.get(str(row.get("reservationTerm")))
        return [] if purchase is None else [(purchase, row.get("retailPrice"))]
    if is_spot(row):
        return [(Purchase.SPOT.value, row.get("retailPrice"))]
    plans = [
        (_SAVINGS[plan["term"]], plan.get("retailPrice"))
        for plan in row.get("savingsPlan") or ()
        if plan.get("term") in _SAVINGS
    ]
    return [(Purchase.ON_DEMAND.value, row.get("retailPrice")), *plans]
