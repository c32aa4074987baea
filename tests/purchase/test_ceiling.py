"""Never above the price: quotes that age, prices that move around the purchase, and the bid for spot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucloud.errors import BoxLostError, CloudError, PriceError
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.plan import Candidate, capped
from gpucloud.purchase.failover import launch
from gpucloud.resources import HeldCapacity, Machine, Request
from gpucloud_pricing.purchases import Purchase
from tests.bench import Bench
from tests.builders import Clock
from tests.memory import BY_NAME_LONG_RUNNING, TOKEN_ATOMIC, VANISHING, ConnectionLost, MemoryProvider
from tests.planning.test_plan import a_candidate

T4 = "g4dn.xlarge"
PLACE = "us-east-1/use1-az4"
OTHER = "us-west-2/usw2-az1"


def a_bench(folder: Path, kind: type[MemoryProvider] = MemoryProvider, **of_cloud: Any) -> Bench:
    """A cloud that names prices: a dollar in one region, two in the other."""
    clock = Clock()
    prices = {("us-east-1", T4, way): Decimal(1) for way in (Purchase.ON_DEMAND, Purchase.SPOT)}
    prices |= {("us-west-2", T4, way): Decimal(2) for way in (Purchase.ON_DEMAND, Purchase.SPOT)}
    given = {"temperament": TOKEN_ATOMIC, "prices": prices, **of_cloud}
    provider = MemoryProvider.named("aws", clock=clock, **given)
    return Bench(folder, clock, [provider], kind=kind)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return a_bench(tmp_path)


def quoted(bench: Bench, *places: str, age_s: float = 0, **changes: Any) -> list[Candidate]:
    """Offers that the cloud named a price of so long ago, each with the ceiling that a plan gives it."""
    at = bench.clock() - timedelta(seconds=age_s)
    offers = bench.offers(*(places or (PLACE, OTHER)), quoted_at=at, **changes)
    return [capped(each, max_price_usd=None, on_demand_usd=None) for each in offers]


def move(bench: Bench, region: str, usd: str) -> None:
    """The cloud asks for another price from now on."""
    for way in (Purchase.ON_DEMAND, Purchase.SPOT):
        bench.providers[0].cloud.prices[region, T4, way] = Decimal(usd)


def bought(bench: Bench, offers: Sequence[Candidate], **changes: Any) -> Box:
    return launch(bench.context(), bench.purchase(offers, **changes))


def asked_for_prices(bench: Bench) -> int:
    return sum(call.action == "quotes" for call in bench.providers[0].cloud.calls)


def dearest_billed(bench: Bench) -> Decimal:
    """What any machine was ever billed, per hour."""
    ledger = bench.providers[0].cloud.ledger
    return max(
        (each.price_per_hour for each in ledger if str(each.ref.kind) == "instance"), default=Decimal(0)
    )


WAYS = [Purchase.ON_DEMAND, Purchase.SPOT]


@pytest.mark.parametrize("way", WAYS)
def test_a_quote_older_than_a_minute_is_asked_again_and_one_above_its_ceiling_is_passed_over(
    bench: Bench, way: Purchase
) -> None:
    offers = quoted(bench, age_s=61, purchase=way)
    move(bench, "us-east-1", "5")
    box = bought(bench, offers)
    assert (box.machine(0).region, dearest_billed(bench)) == ("us-west-2", Decimal(2))


def test_a_fresh_quote_is_bought_on_without_asking_before(bench: Bench) -> None:
    bought(bench, quoted(bench, age_s=59))
    assert asked_for_prices(bench) == 1, "only after the create call"


def test_a_quote_from_before_a_yes_is_asked_again_however_fresh_it_is(bench: Bench) -> None:
    offers = quoted(bench, PLACE, age_s=1)
    move(bench, "us-east-1", "5")
    with pytest.raises(CloudError) as caught:
        bought(bench, offers, agreed_at=bench.clock())
    assert (caught.value.exit_code, caught.value.error_class) == (7, "price")
    assert "5" in caught.value.message
    assert bench.providers[0].cloud.ledger == []


def test_when_price_alone_removed_the_last_offer_it_is_exit_7(bench: Bench) -> None:
    offers = quoted(bench, age_s=61)
    move(bench, "us-east-1", "5")
    move(bench, "us-west-2", "5")
    with pytest.raises(CloudError) as caught:
        bought(bench, offers)
    assert caught.value.exit_code == 7
    assert [each["class"] for each in caught.value.attempts] == ["price", "price"]


def test_failover_that_lasts_asks_again_before_each_attempt(bench: Bench) -> None:
    """The first attempt takes two minutes; the price of the second has moved meanwhile."""
    cloud = bench.providers[0].cloud
    cloud.stock["use1-az4", T4] = 0
    cloud.fail("create", delay_s=120)
    offers = quoted(bench)
    move(bench, "us-west-2", "5")
    with pytest.raises(CloudError) as caught:
        bought(bench, offers)
    assert [each["class"] for each in caught.value.attempts] == ["capacity", "price"]
    assert cloud.billing() == []


class Riser(MemoryProvider):
    """Its price rises fivefold in the moment of the create call."""

    def create(self, request: Request, /) -> Sequence[Machine]:
        for key, price in list(self.cloud.prices.items()):
            if isinstance(key, tuple):
                self.cloud.prices[key] = price * 5
        return super().create(request)


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING], ids=lambda t: t.name)
def test_a_price_that_rises_with_the_create_call_ends_the_machine_and_is_exit_7_with_both_prices(
    tmp_path: Path, temperament: Any
) -> None:
    bench = a_bench(tmp_path, Riser, temperament=temperament)
    with pytest.raises(PriceError) as caught:
        bought(bench, quoted(bench))
    assert caught.value.exit_code == 7
    assert "5 USD" in caught.value.message
    assert "1 USD" in caught.value.message
    assert bench.billed() == []
    [box] = bench.context().journal.boxes(owner="u-tester", over=True)
    assert box.state is BoxState.FAILED


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING, VANISHING], ids=lambda t: t.name)
def test_spot_always_carries_its_ceiling_as_the_bid(tmp_path: Path, temperament: Any) -> None:
    """So the cloud itself refuses what rises with the call."""
    bench = a_bench(tmp_path, Riser, temperament=temperament)
    with pytest.raises(CloudError) as caught:
        bought(bench, quoted(bench, purchase=Purchase.SPOT))
    assert caught.value.exit_code == 7
    assert dearest_billed(bench) == 0


def test_the_price_that_is_written_down_is_the_one_in_force(bench: Bench) -> None:
    offers = quoted(bench, PLACE)
    move(bench, "us-east-1", "1.01")
    box = bought(bench, offers)
    assert (box.price_per_hour, box.currency) == (Decimal("1.01"), "USD")


@pytest.mark.parametrize(
    ("way", "unconfirmed", "buys"),
    [
        (Purchase.ON_DEMAND, False, False),  # it may have moved, and nothing holds it
        (Purchase.ON_DEMAND, True, True),  # the user accepts that
        (Purchase.SPOT, False, True),  # its bid holds it
    ],
)
def test_a_price_that_was_named_and_cannot_be_named_again_is_bought_on_only_where_something_holds_it(
    bench: Bench, way: Purchase, unconfirmed: bool, buys: bool
) -> None:
    offers = quoted(bench, PLACE, age_s=61, purchase=way)
    bench.providers[0].cloud.fail("quotes", ConnectionLost(), times=99)
    if buys:
        assert bought(bench, offers, accept_snapshot_price=unconfirmed).state is BoxState.BOOTSTRAPPING
        return
    with pytest.raises(CloudError) as caught:
        bought(bench, offers, accept_snapshot_price=unconfirmed)
    assert caught.value.exit_code == 7
    assert "--accept-snapshot-price" in str(caught.value.hint)
    assert bench.providers[0].cloud.ledger == []


def test_a_price_that_the_cloud_never_named_goes_by_the_plans_own_rule(bench: Bench) -> None:
    """The plan lets a price of the market's data through only where it is fresh or accepted."""
    bench.providers[0].cloud.prices.clear()
    assert bought(bench, bench.offers(PLACE)).state is BoxState.BOOTSTRAPPING


def test_held_capacity_is_paid_for_and_no_price_of_it_is_asked(bench: Bench) -> None:
    hold = HeldCapacity(
        cloud="aws",
        region="us-east-1",
        zone="use1-az4",
        instance_type=T4,
        id="cr-1",
        free=1,
        purchase="reservation",
    )
    bench.providers[0].cloud.held.append(hold)
    bought(bench, quoted(bench, PLACE, age_s=999, purchase=Purchase.RESERVED, reservation="cr-1"))
    assert asked_for_prices(bench) == 0


@pytest.mark.parametrize(
    ("way", "limit", "on_demand", "ceiling"),
    [
        (Purchase.SPOT, None, "3", "1.25"),
        (Purchase.SPOT, None, "1.1", "1.1"),  # nobody pays more for spot than on demand
        (Purchase.SPOT, None, None, "1.25"),
        (Purchase.SPOT, "7", "1.1", "7"),  # what was said counts
        (Purchase.ON_DEMAND, None, "1", "1.02"),
        (Purchase.ON_DEMAND, "7", None, "7"),
        (Purchase.RESERVED, None, None, "1.02"),
    ],
)
def test_the_ceiling_of_an_attempt(
    way: Purchase, limit: str | None, on_demand: str | None, ceiling: str
) -> None:
    found = capped(
        replace(a_candidate(price="1"), purchase=way),
        max_price_usd=Decimal(limit) if limit else None,
        on_demand_usd=Decimal(on_demand) if on_demand else None,
    )
    assert found.ceiling_usd == Decimal(ceiling)


# --- machines that end themselves


class Drowsy(MemoryProvider):
    """Every machine powers itself off while it boots, as with a deadline that has passed."""

    def create(self, request: Request, /) -> Sequence[Machine]:
        machines = super().create(request)
        for machine in machines:
            self.cloud.end(machine.ref)
        return machines


@pytest.mark.parametrize("temperament", [TOKEN_ATOMIC, BY_NAME_LONG_RUNNING], ids=lambda t: t.name)
def test_after_the_second_machine_that_powers_itself_off_no_third_is_bought(
    tmp_path: Path, temperament: Any
) -> None:
    bench = a_bench(tmp_path, Drowsy, temperament=temperament)
    with pytest.raises(BoxLostError) as caught:
        bought(bench, bench.offers())
    error = caught.value
    assert "two machines powered themselves off" in error.message
    assert (error.exit_code, error.error_class) == (1, "box_lost")
    assert "gpucloud check" in str(error.hint)
    machines = [each for each in bench.providers[0].cloud.ledger if str(each.ref.kind) == "instance"]
    assert len(machines) == 2
    assert [each["class"] for each in error.attempts] == ["box_lost", "box_lost"]
    assert bench.billed() == []


def test_one_machine_that_powers_itself_off_is_no_lack_of_capacity(tmp_path: Path) -> None:
    bench = a_bench(tmp_path, Drowsy)
    with pytest.raises(BoxLostError, match="powered itself off") as caught:
        bought(bench, bench.offers(PLACE))
    assert caught.value.exit_code == 1
