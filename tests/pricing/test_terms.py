"""Terms and blocks: what is billed, against a reading of the rules that tries every number of terms."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucloud_pricing import Market, Offer, Rate, Tariff
from gpucloud_pricing.capital import Payment, present_value, value_today
from gpucloud_pricing.estimate import estimate
from gpucloud_pricing.figures import figures
from gpucloud_pricing.purchases import CAPACITY_BLOCK, HOURS_PER_YEAR, KINDS, Billed
from gpucloud_pricing.terms import Bill, Usage, compute_bill, is_longer
from gpucloud_pricing.values import UnsuitableError
from tests.builders import START, a_price, an_instance_type, an_offer

NOTHING = Market.build(
    types=[an_instance_type()],
    offers=[],
    rates=[Rate(base="USD", quote="CNY", rate=Decimal("6.7489"), as_of=START.date(), source="t")],
)
IN_TERMS = sorted(word for word, kind in KINDS.items() if kind.billed is Billed.IN_TERMS)


def sold(purchase: str, usd: str = "1", *, upfront: str = "0", currency: str = "USD") -> Offer:
    price = replace(
        a_price(usd, purchase=purchase, currency=currency, cloud="alibaba"), upfront=Decimal(upfront)
    )
    return an_offer(purchase=purchase, quote=price, price_usd=NOTHING.usd(price.amount, currency))


def bill(offer: Offer, hours: str, *, nodes: int = 1, on_demand: str | None = None) -> Bill:
    usage = Usage(hours=Decimal(hours), nodes=nodes, boot_s=0)
    assert offer.price_usd is not None
    return compute_bill(offer, offer.price_usd, usage, None if on_demand is None else Decimal(on_demand))


@given(
    purchase=st.sampled_from(IN_TERMS),
    price=st.decimals("0.01", "3", places=2),
    on_demand=st.none() | st.decimals("0.01", "3", places=2),
    hours=st.decimals("0.01", "60000", places=2),
    nodes=st.integers(1, 4),
)
def test_no_number_of_terms_is_cheaper_than_what_is_billed(
    *, purchase: str, price: Decimal, on_demand: Decimal | None, hours: Decimal, nodes: int
) -> None:
    """And it is never more than one further term, nor less than the first, which is owed whole."""
    length = KINDS[purchase].term_hours
    offer = sold(purchase, str(price))
    billed = compute_bill(offer, price, Usage(hours=hours, nodes=nodes, boot_s=0), on_demand)
    most = int(hours / length) + 1
    tried: list[Decimal] = []
    for terms in range(1, most + 1):
        rest = max(Decimal(0), hours - terms * length)
        if not rest or on_demand is not None:
            tried.append(nodes * (terms * length * price + rest * (on_demand or 0)))
    assert abs(billed.usd - min(tried)) < Decimal("1e-9")
    assert nodes * length * price <= billed.usd <= nodes * most * length * price


@pytest.mark.parametrize(
    ("hours", "days"),
    [
        ("1", 1),
        ("23.5", 1),
        ("23.51", 2),  # of 24 hours, 23.5 can be used
        ("24", 2),
        ("335.5", 14),
        ("336", 21),  # 14 days end half an hour early, and the next length is three weeks
        ("4367.5", 182),
    ],
)
def test_a_block_has_the_days_in_which_the_work_fits(hours: str, days: int) -> None:
    billed = bill(sold(CAPACITY_BLOCK, "10"), hours)
    assert billed.term_hours == 24 * days
    assert billed.usd == 240 * days


@pytest.mark.parametrize(("nodes", "machines"), [(1, 1), (3, 4), (4, 4), (5, 8), (33, 64), (64, 64)])
def test_a_block_has_a_size_that_is_sold(nodes: int, machines: int) -> None:
    billed = bill(sold(CAPACITY_BLOCK, "10"), "20", nodes=nodes)
    assert billed.machines == machines
    assert billed.usd == 240 * machines


def test_what_no_block_can_serve_is_unknown_with_the_reason() -> None:
    block = sold(CAPACITY_BLOCK, "10")
    with pytest.raises(UnsuitableError, match="longer than 182 days"):
        bill(block, "4368")
    e = estimate(NOTHING, block, Usage(hours=Decimal(20), nodes=65), on_demand_usd=Decimal(20))
    assert e.compute is e.total is e.expected_total is e.upfront is None
    assert e.unknown["compute"] == e.unknown["total"] == "no capacity block has more than 64 machines"


def test_a_block_has_no_hours_per_month_from_which_it_pays() -> None:
    block = sold(CAPACITY_BLOCK, "10", upfront="240.5")
    e = estimate(NOTHING, block, Usage(hours=Decimal(30), nodes=3), on_demand_usd=Decimal(20))
    assert e.break_even_hours is None
    assert "break_even_hours" not in e.unknown
    assert e.compute == e.upfront == Decimal("240.5") * 2 * 4, (
        "two days of four machines, at the day's own price"
    )
    told = {figure.part: figure for figure in figures(NOTHING, e)}
    assert told["compute"].formula == "240.5 USD x 2 days x 4; the smallest block for 3 machines"
    assert told["upfront"].formula == "240.5 USD x 2 x 4"
    assert told["upfront"].rows[0].what == "a block of a day: at once"


def test_a_month_that_is_billed_as_a_month_costs_its_price() -> None:
    """19,800 yuan a month; by its rounded price per hour it would be 19,800.009."""
    month = sold("subscription_1m", "27.1233", upfront="19800", currency="CNY")
    usage = Usage(hours=Decimal(1400), nodes=2, boot_s=0)
    e = estimate(NOTHING, month, usage, on_demand_usd=Decimal(100))
    assert e.compute is not None
    assert round(e.compute * Decimal("6.7489"), 9) == 2 * 2 * 19800
    assert e.upfront is not None
    assert round(e.upfront * Decimal("6.7489"), 9) == 2 * 19800, "the second month is due when it begins"
    told = {figure.part: figure for figure in figures(NOTHING, e)}
    assert told["compute"].formula == "19800 CNY / 6.7489 x 2 months x 2"
    assert told["upfront"].rows[0].what == "subscription-1m: at once"


def test_the_shipped_months_are_those_of_the_table() -> None:
    real = Market.load()
    months = [price for price in real.prices() if price.purchase == "subscription_1m"]
    assert len(months) == 30
    assert all(round(price.upfront / 730, 4) == price.amount for price in months)
    assert {price.upfront for price in months} >= {Decimal(19800), Decimal(68292)}


def test_a_term_is_longer_than_another() -> None:
    usage = Usage(hours=Decimal(400))
    terms = {name: is_longer(sold(name), usage, HOURS_PER_YEAR) for name in IN_TERMS}
    assert {name for name, longer in terms.items() if longer} == {"reserved_3y", "savings_3y"}
    assert not is_longer(sold("on_demand"), usage, Decimal(1))
    assert is_longer(sold(CAPACITY_BLOCK), usage, Decimal(20 * 24)), "400 hours take three weeks"
    assert not is_longer(sold(CAPACITY_BLOCK), usage, Decimal(21 * 24))


# --- what capital costs

YEAR = Decimal(8760)


@pytest.mark.parametrize(
    ("payment", "worth"),
    [
        (Payment(amount=Decimal(108), start=Decimal(0), end=Decimal(0)), "108.0000"),
        (Payment(amount=Decimal(108), start=YEAR, end=YEAR), "100.0000"),
        (Payment(amount=Decimal(1000), start=Decimal(0), end=YEAR), "962.4879"),  # (1 - 1 / 1.08) / ln 1.08
        (Payment(amount=Decimal(1000), start=YEAR, end=2 * YEAR), "891.1925"),  # the same / 1.08
    ],
)
def test_what_is_due_later_is_worth_less(payment: Payment, worth: str) -> None:
    assert f"{value_today([payment], Decimal('0.08')):.4f}" == worth
    assert value_today([payment], Decimal(0)) == payment.amount


def test_each_term_that_is_prepaid_is_due_when_it_begins() -> None:
    """Two prepaid years of 8760 at 8 %: 8760 at once, and 8760 / 1.08 a year later."""
    year = sold("subscription_1y", "1", upfront="8760")
    usage = Usage(hours=Decimal(2 * 8760), boot_s=0, disk_gib=0)
    market = Market.build(
        types=[],
        offers=[],
        tariffs=[
            Tariff(
                cloud="aws",
                region="*",
                kind="address",
                unit="hour",
                sku="x",
                amount=Decimal(0),
                currency="USD",
                as_of=None,
                source="t",
            )
        ],
    )
    e = estimate(market, year, usage, on_demand_usd=Decimal(2))
    worth = present_value(e, Decimal("0.08"))
    assert worth is not None
    assert f"{worth:.4f}" == "16871.1111"
    assert present_value(e, Decimal(0)) == e.expected_total == 17520
