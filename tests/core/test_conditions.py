"""Somebody's own conditions: what they change, and what is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.conditions import Conditions, OwnConditions
from gpucloud.errors import UsageError
from gpucloud_pricing import PURCHASES, Demand, Market, Offer, parse_wishes
from gpucloud_pricing.estimate import Usage

TODAY = date(2026, 11, 20)
LIST = Market.load()
WHERE = Demand(gpus=parse_wishes("T4"), clouds=("aws",), regions=("us-east-1",), purchases=PURCHASES, cpus=4)


def read(tmp_path: Path, text: str) -> OwnConditions:
    file = tmp_path / "conditions.yaml"
    file.write_text(text, encoding="utf-8")
    return OwnConditions.load(file)


def offers(conditions: OwnConditions, *, hours: int = 24, nodes: int = 1) -> dict[str, Offer]:
    """The cheapest g4dn.xlarge of each way of paying."""
    market = conditions.apply(LIST, Usage(hours=Decimal(hours), nodes=nodes), TODAY)
    found: dict[str, Offer] = {}
    for offer in market.search(WHERE, TODAY):
        if offer.instance_type == "g4dn.xlarge":
            found.setdefault(offer.purchase, offer)
    return found


def usd(offer: Offer) -> Decimal:
    assert offer.price_usd is not None
    return offer.price_usd


PLAIN = offers(OwnConditions(Path("none"), Conditions()))


def test_a_discount_is_taken_off_what_it_fits(tmp_path: Path) -> None:
    """12 percent off on demand; spot stays as it is. Of two that fit, the larger counts."""
    conditions = read(
        tmp_path,
        """
        discounts:
        - {cloud: aws, percent: 12, purchase: on-demand, types: "g4dn.*", regions: "us-*"}
        - {cloud: aws, percent: 5, purchase: on-demand}
        - {cloud: azure, percent: 50}
        - {cloud: aws, percent: 50, regions: "eu-*"}
        """,
    )
    found = offers(conditions)
    assert usd(found["on_demand"]) == usd(PLAIN["on_demand"]) * Decimal("0.88")
    assert usd(found["spot"]) == usd(PLAIN["spot"])
    assert found["on_demand"].price == PLAIN["on_demand"].price, "the list price is still told"
    assert found["on_demand"].document()["own_discount_percent"] == 12


OWN = "commitments: [{cloud: aws, region: us-east-1, type: g4dn.xlarge, count: 2, until: 2026-11-30}]"


def test_what_is_paid_for_costs_nothing_more(tmp_path: Path) -> None:
    owned = offers(read(tmp_path, OWN))["owned"]
    assert usd(owned) == 0
    assert owned.terms == "2 until 2026-11-30"
    assert not owned.to_buy
    assert not owned.flags


@pytest.mark.parametrize(("hours", "nodes"), [(24, 3), (24 * 11, 1)], ids=["too few", "too short"])
def test_a_commitment_that_is_not_enough_does_not_count(tmp_path: Path, hours: int, nodes: int) -> None:
    assert "owned" not in offers(read(tmp_path, OWN), hours=hours, nodes=nodes)


def test_credits_count_until_they_end(tmp_path: Path) -> None:
    conditions = read(
        tmp_path,
        """
        credits:
        - {cloud: aws, amount: 100}
        - {cloud: aws, amount: 50, until: 2026-11-20}
        - {cloud: aws, amount: 7, until: 2026-11-19}
        - {cloud: alibaba, amount: 700, currency: CNY}
        """,
    )
    owed = conditions.credits_usd(LIST, TODAY)
    assert owed["aws"] == 150
    assert 90 < owed["alibaba"] < 110


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("discounts: [{cloud: aws}]", r"discounts\[0\].percent"),
        ("discounts: [{cloud: aws, percent: 120}]", "less than or equal to 100"),
        ("discounts: [{cloud: aws, percent: 5, whence: 3}]", r"discounts\[0\].whence"),
        ("discounts: [{cloud: acme, percent: 5}]", "no cloud 'acme'"),
        ("discounts: [{cloud: aws, percent: 5, types: g4.x}]", "no type 'g4.x'"),
        ("discounts: [{cloud: aws, percent: 5, purchase: hope}]", "'hope' is no way of paying"),
        ("credits: [{cloud: aws, amount: -5}]", "greater than 0"),
        ("credits: [{cloud: aws, amount: 5, currency: XAU}]", "from XAU"),
        ("commitments: [{cloud: aws, region: mars-1, type: g4dn.xlarge, until: 2027-01-01}]", "mars-1"),
        ("commitments: [{cloud: aws, region: us-east-1, type: g4dn.xlarge}]", r"commitments\[0\].until"),
        ("discounts: [", "not YAML"),
        ("- 5", "the whole"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        offers(read(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the conditions"):
        OwnConditions.load(tmp_path / "none.yaml")
