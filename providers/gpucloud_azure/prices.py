"""Reads prices from the public Retail Prices API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_never

from gpucloud.clouds.fetch import same_origin
from gpucloud.clouds.kit import amount_of
from gpucloud_azure.clients import PAGES, Clients
from gpucloud_azure.errors import MalformedAnswerError
from gpucloud_azure.json_paths import list_at, refuse_nonsense
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
        if not same_origin(str(following), url):
            raise MalformedAnswerError(
                f"the price list names another host for its next page: {following!r:.200}"
            )
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
