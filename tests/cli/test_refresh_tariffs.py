"""``gpucloud prices refresh`` asks for disks, addresses and transfer, and for the exchange rate."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal

import pytest

from gpucloud_pricing import Market, Tariff
from gpucloud_pricing.history import PriceHistory
from gpucloud_pricing.tariffs import KINDS
from tests.shell import Shell
from tests.shell import endpoint_everywhere as endpoint

__all__ = ["endpoint"]  # prices are asked for in every region

ASKED = {
    "aws": {"disk", "snapshot", "address", "egress", "inter_region"},
    "azure": {"disk", "snapshot", "address", "egress"},
    "alibaba": {"disk", "egress"},
}
SOURCES = {"aws": "aws-price-list", "azure": "azure-retail-prices", "alibaba": "alibaba-price"}
HERE = {"aws": "us-east-1", "azure": "eastus", "alibaba": "cn-hangzhou"}
T4 = ("--gpu", "T4")
Step = tuple[Decimal, str, str]
"""The begin, destination and terms of a step."""


def by_step(tariffs: tuple[Tariff, ...]) -> dict[Step, Tariff]:
    return {(each.tier_from, each.to, each.terms): each for each in tariffs}


def test_a_refresh_has_the_shipped_tariffs_and_no_others(cli: Shell) -> None:
    """The sandbox's clouds charge them. In all regions of the account, by kinds that the clouds tell."""
    done = cli("prices", "refresh", *T4, "--json")
    assert done.code == 0, done.err
    shipped = Market.load()
    with closing(PriceHistory.open(cli.home / "state-sandbox" / "prices.db")) as history:
        told = history.tariffs()
        compared = 0
        for (cloud, region), kind in ((place, kind) for place in shipped.regions for kind in KINDS):
            wanted = by_step(shipped.tariffs.at(cloud, region, kind))
            wanted = {step: each for step, each in wanted.items() if each.region == region and not each.terms}
            if kind not in ASKED[cloud] or (cloud == "aws" and region.startswith("cn-")):
                wanted = {}
            found = by_step(told.at(cloud, region, kind))
            assert found.keys() == wanted.keys(), (cloud, region, kind)
            for step, tariff in found.items():
                # Alibaba Cloud tells a disk's price of an hour, rounded, in the account's currency
                within = Decimal("0.00002") if cloud == "alibaba" else Decimal(0)
                listed = shipped.converted(wanted[step].amount, wanted[step].currency, tariff.currency)
                assert listed is not None
                assert abs(tariff.amount - listed) <= within, tariff
                assert tariff.unit == wanted[step].unit
                assert cloud == "alibaba" or tariff.currency == wanted[step].currency
                # Azure names where steps begin: the last one has no end, also where no more was read
                assert tariff.tier_to in {wanted[step].tier_to, None}
                assert tariff.source == SOURCES[cloud]
                compared += 1
    assert compared > 1500
    for cloud in done.json["clouds"]:
        assert cloud["tariffs"] > 0
        assert (cloud["moved_tariffs"], cloud["failures"]) == ([], [])


@pytest.fixture(params=sorted(ASKED))
def where(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """One place of each cloud, as arguments."""
    return (*T4, "--cloud", request.param, "--region", HERE[request.param])


def cost_of_disk(cli: Shell, where: tuple[str, ...]) -> Decimal:
    options = cli("cost", *where, "--hours", "720", "--disk", "1024", "--json").json["options"]
    return Decimal(options[0]["disk"]["amount"])


def test_a_tariff_that_changes_is_told_and_counts_from_then_on(cli: Shell, where: tuple[str, ...]) -> None:
    cloud = where[3]
    assert cli("prices", "refresh", *where).code == 0
    before = cost_of_disk(cli, where)
    assert before > 0
    cli.sandbox.price(cloud=cloud, tariff="disk", factor="2")
    done = cli("prices", "refresh", *where)
    assert f"Moved: {cloud} {HERE[cloud]} disk: " in done.out + done.err
    assert cost_of_disk(cli, where) == pytest.approx(before * 2, abs=Decimal("0.01"))
    explained = cli("cost", *where, "--hours", "720", "--disk", "1024", "--explain").out
    assert SOURCES[cloud] in explained
    groups = cli("prices", "show", "--json").json["tariffs"]
    [asked] = [each for each in groups if each["source"] == SOURCES[cloud] and each["kind"] == "disk"]
    assert (asked["cloud"], asked["regions"]) == (cloud, 1)


def test_a_tariff_that_cannot_be_is_set_aside(cli: Shell, where: tuple[str, ...]) -> None:
    """The known one stays, and the rest of the answers counts."""
    before = cost_of_disk(cli, where)
    cli.sandbox.price(cloud=where[3], tariff="disk", factor="0.01")
    done = cli("prices", "refresh", *where, "--json").json["clouds"][0]
    assert "known price" in "".join(each["reason"] for each in done["set_aside"])
    assert done["tariffs"] > 0
    assert cost_of_disk(cli, where) == before


def test_the_exchange_rate_is_asked_for(cli: Shell) -> None:
    shipped = cli("prices", "show", "--json").json["rates"][0]
    assert cli("prices", "refresh", *T4, "--region", "us-east-1").code == 0
    [rate] = cli("prices", "show", "--json").json["rates"]
    assert rate == {**shipped, "source": "ecb-reference-rates"}
    assert shipped["source"] != rate["source"]
    assert "European Central Bank" in cli("prices", "show").out


def test_a_look_at_one_price_asks_for_no_tariff(cli: Shell) -> None:
    """``prices watch`` repeats it every few minutes, and a launch asks for the price of a type alone."""
    cli.sandbox.calls(clear=True)
    assert cli.launch(*T4, "--cloud", "azure", "--region", "eastus")["price"]
    asked = sum(call["count"] for call in cli.sandbox.calls() if call["action"] == "LIST prices")
    assert asked == 2, "the quotes of the plan, and those of the launch: as many as before there were tariffs"
