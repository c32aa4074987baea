"""The clouds in memory keep a provider's obligations, each in its own temperament; and they can misbehave."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpucloud.errors import ErrorClass
from gpucloud.resources import HeldCapacity, Order, Ref
from gpucloud_pricing.purchases import Purchase
from tests.builders import an_order
from tests.conformance import Harness, ProviderConformance
from tests.memory import ConnectionLost, MemoryProvider

TYPE = "gpu.small"


class MemoryHarness(Harness):
    """A new cloud in memory for each test."""

    provider: MemoryProvider

    def __init__(self, name: str, **of_cloud: Any) -> None:
        super().__init__()
        self.provider = MemoryProvider.named(name, prices={TYPE: Decimal("1.5")}, **of_cloud)
        self.cloud = self.provider.cloud
        self.finds_by_token = self.cloud.temperament.finds_by_token

    def order(self, **changes: Any) -> Order:
        return an_order(**{"instance_type": TYPE, "tags": self.tags(), **changes})

    def tick(self) -> None:
        self.cloud.clock.sleep(5)

    def billed(self) -> list[str]:
        return [entry.ref.id for entry in self.cloud.billing()]

    def mutating_calls(self) -> int:
        return len(self.cloud.mutating())

    def refuse(self, error_class: ErrorClass) -> None:
        self.cloud.fail("create", self.cloud.say(error_class))

    def lose_answer(self, of: str) -> None:
        action = f"make-{self.cloud.temperament.stands_on[0]}" if of == "prepare" else of
        self.cloud.fail(action, ConnectionLost(), applied=True)

    def deny_lists(self, region: str) -> None:
        self.cloud.deny("list", region)

    def restore(self) -> None:
        self.cloud.denied.clear()
        self.cloud.faults.clear()

    def empty_stock(self, order: Order) -> None:
        self.cloud.stock[order.zone, order.instance_type] = order.nodes - 1

    def raise_spot_price(self, order: Order) -> None:
        self.cloud.prices[order.zone, order.instance_type, Purchase.SPOT] = Decimal(9)

    def preempt(self, ref: Ref) -> None:
        self.cloud.preempt(ref)

    def hold(self, order: Order) -> str:
        held = HeldCapacity(
            cloud=self.cloud.name,
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            id="cr-1",
            free=2,
            purchase="reservation",
        )
        self.cloud.held.append(held)
        return held.id


class TestTokenAndAtomic(ProviderConformance):
    """Lists lag behind creation, here by two looks and ten seconds."""

    @pytest.fixture
    def harness(self) -> Harness:
        from tests.memory import Pace

        return MemoryHarness("aws", listed=Pace(looks=2, seconds=10))


class TestByNameAndLongRunning(ProviderConformance):
    """Names are ids, and what failed late leaves its parts."""

    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryHarness("azure")


class TestVanishing(ProviderConformance):
    """Ids may be worth nothing, and what they were is told by the cloud's history."""

    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryHarness("alibaba")


class TestVanishingWithoutHistory(ProviderConformance):
    """An id that vanished is unknown."""

    @pytest.fixture
    def harness(self) -> Harness:
        return MemoryHarness("alibaba", remembers=False)
