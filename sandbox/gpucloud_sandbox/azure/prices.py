"""The Retail Prices API, with the rows that lead careless readers astray."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from gpucloud_sandbox.azure import tariffs
from gpucloud_sandbox.azure.subscription import CLOUD, Subscription
from gpucloud_sandbox.azure.wire import Answer, AzureError
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import Price

MACHINES = "Virtual Machines"
PAGE = 1000
"""Rows per page. Source: Azure Retail Prices overview."""

RESERVED = {"1 Year": (1, Decimal("0.6")), "3 Years": (3, Decimal("0.4"))}
"""How long a reservation is, and its part of the price on demand: the sandbox's own."""
SAVINGS = {"1 Year": Decimal("0.75"), "3 Years": Decimal("0.55")}
"""Likewise of savings plans."""

_WORD = re.compile(r"\s*('(?:[^']|'')*'|contains\(|[(),]|[A-Za-z]+)")
Test = Callable[[Document], bool]


def answer(subscription: Subscription, origin: str, query: dict[str, str]) -> Answer:
    """One page of what a condition lets through."""
    text = query.get("$filter", "")
    test = condition(text)
    found = [row for row in rows(subscription, _services(text), _sizes(text)) if test(row)]
    skip = int(query.get("$skip", 0))
    shown = found[skip : skip + PAGE]
    following = None
    if skip + PAGE < len(found):
        rest = "&".join(f"{name}={value}" for name, value in query.items() if name != "$skip")
        following = f"{origin}/api/retail/prices?{rest}&$skip={skip + PAGE}"
    return Answer(
        body={
            "BillingCurrency": "USD",
            "CustomerEntityId": "Default",
            "CustomerEntityType": "Retail",
            "Items": shown,
            "NextPageLink": following,
            "Count": len(shown),
        }
    )


# --- rows


def _services(text: str) -> frozenset[str]:
    """The services that a condition names outside of parentheses; none if it has alternatives there."""
    outside = _outside(text)
    named = re.findall(r"serviceName eq '([^']*)'", outside)
    return frozenset() if " or " in outside else frozenset(named)


def _sizes(text: str) -> frozenset[str]:
    """The sizes of which a condition wants one; none if it does not say so in parentheses of their own."""
    size = r"armSkuName eq '[^']*'"
    groups: list[str] = re.findall(rf"\(({size}(?: or {size})*)\)", text)
    return (
        frozenset(re.findall(r"'([^']*)'", groups[0]))
        if groups and " or " not in _outside(text)
        else frozenset()
    )


def _outside(text: str) -> str:
    """What a condition says outside of parentheses."""
    return re.sub(r"\([^()]*\)", "", text)


def rows(
    subscription: Subscription, services: frozenset[str] = frozenset(), sizes: frozenset[str] = frozenset()
) -> Iterator[Document]:
    """Every meter: of each size and region the real ones, and those that only look like them.

    ``services`` and ``sizes`` are the names of those to make rows of; empty for all.
    """
    market = subscription.world.market
    if not services or services - {MACHINES}:
        yield from tariffs.rows(market)
    if services and MACHINES not in services:
        return
    wanted = (place for place in market.catalog(CLOUD).prices if not sizes or place[2] in sizes)
    for region, _, size, purchase in sorted(wanted):
        price = market.price(CLOUD, region, "", size, purchase)
        if price is not None:
            yield from _meters(region, size, purchase, price)


@lru_cache(maxsize=1 << 14)
def _meters(region: str, size: str, purchase: str, price: Price) -> Sequence[Document]:
    """The rows of one price; there are thousands of them, and hardly one changes between two questions."""
    family = f"Virtual Machines {size.removeprefix('Standard_').split('_')[0]} Series"
    spot = " Spot" if purchase == "spot" else ""
    meter = size.removeprefix("Standard_").replace("_", " ") + spot
    ours = _row(region, size, price, product=family, meter=meter)
    windows = _row(region, size, price, product=f"{family} Windows", meter=meter, factor=Decimal("1.8"))
    if purchase == "spot":
        return ours, windows
    ours["savingsPlan"] = [_plan(price, term, part) for term, part in SAVINGS.items()]
    reserved = [
        {
            **_row(region, size, price, product=family, meter=meter, factor=part * 8760 * years),
            "type": "Reservation",
            "reservationTerm": term,
        }
        for term, (years, part) in RESERVED.items()
    ]
    return (
        ours,
        windows,
        _row(region, size, price, product=family, meter=f"{meter} Low Priority", factor=Decimal("0.2")),
        _row(region, size, price, product=f"{family} Dedicated Host", meter=meter, factor=Decimal(6)),
        _row(region, size, price, product=family, meter=meter, factor=Decimal(0)),
        *reserved,
    )


def _plan(price: Price, term: str, part: Decimal) -> Document:
    amount = float(price.amount * part)
    return {"unitPrice": amount, "retailPrice": amount, "term": term}


def _row(
    region: str, size: str, price: Price, *, product: str, meter: str, factor: Decimal = Decimal(1)
) -> Document:
    amount = float(price.amount * factor)
    return {
        "currencyCode": price.currency,
        "tierMinimumUnits": 0.0,
        "retailPrice": amount,
        "unitPrice": amount,
        "armRegionName": region,
        "location": region,
        "effectiveStartDate": "2026-01-01T00:00:00Z",
        "meterId": f"{region}-{size}-{meter}".lower().replace(" ", "-"),
        "meterName": meter,
        "productId": "DZH318Z0",
        "skuId": "DZH318Z0/0001",
        "productName": product,
        "skuName": meter,
        "serviceName": MACHINES,
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
    }


# --- conditions


def condition(text: str) -> Test:
    """What a ``$filter`` lets through: ``eq``, ``ne``, ``contains``, ``and``, ``or`` and parentheses.

    Raises:
        AzureError: it cannot be read.
    """
    words = _WORD.findall(text)
    if "".join(words) != re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text):
        raise AzureError("BadRequest", f"Invalid OData parameters supplied: {text}")
    if not words:
        return _anything
    try:
        test, left = _either(words)
    except IndexError:
        left, test = ["?"], _anything
    if left:
        raise AzureError("BadRequest", f"Invalid OData parameters supplied: {text}")
    return test


def _anything(row: Document) -> bool:
    return True


def _either(words: list[str]) -> tuple[Test, list[str]]:
    one, words = _both(words)
    tests = [one]
    while words and words[0] == "or":
        one, words = _both(words[1:])
        tests.append(one)
    return (lambda row: any(test(row) for test in tests)), words


def _both(words: list[str]) -> tuple[Test, list[str]]:
    one, words = _one(words)
    tests = [one]
    while words and words[0] == "and":
        one, words = _one(words[1:])
        tests.append(one)
    return (lambda row: all(test(row) for test in tests)), words


def _one(words: list[str]) -> tuple[Test, list[str]]:
    if words[0] == "(":
        test, rest = _either(words[1:])
        if rest[0] != ")":
            raise IndexError
        return test, rest[1:]
    if words[0] == "contains(":
        name, value = words[1], _value(words[3])
        rest = words[5:]
        wanted = True
        if rest and rest[0] == "eq":
            wanted, rest = rest[1] == "true", rest[2:]
        return (lambda row: (value in _field(row, name)) == wanted), rest
    name, operator, value = words[0], words[1], _value(words[2])
    if operator not in {"eq", "ne"}:
        raise IndexError
    return (lambda row: (_field(row, name) == value) == (operator == "eq")), words[3:]


def _field(row: Document, name: str) -> str:
    """A row's member; ``priceType`` is what the row calls ``type``. Values are compared with their case."""
    value: Any = row.get("type" if name == "priceType" else name, "")
    return str(value)


def _value(word: str) -> str:
    if not word.startswith("'"):
        raise IndexError
    return word[1:-1].replace("''", "'")
