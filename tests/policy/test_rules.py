"""What rules allow, as tables; and what a cloud can hold of them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpucloud.errors import PolicyError
from gpucloud.journal.policy import Rules
from gpucloud.policy.guardrail import bounds_of, not_held
from gpucloud.policy.rules import Rented, against_machine, against_payment, refuse_request
from gpucloud_pricing import Market

MARKET = Market.load()
MACHINE = Rented("aws", "eu-west-1", "g4dn.xlarge", "T4")


@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        (Rules(), None),
        (Rules(clouds=("a*",), regions=("eu",), instance_types=("G4DN.*",), gpus=("T4",)), None),
        (Rules(clouds=("azure",)), "clouds"),
        (Rules(clouds=("!aws",)), "clouds"),
        (Rules(regions=("us", "cn")), "regions"),
        (Rules(regions=("eu", "!eu-west-*")), "regions"),
        (Rules(instance_types=("p5.*",)), "instance_types"),
        (Rules(gpus=("A100", "H*")), "gpus"),
    ],
)
def test_a_machine_is_allowed_if_it_breaks_no_rule(rules: Rules, broken: str | None) -> None:
    assert against_machine(rules, MARKET, MACHINE) == broken


@pytest.mark.parametrize(
    ("purchase", "usd", "broken"),
    [
        ("spot", "1.5", None),
        ("spot", "1.51", "max_price"),
        ("spot", None, None),
        ("reserved", "1", "purchase"),
        ("on_demand", "9", "purchase"),
    ],
)
def test_a_payment_is_allowed_in_its_way_and_up_to_its_price(
    purchase: str, usd: str | None, broken: str | None
) -> None:
    rules = Rules(purchase=("spot",), max_price=Decimal("1.5"))
    assert against_payment(rules, purchase, Decimal(usd) if usd else None) == broken


IN_FOLDERS = Rules(checkpoint_to=("s3://lab", "az://lab/a"))


@pytest.mark.parametrize("url", [None, "s3://lab", "s3://lab/a/b", "az://lab/a"])
def test_checkpoints_are_kept_in_the_folders_that_are_named(url: str | None) -> None:
    refuse_request(IN_FOLDERS, lives=None, tags={}, checkpoint_to=url)


@pytest.mark.parametrize("url", ["s3://lab-2/a", "az://lab/b", "az://lab", "oss://lab"])
def test_checkpoints_are_kept_nowhere_else(url: str) -> None:
    with pytest.raises(PolicyError) as caught:
        refuse_request(IN_FOLDERS, lives=None, tags={}, checkpoint_to=url)
    assert caught.value.rules == ("checkpoint_to: [s3://lab, az://lab/a]",)


def test_a_cloud_is_held_to_its_own_regions_and_types_and_to_nothing_where_no_rule_is() -> None:
    rules = Rules(regions=("eu",), gpus=("T4",), max_price=Decimal(2), boxes={"*": 1})
    bounds = bounds_of(rules, "aws", MARKET)
    assert bounds.allowed
    assert bounds.regions is not None
    assert "eu-west-1" in bounds.regions
    assert "us-east-1" in bounds.other_regions
    assert bounds.instance_types is not None
    assert "g4dn.xlarge" in bounds.instance_types
    assert not any(name.startswith("p5") for name in bounds.instance_types)
    assert (bounds.purchases, bounds.tags) == (None, ())
    assert [each.split("`")[1] for each in not_held(rules)] == ["max_price: 2", "boxes: 1"]
    assert not bounds_of(Rules(clouds=("azure",)), "aws", MARKET).allowed
    assert bounds_of(Rules(), "aws", MARKET).regions is None
