"""The table of the ways of paying: whole, and the only words that price data may have."""

from __future__ import annotations

import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from build_snapshot import DATA, build
from gpucloud_pricing import Demand, Market
from gpucloud_pricing.estimate import estimate
from gpucloud_pricing.figures import figures
from gpucloud_pricing.payment import way_of, ways_for
from gpucloud_pricing.purchases import COMMITMENTS, KINDS, LAUNCHABLE, PURCHASES, SOLD, Billed, Purchase
from gpucloud_pricing.rules import STALE
from gpucloud_pricing.terms import Usage
from tests.builders import START, a_price, an_instance_type

TODAY = START.date()


def test_a_box_is_launched_with_the_launchable_ones() -> None:
    assert {word for word, kind in KINDS.items() if kind.launchable} == set(Purchase)
    assert all(purchase.kind.word == purchase for purchase in Purchase)


def test_what_must_be_bought_first_is_not_launchable_and_has_a_length() -> None:
    for word, kind in KINDS.items():
        assert kind.to_buy == (word in COMMITMENTS)
        assert not (kind.to_buy and (kind.launchable or kind.paid_already)), word
        assert bool(kind.term_hours) == (kind.billed is Billed.IN_TERMS), word


def test_each_is_priced_by_a_word_that_the_market_has() -> None:
    assert {kind.listed_as for kind in KINDS.values()} == set(PURCHASES)
    assert [*SOLD, "owned"] == [*PURCHASES]
    assert LAUNCHABLE == (Purchase.ON_DEMAND, Purchase.SPOT)


@pytest.mark.parametrize("word", PURCHASES)
def test_the_market_handles_each(word: str) -> None:
    """It finds, explains, shows, estimates and explains the cost of an offer that is paid so."""
    price = replace(a_price("1", purchase=word), upfront=Decimal(24 if KINDS[word].prepaid else 0))
    market = Market.build(types=[an_instance_type()], offers=[price])
    demand = Demand(purchases=(word,))
    (offer,) = market.search(demand, TODAY)
    assert [each.purchase for each in market.explain(demand, TODAY).matched] == [word]
    assert offer.document()["purchase"] == word
    assert offer.paid_as is KINDS[word]
    found = estimate(market, offer, Usage(hours=Decimal(100)), on_demand_usd=Decimal(2))
    assert found.compute is not None
    assert found.compute > 0
    assert {figure.part for figure in figures(market, found)} >= {"compute", "total"}
    for_a_month = ways_for(offer, Decimal(730), Decimal(2))
    assert bool(for_a_month) == (way_of(offer) is not None) == (KINDS[word].billed is not Billed.IN_BLOCKS)


@pytest.mark.parametrize("word", SOLD)
def test_a_price_that_moves_is_stale_sooner(word: str) -> None:
    old = a_price("1", purchase=word, as_of=TODAY.replace(year=TODAY.year - 1))
    (offer,) = Market.build(types=[an_instance_type()], offers=[old]).search(Demand(purchases=(word,)), TODAY)
    assert (STALE in offer.flags) == KINDS[word].price_moves


@pytest.mark.parametrize("word", ["lottery", "reserved", "owned", ""])
def test_the_build_refuses_a_word_that_no_price_list_has(word: str, tmp_path: Path) -> None:
    """``reserved`` and ``owned`` are ways of paying, and no cloud has prices of them."""
    for table in DATA.glob("*.csv"):
        shutil.copy(table, tmp_path)
    offers = tmp_path / "offers.csv"
    lines = offers.read_text(encoding="utf-8").splitlines()[:2]
    lines[1] = lines[1].replace(",on_demand,", f",{word},")
    assert f",{word}," in lines[1]
    offers.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"{word!r} is no way of paying; known: on_demand, spot, reserved_1y"
    ):
        build(tmp_path)
