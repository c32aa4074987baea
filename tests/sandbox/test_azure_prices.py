"""The Retail Prices API of the sandbox: the vendor's rows, and those that lead careless readers astray."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.sandbox.azure_lab import REGION, SIZE, Azure

WANTED = " and ".join(
    (
        "serviceName eq 'Virtual Machines'",
        "priceType eq 'Consumption'",
        f"armRegionName eq '{REGION}'",
        f"armSkuName eq '{SIZE}'",
        "contains(productName,'Windows') eq false",
        "contains(productName,'Dedicated') eq false",
        "contains(meterName,'Low Priority') eq false",
    )
)


def ask(azure: Azure, condition: str = "", **more: str) -> Any:
    query = {**more, **({"$filter": condition} if condition else {})}
    return azure.ask("GET", f"/api/retail/prices?{urlencode(query)}", token=None)


def test_careful_readers_find_one_price_for_each_way_of_paying(azure: Azure) -> None:
    page = ask(azure, WANTED).body
    assert (page["BillingCurrency"], page["NextPageLink"]) == ("USD", None)
    real = [row for row in page["Items"] if row["retailPrice"]]
    assert page["Count"] == len(page["Items"]) == len(real) + 1  # a free row, as the vendor has them
    spot, on_demand = sorted(real, key=lambda row: row["retailPrice"])
    assert "Spot" in spot["skuName"]
    assert "Spot" not in on_demand["skuName"]
    for row in real:
        assert (row["unitOfMeasure"], row["currencyCode"], row["armSkuName"]) == ("1 Hour", "USD", SIZE)
        assert row["retailPrice"] == row["unitPrice"]


def test_careless_readers_find_rows_that_are_no_price_of_ours(azure: Azure) -> None:
    rows = ask(azure, f"armRegionName eq '{REGION}' and armSkuName eq '{SIZE}'").body["Items"]
    normal = next(row for row in ask(azure, WANTED).body["Items"] if "Spot" not in row["skuName"])
    names = [f"{row['productName']} / {row['meterName']}" for row in rows]
    for pitfall in ("Windows", "Dedicated Host", "Low Priority"):
        assert any(pitfall in name for name in names)
    (year,) = [row for row in rows if row.get("reservationTerm") == "1 Year"]
    assert (year["type"], year["unitOfMeasure"]) == ("Reservation", "1 Hour")
    assert year["retailPrice"] > 1000 * normal["retailPrice"]  # the sum of the whole term
    assert {row.get("reservationTerm") for row in rows} >= {None, "1 Year", "3 Years"}


def test_values_have_their_case_and_conditions_combine(azure: Azure) -> None:
    assert ask(azure, f"armSkuName eq '{SIZE.lower()}'").body["Items"] == []
    two = f"(armRegionName eq '{REGION}' or armRegionName eq 'westeurope') and armSkuName eq '{SIZE}'"
    assert {row["armRegionName"] for row in ask(azure, two).body["Items"]} == {REGION, "westeurope"}
    only = ask(azure, f"{two} and armRegionName ne 'westeurope' and contains(meterName, 'Spot')").body[
        "Items"
    ]
    assert {row["armRegionName"] for row in only} == {REGION}
    assert all("Spot" in row["meterName"] for row in only)


@pytest.mark.parametrize(
    "wrong", ["armSkuName", "armSkuName like 'x'", "armSkuName eq x", "(a eq 'b'", "a eq 'b'; c"]
)
def test_a_condition_that_cannot_be_read_is_refused(azure: Azure, wrong: str) -> None:
    answer = ask(azure, wrong)
    assert (answer.status, answer.code) == (400, "BadRequest")


def test_long_answers_come_in_pages_that_name_the_next(azure: Azure) -> None:
    seen: list[str] = []
    path = "/api/retail/prices"
    while path:
        page = azure.ask("GET", path, token=None).body
        assert 0 < page["Count"] <= 1000
        seen += [json.dumps(row) for row in page["Items"]]
        path = (page["NextPageLink"] or "").removeprefix(azure.origin)
    assert len(seen) > 1000
    assert len(set(seen)) == len(seen)


def test_a_price_that_moves_is_told(azure: Azure) -> None:
    azure.sandbox.price(cloud="azure", region=REGION, instance_type=SIZE, purchase="spot", amount="0.123")
    rows = ask(azure, f"{WANTED} and contains(meterName,'Spot')").body["Items"]
    assert [Decimal(str(row["retailPrice"])) for row in rows] == [Decimal("0.123")]
