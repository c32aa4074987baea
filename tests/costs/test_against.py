"""What is decided on costs of which a part is unknown: budgets, differences, headlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from gpucloud.cli.cost_answers import write_csv, write_markdown
from gpucloud.cli.cost_notes import verdict_text
from gpucloud.cli.output import Output
from gpucloud.costs.against import IncomparableError, difference
from gpucloud.costs.comparison import Comparison
from gpucloud_pricing import Interruption, Market, Offer, Tariff
from gpucloud_pricing.estimate import compare
from gpucloud_pricing.terms import Usage
from tests.builders import a_price, an_instance_type, an_offer

AS_OF = date(2026, 11, 1)


def tariff(kind: str, region: str) -> Tariff:
    return Tariff(
        cloud="aws",
        region=region,
        kind=kind,
        sku="plain",
        unit="gib_month" if kind == "disk" else "hour",
        amount=Decimal("0.073") if kind == "disk" else Decimal("0.005"),
        currency="USD",
        as_of=AS_OF,
        source="test",
    )


MARKET = Market.build(
    types=[an_instance_type()],
    offers=[],
    tariffs=[
        tariff("address", "*"),
        tariff("disk", "known"),
        tariff("egress", "diskless"),
        tariff("egress", "known"),
    ],
)


def sold(region: str, usd: str, purchase: str = "on_demand") -> Offer:
    return an_offer(
        usd, region=region, purchase=purchase, quote=a_price(usd, region=region, purchase=purchase)
    )


def compared(
    *offers: Offer, budget: str | None = None, credit: Mapping[str, Decimal] | None = None, egress: int = 0
) -> Comparison:
    usage = Usage(hours=Decimal(10), boot_s=0, disk_gib=100, egress_gib=Decimal(egress))
    return Comparison(
        market=MARKET,
        usage=usage,
        assumed=False,
        estimates=compare(MARKET, offers, usage, {}),
        layers=(),
        credit=credit or {},
        budget=None if budget is None else Decimal(budget),
    )


CHEAP, KNOWN = sold("diskless", "0.01"), sold("known", "1")
"""Ten hours for 0.10 and an unknown disk; and for 10 + 0.10 of disk + 0.05 of address."""


def test_the_best_is_a_complete_cost_wherever_there_is_one() -> None:
    found = compared(CHEAP, KNOWN)
    assert found.best is not None
    assert found.best.offer == KNOWN
    assert "on-demand, aws known g4dn.xlarge, $10.15 for" in verdict_text(found)


def test_a_headline_of_known_parts_says_at_least(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(CHEAP)
    assert "on-demand, aws diskless g4dn.xlarge, ≥ $0.15 for" in verdict_text(found)
    write_markdown(found, None)
    assert capsys.readouterr().out.startswith(verdict_text(found))


def test_a_difference_of_unequal_parts_is_refused_and_names_the_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A region without a price of disks would look 98 percent cheaper."""
    for before, after, which in ((KNOWN, CHEAP, "this spec"), (CHEAP, KNOWN, "the other spec")):
        why = rf"the price of disk of {which} is not known \(aws diskless on-demand\)"
        with pytest.raises(IncomparableError, match=why):
            difference(compared(before), compared(after))
        against = compared(after).document(compared(before))["against"]
        assert against is not None
        assert (against["before"], against["after"], against["difference"]) == (None, None, None)
        assert "the price of disk" in against["unknown"]["difference"]
        write_markdown(compared(after), compared(before))
        assert "**No difference**: the price of disk" in capsys.readouterr().out


def test_a_difference_without_the_same_part_is_one_of_lower_bounds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, after = compared(CHEAP), compared(replace(CHEAP, price_usd=Decimal("0.02")))
    found = difference(before, after)
    assert (found.after - found.before, found.without) == (Decimal("0.10"), ["disk"])
    write_markdown(after, before)
    assert "≥ $0.15 before, ≥ $0.25 now, both without disk" in capsys.readouterr().out


def test_a_difference_to_nothing_known_says_what_is_unknown() -> None:
    spot = compared(sold("known", "0.1", "spot"))
    with pytest.raises(
        IncomparableError, match=r"the other spec has no known cost: no interruption rate is known"
    ):
        difference(spot, compared(KNOWN))


@pytest.mark.parametrize(
    ("offers", "budget", "why"),
    [
        ((CHEAP, KNOWN), "11", None),
        ((CHEAP, KNOWN), "10", r"cannot be shown to hold: the price of disk is not known \(aws diskless"),
        ((KNOWN,), "10", r"expected to cost 10\.15 USD \(aws known on-demand\), the budget is 10"),
        ((CHEAP,), "0.1", r"expected to cost at least 0\.15 USD"),
        ((sold("known", "0.1", "spot"),), "99", r"unknown: no interruption rate is known \(aws known spot\)"),
        ((sold("known", "0.1", "reserved_1y"),), "9999", "flagged or must be bought first"),
    ],
)
def test_a_budget_says_which_figure_it_lacks(offers: tuple[Offer, ...], budget: str, why: str | None) -> None:
    error = compared(*offers, budget=budget).over_budget
    assert (error is None) == (why is None)
    if error is not None and why is not None:
        with pytest.raises(type(error), match=why):
            raise error


def test_a_credit_counts_for_the_budget_and_in_every_answer(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(KNOWN, budget="6", credit={"aws": Decimal(5)})
    assert found.over_budget is None
    short = compared(KNOWN, budget="5", credit={"aws": Decimal(5)}).over_budget
    assert short is not None
    assert "5.15 USD after credits" in str(short)
    write_csv(Output(), found, None)
    header, row = capsys.readouterr().out.splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["after_credit"] == "5.1500"
    write_markdown(found, None)
    out = capsys.readouterr().out
    assert "| after credits |" in out
    assert "| $10.15 | $5.15 |" in out


def test_interruptions_of_a_known_rate_are_a_known_cost() -> None:
    """So that spot is the best again, once its rate is known."""
    spot = sold("known", "0.1", "spot")
    assert compared(spot, KNOWN).best == compared(KNOWN).best
    rated = replace(
        spot, interruption=Interruption(low=0, high=5, savings_percent=90, as_of=AS_OF, source="test")
    )
    best = compared(rated, KNOWN).best
    assert best is not None
    assert best.offer == rated
