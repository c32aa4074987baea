"""The conformance suite against the real clouds. It rents machines: asked for by name, and with a cap::

    GPUCLOUD_LIVE_BUDGET_USD=5 pytest -m live tests/live -k aws

Credentials are the vendors' own; ``GPUCLOUD_LIVE_REGION`` chooses a region, else the cheapest is taken.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import Prices
from gpucloud.clouds.cloud import Clouds
from gpucloud.clouds.provider import Provider
from gpucloud.planning.plan import Candidate
from gpucloud.planning.planner import candidates_of
from gpucloud.resources import Order
from gpucloud_pricing import Demand, Market, parse_requirements
from gpucloud_pricing.purchases import Purchase
from tests.builders import an_order
from tests.conformance import Harness, ProviderConformance
from tests.profiles import own_profile

pytestmark = pytest.mark.live

HOURS_PER_ORDER = Decimal("0.25")
"""A test's machines live some minutes; this much of an hour's price is set aside for each."""

TICK_S = float(os.environ.get("GPUCLOUD_LIVE_TICK_S", "2"))


class Budget:
    """What may be spent in all; a test that would go over it is skipped, and says so."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        given = environment.get("GPUCLOUD_LIVE_BUDGET_USD")
        if given is None:
            pytest.skip("set GPUCLOUD_LIVE_BUDGET_USD: these tests rent machines")
        self._left = Decimal(given)

    def take(self, usd: Decimal) -> None:
        """Sets an amount aside."""
        if usd > self._left:
            pytest.skip(f"${self._left:.2f} is left of the budget, and this test may need ${usd:.2f}")
        self._left -= usd


class LiveHarness(Harness):
    """A real cloud: the cheapest machine with a GPU, and no controls."""

    looks = 300

    def __init__(self, provider: Provider, offer: Candidate, budget: Budget) -> None:
        super().__init__()
        self.provider = provider
        self._offer = offer
        self._budget = budget

    def order(self, **changes: Any) -> Order:
        offer = self._offer
        values: dict[str, Any] = {
            "account": self.provider.account(),
            "tags": self.tags(),
            "region": offer.region,
            "zone": offer.zone,
            "instance_type": offer.instance_type,
            "arch": offer.arch,
            "image": "ubuntu-22.04",
            "deadline": None,
        }
        order = an_order(**values | changes)
        self._budget.take(offer.price_usd * HOURS_PER_ORDER * order.nodes)
        return order

    def tick(self) -> None:
        time.sleep(TICK_S)


@pytest.fixture(scope="session")
def budget() -> Budget:
    return Budget(os.environ)


def cheapest(provider: Provider) -> Candidate:
    """The cheapest machine with a T4 that the cloud sells by the hour, in a zone that it names itself."""
    regions = tuple(filter(None, (os.environ.get("GPUCLOUD_LIVE_REGION"),)))
    demand = Demand(
        gpus=parse_requirements("T4"), purchases=("on_demand",), clouds=(provider.name,), regions=regions
    )
    offer = candidates_of(Market.load().search(demand, today=datetime.now(UTC).date()))[0]
    prices = provider.ability(Prices)
    if offer.zone or prices is None:
        return offer
    quotes = prices.quotes(offer.region, [offer.instance_type], Purchase.ON_DEMAND)
    zones = [quote.zone for quote in quotes if quote.zone]
    return replace(offer, zone=zones[0]) if zones else offer


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
class TestLive(ProviderConformance):
    @pytest.fixture
    def harness(self, cloud: str, budget: Budget) -> Harness:
        provider = Clouds.installed(own_profile())[cloud].provider
        return LiveHarness(provider, cheapest(provider), budget)
