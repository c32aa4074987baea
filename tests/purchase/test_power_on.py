"""What a start may cost: today's price of the machine's place, against what was agreed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from gpucloud.errors import CloudError, PriceError, UsageError
from gpucloud.journal.facts import Ceiling
from gpucloud.journal.records import Box
from gpucloud.purchase.ceiling import Agreement, confirmed
from gpucloud.purchase.failover import launch
from gpucloud.purchase.power_on import offer_today
from gpucloud_pricing.purchases import Purchase
from tests.bench import Bench
from tests.planning.test_plan import usd
from tests.purchase.test_ceiling import PLACE, a_bench, move, quoted
from tests.refreshing import market


def launched(bench: Bench, way: Purchase = Purchase.ON_DEMAND) -> Box:
    """A box at a dollar: its ceiling is a margin above."""
    return launch(bench.context(), bench.purchase(quoted(bench, PLACE, purchase=way)))


LIMITS: list[tuple[str, Purchase, str, str | None, str | None, bool]] = [
    ("the same price", Purchase.ON_DEMAND, "1", None, None, True),
    ("within the margin of list prices", Purchase.ON_DEMAND, "1.02", None, None, True),
    ("above it", Purchase.ON_DEMAND, "1.03", None, None, False),
    ("within the margin of spot", Purchase.SPOT, "1.25", None, None, True),
    ("above it, on spot", Purchase.SPOT, "1.26", None, None, False),
    ("within the user's limit", Purchase.ON_DEMAND, "1.50", "1.50", None, True),
    ("above it, though cheaper than before", Purchase.ON_DEMAND, "0.90", "0.80", None, False),
    ("within what its last start allowed", Purchase.ON_DEMAND, "2", None, "2", True),
    ("above what its last start allowed", Purchase.ON_DEMAND, "1", None, "0.9", False),
]


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: str(case[0]))
def test_the_limit_of_a_start(
    tmp_path: Path, case: tuple[str, Purchase, str, str | None, str | None, bool]
) -> None:
    _, way, now, asked, last, allowed = case
    bench = a_bench(tmp_path)
    box = launched(bench, way)
    if last is not None:
        box = replace(box, ceiling=Ceiling(usd_per_hour=Decimal(3), machine_usd=Decimal(last)))
    move(bench, "us-east-1", now)
    limit = None if asked is None else Decimal(asked)
    if allowed:
        assert offer_today(bench.context(), market(), box, max_price_usd=limit).price_usd == Decimal(now)
        return
    with pytest.raises(PriceError, match="nothing was started"):
        offer_today(bench.context(), market(), box, max_price_usd=limit)


def test_on_demand_is_not_started_without_a_quote(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    box = launched(bench)
    bench.providers[0].cloud.prices.clear()
    with pytest.raises(PriceError, match="quotes no price"):
        offer_today(bench.context(), market(), box, max_price_usd=None)


def test_spot_without_a_quote_is_started_at_its_last_price_because_its_bid_holds(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    box = launched(bench, Purchase.SPOT)
    bench.providers[0].cloud.prices.clear()
    assert offer_today(bench.context(), market(), box, max_price_usd=None).price == box.price_per_hour


def test_a_start_is_confirmed_after_the_question_and_never_above_its_ceiling(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    box = launched(bench)
    offer = offer_today(bench.context(), market(), box, max_price_usd=None)
    bench.clock.sleep(1)
    agreed = Agreement(usd=usd, agreed_at=bench.clock())
    move(bench, "us-east-1", "1.01")
    assert confirmed(bench.context(), agreed, offer).price_usd == Decimal("1.01")
    move(bench, "us-east-1", "5")
    with pytest.raises(CloudError) as caught:
        confirmed(bench.context(), agreed, offer)
    assert caught.value.exit_code == 7


def test_a_type_that_the_market_does_not_know_is_not_started(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    box = launched(bench)
    assert box.offer is not None
    unknown = replace(box, offer=replace(box.offer, instance_type="m5.large"))
    with pytest.raises(UsageError, match=r"m5\.large"):
        offer_today(bench.context(), market(), unknown, max_price_usd=None)
