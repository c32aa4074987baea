"""What Alibaba Cloud says that things cost today, what is held, and how much may be rented."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import (
    AddressAssociation,
    Checkup,
    DatabaseLogins,
    PriceList,
    Prices,
    Quotas,
    Reservations,
)
from gpucloud_alibaba import price_list
from gpucloud_alibaba.errors import classify
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_pricing.purchases import Purchase
from tests.profiles import own_profile
from tests.providers.abilities import ABILITIES, able
from tests.providers.alibaba_sandbox import alibaba_environment, wire
from tests.providers.alibaba_wire import Answer, Wire, refusal
from tests.providers.test_error_table import raised

__all__ = ["alibaba_environment", "wire"]

REGION = "cn-hangzhou"
T4 = "ecs.gn6i-c4g1.xlarge"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def provider() -> AlibabaProvider:
    return AlibabaProvider(own_profile(), clock=lambda: NOW)


def price(trade: Any, *, currency: str = "CNY", parts: dict[str, Any] | None = None) -> dict[str, Any]:
    """An answer of DescribePrice; ``parts`` is what each thing in the price costs."""
    inside = [{"Resource": name, "TradePrice": amount} for name, amount in (parts or {}).items()]
    shown = {"TradePrice": trade, "OriginalPrice": trade, "DiscountPrice": 0, "Currency": currency}
    return {"PriceInfo": {"Price": {**shown, "DetailInfos": {"DetailInfo": inside}}}}


def test_the_price_of_a_type_is_quoted_for_the_region_in_the_accounts_currency(wire: Wire) -> None:
    wire.say("DescribePrice", price(11.63))
    [quote] = able(provider(), Prices).quotes(REGION, [T4], Purchase.ON_DEMAND)
    assert (quote.price_per_hour, quote.currency, quote.zone) == (Decimal("11.63"), "CNY", None)
    assert (quote.purchase, quote.as_of) == (Purchase.ON_DEMAND, NOW)
    assert "DescribePrice" in quote.source
    [sent] = wire.sent["DescribePrice"]
    assert (sent["PriceUnit"], sent["Amount"], sent["InstanceType"]) == ("Hour", "1", T4)
    assert sent["SystemDisk.Category"] == "cloud_essd"


def test_the_international_site_is_quoted_in_usd(wire: Wire) -> None:
    wire.say("DescribePrice", price(1.7, currency="USD"))
    [quote] = able(provider(), Prices).quotes("ap-southeast-1", [T4], Purchase.ON_DEMAND)
    assert quote.currency == "USD"


def test_the_disk_that_the_answer_adds_by_itself_is_not_part_of_the_machines_price(wire: Wire) -> None:
    wire.say("DescribePrice", price(11.7, parts={"systemDisk": 0.07, "instanceType": 11.63}))
    [quote] = able(provider(), Prices).quotes(REGION, [T4], Purchase.ON_DEMAND)
    assert quote.price_per_hour == Decimal("11.63")


@pytest.mark.parametrize("bad", [0, -1, "free", "NaN", "Infinity"])
def test_what_is_no_price_is_left_out(wire: Wire, bad: Any) -> None:
    wire.say("DescribePrice", price(bad))
    assert list(able(provider(), Prices).quotes(REGION, [T4], Purchase.ON_DEMAND)) == []


@pytest.mark.parametrize(
    "code", ["InvalidInstanceType.ValueNotSupported", "InvalidInstanceType.NotFound", "PriceNotFound"]
)
def test_a_type_that_is_not_sold_is_left_out_and_the_others_are_quoted(wire: Wire, code: str) -> None:
    wire.say("DescribePrice", refusal(code, status=404))
    assert (
        list(able(provider(), Prices).quotes(REGION, ["ecs.none", "ecs.nor-this"], Purchase.ON_DEMAND)) == []
    )


def test_a_user_who_may_not_see_prices_is_told_so(wire: Wire) -> None:
    wire.say("DescribePrice", refusal("NoPermission.Price", status=403))
    verdict = classify(raised(lambda: able(provider(), Prices).quotes(REGION, [T4], Purchase.ON_DEMAND)))
    assert verdict is not None
    assert verdict.code == "NoPermission.Price"


def test_an_answer_without_a_price_is_malformed(wire: Wire) -> None:
    wire.say("DescribePrice", {"RequestId": "x"})
    verdict = classify(raised(lambda: able(provider(), Prices).quotes(REGION, [T4], Purchase.ON_DEMAND)))
    assert verdict is not None
    assert verdict.code == "MalformedAnswerError"


# --- spot


def history(*rows: tuple[str, str, Any, str], following: int = 0) -> dict[str, Any]:
    """An answer of DescribeSpotPriceHistory: rows of type, zone, price and time."""
    shown = [
        {"InstanceType": kind, "ZoneId": zone, "SpotPrice": amount, "OriginPrice": 11.63, "Timestamp": since}
        for kind, zone, amount, since in rows
    ]
    return {"Currency": "CNY", "NextOffset": following, "SpotPrices": {"SpotPriceType": shown}}


def spot_quotes() -> dict[str | None, Decimal]:
    quotes = able(provider(), Prices).quotes(REGION, [T4], Purchase.SPOT)
    assert all(quote.purchase is Purchase.SPOT and quote.currency == "CNY" for quote in quotes)
    return {quote.zone: quote.price_per_hour for quote in quotes}


def test_spot_is_quoted_per_zone_and_the_newest_price_counts(wire: Wire) -> None:
    wire.say(
        "DescribeSpotPriceHistory",
        history(
            (T4, "cn-hangzhou-i", 3.2, "2026-11-21T10:00:00Z"),
            (T4, "cn-hangzhou-i", 3.5, "2026-11-21T11:00:00Z"),
            (T4, "cn-hangzhou-i", 3.1, "2026-11-21T09:00:00Z"),
            (T4, "cn-hangzhou-j", 4, "2026-11-21T08:00:00Z"),
        ),
    )
    assert spot_quotes() == {"cn-hangzhou-i": Decimal("3.5"), "cn-hangzhou-j": Decimal(4)}
    [sent] = wire.sent["DescribeSpotPriceHistory"]
    assert (sent["SpotDuration"], sent["NetworkType"]) == ("0", "vpc")
    assert (sent["StartTime"], sent["EndTime"]) == ("2026-11-20T12:00:00Z", "2026-11-21T12:00:00Z")


def test_every_page_of_the_history_is_read(wire: Wire) -> None:
    wire.say(
        "DescribeSpotPriceHistory",
        history((T4, "cn-hangzhou-i", 3.2, "2026-11-21T10:00:00Z"), following=1000),
        history((T4, "cn-hangzhou-j", 4.2, "2026-11-21T10:00:00Z")),
    )
    assert set(spot_quotes()) == {"cn-hangzhou-i", "cn-hangzhou-j"}
    assert [sent["Offset"] for sent in wire.sent["DescribeSpotPriceHistory"]] == ["0", "1000"]


def test_spot_rows_that_are_no_price_are_left_out(wire: Wire) -> None:
    wire.say(
        "DescribeSpotPriceHistory",
        history(
            (T4, "cn-hangzhou-i", 0, "2026-11-21T10:00:00Z"),
            ("ecs.gn7-c12g1.3xlarge", "cn-hangzhou-i", 3, "2026-11-21T10:00:00Z"),
        ),
    )
    assert spot_quotes() == {}


# --- how often spot machines are taken back


def advice(*rows: tuple[str, str, Any]) -> dict[str, Any]:
    """An answer of DescribeSpotAdvice: zone, what it says of the rate, and percent of the full price."""
    zones = [
        {
            "ZoneId": zone,
            "AvailableSpotResources": {
                "AvailableSpotResource": [
                    {"InstanceType": T4, "InterruptRateDesc": rate, "AverageSpotDiscount": paid}
                ]
            },
        }
        for zone, rate, paid in rows
    ]
    return {"RegionId": REGION, "AvailableSpotZones": {"AvailableSpotZone": zones}}


def selling(name: str) -> dict[str, Any]:
    """What DescribeAvailableResource says of a region that sells one type."""
    kind = {"SupportedResources": {"SupportedResource": [{"Value": name}]}}
    zone = {"AvailableResources": {"AvailableResource": [kind]}}
    return {"AvailableZones": {"AvailableZone": [zone]}}


def told_of(wire: Wire, *rows: tuple[str, str, Any]) -> PriceList:
    """What is made of such an answer."""
    wire.say("DescribeSpotAdvice", advice(*rows))
    wire.say("DescribeAvailableResource", selling(T4))
    asked = (
        price_list.region_inquiry(provider().own_account.clients.ecs(REGION), REGION, [T4], NOW).ask().further
        or ()
    )
    return next(each for each in asked if each.name.startswith("interruptions")).ask()


def test_of_a_regions_zones_the_one_that_takes_back_most_often_counts(wire: Wire) -> None:
    told = told_of(wire, ("i", "0-3%", 20), ("j", "5-10%", 35), ("k", "3-5%", 10))
    band = told.interruptions[REGION, T4]
    assert (band.low, band.high, band.savings_percent) == (5, 10, 65)
    assert (band.as_of, band.source) == (NOW.date(), "alibaba-spot-advice")
    assert not told.set_aside


@pytest.mark.parametrize(("rate", "low_high"), [("10%", (10, 100)), (">10%", (10, 100)), ("3 - 5 %", (3, 5))])
def test_a_rate_without_an_end_has_none(wire: Wire, rate: str, low_high: tuple[int, int]) -> None:
    band = told_of(wire, ("i", rate, 20)).interruptions[REGION, T4]
    assert (band.low, band.high) == low_high


@pytest.mark.parametrize(
    ("rate", "paid"), [("", 20), ("seldom", 20), ("9-3%", 20), ("0-3%", 120), ("0-300%", 5)]
)
def test_a_rate_that_makes_no_sense_is_set_aside(wire: Wire, rate: str, paid: int) -> None:
    told = told_of(wire, ("i", rate, paid))
    assert not told.interruptions
    assert [each.reason for each in told.set_aside] == ["no rate of interruption"]


def test_held_capacity_is_not_quoted(wire: Wire) -> None:
    assert list(able(provider(), Prices).quotes(REGION, [T4], Purchase.RESERVED)) == []
    assert not wire.sent


# --- held capacity and quotas


def pools(prefix: str, *shares: tuple[str, str, int]) -> list[dict[str, Any]]:
    """Pools as they are answered; the zone's name begins with a small letter there."""
    inside = [{"InstanceType": kind, "zoneId": zone, "AvailableAmount": free} for kind, zone, free in shares]
    pool = {"PrivatePoolOptionsId": f"{prefix}-1", "AllocatedResources": {"AllocatedResource": inside}}
    return [pool]


def test_private_pools_with_something_free_are_held(wire: Wire) -> None:
    reservations = pools("crp", (T4, "cn-hangzhou-i", 2), (T4, "cn-hangzhou-j", 0), ("ecs.x", "z", 1))
    wire.say(
        "DescribeCapacityReservations",
        {"CapacityReservationSet": {"CapacityReservationItem": reservations}},
    )
    assurances = pools("eap", (T4, "cn-hangzhou-k", 1))
    wire.say(
        "DescribeElasticityAssurances",
        {"ElasticityAssuranceSet": {"ElasticityAssuranceItem": assurances}},
    )
    held = able(provider(), Reservations).held(REGION, [T4])
    assert [(each.id, each.zone, each.free) for each in held] == [
        ("crp-1", "cn-hangzhou-i", 2),
        ("eap-1", "cn-hangzhou-k", 1),
    ]


def attributes(**values: str) -> dict[str, Any]:
    items = [
        {"AttributeName": name.replace("_", "-"), "AttributeValues": {"ValueItem": [{"Value": value}]}}
        for name, value in values.items()
    ]
    return {"AccountAttributeItems": {"AccountAttributeItem": items}}


@pytest.mark.parametrize(
    ("purchase", "name"),
    [
        (Purchase.ON_DEMAND, "max-postpaid-instance-vcpu-count"),
        (Purchase.SPOT, "max-spot-instance-vcpu-count"),
    ],
)
def test_the_vcpus_that_may_be_rented_are_told(wire: Wire, purchase: Purchase, name: str) -> None:
    used = name.replace("max", "used")
    wire.say(
        "DescribeAccountAttributes",
        attributes(**{name.replace("-", "_"): "120", used.replace("-", "_"): "24"}),
    )
    [quota] = able(provider(), Quotas).headroom(REGION, [T4], purchase)
    assert (quota.name, quota.unit, quota.limit, quota.used) == (name, "vcpus", Decimal(120), Decimal(24))
    assert quota.instance_types == (T4,)
    assert "https://" in quota.fix


def test_a_quota_that_is_not_told_is_no_quota(wire: Wire) -> None:
    wire.say("DescribeAccountAttributes", attributes())
    assert list(able(provider(), Quotas).headroom(REGION, [T4], Purchase.ON_DEMAND)) == []
    assert list(able(provider(), Quotas).headroom(REGION, [T4], Purchase.RESERVED)) == []


# --- checking


def test_whose_credentials_they_are_and_what_time_the_cloud_has(wire: Wire) -> None:
    identity = able(provider(), Checkup).identity()
    assert identity.account == "1234567890123456"
    assert identity.who == "acs:ram::1234567890123456:user/u"
    assert identity.source == "environment"
    assert "AccessKey" in able(provider(), Checkup).credentials_hint
    assert abs((able(provider(), Checkup).server_time() - datetime.now(UTC)).total_seconds()) < 60


def test_a_permission_is_told_by_what_a_dry_run_says(wire: Wire) -> None:
    wire.say("DescribeInstances", refusal("DryRunOperation"))
    wire.say("CreateVpc", refusal("DryRunOperation"))
    wire.say("DescribeDisks", refusal("InvalidRegionId.NotFound", status=404))
    wire.say("RunInstances", refusal("Forbidden.RAM", "User not authorized.", status=403))
    wire.say("DescribeRegions", Answer({"Regions": {"Region": []}}))
    wire.say("DescribePrice", refusal("InvalidParameter", status=400))
    said = {each.action: each for each in able(provider(), Checkup).permissions(REGION)}
    assert said["ecs:DescribeInstances"].allowed
    assert said["vpc:CreateVpc"].allowed
    assert said["ecs:DescribeDisks"].allowed
    assert said["ecs:DescribeRegions"].allowed
    assert said["ecs:RunInstances"].allowed is False
    assert "User not authorized." in said["ecs:RunInstances"].said
    assert "check --policy alibaba" in said["ecs:RunInstances"].fix
    assert said["ecs:DescribePrice"].allowed is None
    assert all(f'"{action}"' in able(provider(), Checkup).policy for action in said)
    for action in ("RunInstances", "CreateVpc"):
        [sent] = wire.sent[action]
        assert sent["DryRun"] == "True"
        assert "gpucloud:owner" in sent.values()  # without it, the policy itself would refuse
    assert not [name for name in wire.sent if name.startswith(("Create", "Delete")) and name != "CreateVpc"]


def test_the_provider_has_the_abilities_that_it_has() -> None:
    alibaba = AlibabaProvider(own_profile())
    lacks = {AddressAssociation, DatabaseLogins}
    for kind in ABILITIES:
        assert (alibaba.ability(kind) is None) == (kind in lacks), kind
