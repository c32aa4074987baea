"""Reads today's prices (from the public Retail Prices API), and held capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, assert_never

from gpucloud.clouds.kit import amount_of, in_threads
from gpucloud.resources import HeldCapacity, Quote
from gpucloud_azure.clients import PAGES, Clients
from gpucloud_azure.errors import MalformedAnswerError, reading
from gpucloud_azure.find import CLOUD
from gpucloud_azure.ids import parts_of
from gpucloud_azure.json_paths import at, list_at, plain, refuse_nonsense, text_at
from gpucloud_pricing.purchases import Purchase

PUBLIC_URL = "https://prices.azure.com/api/retail/prices"
API_VERSION = "2023-01-01-preview"
SIZES_PER_CALL = 10
"""So that the condition stays short enough for a URL."""
_NOT_OURS = ("windows", "dedicated", "low priority", "cloud services")
"""Words in the names of products, meters and SKUs that are not for a regular Linux machine."""


def condition_for(region: str, sizes: Sequence[str]) -> str:
    """The API's ``$filter``; values are compared with regard to case."""
    names = " or ".join(f"armSkuName eq '{size.replace(chr(39), chr(39) * 2)}'" for size in sizes)
    return (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
        f"and armRegionName eq '{region}' and ({names})"
    )


def price_of(rows: Iterable[Mapping[str, Any]], region: str, size: str, purchase: Purchase) -> Decimal | None:
    """The hourly price of a size on Linux among the API's rows; the highest, should they name several."""
    wants_spot = _wants_spot(purchase)
    amounts = [
        amount
        for row in rows
        if (row.get("armRegionName"), row.get("armSkuName")) == (region, size)
        and _is_ours(row)
        and is_spot(row) == wants_spot
        and (amount := amount_of(row.get("retailPrice"))) is not None
    ]
    return max(amounts, default=None)


def _wants_spot(purchase: Purchase) -> bool:
    """Whether the price is in the rows of Spot; held capacity has the price on demand."""
    match purchase:
        case Purchase.SPOT:
            return True
        case Purchase.ON_DEMAND | Purchase.RESERVED:
            return False
        case _:
            assert_never(purchase)


def _names(row: Mapping[str, Any]) -> str:
    return " ".join(str(row.get(field) or "") for field in ("productName", "meterName", "skuName")).lower()


def _is_ours(row: Mapping[str, Any]) -> bool:
    return (
        row.get("type", "Consumption") == "Consumption"
        and row.get("unitOfMeasure") == "1 Hour"
        and not row.get("tierMinimumUnits")
        and is_plain(row)
    )


def is_plain(row: Mapping[str, Any]) -> bool:
    """Whether a row is of a Linux machine of its own, by its names."""
    return not any(word in _names(row) for word in _NOT_OURS)


def is_spot(row: Mapping[str, Any]) -> bool:
    """Whether a row is of a spot machine."""
    return "spot" in _names(row)


def quotes(
    clients: Clients, region: str, sizes: Sequence[str], purchase: Purchase, *, now: datetime
) -> Sequence[Quote]:
    """Today's prices, for the whole region; Azure has none of its own for a zone."""
    chunks = [sizes[start : start + SIZES_PER_CALL] for start in range(0, len(sizes), SIZES_PER_CALL)]
    pages = in_threads(lambda chunk: list(rows_where(clients, condition_for(region, chunk))), chunks)
    rows = [row for page in pages for row in page]
    currency = next((str(row["currencyCode"]) for row in rows if row.get("currencyCode")), "USD")
    found: list[Quote] = []
    for size in dict.fromkeys(sizes):
        amount = price_of(rows, region, size, purchase)
        if amount is not None:
            found.append(
                Quote(
                    cloud=CLOUD,
                    region=region,
                    zone=None,
                    instance_type=size,
                    purchase=purchase,
                    price_per_hour=amount,
                    currency=currency,
                    as_of=now,
                    source="Azure Retail Prices",
                )
            )
    return found


def rows_where(clients: Clients, condition: str) -> Iterator[Mapping[str, Any]]:
    """The API's rows for a ``$filter``, from all pages."""
    client = clients.anonymous()
    from azure.core.rest import HttpRequest

    url = clients.profile.get("GPUCLOUD_AZURE_PRICES_URL") or PUBLIC_URL
    query = {"api-version": API_VERSION, "currencyCode": "'USD'", "$filter": condition}
    request = HttpRequest("GET", url, params=query)
    for _ in range(PAGES):
        response = client.send_request(request)
        response.raise_for_status()
        refuse_nonsense(response)
        page = _page(response)
        yield from page["Items"]
        following = page.get("NextPageLink")
        if not following:
            return
        request = HttpRequest("GET", str(following))
    raise MalformedAnswerError(f"the price list gave {PAGES} pages and still more")


def _page(response: Any) -> Mapping[str, Any]:
    """A page of the price list: an object, whose ``Items`` are objects."""
    try:
        page: Mapping[str, Any] = response.json()
        rows = page["Items"]
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise MalformedAnswerError(f"the price list returned a malformed page: {error!r}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in list_at(page, "Items")):
        raise MalformedAnswerError("the price list answered a page without rows")
    return page


# --- capacity that is held


@reading("a list of capacity reservations")
def held(clients: Clients, region: str, sizes: Sequence[str]) -> Sequence[HeldCapacity]:
    """Capacity reservations of these sizes with free capacity, by the ids of their groups."""
    if not sizes:
        return ()
    compute = clients.compute()
    groups = [plain(group) for group in compute.capacity_reservation_groups.list_by_subscription()]
    found: list[HeldCapacity] = []
    for group in groups:
        parts = parts_of(str(group["id"]))
        if parts is None or str(group.get("location", "")).lower() != region:
            continue
        reservations = compute.capacity_reservations
        listed = reservations.list_by_capacity_reservation_group(parts.group, parts.name)
        for reservation in listed:
            name = str(reservation.name)
            shown = plain(reservations.get(parts.group, parts.name, name, expand="instanceView"))
            each = _held(shown, region, str(group["id"]))
            if each.instance_type in sizes and each.free > 0:
                found.append(each)
    return found


def _held(reservation: Mapping[str, Any], region: str, group: str) -> HeldCapacity:
    use = at(reservation, "properties", "instanceView", "utilizationInfo")
    capacity = at(use, "currentCapacity") or at(reservation, "sku", "capacity") or 0
    return HeldCapacity(
        cloud=CLOUD,
        region=region,
        zone=next(iter(reservation.get("zones") or ()), ""),
        instance_type=text_at(reservation, "sku", "name"),
        id=group,
        free=int(capacity) - len(list_at(use, "virtualMachinesAllocated")),
        purchase="reservation",
    )
