"""Today's prices, held capacity, quotas, and whether the credentials will do."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import Checkup, Preflight, Prices, Quotas, Reservations
from gpucloud_azure import checkup, prices
from gpucloud_azure.errors import ActionRefusedError, MalformedAnswerError
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing.purchases import Purchase
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.azure_wire import SUBSCRIPTION, Answer, Wire, refusal

T4 = "Standard_NC4as_T4_v3"
LIST = "/api/retail/prices"


def row(**changes: Any) -> dict[str, Any]:
    """A row of the Retail Prices API: the list price of a T4 in eastus."""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": 0.526,
        "unitPrice": 0.526,
        "armRegionName": "eastus",
        "meterName": "NC4as T4 v3",
        "productName": "Virtual Machines NCasT4 v3 Series",
        "skuName": "NC4as T4 v3",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "armSkuName": T4,
        **changes,
    }


SPOT = {"meterName": "NC4as T4 v3 Spot", "skuName": "NC4as T4 v3 Spot", "retailPrice": 0.1}


def listed(wire: Wire, *pages: list[dict[str, Any]]) -> None:
    answers = [
        Answer(
            {
                "Items": page,
                "NextPageLink": None if last else f"{wire.url}{LIST}?$skip=1000",
                "Count": len(page),
            }
        )
        for page, last in zip(pages, [False] * (len(pages) - 1) + [True], strict=True)
    ]
    wire.say("GET", LIST, *answers)


def test_a_list_price_is_quoted_with_its_currency_and_source(azure_wire: Wire) -> None:
    listed(azure_wire, [row(), row(**SPOT)])
    [quote] = able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)
    assert (quote.price_per_hour, quote.currency, quote.zone) == (Decimal("0.526"), "USD", None)
    assert quote.source == "Azure Retail Prices"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "http://169.254.169.254/latest",
        "https://prices.example:443/next",
        "http://127.0.0.1:9/next",
        "https://[1",
    ],
)
def test_a_page_of_prices_that_names_another_host_is_not_followed(azure_wire: Wire, elsewhere: str) -> None:
    azure_wire.say("GET", LIST, Answer({"Items": [row()], "NextPageLink": elsewhere, "Count": 1}))
    with pytest.raises(MalformedAnswerError, match="another host"):
        able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)


@pytest.mark.parametrize("url", ["http://192.0.2.1/prices", "https://169.254.169.254/prices"])
def test_prices_are_asked_with_tls_and_never_of_a_link_local_address(
    azure_wire: Wire, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("GPUCLOUD_AZURE_PRICES_URL", url)
    with pytest.raises(ActionRefusedError, match="was not asked"):
        able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)


def test_the_spot_price_is_another_row(azure_wire: Wire) -> None:
    listed(azure_wire, [row(), row(**SPOT)])
    [quote] = able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.SPOT)
    assert (quote.price_per_hour, quote.purchase) == (Decimal("0.1"), Purchase.SPOT)


@pytest.mark.parametrize(
    "changes",
    [
        {"productName": "Virtual Machines NCasT4 v3 Series Windows"},
        {"productName": "Dedicated Host NCasT4"},
        {"meterName": "NC4as T4 v3 Low Priority", "skuName": "NC4as T4 v3 Low Priority"},
        {"retailPrice": 0.0},
        {"unitOfMeasure": "1/Month"},
        {"type": "Reservation"},
        {"armRegionName": "westus"},
        {"armSkuName": "Standard_NC8as_T4_v3"},
        {"tierMinimumUnits": 100.0},
    ],
)
def test_rows_that_a_linux_machine_is_not_billed_by_are_dropped(
    azure_wire: Wire, changes: dict[str, Any]
) -> None:
    listed(azure_wire, [row(**changes)])
    assert not able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)


def test_all_pages_are_read(azure_wire: Wire) -> None:
    listed(azure_wire, [row(armSkuName="other")], [row()])
    assert len(able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)) == 1


def test_of_several_prices_the_highest_counts(azure_wire: Wire) -> None:
    listed(azure_wire, [row(), row(retailPrice=0.6), row(retailPrice=0.1)])
    [quote] = able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)
    assert quote.price_per_hour == Decimal("0.6")


def test_prices_are_asked_for_without_credentials(azure_wire: Wire) -> None:
    listed(azure_wire, [row()])
    able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.ON_DEMAND)
    [asked] = azure_wire.sent
    assert "authorization" not in asked.headers
    assert f"armSkuName eq '{T4}'" in asked.query["$filter"]
    assert asked.query["currencyCode"] == "'USD'"


def test_many_sizes_are_asked_for_in_several_calls_and_each_is_quoted(azure_wire: Wire) -> None:
    names = [f"Standard_N{number}" for number in range(25)]
    listed(azure_wire, [row(armSkuName=name) for name in names])
    quotes = able(AzureProvider(own_profile()), Prices).quotes("eastus", names, Purchase.ON_DEMAND)
    assert sorted(quote.instance_type for quote in quotes) == sorted(names)
    assert len(azure_wire.calls("GET", LIST)) == 3


def test_held_capacity_and_nothing_are_not_quoted(azure_wire: Wire) -> None:
    assert not able(AzureProvider(own_profile()), Prices).quotes("eastus", [T4], Purchase.RESERVED)
    assert not able(AzureProvider(own_profile()), Prices).quotes("eastus", [], Purchase.SPOT)
    assert not azure_wire.sent


def test_a_quote_in_a_name_does_not_end_the_condition() -> None:
    assert "armSkuName eq 'a''b'" in prices.condition_for("eastus", ["a'b"])


# --- held capacity

OWN = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/own"
HELD = f"{OWN}/providers/Microsoft.Compute/capacityReservationGroups/held"


def hold(wire: Wire, *, capacity: int, used: int, **changes: Any) -> None:
    group = {"id": HELD, "name": "held", "location": "eastus", **changes}
    wire.say("GET", "/providers/Microsoft.Compute/capacityReservationGroups", Answer({"value": [group]}))
    one = {
        "id": f"{HELD}/capacityReservations/one",
        "name": "one",
        "location": "eastus",
        "zones": ["2"],
        "sku": {"name": T4, "capacity": capacity},
    }
    wire.say("GET", "/capacityReservations", Answer({"value": [one]}))
    use = {"currentCapacity": capacity, "virtualMachinesAllocated": [{"id": f"/vm/{n}"} for n in range(used)]}
    shown = {**one, "properties": {"instanceView": {"utilizationInfo": use}}}
    wire.say("GET", "/capacityReservations/one", Answer(shown))


def test_held_capacity_is_named_by_its_group_with_what_is_free(azure_wire: Wire) -> None:
    hold(azure_wire, capacity=3, used=1)
    [held] = able(AzureProvider(own_profile()), Reservations).held("eastus", [T4])
    assert (held.id, held.free, held.zone, held.instance_type) == (HELD, 2, "2", T4)
    assert held.purchase == "reservation"


def test_held_capacity_that_is_used_up_elsewhere_or_of_another_size_is_not_given(azure_wire: Wire) -> None:
    hold(azure_wire, capacity=1, used=1)
    assert not able(AzureProvider(own_profile()), Reservations).held("eastus", [T4])
    hold(azure_wire, capacity=1, used=0)
    assert not able(AzureProvider(own_profile()), Reservations).held("eastus", ["Standard_NC6s_v3"])
    assert not able(AzureProvider(own_profile()), Reservations).held("westus", [T4])


# --- quotas


def usage(name: str, limit: int, used: int) -> dict[str, Any]:
    return {
        "unit": "Count",
        "currentValue": used,
        "limit": limit,
        "name": {"value": name, "localizedValue": name},
    }


@pytest.fixture
def quota_wire(azure_wire: Wire) -> Wire:
    usages = [
        usage("cores", 100, 10),
        usage("Standard NCASv3_T4 Family", 8, 4),
        usage("lowPriorityCores", 0, 0),
    ]
    azure_wire.say("GET", "/usages", Answer({"value": usages}))
    skus = [
        {"name": T4, "resourceType": "virtualMachines", "family": "Standard NCASv3_T4 Family"},
        {
            "name": "Standard_NC8as_T4_v3",
            "resourceType": "virtualMachines",
            "family": "Standard NCASv3_T4 Family",
        },
        {"name": "Premium_LRS", "resourceType": "disks"},
    ]
    azure_wire.say("GET", "/skus", Answer({"value": skus}))
    return azure_wire


def test_on_demand_counts_against_the_family_and_the_region(quota_wire: Wire) -> None:
    sizes = [T4, "Standard_NC8as_T4_v3", "Standard_Unknown"]
    quotas = {
        each.name: each
        for each in able(AzureProvider(own_profile()), Quotas).headroom("eastus", sizes, Purchase.ON_DEMAND)
    }
    assert set(quotas) == {"cores", "Standard NCASv3_T4 Family"}
    family = quotas["Standard NCASv3_T4 Family"]
    assert (family.limit, family.used, family.unit) == (Decimal(8), Decimal(4), "vcpus")
    assert family.instance_types == (T4, "Standard_NC8as_T4_v3")
    assert quotas["cores"].instance_types == tuple(sizes)
    assert family.fix.startswith("https://")


def test_spot_has_one_quota_for_all_sizes(quota_wire: Wire) -> None:
    [quota] = able(AzureProvider(own_profile()), Quotas).headroom("eastus", [T4], Purchase.SPOT)
    assert (quota.name, quota.limit) == ("lowPriorityCores", Decimal(0))
    assert not quota_wire.calls("GET", "/skus")


def test_held_capacity_counts_against_no_quota(quota_wire: Wire) -> None:
    assert not able(AzureProvider(own_profile()), Quotas).headroom("eastus", [T4], Purchase.RESERVED)


def test_the_list_of_sizes_is_read_once_per_region(quota_wire: Wire) -> None:
    provider = AzureProvider(own_profile())
    for _ in range(2):
        able(provider, Quotas).headroom("eastus", [T4], Purchase.ON_DEMAND)
    assert len(quota_wire.calls("GET", "/skus")) == 1


# --- whose credentials, and what they may


def token_of(**claims: str) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def sign_in(wire: Wire, token: str) -> None:
    answer = {"token_type": "Bearer", "expires_in": 3600, "access_token": token}
    wire.say("POST", "/oauth2/v2.0/token", Answer(answer))


def test_whose_the_credentials_are_is_read_from_the_token(azure_wire: Wire) -> None:
    sign_in(azure_wire, token_of(appid="app-7", tid="tenant-7", oid="object-7"))
    identity = able(AzureProvider(own_profile()), Checkup).identity()
    assert identity.account == SUBSCRIPTION
    assert "app-7" in identity.who
    assert "tenant-7" in identity.who
    assert identity.source == "ClientSecretCredential"


@pytest.mark.parametrize(
    "token", ["opaque", "a.b", "a.!!.c", f"a.{base64.urlsafe_b64encode(b'[]').decode()}.c"]
)
def test_a_token_that_says_nothing_is_no_failure(azure_wire: Wire, token: str) -> None:
    sign_in(azure_wire, token)
    assert able(AzureProvider(own_profile()), Checkup).identity().who == "unknown"


def test_the_clouds_clock_is_the_date_of_an_answer(azure_wire: Wire) -> None:
    azure_wire.say("GET", "/subscriptions", Answer({"value": []}))
    said = able(AzureProvider(own_profile()), Checkup).server_time()
    assert said.tzinfo is UTC
    assert abs((said - datetime.now(UTC)).total_seconds()) < 60


@pytest.mark.parametrize(
    ("granted", "action", "allowed"),
    [
        ([{"actions": ["*"], "notActions": []}], "Microsoft.Compute/disks/delete", True),
        (
            [{"actions": ["*"], "notActions": ["Microsoft.Compute/*/delete"]}],
            "Microsoft.Compute/disks/delete",
            False,
        ),
        ([{"actions": ["*/read"]}], "Microsoft.Compute/disks/delete", False),
        ([{"actions": ["microsoft.compute/DISKS/*"]}], "Microsoft.Compute/disks/delete", True),
        (
            [{"actions": ["*"], "notActions": ["*/delete"]}, {"actions": ["Microsoft.Compute/disks/delete"]}],
            "Microsoft.Compute/disks/delete",
            True,
        ),
        ([], "Microsoft.Compute/disks/delete", False),
    ],
)
def test_roles_add_up_and_take_back_only_from_themselves(
    granted: list[Any], action: str, allowed: bool
) -> None:
    assert checkup.allows(granted, action) is allowed


def test_each_missing_permission_and_provider_has_its_fix(azure_wire: Wire) -> None:
    reader = {"actions": ["*/read"], "notActions": []}
    azure_wire.say("GET", "/Microsoft.Authorization/permissions", Answer({"value": [reader]}))
    for namespace in checkup.NAMESPACES:
        azure_wire.say("GET", f"/providers/{namespace}", Answer({"registrationState": "Registered"}))
    azure_wire.say(
        "GET", "/providers/Microsoft.ComputeSchedule", Answer({"registrationState": "NotRegistered"})
    )
    provider = AzureProvider(own_profile())
    said = {each.action: each for each in able(provider, Checkup).permissions("eastus")}
    assert said["Microsoft.Compute/virtualMachines/read"].allowed
    assert not said["Microsoft.Compute/virtualMachines/write"].allowed
    assert "az role" in said["Microsoft.Compute/virtualMachines/write"].fix
    assert said["use Microsoft.Compute"].allowed
    assert (
        "az provider register --namespace Microsoft.ComputeSchedule"
        in said["use Microsoft.ComputeSchedule"].fix
    )
    assert set(json.loads(able(provider, Checkup).policy)["Actions"]) <= set(said)
    assert "az login" in able(provider, Checkup).credentials_hint


@pytest.mark.parametrize(
    ("answer", "remarks"),
    [
        (Answer({"properties": {"state": "Registered"}}), 0),
        (Answer({"properties": {"state": "NotRegistered"}}), 1),
        (Answer(refusal("AuthorizationFailed"), 403), 1),
    ],
)
def test_what_disks_lack_is_said(azure_wire: Wire, answer: Answer, remarks: int) -> None:
    azure_wire.say("GET", "/features/EncryptionAtHost", answer)
    assert len(able(AzureProvider(own_profile()), Preflight).remarks()) == remarks
