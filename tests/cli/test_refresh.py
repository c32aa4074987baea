"""``gpucloud prices refresh``: what the clouds say counts from then on, whatever goes wrong on the way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.config import make_private
from gpucloud.market.refresh import ASKED_AT_ONCE, FRUITLESS, PriceScope
from gpucloud_pricing import Market as Snapshot
from gpucloud_pricing import Price
from gpucloud_pricing.history import PriceHistory
from gpucloud_sandbox.database import Database
from gpucloud_sandbox.market import Catalog, Market
from tests.refreshing import market, refreshed
from tests.shell import Shell
from tests.shell import endpoint_everywhere as endpoint

__all__ = ["endpoint"]  # prices are asked for in every region

Table = dict[tuple[str, str, str, str, str], Decimal]
"""Amount by cloud, region, zone, type and way of paying."""
CLOUDS = ("aws", "azure", "alibaba")
T4 = ("--gpu", "T4")


@pytest.fixture
def history(cli: Shell) -> Iterator[PriceHistory]:
    with closing(PriceHistory.open(cli.home / "state-sandbox" / "prices.db")) as opened:
        yield opened


def kept(cli: Shell, *gpus: str) -> list[Price]:
    """What is in force, of some GPU models."""
    with closing(PriceHistory.open(cli.home / "state-sandbox" / "prices.db")) as history:
        kinds = [kind for kind in Snapshot.load().types.values() if kind.gpu_model in gpus]
        return [span.price for span in history.spans(kinds, current=True)]


def table(prices: list[Price]) -> Table:
    """What the sandbox's own table has too: without what it makes of that (plans, years, Azure's terms)."""
    listed = ("on_demand", "spot", "subscription_1m")
    return {
        (p.cloud, p.region, p.zone or "", p.instance_type, p.purchase): p.amount
        for p in prices
        if p.purchase in listed or (p.source, p.terms) == ("aws-price-list", "no upfront")
    }


def sold(tmp_path: Path, model: str) -> Table:
    """The sandbox's own price table, of machines with one GPU of a model.

    On AWS, China is a partition of its own, and of spot prices in Local Zones only who has opted in is told.
    """
    market = Market(Database(tmp_path / "market.db"))
    found: Table = {}
    for cloud in CLOUDS:
        catalog: Catalog = market.catalog(cloud)
        for region, zone, name, purchase in catalog.prices:
            price = market.price(cloud, region, zone, name, purchase)
            local = purchase == "spot" and zone.count("-") > 1
            untold = cloud == "aws" and (region.startswith("cn-") or local)
            type_ = catalog.types[name]
            asked = type_.gpu_model == model and type_.gpu_count == 1
            if asked and price is not None and not untold:
                found[cloud, region, zone, name, purchase] = price.amount
    return found


def test_a_refresh_has_what_the_clouds_sell_to_the_last_digit(cli: Shell, tmp_path: Path) -> None:
    done = cli("prices", "refresh", *T4, "--json")
    assert done.code == 0, done.err
    assert table(kept(cli, "T4")) == sold(tmp_path, "T4")
    for cloud in done.json["clouds"]:
        assert (cloud["answered"], cloud["failures"]) == (cloud["inquiries"], [])
        assert cloud["prices"] == cloud["new"] > 0


AWS_SPOT = ("--gpu", "T4", "--cloud", "aws", "--region", "us-east-1", "--spot", "--hours", "24", "--json")


def test_how_often_spot_is_taken_back_is_asked_for_too(cli: Shell) -> None:
    """Where a cloud tells: then spot there has an expected cost."""
    where = ("--gpu", "T4", "--cloud", "alibaba", "--region", "ap-southeast-1")
    spot = ("cost", *where, "--spot", "--hours", "24", "--json")
    assert cli("prices", "refresh", *where).code == 0
    option = cli(*spot).json["options"][0]
    assert option["offer"]["interruption"]["percent_per_month"] == [3, 5]
    assert option["offer"]["interruption"]["source"] == "alibaba-spot-advice"
    assert option["expected_total"] is not None
    shipped = cli("cost", *AWS_SPOT).json["options"][0]["offer"]["interruption"]
    assert cli("prices", "refresh", "--gpu", "T4", "--cloud", "aws", "--region", "us-east-1").code == 0
    asked = cli("cost", *AWS_SPOT).json["options"][0]["offer"]["interruption"]
    assert asked["percent_per_month"] == shipped["percent_per_month"], "the sandbox has it from the same data"
    assert (shipped["source"], asked["source"]) == ("aws-spot-advisor", "aws-spot-advisor-live")
    assert asked["as_of"] > shipped["as_of"]


def test_reservations_are_paid_in_three_ways(cli: Shell) -> None:
    """An hour costs what is paid by the hour and its share of what is paid at once."""
    assert cli("prices", "refresh", *T4, "--cloud", "aws", "--region", "us-east-1").code == 0
    reserved = {
        p.terms: p for p in kept(cli, "T4") if (p.purchase, p.instance_type) == ("reserved_1y", "g4dn.xlarge")
    }
    none, part, all_ = (reserved[f"{how} upfront"] for how in ("no", "partial", "all"))
    assert none.upfront == 0
    assert all_.upfront == pytest.approx(all_.amount * 8760, rel=Decimal("1e-5"))
    assert part.upfront == pytest.approx(part.amount * 8760 / 2, rel=Decimal("1e-5"))
    assert none.amount > part.amount > all_.amount


def test_capacity_blocks_are_sold_by_the_day(cli: Shell) -> None:
    """In a zone, paid at once, never launchable. Of those that begin on other days, the cheapest counts."""
    where = ("--gpu", "H100:8", "--cloud", "aws", "--region", "us-east-1")
    assert cli("prices", "refresh", *where).code == 0
    told = cli("cost", *where, "--hours", "30", "--boot", "0", "--json").json
    options = {option["purchase"]: option for option in told["options"]}
    block, by_the_hour = options["capacity_block"], options["on_demand"]
    hour = Decimal(block["offer"]["price"]["amount"])
    assert hour == pytest.approx(
        Decimal(by_the_hour["offer"]["price"]["amount"]) * Decimal("0.6"), abs=Decimal("0.001")
    )
    assert Decimal(block["compute"]["amount"]) == pytest.approx(hour * 48, abs=Decimal("0.01"))
    assert Decimal(block["upfront"]["amount"]) == pytest.approx(hour * 48, abs=Decimal("0.01"))
    assert block["offer"]["to_buy"]
    assert block["offer"]["zone"].startswith("use1-az")
    assert block["offer"]["source"] == "aws-capacity-blocks"
    lasting = {each["purchase"] for place in told["cheapest_by_hours"] for each in place["stretches"]}
    assert "capacity_block" not in lasting, "a block does not last"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_price_that_moves_is_seen_by_offers_plan_and_launch(cli: Shell, cloud: str) -> None:
    where = (*T4, "--cloud", cloud, "--region", "us-east-1" if cloud != "azure" else "eastus")
    assert cli("prices", "refresh", *where).code == 0
    before = cli("offers", *where, "--json").json["offers"][0]
    cheap = before["instance_type"]
    cli.sandbox.price(cloud=cloud, instance_type=cheap, factor="0.5")
    moved = cli("prices", "refresh", *where, "--json").json["clouds"][0]["moved"]
    assert cheap in {each["instance_type"] for each in moved}
    half = Decimal(before["price"]["amount"]) / 2
    after = cli("offers", *where, "--json").json["offers"][0]
    assert Decimal(after["price"]["amount"]) == half
    assert after["source"] == before["source"] != ""
    planned = cli("plan", *where, "--json").json["attempts"][0]
    assert (planned["instance_type"], Decimal(planned["price"]["amount"])) == (cheap, half)
    assert Decimal(cli.launch(*where)["price"]["amount"]) == half


def test_a_refresh_that_is_cut_off_goes_on_where_it_stopped(cli: Shell) -> None:
    """And what it had not reached does not look new."""
    where = ("--cloud", "aws", "--region", "us-east-*")
    assert cli("prices", "refresh", *where).code == 0
    age(cli, timedelta(days=3))
    # So many are asked one after the other that some have been kept by then.
    cli.sandbox.fault(cloud="aws", action="GetProducts", effect="kill", stage="answered", skip=40)
    assert cli("prices", "refresh", *where).code == -signal.SIGKILL
    assert len(days(cli)) == 2, "some are of today, the others as old as they were"
    resumed = cli("prices", "refresh", *where, "--json").json["clouds"][0]
    assert resumed["resumed"] > 0
    assert resumed["answered"] == resumed["inquiries"]
    assert len(days(cli)) == 1
    assert cli("prices", "refresh", *where, "--json").json["clouds"][0]["resumed"] == 0


def days(cli: Shell) -> set[str]:
    """On which days the prices in force were last seen."""
    import sqlite3

    with closing(sqlite3.connect(cli.home / "state-sandbox" / "prices.db")) as connection:
        found = connection.execute("SELECT DISTINCT substr(seen, 1, 10) FROM spans WHERE ended IS NULL")
        return {day for (day,) in found}


def age(cli: Shell, by: timedelta) -> None:
    """Makes all prices so much older than they are."""
    import sqlite3

    with closing(sqlite3.connect(cli.home / "state-sandbox" / "prices.db")) as connection:
        for column in ("since", "seen"):
            connection.execute(
                f"UPDATE spans SET {column} = strftime('%Y-%m-%dT%H:%M:%fZ', {column}, ?)",  # noqa: S608
                (f"-{by.days} days",),
            )
        connection.commit()


def days_by_cloud(cli: Shell) -> dict[str, set[date]]:
    """On which days each cloud's prices of T4s were last seen."""
    return {cloud: {p.as_of for p in kept(cli, "T4") if p.cloud == cloud} for cloud in CLOUDS}


def test_what_is_not_answered_is_told_and_stays_as_old_as_it_was(cli: Shell) -> None:
    """The answers of the other clouds stand. (What might pass is asked for for a minute: the next test's.)"""
    where = (*T4, "--region", "us-east-1", "--region", "eastus")
    assert cli("prices", "refresh", *where).code == 0
    age(cli, timedelta(days=3))
    cli.sandbox.fault(cloud="azure", action="*", effect="error", code="BadRequest", status=400, times=None)
    ended = cli("prices", "refresh", *where)
    assert ended.code == 1, ended.err
    assert "Not answered: azure, prices of Standard_NC4as_T4_v3: " in ended.err
    days = days_by_cloud(cli)
    assert max(days["azure"]) < min(days["aws"] | days["alibaba"])


@pytest.mark.parametrize(
    "rule", [{"effect": "garble"}, {"effect": "error", "code": "InternalServerError"}], ids=str
)
def test_what_is_not_answered_after_all_repetitions_stays_as_old_as_it_was(
    cli: Shell, rule: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nonsense, and a failure of the server. (Here the repetitions are left out.)"""
    for name, value in cli.endpoint.environ.items():
        monkeypatch.setenv(name, value)
    size = "Standard_NC4as_T4_v3"
    wanted = {
        "aws": PriceScope(instance_types=["g4dn.xlarge"], regions=["us-east-1"]),
        "azure": PriceScope(instance_types=[size], regions=["eastus"]),
        "alibaba": PriceScope(instance_types=["ecs.gn6i-c4g1.xlarge"], regions=["us-east-1"]),
    }
    prices = make_private(cli.home / "state-sandbox") / "prices.db"
    assert not any(cloud.failures for cloud in refreshed(prices, wanted).values())
    age(cli, timedelta(days=3))
    cli.sandbox.fault(cloud="azure", action="*", times=None, **rule)
    results = refreshed(prices, wanted)
    [(inquiry, failure)] = results["azure"].failures.items()
    assert inquiry == f"prices of {size}"
    assert failure.message.startswith(f"azure: could not ask for prices of {size}: ")
    assert failure.exit_code == 1
    days = days_by_cloud(cli)
    assert max(days["azure"]) < min(days["aws"] | days["alibaba"])


def test_a_source_that_never_answers_is_left_alone_after_a_while(
    cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or hundreds of inquiries would each wait as long as a call may last."""
    for name, value in cli.endpoint.environ.items():
        monkeypatch.setenv(name, value)
    types = sorted(name for cloud, name in market().types if cloud == "alibaba")
    cli.sandbox.fault(
        cloud="alibaba", action="DescribePrice", times=None, effect="error", code="InternalError", status=500
    )
    cli.sandbox.calls(clear=True)
    prices = make_private(cli.home / "state-sandbox") / "prices.db"
    wanted = {
        "alibaba": PriceScope(instance_types=types, regions=["us-east-1", "cn-hangzhou", "eu-central-1"])
    }
    failures = refreshed(prices, wanted)["alibaba"].failures
    sent = sum(call["count"] for call in cli.sandbox.calls() if call["action"] == "DescribePrice")
    assert FRUITLESS <= sent < FRUITLESS + ASKED_AT_ONCE
    unsent = [each for each in failures.values() if "not sent" in each.message]
    assert len(unsent) == len(failures) - sent > 0


def test_a_damaged_history_stops_nobody(cli: Shell) -> None:
    """Older prices are used, and it is said."""
    (cli.home / "state-sandbox").mkdir(parents=True)
    (cli.home / "state-sandbox" / "prices.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    found = cli("offers", *T4)
    assert found.code == 0
    assert "Older prices are used" in found.err
    refused = cli("prices", "refresh", *T4)
    assert refused.code == 2
    assert "rm " in refused.err


def test_refreshing_changes_nothing_anywhere(cli: Shell) -> None:
    assert cli("prices", "refresh", *T4, "--region", "us-east-1").code == 0
    assert cli.changes_asked() == []


def test_a_price_that_cannot_be_is_doubted_and_does_not_win(cli: Shell) -> None:
    """Neither in a list, nor when a launch asks what it costs today."""
    where = (*T4, "--cloud", "aws", "--region", "us-east-1")
    cli.sandbox.price(cloud="aws", instance_type="g4dn.xlarge", amount="0.0001", purchase="on_demand")
    assert cli("prices", "refresh", *where).code == 0
    first = cli("offers", *where, "--json").json["offers"][0]
    assert (first["instance_type"], first["flags"]) == ("g4dn.2xlarge", [])
    doubted = [o for o in cli("offers", *where, "--json", "-n", "0").json["offers"] if o["flags"]]
    assert {(o["instance_type"], *o["flags"]) for o in doubted} == {("g4dn.xlarge", "implausible")}
    assert cli.launch(*where)["instance_type"] == "g4dn.2xlarge"
