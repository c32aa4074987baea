"""What AWS says that things cost today."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal

import pytest

from gpucloud.clouds.abilities import Inquiry, Prices
from gpucloud_aws.errors import MalformedAnswerError
from gpucloud_aws.provider import AwsProvider
from gpucloud_pricing.purchases import Purchase
from tests.profiles import own_profile
from tests.providers.abilities import ABILITIES, able
from tests.providers.aws_wire import Answer, Wire, answer, refusal


def product(price: str, *, currency: str = "USD", unit: str = "Hrs", **attributes: str) -> str:
    """One element of ``PriceList``: JSON in a text, as AWS sends it."""
    about = {"instanceType": "g4dn.xlarge", "regionCode": "us-east-1"} | attributes
    dimension = {"unit": unit, "pricePerUnit": {currency: price}}
    term = {"priceDimensions": {"A.B.C": dimension}}
    return json.dumps({"product": {"attributes": about}, "terms": {"OnDemand": {"A.B": term}}})


def price_list(wire: Wire, *products: str) -> None:
    body = json.dumps({"FormatVersion": "aws_v1", "PriceList": list(products)})
    wire.say("GetProducts", Answer(body, headers={"content-type": "application/x-amz-json-1.1"}))


def test_the_list_price_of_a_type_is_quoted_for_the_region_with_its_source(wire: Wire) -> None:
    price_list(wire, product("0.5260000000"))
    [quote] = able(AwsProvider(own_profile()), Prices).quotes(
        "us-east-1", ["g4dn.xlarge"], Purchase.ON_DEMAND
    )
    assert (quote.price_per_hour, quote.currency, quote.zone) == (Decimal("0.5260000000"), "USD", None)
    assert quote.purchase is Purchase.ON_DEMAND
    assert "GetProducts" in quote.source
    assert quote.as_of.tzinfo is not None


def test_the_price_list_is_asked_for_plain_linux_on_shared_hardware(wire: Wire) -> None:
    """Without the market option, capacity blocks would leak in at a price of 0."""
    price_list(wire)
    able(AwsProvider(own_profile()), Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.ON_DEMAND)
    asked = {f["Field"]: f["Value"] for f in json.loads(wire.sent["GetProducts"][0]["json"])["Filters"]}
    assert asked == {
        "instanceType": "g4dn.xlarge",
        "regionCode": "us-east-1",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }


@pytest.mark.parametrize(
    "bad",
    [
        product("0.0000000000"),
        product("-1"),
        product("NaN"),
        product("Infinity"),
        product("free"),
        product("0.1", currency="CNY"),
        product("0.1", unit="Quantity"),
        product("0.1", regionCode="us-west-2"),
        product("0.1", instanceType="g4dn.metal"),
        "{",
        "[]",
    ],
)
def test_a_row_that_is_no_price_of_this_offer_is_left_out(wire: Wire, bad: str) -> None:
    price_list(wire, bad)
    assert (
        list(
            able(AwsProvider(own_profile()), Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.ON_DEMAND)
        )
        == []
    )
    price_list(wire, bad, product("0.526"))
    [quote] = able(AwsProvider(own_profile()), Prices).quotes(
        "us-east-1", ["g4dn.xlarge"], Purchase.ON_DEMAND
    )
    assert quote.price_per_hour == Decimal("0.526")


def test_of_several_prices_the_highest_counts(wire: Wire) -> None:
    """A quote is a promise not to pay more."""
    price_list(wire, product("0.5"), product("0.6"), product("0.4"))
    [quote] = able(AwsProvider(own_profile()), Prices).quotes(
        "us-east-1", ["g4dn.xlarge"], Purchase.ON_DEMAND
    )
    assert quote.price_per_hour == Decimal("0.6")


def test_chinas_regions_are_quoted_in_their_currency(wire: Wire) -> None:
    price_list(
        wire, product("6.1", currency="CNY", regionCode="cn-north-1"), product("1", regionCode="cn-north-1")
    )
    [quote] = able(AwsProvider(own_profile()), Prices).quotes(
        "cn-north-1", ["g4dn.xlarge"], Purchase.ON_DEMAND
    )
    assert (quote.price_per_hour, quote.currency) == (Decimal("6.1"), "CNY")


def test_a_partition_without_a_price_list_is_not_asked(wire: Wire) -> None:
    assert (
        list(
            able(AwsProvider(own_profile()), Prices).quotes(
                "us-gov-west-1", ["g4dn.xlarge"], Purchase.ON_DEMAND
            )
        )
        == []
    )
    assert not wire.sent


def spot_rows(*rows: tuple[str, str, str, str]) -> str:
    items = "".join(
        f"<item><instanceType>{instance_type}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{price}</spotPrice><timestamp>{since}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
        for instance_type, zone, price, since in rows
    )
    return answer("DescribeSpotPriceHistory", f"<spotPriceHistorySet>{items}</spotPriceHistorySet>")


ZONES = "<availabilityZoneInfo>" + "".join(
    f"<item><zoneName>us-east-1{letter}</zoneName><zoneId>use1-az{number}</zoneId></item>"
    for letter, number in (("a", 6), ("b", 1))
) + "</availabilityZoneInfo>"  # fmt: skip


def spot_quotes(wire: Wire, *rows: tuple[str, str, str, str]) -> dict[str | None, Decimal]:
    wire.say("DescribeSpotPriceHistory", spot_rows(*rows))
    wire.say("DescribeAvailabilityZones", answer("DescribeAvailabilityZones", ZONES))
    quotes = able(AwsProvider(own_profile()), Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.SPOT)
    assert all(quote.purchase is Purchase.SPOT for quote in quotes)
    return {quote.zone: quote.price_per_hour for quote in quotes}


def test_spot_is_quoted_per_zone_by_az_id_and_the_newest_price_counts(wire: Wire) -> None:
    quotes = spot_quotes(
        wire,
        ("g4dn.xlarge", "us-east-1a", "0.20", "2026-11-20T10:00:00Z"),
        ("g4dn.xlarge", "us-east-1a", "0.25", "2026-11-20T12:00:00Z"),
        ("g4dn.xlarge", "us-east-1a", "0.10", "2026-11-20T08:00:00Z"),
        ("g4dn.xlarge", "us-east-1b", "0.30", "2026-11-20T08:00:00Z"),
    )
    assert quotes == {"use1-az6": Decimal("0.25"), "use1-az1": Decimal("0.30")}
    [sent] = wire.sent["DescribeSpotPriceHistory"]
    assert sent["ProductDescription.1"] == "Linux/UNIX"


def test_spot_rows_that_are_no_price_are_left_out(wire: Wire) -> None:
    quotes = spot_quotes(
        wire,
        ("g4dn.xlarge", "us-east-1a", "0.0", "2026-11-20T12:00:00Z"),
        ("g4dn.xlarge", "us-east-1a", "-1", "2026-11-20T12:00:00Z"),
        ("p5.48xlarge", "us-east-1b", "0.01", "2026-11-20T12:00:00Z"),
    )
    assert quotes == {}


def test_held_capacity_is_not_quoted(wire: Wire) -> None:
    assert (
        list(able(AwsProvider(own_profile()), Prices).quotes("us-east-1", ["g4dn.xlarge"], Purchase.RESERVED))
        == []
    )


def test_the_provider_has_the_abilities_that_it_has() -> None:
    aws = AwsProvider(own_profile())
    for kind in ABILITIES:
        assert aws.ability(kind) is not None, kind


REGIONS = "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>"


def block_inquiry(wire: Wire) -> Inquiry:
    wire.say("DescribeRegions", answer("DescribeRegions", REGIONS))
    inquiries = able(AwsProvider(own_profile()), Prices).inquiries(
        ["p5.48xlarge", "g4dn.xlarge"], ["us-east-1"]
    )
    (inquiry,) = [each for each in inquiries if each.name == "capacity blocks in us-east-1"]
    return inquiry


def test_a_region_without_blocks_of_a_type_sells_none(wire: Wire) -> None:
    """EC2 refuses to look for what a region does not have; that is an answer, and what was sold is gone."""
    wire.say("DescribeCapacityBlockOfferings", Answer(refusal("InvalidParameterValue"), status=400))
    told = block_inquiry(wire).ask()
    assert (list(told.prices), list(told.set_aside)) == ([], [])
    assert [sent["InstanceType"] for sent in wire.sent["DescribeCapacityBlockOfferings"]] == ["p5.48xlarge"]


def test_who_may_not_look_for_blocks_has_not_learnt_that_there_are_none(wire: Wire) -> None:
    wire.say("DescribeCapacityBlockOfferings", Answer(refusal("UnauthorizedOperation"), status=403))
    with pytest.raises(Exception, match="UnauthorizedOperation"):
        block_inquiry(wire).ask()


def test_nonsense_about_blocks_is_no_answer(wire: Wire) -> None:
    action = "DescribeCapacityBlockOfferings"
    for body in ("<html><body>Sorry</body></html>", answer(action, "<other>1</other>")):
        wire.say(action, Answer(body))
        with pytest.raises(MalformedAnswerError):
            block_inquiry(wire).ask()


def test_blocks_that_never_end_are_no_answer(wire: Wire) -> None:
    pages = itertools.count(1)
    action = "DescribeCapacityBlockOfferings"

    def page() -> str:
        return answer(action, f"<capacityBlockOfferingSet/><nextToken>{next(pages)}</nextToken>")

    wire.say(action, Answer(page))
    with pytest.raises(MalformedAnswerError, match="pages and still more"):
        block_inquiry(wire).ask()
