"""What Azure says that a tenant has paid for already."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from gpucloud.clouds.abilities import Commitments
from gpucloud_azure.errors import MalformedAnswerError
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing import Commitment
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.azure_wire import SUBSCRIPTION, Answer, Wire

T4 = "Standard_NC4as_T4_v3"
LIST = "/providers/Microsoft.Capacity/reservations"
LATE = date(2090, 12, 31)


def told(provider: AzureProvider) -> list[Commitment]:
    [inquiry] = able(provider, Commitments).commitment_inquiries()
    return list(inquiry.ask())


def test_reservations_are_told_until_they_end(azure: AzureProvider, azure_sandbox: SandboxClient) -> None:
    where = {"region": "eastus", "instance_type": T4}
    shared = azure_sandbox.cloud("azure", "commit", **where, count=3, until="2090-12-31")
    own = azure_sandbox.cloud(
        "azure", "commit", **where, until="2090-12-31", scope=f"/subscriptions/{azure.account()}"
    )
    azure_sandbox.cloud("azure", "commit", **where, until="2020-12-31")  # over
    azure_sandbox.cloud("azure", "commit", **where, until="2090-12-31", scope="/subscriptions/another")
    common: dict[str, Any] = {
        "cloud": "azure",
        "kind": "reservation",
        "region": "eastus",
        "instance_type": T4,
        "until": LATE,
        "as_of": datetime.now(UTC).date(),
        "source": "azure-reservations",
    }
    assert sorted(told(azure), key=lambda each: -each.count) == [
        Commitment(**common, id=shared, count=3),
        Commitment(**common, id=own, count=1),
    ]


def test_who_may_not_read_them_sees_none(azure: AzureProvider, azure_sandbox: SandboxClient) -> None:
    """An empty list is no proof, and that is said with it."""
    azure_sandbox.cloud("azure", "commit", region="eastus", instance_type=T4, until="2090-12-31")
    azure_sandbox.cloud("azure", "deny", actions=["Microsoft.Capacity/*"])
    assert told(azure) == []
    [inquiry] = able(azure, Commitments).commitment_inquiries()
    assert "Reservations Reader" in inquiry.if_empty


def row(name: str = "r-1", location: str = "eastus", size: str = T4, **properties: Any) -> dict[str, Any]:
    """A reservation as Microsoft.Capacity lists it."""
    plain = {
        "reservedResourceType": "VirtualMachines",
        "provisioningState": "Succeeded",
        "displayProvisioningState": "Succeeded",
        "appliedScopeType": "Shared",
        "quantity": 1,
        "expiryDate": "2091-01-01",
    }
    return {
        "name": f"order/{name}",
        "location": location,
        "sku": {"name": size},
        "properties": {**plain, **properties},
    }


def test_all_pages_are_read(azure_wire: Wire) -> None:
    following = f"{azure_wire.url}{LIST}?api-version=2022-11-01&$skiptoken=2"
    azure_wire.say(
        "GET",
        LIST,
        Answer({"value": [row("r-1"), row("r-2", location="EastUS")], "nextLink": following}),
        Answer({"value": [row("r-3")]}),
    )
    found = told(AzureProvider(own_profile()))
    assert [(each.id, each.region, each.until) for each in found] == [
        ("r-1", "eastus", LATE),
        ("r-2", "eastus", LATE),
        ("r-3", "eastus", LATE),
    ]
    assert [sent.query.get("$skiptoken") for sent in azure_wire.calls("GET", LIST)] == [None, "2"]


@pytest.mark.parametrize(
    ("properties", "counts"),
    [
        ({"displayProvisioningState": "Expiring"}, True),
        ({"expiryDateTime": "2090-12-31T23:59:59Z"}, True),
        ({"appliedScopeType": "Single", "appliedScopes": [f"/subscriptions/{SUBSCRIPTION.upper()}"]}, True),
        ({"appliedScopeType": "Single", "appliedScopes": [f"/subscriptions/{SUBSCRIPTION}/x"]}, False),
        ({"appliedScopeType": "ManagementGroup"}, False),
        ({"reservedResourceType": "SqlDatabases"}, False),
        ({"provisioningState": "Cancelled"}, False),
        ({"displayProvisioningState": "Expired"}, False),
    ],
)
def test_only_what_a_box_can_use_is_told(azure_wire: Wire, properties: dict[str, Any], counts: bool) -> None:
    azure_wire.say("GET", LIST, Answer({"value": [row(**properties)]}))
    assert [each.until for each in told(AzureProvider(own_profile()))] == ([LATE] if counts else [])


@pytest.mark.parametrize("bad", [row(quantity=None), row(size=""), row(location=""), row(expiryDate="soon")])
def test_half_a_reservation_is_no_answer(azure_wire: Wire, bad: dict[str, Any]) -> None:
    azure_wire.say("GET", LIST, Answer({"value": [bad]}))
    with pytest.raises(MalformedAnswerError, match="lacks"):
        told(AzureProvider(own_profile()))
