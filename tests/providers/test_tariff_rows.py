"""Tariffs in the vendors' answers: what is damaged is set aside with a reason, and the rest is believed.

The vendors' own SDKs ask, over HTTP, a server that answers what a test says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import MISSING, NO_PRICE, PriceList, Prices
from gpucloud.clouds.provider import Provider
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing import Tariff
from tests.profiles import own_profile
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.alibaba_sandbox import alibaba_environment
from tests.providers.alibaba_sandbox import wire as alibaba
from tests.providers.test_alibaba_prices import price

__all__ = ["alibaba", "alibaba_environment"]

Shown = tuple[Decimal, Decimal | None, Decimal]


def asked(provider: Provider, kind: str, region: str) -> PriceList:
    """The answer to the query for one kind of tariff."""
    prices = provider.ability(Prices)
    assert prices is not None
    [inquiry] = [each for each in prices.tariff_inquiries([region]) if each.covers.tariffs == (kind,)]
    return inquiry.ask()


def shown(steps: Sequence[Tariff]) -> list[Shown]:
    return [(each.tier_from, each.tier_to, each.amount) for each in steps]


def steps(*told: tuple[str, str | None, str]) -> list[Shown]:
    return [
        (Decimal(begin), None if end is None else Decimal(end), Decimal(amount))
        for begin, end, amount in told
    ]


# --- AWS


def transfer(*prices: Any, **changes: Any) -> str:
    """An element of the price list: transfer to the internet, each price from its step on."""
    bounds = ["0", "10240", "51200", "Inf"]
    attributes = {
        "usagetype": "DataTransfer-Out-Bytes",
        "fromRegionCode": "us-east-1",
        "fromLocationType": "AWS Region",
        "toLocation": "External",
        **changes,
    }
    dimensions: dict[str, Any] = {
        str(number): {
            "unit": "GB",
            "beginRange": bounds[number],
            "endRange": "Inf" if number == len(prices) - 1 else bounds[number + 1],
            "pricePerUnit": amount if isinstance(amount, dict) else {"USD": amount},
        }
        for number, amount in enumerate(prices)
    }
    terms = {"OnDemand": {"term": {"priceDimensions": dimensions}}}
    return json.dumps({"product": {"attributes": attributes}, "terms": terms})


@pytest.fixture
def aws(wire: aws_wire.Wire) -> aws_wire.Wire:
    regions = "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>"
    wire.say("DescribeRegions", aws_wire.answer("DescribeRegions", regions))
    return wire


def listed(wire: aws_wire.Wire, *rows: Any) -> PriceList:
    body = json.dumps({"FormatVersion": "aws_v1", "PriceList": rows})
    wire.say("GetProducts", aws_wire.Answer(body, headers={"content-type": "application/x-amz-json-1.1"}))
    return asked(AwsProvider(own_profile()), "egress", "us-east-1")


def test_steps_of_aws_are_read_in_their_order_and_other_rows_passed_over(aws: aws_wire.Wire) -> None:
    cheaper = [
        transfer("0.001", usagetype="DataTransfer-Out-OBytes"),
        transfer("0.001", fromLocationType="AWS Local Zone"),
        transfer("0.001", fromRegionCode="eu-west-1"),
        transfer("0.001", toLocation="Asia Pacific (Tokyo)"),
    ]
    answer = listed(aws, *cheaper, transfer("0.09", "0.085", "0.07", usagetype="USE1-DataTransfer-Out-Bytes"))
    [found] = answer.tariffs
    assert shown(found) == steps(("0", "10240", "0.09"), ("10240", "51200", "0.085"), ("51200", None, "0.07"))
    assert {each.currency for each in found} == {"USD"}
    assert answer.set_aside == []
    [sent] = aws.sent["GetProducts"]
    assert json.loads(sent["json"])["ServiceCode"] == "AWSDataTransfer"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("<html>", MISSING),
        ("{}", MISSING),
        (7, MISSING),
        (transfer(), MISSING),
        (transfer("0.09", "free"), NO_PRICE),
        (transfer("-0.09"), NO_PRICE),
        (transfer("NaN"), NO_PRICE),
        (transfer({"CNY": "0.9"}), "not in USD"),
        (transfer("0.09").replace('"GB"', '"TB"'), "unknown unit 'TB'"),
        (transfer("0.09").replace('"Inf"', '"many"'), MISSING),
    ],
)
def test_a_damaged_row_of_aws_is_set_aside(aws: aws_wire.Wire, row: Any, reason: str) -> None:
    answer = listed(aws, row, transfer("0.09"))
    assert [each.reason for each in answer.set_aside] == [reason]
    assert [shown(each) for each in answer.tariffs] == [steps(("0", None, "0.09"))]


# --- Azure


def meter(**changes: Any) -> dict[str, Any]:
    """A row of the Retail Prices API: a premium SSD of 128 GiB."""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": 19.71,
        "armRegionName": "eastus",
        "meterName": "P10 LRS Disk",
        "productName": "Premium SSD Managed Disks",
        "serviceName": "Storage",
        "unitOfMeasure": "1/Month",
        "type": "Consumption",
        **changes,
    }


def metered(wire: azure_wire.Wire, kind: str, *rows: Any) -> PriceList:
    wire.say("GET", "/api/retail/prices", azure_wire.Answer({"Items": list(rows), "NextPageLink": None}))
    return asked(AzureProvider(own_profile()), kind, "eastus")


def test_disks_of_azure_are_classes_by_size(azure_wire: azure_wire.Wire) -> None:
    others = [
        meter(meterName="P10 ZRS Disk", retailPrice=1),
        meter(meterName="P10 LRS Disk Mount", retailPrice=1),
        meter(armRegionName="westeurope", retailPrice=1),
    ]
    smaller = meter(meterName="P4 LRS Disk", retailPrice=5.28)
    answer = metered(azure_wire, "disk", *others, meter(), smaller)
    [found] = answer.tariffs
    assert shown(found) == steps(("0", "32", "5.28"), ("32", "128", "19.71"))
    assert [each.sku for each in found] == ["Premium SSD LRS P4 (32 GiB)", "Premium SSD LRS P10 (128 GiB)"]
    assert {each.unit for each in found} == {"disk_month"}


EGRESS = {"meterName": "Standard Data Transfer Out", "unitOfMeasure": "1 GB"}


def test_the_first_step_of_azure_may_be_free(azure_wire: azure_wire.Wire) -> None:
    rows = [
        meter(**EGRESS, retailPrice=0.0),
        meter(**EGRESS, retailPrice=0.083, tierMinimumUnits=10335.0),
        meter(**EGRESS, retailPrice=0.087, tierMinimumUnits=100.0),
    ]
    [found] = metered(azure_wire, "egress", *rows).tariffs
    assert shown(found) == steps(("0", "100", "0"), ("100", "10335", "0.087"), ("10335", None, "0.083"))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"retailPrice": "free"}, NO_PRICE),
        ({"retailPrice": -1}, NO_PRICE),
        ({"retailPrice": None}, NO_PRICE),
        ({"meterName": "P11 LRS Disk"}, NO_PRICE),
        ({"currencyCode": "EUR"}, "not in USD"),
        ({"unitOfMeasure": "1 Hour"}, "unknown unit '1 Hour'"),
    ],
)
def test_one_damaged_row_of_azure_sets_its_region_aside(
    azure_wire: azure_wire.Wire, damage: dict[str, Any], reason: str
) -> None:
    """Or the next larger class would take the place of the one whose row is damaged."""
    answer = metered(azure_wire, "disk", meter(**damage), meter(meterName="P20 LRS Disk"))
    assert list(answer.tariffs) == []
    assert [each.reason for each in answer.set_aside] == [reason]


# --- Alibaba Cloud


def test_a_disk_of_alibaba_is_asked_for_by_the_hour(alibaba: alibaba_wire.Wire) -> None:
    alibaba.say("DescribeRegions", {"Regions": {"Region": [{"RegionId": "cn-hangzhou"}]}})
    alibaba.say("DescribePrice", price(2.1))
    [[disk]] = asked(AlibabaProvider(own_profile()), "disk", "cn-hangzhou").tariffs
    assert (disk.amount, disk.unit, disk.currency) == (Decimal("1.533"), "gib_month", "CNY")
    [sent] = alibaba.sent["DescribePrice"]
    assert (sent["ResourceType"], sent["DataDisk.1.Size"], sent["PriceUnit"]) == ("disk", "1000", "Hour")
    [[egress]] = asked(AlibabaProvider(own_profile()), "egress", "cn-hangzhou").tariffs
    assert (egress.amount, egress.unit, egress.tier_to) == (Decimal("2.1"), "gb", None)
    assert alibaba.sent["DescribePrice"][1]["ResourceType"] == "bandwidth"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (price(0), NO_PRICE),
        (price("free"), NO_PRICE),
        (
            alibaba_wire.refusal("InvalidParameter", "no such price"),
            "the cloud has no such price: InvalidParameter",
        ),
    ],
)
def test_a_price_that_alibaba_does_not_tell_is_set_aside(
    alibaba: alibaba_wire.Wire, body: Any, reason: str
) -> None:
    """And is no failure of the refresh: not every region sells everything."""
    alibaba.say("DescribeRegions", {"Regions": {"Region": [{"RegionId": "cn-hangzhou"}]}})
    alibaba.say("DescribePrice", body)
    answer = asked(AlibabaProvider(own_profile()), "disk", "cn-hangzhou")
    assert list(answer.tariffs) == []
    assert [each.reason for each in answer.set_aside] == [reason]
