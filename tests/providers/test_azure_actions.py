"""What may be sent to Azure at all."""

from __future__ import annotations

import json
import logging
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline.policies import RetryPolicy
from azure.core.rest import HttpRequest

import gpucloud_azure
from gpucloud.resources import ResourceKind
from gpucloud_azure.actions import ACTIONS, ASSIGNING, ON_THE_WAY, Repeat, refuse_unlisted
from gpucloud_azure.errors import ActionRefusedError
from gpucloud_azure.ids import TYPES, id_in
from gpucloud_azure.provider import AzureProvider
from tests.profiles import own_profile
from tests.providers.azure_wire import SECRET, SUBSCRIPTION, Answer, Wire, ref, refusal

POLICY: dict[str, Any] = json.loads(
    files("gpucloud_azure").joinpath("policy.json").read_text(encoding="utf-8")
)
HOME = "https://management.azure.com"
IN_SUBSCRIPTION = f"/subscriptions/{SUBSCRIPTION}"
IN_GROUP = f"{IN_SUBSCRIPTION}/resourceGroups/group"
DISK = id_in(SUBSCRIPTION, "group", ResourceKind.DISK, "disk")

PURCHASES = [
    ("PUT", "/providers/Microsoft.Capacity/reservationOrders/order-1"),
    ("POST", "/providers/Microsoft.Capacity/calculatePrice"),
    ("PUT", "/providers/Microsoft.BillingBenefits/savingsPlanOrderAliases/plan-1"),
    ("PUT", f"{IN_GROUP}/providers/Microsoft.Compute/capacityReservationGroups/held"),
    (
        "PUT",
        f"{IN_GROUP}/providers/Microsoft.Compute/capacityReservationGroups/held/capacityReservations/one",
    ),
    ("PUT", f"{IN_GROUP}/providers/Microsoft.Compute/hostGroups/hosts"),
    ("PUT", f"{IN_GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/set"),
    (
        "PUT",
        f"{IN_SUBSCRIPTION}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine/publishers/p",
    ),
    ("POST", f"{IN_SUBSCRIPTION}/providers/Microsoft.Compute/register"),
    ("PUT", f"{IN_SUBSCRIPTION}/providers/Microsoft.Authorization/roleAssignments/a"),
    ("PUT", f"{IN_GROUP}/providers/Microsoft.Compute/images/image"),
]


@pytest.mark.parametrize(("method", "path"), PURCHASES)
@pytest.mark.parametrize("which", ["compute", "resources", "schedules"])
def test_a_purchase_cannot_be_sent_with_the_providers_own_clients(
    azure_wire: Wire, method: str, path: str, which: str
) -> None:
    provider = AzureProvider(own_profile())
    provider.account()
    before = len(azure_wire.sent)
    client: Any = getattr(provider.own_account.clients, which)()
    with pytest.raises(ActionRefusedError, match="not sent"):
        client.send_request(HttpRequest(method, azure_wire.url + path, json={}))
    assert len(azure_wire.sent) == before


def test_the_same_purchase_would_reach_the_wire_without_the_list(azure_wire: Wire) -> None:
    """So that the test above can fail: it is the list that stops it, not the server."""
    method, path = PURCHASES[0]
    AzureProvider(own_profile()).own_account.clients.anonymous().send_request(
        HttpRequest(method, azure_wire.url + path, json={})
    )
    assert [sent.path for sent in azure_wire.calls("PUT")] == [path]


def test_holding_capacity_is_not_bought_through_the_sdks_own_method(azure_wire: Wire) -> None:
    groups: Any = AzureProvider(own_profile()).own_account.clients.compute().capacity_reservation_groups
    with pytest.raises(ActionRefusedError):
        groups.create_or_update("group", "held", {"location": "eastus"})
    assert not azure_wire.calls("PUT")


def test_nothing_on_the_list_buys_a_commitment_or_widens_the_subscription() -> None:
    bought = re.compile(
        "Capacity/|BillingBenefits|Marketplace|Ordering|register|roleAssignments", re.IGNORECASE
    )
    changing = [action for action in ACTIONS if action.method != "GET" and action.permission != ASSIGNING]
    assert changing
    assert not [
        action for action in changing if bought.search(action.path) or "capacityReserv" in action.path
    ]


def test_a_role_is_given_in_a_resource_group_only() -> None:
    [assigning] = [action for action in ACTIONS if action.permission == ASSIGNING]
    assert assigning.path.startswith("/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Authorization")


def test_what_changes_anything_says_why_it_may_be_repeated() -> None:
    assert {action.repeat for action in ACTIONS if action.method in {"PUT", "DELETE"}} == {Repeat.BY_NAME}
    assert {action.repeat for action in ACTIONS if action.method == "GET"} == {Repeat.SAFE}


def test_every_kind_that_is_found_can_be_read_and_deleted() -> None:
    for kind, type_ in TYPES.items():
        name = "/".join(["name"] * type_.type.count("/"))
        path = IN_GROUP if kind is ResourceKind.RESOURCE_GROUP else id_in(SUBSCRIPTION, "group", kind, name)
        for method in ("GET", "DELETE"):
            refuse_unlisted(method, f"{HOME}{path}?api-version=1", HOME)


def test_paths_are_compared_whole_and_without_regard_to_case() -> None:
    refuse_unlisted("GET", f"{HOME}{IN_GROUP.upper()}", HOME)
    for path in (
        f"{IN_GROUP}/providers/Microsoft.Compute/virtualMachines/vm/powerOff",
        f"{IN_GROUP}/x",
        "/",
    ):
        with pytest.raises(ActionRefusedError):
            refuse_unlisted("POST", HOME + path, HOME)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example",
        "http://management.azure.com",
        "https://management.azure.com:444",
        "https://x@evil.example",
    ],
)
def test_a_token_goes_to_resource_manager_only(elsewhere: str) -> None:
    with pytest.raises(ActionRefusedError, match="not sent"):
        refuse_unlisted("GET", elsewhere + IN_GROUP, HOME)


def test_a_port_that_is_the_schemes_own_is_the_same_host() -> None:
    """Some pages of Resource Manager name it."""
    refuse_unlisted("GET", f"https://management.azure.com:443{IN_SUBSCRIPTION}/resources", HOME)


def test_a_page_that_points_elsewhere_is_not_followed(azure_wire: Wire) -> None:
    page = {"value": [], "nextLink": f"https://evil.example{IN_SUBSCRIPTION}/resources"}
    azure_wire.say("GET", "/resources", Answer(page))
    resources = AzureProvider(own_profile()).own_account.clients.resources().resources
    with pytest.raises(ActionRefusedError, match="evil"):
        list(resources.list(filter="tagName eq 'a'"))


def test_a_request_without_tls_leaves_for_this_machine_only(
    azure_wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCLOUD_AZURE_ENDPOINT", "http://192.0.2.1:1")
    with pytest.raises(ActionRefusedError, match="TLS"):
        AzureProvider(own_profile()).account()


def test_the_policy_is_exactly_what_the_calls_need() -> None:
    listed = {action.permission for action in ACTIONS if action.permission}
    assert set(POLICY["Actions"]) == (listed | set(ON_THE_WAY)) - {ASSIGNING}
    assert not any("*" in action for action in POLICY["Actions"])
    assert not set(POLICY["Actions"]) & set(POLICY["NotActions"])


def test_every_path_in_the_code_is_on_the_list() -> None:
    """A call that is written but not listed would only be found when it is first needed."""
    folder = Path(gpucloud_azure.__file__).parent
    modules = [path for path in folder.glob("*.py") if path.name != "actions.py"]
    source = "".join(path.read_text(encoding="utf-8") for path in modules)
    asked = set(re.findall(r'"(/providers/Microsoft\.[A-Za-z./]+)"', source))
    assert asked
    for path in asked:
        of_tenant = path.startswith("/providers/Microsoft.Capacity/")
        refuse_unlisted("GET", f"{HOME}{'' if of_tenant else IN_SUBSCRIPTION}{path}", HOME)


# --- repeating


def test_a_change_is_sent_once_and_a_read_a_few_times(azure_wire: Wire) -> None:
    provider = AzureProvider(own_profile())
    azure_wire.say("DELETE", "/disks/disk", Answer(refusal("InternalServerError"), 503))
    azure_wire.say("GET", "/disks/disk", Answer(refusal("InternalServerError"), 503))
    for call in (provider.delete, provider.get):
        with pytest.raises(HttpResponseError):
            call(ref(ResourceKind.DISK, DISK))
    assert len(azure_wire.calls("DELETE")) == 1
    assert len(azure_wire.calls("GET", "/disks/disk")) == 3


@pytest.mark.parametrize("failure", [Answer("", hang_up=True), Answer(refusal("InternalServerError"), 503)])
def test_a_change_is_sent_once_by_an_sdk_that_would_repeat_all_methods(
    azure_wire: Wire, monkeypatch: pytest.MonkeyPatch, failure: Answer
) -> None:
    """Which methods it repeats is nothing that gpucloud tells it by a private name."""
    monkeypatch.setattr(RetryPolicy, "_is_method_retryable", lambda *_, **__: True)
    azure_wire.say("DELETE", "/disks/disk", failure)
    with pytest.raises(AzureError):
        AzureProvider(own_profile()).delete(ref(ResourceKind.DISK, DISK))
    assert len(azure_wire.calls("DELETE")) == 1


def test_throttling_is_left_to_the_engine(azure_wire: Wire) -> None:
    azure_wire.say("GET", "/disks/disk", Answer(refusal("TooManyRequests"), 429, {"Retry-After": "30"}))
    with pytest.raises(HttpResponseError):
        AzureProvider(own_profile()).get(ref(ResourceKind.DISK, DISK))
    assert len(azure_wire.calls("GET", "/disks/disk")) == 1


def test_a_provider_that_is_not_registered_is_not_registered_by_the_way(azure_wire: Wire) -> None:
    """The SDK's own pipeline would do so, and change the subscription."""
    azure_wire.say("DELETE", "/disks/disk", Answer(refusal("MissingSubscriptionRegistration"), 409))
    with pytest.raises(HttpResponseError):
        AzureProvider(own_profile()).delete(ref(ResourceKind.DISK, DISK))
    assert not [sent for sent in azure_wire.calls("POST") if "register" in sent.path]


def test_the_secret_and_the_token_never_reach_a_log(
    azure_wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """Even at DEBUG."""
    caplog.set_level(logging.DEBUG)
    token = {"token_type": "Bearer", "expires_in": 3600, "access_token": "canary-of-the-token"}
    azure_wire.say("POST", "/oauth2/v2.0/token", Answer(token))
    AzureProvider(own_profile()).account()
    assert (
        azure_wire.calls("GET", IN_SUBSCRIPTION)[0].headers["authorization"] == "Bearer canary-of-the-token"
    )
    assert "canary-of-the-token" not in caplog.text
    assert SECRET not in caplog.text
