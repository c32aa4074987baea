"""Azure against the suite that every provider passes: the real SDK over TLS, the sandbox at the other end."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import pytest

from gpucloud.clouds.profile import Profile
from gpucloud.errors import ErrorClass
from gpucloud.resources import Order, Ref
from gpucloud_azure.provider import AzureProvider
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.builders import an_order
from tests.conformance import Harness, ProviderConformance

REFUSALS = {
    ErrorClass.CAPACITY: ("AllocationFailed", 409),
    ErrorClass.UNSUPPORTED: ("RegionDoesNotAllowProvisioning", 409),
    ErrorClass.QUOTA: ("QuotaExceeded", 409),
    ErrorClass.PRICE: ("SpotPriceGreaterThanProvidedMaxPrice", 409),
    ErrorClass.AUTH: ("AuthorizationFailed", 403),
    ErrorClass.THROTTLED: ("TooManyRequests", 429),
    ErrorClass.SERVER: ("InternalServerError", 500),
}
PUT_MACHINE = "PUT virtualMachines"
ACTIONS = {"prepare": "PUT networkSecurityGroups", "create": PUT_MACHINE, "delete": "DELETE virtualMachines"}


class AzureHarness(Harness):
    """The sandbox's controls, in the suite's words."""

    empty_looks = 1  # without lag, lists are true at once

    def __init__(self, sandbox: SandboxClient, provider: AzureProvider) -> None:
        super().__init__()
        self.provider = provider
        self._sandbox = sandbox

    def order(self, **changes: Any) -> Order:
        values: dict[str, Any] = {
            "account": self.provider.account(),
            "tags": self.tags(),
            "region": "eastus",
            "zone": "1",
            "instance_type": "Standard_NC4as_T4_v3",
            "deadline": None,
        }
        return an_order(**values | changes)

    def tick(self) -> None:
        time.sleep(0.01)

    def billed(self) -> Collection[str]:
        return {entry["id"] for entry in self._sandbox.status()["billing"]}

    def mutating_calls(self) -> int:
        return sum(call["count"] for call in self._sandbox.calls() if call["mutating"])

    def refuse(self, error_class: ErrorClass) -> None:
        code, status = REFUSALS[error_class]
        self._sandbox.fault(effect="error", action=PUT_MACHINE, code=code, status=status, message="No.")

    def lose_answer(self, of: str) -> None:
        self._sandbox.fault(effect="drop", stage="applied", action=ACTIONS[of])

    def deny_lists(self, region: str) -> None:
        self._sandbox.fault(
            effect="error",
            action="LIST resource*",
            times=None,
            code="AuthorizationFailed",
            status=403,
            message="The client does not have authorization to perform this action.",
        )

    def restore(self) -> None:
        self._sandbox.clear_faults()

    def empty_stock(self, order: Order) -> None:
        self._sandbox.stock(
            cloud="azure",
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            count=order.nodes - 1,
        )

    def raise_spot_price(self, order: Order) -> None:
        self._sandbox.price(
            cloud="azure", region=order.region, instance_type=order.instance_type, purchase="spot", amount="9"
        )

    def preempt(self, ref: Ref) -> None:
        self._sandbox.interrupt(ref.id, notice_s=0)

    def hold(self, order: Order) -> str:
        reservation = self._sandbox.cloud(
            "azure",
            "reserve",
            region=order.region,
            zone=order.zone,
            instance_type=order.instance_type,
            count=order.nodes,
        )
        return str(reservation)


@pytest.fixture(scope="module")
def provider(endpoint: Endpoint) -> AzureProvider:
    """One for all tests: it keeps its connections, and the sandbox's subscription never changes."""
    return AzureProvider(Profile(endpoint.environ))


class TestAzure(ProviderConformance):
    @pytest.fixture
    def harness(self, azure_sandbox: SandboxClient, provider: AzureProvider) -> Harness:
        return AzureHarness(azure_sandbox, provider)
