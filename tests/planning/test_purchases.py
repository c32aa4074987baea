"""What a plan does with each way of paying, by the functions of a launch."""

from __future__ import annotations

import pytest

from gpucloud.journal.policy import Rules
from gpucloud.planning.permitted import permitted
from gpucloud.planning.plan import capped, into_held, margin_of
from gpucloud.planning.planner import candidates_of, plan_request
from gpucloud.resources import HeldCapacity
from gpucloud.spec.model import Spec
from gpucloud_pricing import Demand, Market
from gpucloud_pricing.purchases import LAUNCHABLE, PURCHASES, Purchase
from tests.builders import START, a_price, an_instance_type

MARKET = Market.build(types=[an_instance_type()], offers=[a_price("1", purchase=word) for word in PURCHASES])
HELD = HeldCapacity(
    cloud="aws",
    region="us-east-1",
    zone="z1",
    instance_type="g4dn.xlarge",
    id="cr",
    free=1,
    purchase="reservation",
)


@pytest.mark.parametrize("purchase", Purchase)
def test_a_plan_searches_the_prices_that_are_listed_for_it_and_buys_as_it_was_asked(
    purchase: Purchase,
) -> None:
    """One candidate of the market, which the policy, the held capacity and the ceiling leave as it is."""
    request = plan_request(Spec(purchase=[str(purchase)]), accept_snapshot_price=True, to_buy=False)
    assert request.demand.purchases == (purchase.kind.listed_as,)
    found = candidates_of(MARKET.search(request.demand, START.date()))
    candidates, removed = permitted(Rules(purchase=(str(purchase),)), MARKET, found, request.purchases)
    assert not removed
    bought = [each for each in candidates if each.purchase is purchase]
    (candidate,) = bought + into_held(candidates, [HELD] if purchase.kind.paid_already else [], nodes=1)
    assert candidate.purchase is purchase
    assert bool(candidate.reservation) == purchase.kind.paid_already
    ceiling = capped(candidate, max_price_usd=None, on_demand_usd=None).ceiling_usd
    assert ceiling == margin_of(purchase) >= 1


def test_only_what_can_be_launched_is_a_candidate() -> None:
    """Commitments and what is owned are shown with their costs, and never bought."""
    offers = MARKET.search(Demand(purchases=PURCHASES), START.date())
    assert {offer.purchase for offer in offers} == set(PURCHASES)
    assert {each.purchase for each in candidates_of(offers)} == set(LAUNCHABLE)
