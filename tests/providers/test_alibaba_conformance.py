"""Alibaba Cloud against the suite that every provider passes: its SDK, the sandbox at the other end."""

from __future__ import annotations

import time
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.profile import Profile
from gpucloud.errors import ErrorClass
from gpucloud.resources import Order, Ref
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.builders import an_order
from tests.conformance import Harness, ProviderConformance
from tests.profiles import own_profile
from tests.providers.alibaba_sandbox import alibaba_environment, sandbox

__all__ = ["alibaba_environment", "sandbox"]

REFUSALS = {
    ErrorClass.CAPACITY: ("OperationDenied.NoStock", 403),
    ErrorClass.UNSUPPORTED: ("InvalidInstanceType.ZoneNotSupported", 403),
    ErrorClass.QUOTA: ("QuotaExceed.ElasticQuota", 403),
    ErrorClass.PRICE: ("InvalidSpotPriceLimit.LowerThanPublicPrice", 400),
    ErrorClass.AUTH: ("Forbidden.RAM", 403),
    ErrorClass.THROTTLED: ("Throttling", 400),
    ErrorClass.SERVER: ("InternalError", 500),
}
ACTIONS = {"prepare": "CreateVpc", "create": "RunInstances", "delete": "DeleteInstances"}


class AlibabaHarness(Harness):
    """The sandbox's controls, in the suite's words."""

    empty_looks = 1  # without lag, lists are true at once

    def __init__(self, sandbox: SandboxClient, provider: AlibabaProvider) -> None:
        super().__init__()
        self.provider = provider
        self._sandbox = sandbox

    def order(self, **changes: Any) -> Order:
        values: dict[str, Any] = {
            "account": self.provider.account(),
            "tags": self.tags(),
            "region": "ap-southeast-1",
            "zone": "ap-southeast-1c",
            "instance_type": "ecs.gn6i-c4g1.xlarge",
            "image": "ubuntu-22.04",
            "rates": {"CNY": Decimal("6.7489")},
        }
        return an_order(**values | changes)

    def tick(self) -> None:
        time.sleep(0.01)

    def billed(self) -> Collection[str]:
        # A public address is billed by its traffic, has no id of its own and goes with its instance.
        return {entry["id"] for entry in self._sandbox.status()["billing"] if entry["kind"] != "address"}

    def mutating_calls(self) -> int:
        return sum(call["count"] for call in self._sandbox.calls() if call["mutating"])

    def refuse(self, error_class: ErrorClass) -> None:
        code, status = REFUSALS[error_class]
        self._sandbox.fault(effect="error", action="RunInstances", code=code, status=status, message="No.")

    def lose_answer(self, of: str) -> None:
        self._sandbox.fault(effect="drop", stage="applied", action=ACTIONS[of])

    def deny_lists(self, region: str) -> None:
        """As RAM does: instances are an empty list, everything else is refused.

        What may be read is proven once per process, so the one that looks now is another.
        """
        self.provider = AlibabaProvider(own_profile())
        self._sandbox.cloud("alibaba", "deny", actions=["*:Describe[!R]*"])

    def restore(self) -> None:
        self._sandbox.clear_faults()
        self._sandbox.cloud("alibaba", "deny", actions=[])

    def empty_stock(self, order: Order) -> None:
        self._sandbox.stock(
            cloud="alibaba",
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            count=order.nodes - 1,
        )

    def raise_spot_price(self, order: Order) -> None:
        self._sandbox.price(
            cloud="alibaba",
            region=order.region,
            instance_type=order.instance_type,
            purchase="spot",
            amount="90",
        )

    def preempt(self, ref: Ref) -> None:
        self._sandbox.interrupt(ref.id, notice_s=0)

    def hold(self, order: Order) -> str:
        pool = self._sandbox.cloud(
            "alibaba",
            "reserve",
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            count=order.nodes,
        )
        return str(pool)


@pytest.fixture(scope="module")
def provider(endpoint: Endpoint) -> AlibabaProvider:
    """One for all tests: it keeps a client for each region, and knows in which it may look."""
    return AlibabaProvider(Profile(endpoint.environ))


class TestAlibaba(ProviderConformance):
    @pytest.fixture
    def harness(self, sandbox: SandboxClient, provider: AlibabaProvider) -> Harness:
        return AlibabaHarness(sandbox, provider)
