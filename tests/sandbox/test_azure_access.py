"""Signing in, tokens, roles and registrations of the emulated Azure."""

from __future__ import annotations

import json
import socket
import stat
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.mgmt.resource.resources import ResourceManagementClient

from tests.sandbox.azure_lab import GROUP, REGION, Azure, machine, refused

NOWHERE = "00000000-1111-2222-3333-444444444444"
WRITE = "Microsoft.Compute/virtualMachines/write"


def groups(azure: Azure) -> str:
    return f"/subscriptions/{azure.subscription}/resourcegroups?api-version=2025-04-01"


# --- TLS


def test_only_who_trusts_the_sandboxs_own_authority_talks_to_it(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with (
        ResourceManagementClient(
            azure.credential, azure.subscription, base_url=azure.origin, retry_total=0
        ) as stranger,
        pytest.raises(ServiceRequestError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        list(stranger.resource_groups.list())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", azure.authority)
    with ResourceManagementClient(
        azure.credential, azure.subscription, base_url=azure.origin, retry_total=0
    ) as friend:
        assert list(friend.resource_groups.list()) == []


def test_the_servers_key_is_private_and_the_authoritys_is_not_kept(azure: Azure) -> None:
    keys = [
        path
        for path in Path(azure.authority).parent.glob("*.pem")
        if "PRIVATE KEY" in path.read_text(encoding="ascii")
    ]
    (key,) = keys
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text(encoding="ascii").count("BEGIN CERTIFICATE") == 1


def test_a_visitor_who_says_nothing_keeps_nobody_waiting(azure: Azure) -> None:
    port = int(azure.origin.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)):
        assert list(azure.resources.resource_groups.list()) == []


# --- signing in


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client_secret": "wrong"}, "AADSTS7000215"),
        ({"client_id": NOWHERE}, "AADSTS700016"),
        ({"tenant_id": NOWHERE}, "AADSTS90002"),
    ],
)
def test_who_signs_in_with_something_wrong_is_told_what(
    azure: Azure, changes: dict[str, str], code: str
) -> None:
    with azure.sign_in(**changes) as credential, pytest.raises((ClientAuthenticationError, ValueError)) as no:
        credential.get_token(f"{azure.origin}/.default")
    if "tenant_id" not in changes:  # msal gives up on the tenant before it looks at the error's text
        assert code in str(no.value)


def test_the_token_endpoint_speaks_as_the_vendors(azure: Azure) -> None:
    environment = azure.endpoint.environ
    form = {
        "grant_type": "client_credentials",
        "client_id": environment["AZURE_CLIENT_ID"],
        "client_secret": "wrong",
        "scope": f"{azure.origin}/.default",
    }
    path = f"/{environment['AZURE_TENANT_ID']}/oauth2/v2.0/token"

    def sign_in(**changes: str) -> Any:
        return azure.ask("POST", path, token=None, body=urlencode(form | changes))

    no = sign_in()
    assert (no.status, no.body["error"], no.body["error_codes"]) == (401, "invalid_client", [7000215])
    assert no.body["trace_id"]
    good = {"client_secret": environment["AZURE_CLIENT_SECRET"]}
    assert sign_in(**good).body["token_type"] == "Bearer"
    assert sign_in(**good, scope="https://x").body["error"] == "invalid_scope"
    assert sign_in(**good, grant_type="password").body["error"] == "unsupported_grant_type"
    unknown = azure.ask("GET", f"/{NOWHERE}/v2.0/.well-known/openid-configuration", token=None)
    assert (unknown.status, unknown.body["error_codes"]) == (400, [90002])
    secret = environment["AZURE_CLIENT_SECRET"]
    assert secret not in json.dumps(no.body)


def test_a_call_needs_a_good_token_of_the_right_audience(azure: Azure) -> None:
    missing = azure.ask("GET", groups(azure), token=None)
    assert (missing.status, missing.code) == (401, "AuthenticationFailed")
    assert missing.headers["www-authenticate"].startswith("Bearer ")
    for false in ("x", "a.b.c", azure.token()[:-2]):
        answer = azure.ask("GET", groups(azure), token=false)
        assert (answer.status, answer.code) == (401, "InvalidAuthenticationToken")
    vault = azure.token("https://vault.azure.net/.default")
    answer = azure.ask("GET", groups(azure), token=vault)
    assert (answer.status, answer.code) == (401, "InvalidAuthenticationTokenAudience")
    assert azure.ask("GET", groups(azure), token=azure.token(f"{azure.origin}/.default")).status == 200


def test_a_token_expires_by_the_clouds_clock(azure: Azure) -> None:
    assert list(azure.resources.resource_groups.list()) == []
    azure.sandbox.clock(advance_s=3601)
    call = azure.resources.resource_groups.list
    assert refused(call) == ("ExpiredAuthenticationToken", 401)
    with azure.sign_in() as again:
        token = again.get_token("https://management.azure.com/.default").token
    assert azure.ask("GET", groups(azure), token=token).status == 200


def test_a_token_may_be_made_to_last_shorter_than_it_says(azure: Azure) -> None:
    azure.sandbox.cloud("azure", "token-life", seconds=1)
    token = azure.token()
    azure.sandbox.clock(advance_s=2)
    assert azure.ask("GET", groups(azure), token=token).code == "ExpiredAuthenticationToken"


# --- what every call is held to


def test_a_call_names_an_api_version_and_a_subscription_that_there_is(azure: Azure) -> None:
    bare = azure.ask("GET", groups(azure).partition("?")[0])
    assert (bare.status, bare.code) == (400, "MissingApiVersionParameter")
    other = azure.ask("GET", f"/subscriptions/{NOWHERE}/resourcegroups?api-version=1")
    assert (other.status, other.code) == (404, "SubscriptionNotFound")
    none = azure.ask("GET", "/subscriptions/none/resourcegroups?api-version=1")
    assert (none.status, none.code) == (400, "InvalidSubscriptionId")
    path = azure.id_of("Microsoft.Compute/virtualMachines", "vm")
    for version in ("1", "2099-01-01", "2013-01-01", "2024-07-01x"):
        unknown = azure.ask("GET", f"{path}?api-version={version}")
        assert (unknown.status, unknown.code) == (400, "NoRegisteredProviderFound")
        own = azure.ask("GET", f"{groups(azure).partition('=')[0]}={version}")
        assert (own.status, own.code) == (400, "InvalidApiVersionParameter")


def test_every_answer_has_its_ids_and_the_clouds_date(azure: Azure) -> None:
    azure.sandbox.clock(advance_s=7200)
    for path in (groups(azure), groups(azure).replace("api-version", "x")):
        answer = azure.ask("GET", path)
        assert answer.headers["x-ms-request-id"]
        assert answer.headers["x-ms-correlation-request-id"]
        there = datetime.fromisoformat(azure.sandbox.status()["clock"])
        assert abs(there - parsedate_to_datetime(answer.headers["date"])) < timedelta(minutes=5)


def test_too_many_calls_and_broken_servers_are_told_as_azure_does(azure: Azure) -> None:
    azure.sandbox.fault(effect="throttle", action="LIST resourceGroups")
    throttled = azure.ask("GET", groups(azure))
    assert (throttled.status, throttled.code) == (429, "TooManyRequests")
    assert int(throttled.headers["retry-after"]) > 0
    for status in (500, 503):
        azure.sandbox.fault(
            effect="error", action="LIST resourceGroups", status=status, code="InternalServerError"
        )
        assert azure.ask("GET", groups(azure)).status == status
    assert azure.ask("GET", groups(azure)).status == 200


def test_what_is_not_emulated_says_so(azure: Azure) -> None:
    made = azure.launch().name
    path = azure.id_of("Microsoft.Compute/virtualMachines", made)
    answer = azure.ask("POST", f"{path}/reimage?api-version=2021-07-01")
    assert (answer.status, answer.code) == (405, "UnsupportedOperation")
    assert "sandbox" in answer.body["error"]["message"]
    nowhere = f"/subscriptions/{azure.subscription}/providers/Nobody.Here/things?api-version=1"
    answer = azure.ask("GET", nowhere)
    assert answer.code == "InvalidResourceNamespace"


# --- roles


def test_what_no_role_allows_is_refused_in_azures_words_and_can_be_read(azure: Azure) -> None:
    nic = azure.make_parts()
    azure.sandbox.cloud("azure", "deny", actions=["Microsoft.Compute/virtualMachines/*"])
    with pytest.raises(HttpResponseError) as no:
        azure.put(machine(nic))
    assert no.value.status_code == 403
    assert no.value.error is not None
    assert no.value.error.code == "AuthorizationFailed"
    assert f"does not have authorization to perform action '{WRITE}' over scope '/sub" in no.value.message
    namespace = f"/subscriptions/{azure.subscription}/providers/Microsoft.Authorization"
    path = f"{namespace}/permissions?api-version=2022-04-01"
    (role,) = azure.ask("GET", path).body["value"]
    assert (role["actions"], role["notActions"]) == (["*"], ["Microsoft.Compute/virtualMachines/*"])
    azure.sandbox.cloud("azure", "deny", actions=[])
    assert azure.put(machine(nic)).result()


def test_lists_leave_out_what_may_not_be_read(azure: Azure) -> None:
    azure.launch()
    azure.sandbox.cloud("azure", "deny", actions=["Microsoft.Compute/*/read", "*/resourceGroups/read"])
    types = {each.type for each in azure.resources.resources.list()}
    assert "Microsoft.Network/networkInterfaces" in types
    assert not any(each.startswith("Microsoft.Compute/") for each in types)
    assert list(azure.resources.resource_groups.list()) == []
    assert refused(azure.compute.virtual_machines.list_all) == ("AuthorizationFailed", 403)


@pytest.mark.parametrize(
    "missing",
    [
        "Microsoft.Network/networkInterfaces/join/action",
        "Microsoft.Network/virtualNetworks/subnets/join/action",
        "Microsoft.Network/publicIPAddresses/join/action",
        "Microsoft.Network/networkSecurityGroups/join/action",
        "Microsoft.Compute/disks/write",
    ],
)
def test_what_is_joined_needs_a_permission_of_its_own(azure: Azure, missing: str) -> None:
    azure.sandbox.cloud("azure", "deny", actions=[missing])

    def launch() -> None:
        azure.launch()

    assert refused(launch) == ("LinkedAuthorizationFailed", 403)


def test_a_role_can_be_all_that_is_allowed(azure: Azure) -> None:
    role = json.loads(files("gpucloud_azure").joinpath("policy.json").read_text(encoding="utf-8"))
    azure.sandbox.cloud("azure", "policy", document=role)
    azure.launch()
    assert azure.compute.virtual_machines.get(GROUP, "vm", expand="instanceView").instance_view
    call = azure.compute.virtual_machines.begin_restart
    assert refused(call, GROUP, "vm") == ("AuthorizationFailed", 403)
    azure.compute.virtual_machines.begin_delete(GROUP, "vm").result()
    azure.sandbox.cloud("azure", "policy", document=None)
    assert azure.billed() == []


# --- registrations


def test_a_provider_that_is_not_registered_refuses_until_it_is(azure: Azure) -> None:
    azure.make_group()
    azure.sandbox.cloud("azure", "register", namespace="Microsoft.Network", registered=False)
    assert azure.resources.providers.get("Microsoft.Network").registration_state == "NotRegistered"
    path = azure.id_of("Microsoft.Network/networkInterfaces", "nic") + "?api-version=2021-08-01"
    answer = azure.ask("GET", path)
    assert (answer.status, answer.code) == (409, "MissingSubscriptionRegistration")
    assert list(azure.compute.virtual_machines.list(GROUP)) == []
    assert azure.resources.providers.register("Microsoft.Network").registration_state == "Registered"
    assert list(azure.network.network_interfaces.list(GROUP)) == []


def test_clients_find_their_way_from_the_metadata_of_the_cloud(azure: Azure) -> None:
    found = azure.ask("GET", "/metadata/endpoints?api-version=2022-09-01", token=None).body
    assert found["resourceManager"] == found["authentication"]["loginEndpoint"] == azure.origin
    discovered = azure.ask("GET", "/common/discovery/instance?api-version=1.1", token=None).body
    assert discovered["tenant_discovery_endpoint"].startswith(azure.origin)
    (subscription,) = azure.ask("GET", "/subscriptions?api-version=2022-12-01").body["value"]
    (tenant,) = azure.ask("GET", "/tenants?api-version=2022-12-01").body["value"]
    assert subscription["tenantId"] == tenant["tenantId"] == azure.endpoint.environ["AZURE_TENANT_ID"]
    path = f"/subscriptions/{azure.subscription}/locations?api-version=2022-12-01"
    assert REGION in {each["name"] for each in azure.ask("GET", path).body["value"]}
