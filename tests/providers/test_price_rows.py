"""Rows of the vendors' price lists that are no price: each is set aside with a reason, or passed over."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucloud_aws.price_list import block_row, list_rows, region_of, savings_row
from gpucloud_azure.price_list import prices_in
from gpucloud_pricing import Price
from gpucloud_pricing.history import SetAside

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def product(**changes: Any) -> str:
    """An element of the AWS price list: a T4, 0.526 an hour."""
    attributes = {
        "instanceType": "g4dn.xlarge",
        "regionCode": "us-east-1",
        "locationType": "AWS Region",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": "0.5260000000"}}
    for name, value in changes.items():
        (dimension if name in dimension else attributes)[name] = value
    terms = {"OnDemand": {"a": {"priceDimensions": {"b": dimension}}}}
    return json.dumps({"product": {"attributes": attributes}, "terms": terms})


def reason(rows: list[Any]) -> str:
    (row,) = rows
    assert isinstance(row, SetAside)
    return row.reason


def test_an_ordinary_row_is_a_price() -> None:
    (row,) = list_rows(product(), "g4dn.xlarge", "USD", NOW)
    assert isinstance(row, Price)
    assert (row.region, row.zone, row.amount) == ("us-east-1", None, Decimal("0.526"))


def test_a_local_zone_has_its_region() -> None:
    place = {"regionCode": "us-west-2-lax-1", "locationType": "AWS Local Zone"}
    (row,) = list_rows(product(**place), "g4dn.xlarge", "USD", NOW)
    assert isinstance(row, Price)
    assert (row.region, row.zone) == ("us-west-2", "us-west-2-lax-1")
    assert region_of("ap-southeast-1") == "ap-southeast-1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<html>", "a field is missing"),
        ("[]", "a field is missing"),
        ("{}", "a field is missing"),
        (product(instanceType="p3.2xlarge"), "another type"),
        (product(operatingSystem="Windows"), "not Linux"),
        (product(tenancy="Dedicated"), "not Linux"),
        (product(marketoption="CapacityBlock"), "capacity block"),
        (product(unit="Seconds"), "unknown unit 'Seconds'"),
        (product(pricePerUnit={"CNY": "3.5"}), "not in USD"),
        (product(pricePerUnit={"USD": "0.0000000000"}), "no price"),
        (product(pricePerUnit={"USD": "-1"}), "no price"),
        (product(pricePerUnit={"USD": "free"}), "no price"),
    ],
    ids=lambda value: value[:40],
)
def test_what_is_no_price_of_ours_is_set_aside(text: str, why: str) -> None:
    assert why in reason(list(list_rows(text, "g4dn.xlarge", "USD", NOW)))


RATE: dict[str, Any] = {
    "savingsPlanOffering": {
        "paymentOption": "Partial Upfront",
        "planType": "Compute",
        "durationSeconds": 31536000,
        "currency": "USD",
    },
    "rate": "0.4",
    "unit": "Hrs",
    "usageType": "USE2-BoxUsage:g4dn.xlarge",
    "properties": [
        {"name": name, "value": value}
        for name, value in {
            "region": "us-east-2",
            "instanceType": "g4dn.xlarge",
            "productDescription": "Linux/UNIX",
            "tenancy": "shared",
        }.items()
    ],
}


def test_half_of_a_savings_plan_may_be_due_at_once() -> None:
    row = savings_row(RATE, "USD", NOW)
    assert isinstance(row, Price)
    assert (row.purchase, row.terms) == ("savings_1y", "compute plan, partial upfront")
    assert row.upfront == Decimal("1752")  # 0.4 * 8760 / 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"unit": "Request"}, "unknown unit"),
        ({"rate": "0"}, "no price"),
        ({"properties": []}, "not Linux"),
        ({"savingsPlanOffering": {**RATE["savingsPlanOffering"], "currency": "EUR"}}, "not in USD"),
        ({"savingsPlanOffering": {**RATE["savingsPlanOffering"], "planType": "SageMaker"}}, "unknown kind"),
        ({"savingsPlanOffering": {**RATE["savingsPlanOffering"], "durationSeconds": 1}}, "no price"),
    ],
    ids=str,
)
def test_rates_that_are_none_of_ours_are_set_aside(changes: dict[str, Any], why: str) -> None:
    assert why in reason([savings_row({**RATE, **changes}, "USD", NOW)])
    assert savings_row({**RATE, "usageType": "UnusedBox:g4dn.xlarge"}, "USD", NOW) is None


OFFERING: dict[str, Any] = {
    "CapacityBlockOfferingId": "cb-1",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1a",
    "InstanceCount": 1,
    "CapacityBlockDurationHours": 24,
    "UpfrontFee": "755.14",
    "CurrencyCode": "USD",
    "Tenancy": "default",
}


def block(**changes: Any) -> Price | SetAside:
    return block_row({**OFFERING, **changes}, "us-east-1", "USD", NOW, {"us-east-1a": "use1-az4"}.__getitem__)


def test_a_capacity_block_is_paid_upfront() -> None:
    row = block()
    assert isinstance(row, Price)
    assert (row.purchase, row.zone) == ("capacity_block", "use1-az4")
    assert (row.amount, row.upfront) == (Decimal("31.464167"), Decimal("755.14"))  # 755.14 / 24


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"UpfrontFee": "0"}, "no price"),
        ({"UpfrontFee": "-755.14"}, "no price"),
        ({"UpfrontFee": None}, "no price"),
        ({"CurrencyCode": "CNY"}, "not in USD"),
        ({"Tenancy": "dedicated"}, "not on shared hardware"),
        ({"InstanceCount": 64}, "another length or count"),
        ({"CapacityBlockDurationHours": 48}, "another length or count"),
        ({"AvailabilityZone": ""}, "a field is missing"),
    ],
    ids=str,
)
def test_blocks_that_are_none_of_those_asked_for_are_set_aside(changes: dict[str, Any], why: str) -> None:
    assert why in reason([block(**changes)])


METER: dict[str, Any] = {
    "currencyCode": "USD",
    "tierMinimumUnits": 0.0,
    "retailPrice": 0.526,
    "armRegionName": "eastus",
    "armSkuName": "Standard_NC4as_T4_v3",
    "productName": "Virtual Machines NCasT4 v3 Series",
    "meterName": "NC4as T4 v3",
    "skuName": "NC4as T4 v3",
    "unitOfMeasure": "1 Hour",
    "type": "Consumption",
}


def azure(**changes: Any) -> list[Price | SetAside]:
    return list(prices_in({**METER, **changes}, "Standard_NC4as_T4_v3", date(2026, 11, 1)))


def test_a_reservation_is_told_for_its_whole_term() -> None:
    (row,) = azure(type="Reservation", reservationTerm="1 Year", retailPrice=2628.0)
    assert isinstance(row, Price)
    assert (row.purchase, row.amount) == ("reserved_1y", Decimal("0.3"))


def test_savings_plans_stand_in_the_row_of_the_price_on_demand() -> None:
    plans = [{"retailPrice": 0.4, "term": "1 Year"}, {"retailPrice": 0.2, "term": "3 Years"}]
    told = {row.purchase: row.amount for row in azure(savingsPlan=plans) if isinstance(row, Price)}
    assert told == {
        "on_demand": Decimal("0.526"),
        "savings_1y": Decimal("0.4"),
        "savings_3y": Decimal("0.2"),
    }


@pytest.mark.parametrize(
    "other",
    [
        {"productName": "Virtual Machines NCasT4 v3 Series Windows"},
        {"meterName": "NC4as T4 v3 Low Priority"},
        {"productName": "NCasT4 v3 Dedicated Host"},
        {"type": "DevTestConsumption"},
        {"type": "Reservation", "reservationTerm": "5 Years"},
    ],
    ids=str,
)
def test_what_is_another_thing_is_passed_over(other: dict[str, Any]) -> None:
    assert azure(**other) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"retailPrice": 0.0}, "no price"),
        ({"retailPrice": -1}, "no price"),
        ({"retailPrice": None}, "no price"),
        ({"currencyCode": "EUR"}, "not in USD"),
        ({"unitOfMeasure": "1/Month"}, "unknown unit"),
        ({"armRegionName": ""}, "a field is missing"),
        ({"tierMinimumUnits": 100.0}, "from some quantity on"),
    ],
    ids=str,
)
def test_what_cannot_be_a_price_is_set_aside(changes: dict[str, Any], why: str) -> None:
    assert why in reason(azure(**changes))
