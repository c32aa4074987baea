"""Somebody's own conditions: what they change, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.errors import UsageError
from gpucloud.market.discounts import OwnConditions
from gpucloud_pricing import PURCHASES, Commitment, Demand, Market, Money, Offer, Price, parse_requirements
from gpucloud_pricing.computation import Computation
from gpucloud_pricing.estimate import estimate
from gpucloud_pricing.figures import figures
from gpucloud_pricing.terms import Usage
from gpucloud_pricing.values import SavingsPlan

TODAY = date(2026, 11, 20)
LIST = Market.load()
WHERE = Demand(
    gpus=parse_requirements("T4"), clouds=("aws",), regions=("us-east-1",), purchases=PURCHASES, cpus=4
)


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


PLAIN = offers(OwnConditions())
LATE = date(2027, 12, 31)
TOLD = date(2026, 11, 1)


def commitment(**changes: Any) -> Commitment:
    """What an account has: a reserved g4dn.xlarge until the end of 2027."""
    plain: dict[str, Any] = {
        "cloud": "aws",
        "kind": "reserved_instance",
        "id": "a",
        "region": "us-east-1",
        "instance_type": "g4dn.xlarge",
        "until": LATE,
        "as_of": TOLD,
        "source": "aws-reserved-instances",
    }
    return Commitment(**{**plain, **changes})


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
    assert owned.terms == "2 machines until 2026-11-30"
    assert not owned.to_buy
    assert not owned.flags


@pytest.mark.parametrize(("hours", "nodes"), [(24, 3), (24 * 11, 1)], ids=["too few", "too short"])
def test_a_commitment_that_is_not_enough_does_not_count(tmp_path: Path, hours: int, nodes: int) -> None:
    assert "owned" not in offers(read(tmp_path, OWN), hours=hours, nodes=nodes)


@pytest.mark.parametrize(("flop", "counts"), [("1e18", True), ("1e20", False)])
def test_a_commitment_counts_if_it_lasts_as_long_as_a_computation_takes_on_its_machines(
    tmp_path: Path, flop: str, counts: bool
) -> None:
    """A T4 takes 11 hours for 1e18 operations, and 45 days for 1e20: longer than these ten days."""
    usage = Usage(hours=Decimal(0), computation=Computation(flop=Decimal(flop)))
    market = read(tmp_path, OWN).apply(LIST, usage, TODAY)
    assert any(offer.purchase == "owned" for offer in market.search(WHERE, TODAY)) == counts


@pytest.mark.parametrize(("kind", "counts"), [("reserved_instance", True), ("capacity_block", False)])
def test_what_is_paid_for_adds_up_unless_it_is_held_apart(kind: str, counts: bool) -> None:
    """Two reservations of a machine each pay for two; two blocks are two places, and a box starts in one."""
    two = [commitment(kind=kind, id=id_, until=until) for id_, until in (("a", LATE), ("b", None))]
    assert ("owned" in offers(OwnConditions(held=two), nodes=2)) == counts
    assert "owned" in offers(OwnConditions(held=two[:1]))
    apart = [two[0], replace(two[1], zone="use1-az1")]
    assert "owned" not in offers(OwnConditions(held=apart), nodes=2), "one is for a zone alone"


def test_what_is_told_of_an_account_says_from_when_and_where() -> None:
    newer = commitment(id="b", count=1, until=date(2028, 6, 30), as_of=TODAY)
    owned = offers(OwnConditions(held=[newer, commitment(count=2)]))["owned"]
    assert (owned.terms, owned.as_of, owned.source) == (
        "3 reserved instances until 2027-12-31",
        TOLD,
        "aws-reserved-instances",
    )


def test_what_is_held_of_something_that_the_market_does_not_know_does_not_count() -> None:
    """An account may have other types than those with GPUs, and newer regions."""
    strange = [commitment(region="mars-north-1"), commitment(instance_type="m5.large")]
    assert "owned" not in offers(OwnConditions(held=strange))


@pytest.mark.parametrize(("until", "counts"), [(date(2026, 11, 21), True), (date(2026, 11, 20), False)])
def test_what_is_paid_for_lasts_to_the_end_of_its_last_day(until: date, counts: bool) -> None:
    """24 hours and the boot, from the 20th on, end on the 21st."""
    assert ("owned" in offers(OwnConditions(held=[commitment(until=until)]))) == counts


def test_what_has_no_end_lasts() -> None:
    held = commitment(kind="capacity_reservation", zone="use1-az1", until=None)
    owned = offers(OwnConditions(held=[held]), hours=24 * 1000)["owned"]
    assert (owned.zone, owned.terms) == ("use1-az1", "1 capacity reservation")


# --- savings plans


def priced(region: str, purchase: str, amount: str, terms: str = "") -> Price:
    return Price(
        cloud="aws",
        region=region,
        zone=None,
        instance_type="g4dn.xlarge",
        purchase=purchase,
        amount=Decimal(amount),
        currency="USD",
        as_of=TODAY,
        source="list",
        terms=terms,
    )


PLANNED = Market.build(
    types=[LIST.types["aws", "g4dn.xlarge"], LIST.types["aws", "g5.xlarge"]],
    offers=[
        priced("us-east-1", "on_demand", "1.00"),
        priced("us-east-1", "savings_1y", "0.60", "compute plan, no upfront"),
        priced("us-east-1", "savings_1y", "0.56", "compute plan, all upfront"),
        priced("us-east-1", "savings_3y", "0.40", "compute plan, no upfront"),
        priced("us-east-1", "savings_1y", "0.50", "instance plan, no upfront"),
        priced("us-west-2", "on_demand", "1.00"),
    ],
)
PLAN = "cloud: aws, plan: compute, until: 2027-12-31"


def owned(conditions: OwnConditions, *, nodes: int = 1, hours: int = 24) -> dict[str, Offer]:
    """The owned way in each region."""
    market = conditions.apply(PLANNED, Usage(hours=Decimal(hours), nodes=nodes), TODAY)
    demand = replace(WHERE, regions=(), purchases=("owned",))
    return {offer.region: offer for offer in market.search(demand, TODAY)}


@pytest.mark.parametrize(("nodes", "amount"), [(1, "0"), (2, "0.25"), (3, "0.50"), (18, "0.916667")])
def test_a_savings_plan_is_used_up_at_its_rate_and_the_rest_is_on_demand(
    tmp_path: Path, nodes: int, amount: str
) -> None:
    """0.90 USD are 1.5 hours at 0.60; of 3 machines 1.5 are left, at 1.00, which is 0.50 for each."""
    plan = read(tmp_path, f"savings_plans: [{{{PLAN}, per_hour: 0.9}}]")
    found = owned(plan, nodes=nodes)
    assert usd(found["us-east-1"]) == Decimal(amount)
    assert found["us-east-1"].terms == "savings plan 0.9 USD/h until 2027-12-31"
    assert "us-west-2" not in found, "its rate there is not known"


def test_a_discount_counts_for_what_a_plan_leaves(tmp_path: Path) -> None:
    text = f"savings_plans: [{{{PLAN}, per_hour: 0.9}}]\ndiscounts: [{{cloud: aws, percent: 10}}]"
    assert usd(owned(read(tmp_path, text), nodes=3)["us-east-1"]) == Decimal("0.45")


@pytest.mark.parametrize(
    ("more", "amount"),
    [
        ("upfront: all", "0.50"),
        ("term: 3y, upfront: none", "0.30"),
        ("plan: instance, family: g4dn, region: us-east-1", "0.44"),
    ],
)
def test_a_plan_is_used_up_at_its_own_rate(tmp_path: Path, more: str, amount: str) -> None:
    """0.28 USD are half an hour at 0.56, 0.7 hours at 0.40, and 0.56 hours at 0.50."""
    text = f"savings_plans: [{{{PLAN}, per_hour: 0.28, {more}}}]"
    assert usd(owned(read(tmp_path, text))["us-east-1"]) == Decimal(amount)


@pytest.mark.parametrize(
    "more",
    [
        "plan: instance, family: g5, region: us-east-1",
        "plan: instance, family: g4dn, region: us-west-2",
        "currency: EUR",
        "until: 2026-11-20",
    ],
)
def test_a_plan_for_something_else_does_not_count(tmp_path: Path, more: str) -> None:
    conditions = read(tmp_path, f"savings_plans: [{{{PLAN}, per_hour: 5, {more}}}]")
    usage = Usage(hours=Decimal(24))
    demand = replace(WHERE, regions=("us-east-1",), purchases=("owned",))
    assert not conditions.apply(PLANNED, usage, TODAY).search(demand, TODAY)


def planned(**changes: Any) -> Commitment:
    """A compute plan of an account, larger than all that is asked for."""
    spending = SavingsPlan(
        per_hour=Money(amount=Decimal(50), currency="USD"),
        purchase="savings_1y",
        terms="compute plan, no upfront",
        family=changes.pop("family", None),
    )
    return commitment(
        **{"kind": "savings_plan", "region": None, "instance_type": None, "plan": spending, **changes}
    )


def test_a_family_is_the_whole_name_before_the_dot() -> None:
    assert "us-east-1" in owned(OwnConditions(held=[planned(family="g4dn")]))
    assert not owned(OwnConditions(held=[planned(family="g4")]))


def test_a_plan_is_for_its_own_cloud_and_for_its_regions_as_a_whole() -> None:
    """A rate without terms is of the only plan that a cloud sells; a zone with its own prices has no rate."""
    kind = LIST.types["azure", "Standard_NC4as_T4_v3"]
    other: dict[str, Any] = {"cloud": "azure", "instance_type": kind.name, "region": "eastus"}
    market = Market.build(
        types=[*PLANNED.types.values(), kind],
        offers=[
            *PLANNED.prices(),
            replace(priced("us-east-1", "on_demand", "1.20"), zone="use1-az1"),
            replace(priced("", "on_demand", "1.00"), **other),
            replace(priced("", "savings_1y", "0.80"), **other),
        ],
    )
    demand = replace(WHERE, clouds=(), regions=(), purchases=("owned",))
    for cloud in ("aws", "azure"):
        conditions = OwnConditions(held=[planned(cloud=cloud)])
        found = conditions.apply(market, Usage(hours=Decimal(24)), TODAY).search(demand, TODAY)
        assert [(offer.cloud, offer.zone, offer.price_usd) for offer in found] == [(cloud, None, Decimal(0))]


def test_plans_of_one_kind_add_up(tmp_path: Path) -> None:
    text = f"savings_plans: [{{{PLAN}, per_hour: 0.1}}, {{{PLAN}, per_hour: 0.2}}]"
    assert usd(owned(read(tmp_path, text))["us-east-1"]) == Decimal("0.50")


def test_a_plan_whose_rate_is_not_known_is_named(tmp_path: Path) -> None:
    plan = read(tmp_path, f"savings_plans: [{{{PLAN}, per_hour: 0.9}}]")
    usage = Usage(hours=Decimal(24))
    market = plan.apply(PLANNED, usage, TODAY)
    found = market.search(replace(WHERE, regions=()), TODAY)
    assert plan.uncounted(market, found, usage, TODAY) == [
        "the savings plan 0.9 USD/h until 2027-12-31 for g4dn.xlarge in us-west-2"
    ]


def test_a_plan_is_explained_by_the_prices_that_it_rests_on(tmp_path: Path) -> None:
    plan = read(tmp_path, f"savings_plans: [{{{PLAN}, per_hour: 0.9}}]")
    usage = Usage(hours=Decimal(10), nodes=3, boot_s=0)
    market = plan.apply(PLANNED, usage, TODAY)
    [offer] = market.search(replace(WHERE, purchases=("owned",)), TODAY)
    [figure, *_] = figures(market, estimate(market, offer, usage, on_demand_usd=None))
    assert figure.amount == Decimal(15)
    assert figure.formula == (
        "0.500000 USD x 10 h x 3; "
        "0.500000 USD = 1.00 USD x (1 - the lesser of 1 and 0.9 USD / (0.60 USD x 3))"
    )
    assert [(row.amount, row.source) for row in figure.rows] == [
        (Decimal("0.5"), "own-conditions"),
        (Decimal(1), "list"),
        (Decimal("0.6"), "list"),
    ]


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
        ("discounts: [{cloud: aws, percent: 5, purchase: hope}]", "'hope' is not a way of paying"),
        ("credits: [{cloud: aws, amount: -5}]", "greater than 0"),
        ("credits: [{cloud: aws, amount: 5, currency: XAU}]", "from XAU"),
        ("commitments: [{cloud: aws, region: mars-1, type: g4dn.xlarge, until: 2027-01-01}]", "mars-1"),
        ("commitments: [{cloud: aws, region: us-east-1, type: g4dn.xlarge}]", r"commitments\[0\].until"),
        (f"savings_plans: [{{{PLAN}, per_hour: 0}}]", r"savings_plans\[0\].per_hour: .*greater than 0"),
        (f"savings_plans: [{{{PLAN}, per_hour: 1, until: never}}]", r"savings_plans\[0\].until"),
        (f"savings_plans: [{{{PLAN}, per_hour: 1, term: 2y}}]", r"savings_plans\[0\].term"),
        (f"savings_plans: [{{{PLAN}, per_hour: 1, family: g4dn}}]", "omit family and region"),
        (f"savings_plans: [{{{PLAN}, per_hour: 1, plan: instance}}]", "needs a family and a region"),
        (
            f"savings_plans: [{{{PLAN}, per_hour: 1, plan: instance, family: g4, region: us-east-1}}]",
            "no family 'g4'",
        ),
        (
            f"savings_plans: [{{{PLAN}, per_hour: 1, plan: instance, family: g4dn, region: mars-1}}]",
            "no aws mars-1",
        ),
        ("savings_plans: [{cloud: acme, plan: compute, per_hour: 1, until: 2027-01-01}]", "no cloud 'acme'"),
        ("discounts: [", "not YAML"),
        ("- 5", "the whole"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        offers(read(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("discounts:\n- {cloud: aws, percent: 5}\n- cloud: aws\n  percent: 120\n", 4),
        ("discounts:\n- {cloud: aws, percent: 5}\n-\n  cloud: aws\n", 4),
        ("# mine\ncredits:\n- cloud: aws\n  amount: 5\n  currency: XAU\n", 5),
        ("discounts:\n- cloud: aws\n  percent: 5\n  types: g4.x\n", 4),
        (f"credits: []\nsavings_plans:\n- {{{PLAN}, per_hour: 1, plan: instance}}\n", 3),
        ("credits:\n- [\n", 3),
        ("credits:\nsavings: 3\n", 2),
    ],
)
def test_what_makes_no_sense_is_named_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    file = tmp_path / "conditions.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        offers(OwnConditions.load(file))
    assert f"{file}:{line}: " in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the discounts file"):
        OwnConditions.load(tmp_path / "none.yaml")
