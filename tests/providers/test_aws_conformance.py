"""AWS against the suite that every provider passes: boto3 over HTTP, the sandbox at the other end."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest

from gpucloud.clouds.profile import Profile
from gpucloud.errors import ErrorClass
from gpucloud.resources import Order, Ref
from gpucloud_aws.provider import AwsProvider
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.builders import an_order
from tests.conformance import Harness, ProviderConformance

REFUSALS = {
    ErrorClass.CAPACITY: ("InsufficientInstanceCapacity", 500),
    ErrorClass.UNSUPPORTED: ("Unsupported", 400),
    ErrorClass.QUOTA: ("VcpuLimitExceeded", 400),
    ErrorClass.PRICE: ("SpotMaxPriceTooLow", 400),
    ErrorClass.AUTH: ("UnauthorizedOperation", 403),
    ErrorClass.THROTTLED: ("RequestLimitExceeded", 503),
    ErrorClass.SERVER: ("InternalError", 500),
}
ACTIONS = {"prepare": "CreateSecurityGroup", "create": "RunInstances", "delete": "TerminateInstances"}


class AwsHarness(Harness):
    """The sandbox's controls, in the suite's words."""

    empty_looks = 1  # without lag, lists are true at once

    def __init__(self, sandbox: SandboxClient, provider: AwsProvider) -> None:
        super().__init__()
        self.provider = provider
        self._sandbox = sandbox

    def order(self, **changes: Any) -> Order:
        values: dict[str, Any] = {"account": self.provider.account(), "tags": self.tags()}
        return an_order(**values | changes)

    def tick(self) -> None:
        time.sleep(0.01)

    def billed(self) -> Collection[str]:
        # An automatic public address is billed, but has no id or tag of its own and goes with its interface.
        return {entry["id"] for entry in self._sandbox.status()["billing"] if entry["kind"] != "address"}

    def mutating_calls(self) -> int:
        return sum(call["count"] for call in self._sandbox.calls() if call["mutating"])

    def refuse(self, error_class: ErrorClass) -> None:
        code, status = REFUSALS[error_class]
        self._sandbox.fault(effect="error", action="RunInstances", code=code, status=status, message="No.")

    def lose_answer(self, of: str) -> None:
        self._sandbox.fault(effect="drop", stage="applied", action=ACTIONS[of])

    def deny_lists(self, region: str) -> None:
        self._sandbox.fault(
            effect="error",
            action="Describe[!R]*",  # which regions there are may still be asked
            region=region,
            times=None,
            code="UnauthorizedOperation",
            status=403,
            message="You are not authorized to perform this operation.",
        )

    def restore(self) -> None:
        self._sandbox.clear_faults()

    def empty_stock(self, order: Order) -> None:
        self._sandbox.stock(
            cloud="aws",
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            count=order.nodes - 1,
        )

    def raise_spot_price(self, order: Order) -> None:
        self._sandbox.price(
            cloud="aws", region=order.region, instance_type=order.instance_type, purchase="spot", amount="9"
        )

    def preempt(self, ref: Ref) -> None:
        self._sandbox.interrupt(ref.id, notice_s=0)

    def hold(self, order: Order) -> str:
        reservation = self._sandbox.cloud(
            "aws",
            "reserve",
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            count=order.nodes,
        )
        return str(reservation)


@pytest.fixture(scope="module")
def provider(endpoint: Endpoint) -> AwsProvider:
    """One for all tests: it keeps a client for each region, and the sandbox's networks never change."""
    return AwsProvider(Profile(endpoint.environ))


class TestAws(ProviderConformance):
    @pytest.fixture
    def harness(self, sandbox: SandboxClient, provider: AwsProvider) -> Harness:
        return AwsHarness(sandbox, provider)
