"""What may be sent to Alibaba Cloud at all."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import alibabacloud_ecs20140526.client
import alibabacloud_vpc20160428.client
import pytest
from alibabacloud_tea_openapi.utils_models import Config

import gpucloud_alibaba
from gpucloud_alibaba.actions import ACTIONS, Repeat
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.errors import ActionRefusedError
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_pricing import Market
from tests.profiles import own_profile
from tests.providers.alibaba_sandbox import alibaba_environment, wire
from tests.providers.alibaba_wire import Wire, refusal

__all__ = ["alibaba_environment", "wire"]

POLICY: dict[str, Any] = json.loads(
    files("gpucloud_alibaba").joinpath("policy.json").read_text(encoding="utf-8")
)
REGION = "cn-hangzhou"


def statements(effect: str) -> set[str]:
    return {
        action
        for statement in POLICY["Statement"]
        if statement["Effect"] == effect
        for action in statement["Action"]
    }


def asked(kind: str, **parameters: Any) -> Any:
    return getattr(ecs_models(), f"{kind}Request")(region_id=REGION, **parameters)


PURCHASES: list[tuple[str, dict[str, Any]]] = [
    ("RenewInstance", {"instance_id": "i-1", "period": 1}),
    ("ModifyInstanceChargeType", {"instance_ids": '["i-1"]', "instance_charge_type": "PrePaid"}),
    ("PurchaseReservedInstancesOffering", {"instance_type": "ecs.gn6i-c4g1.xlarge"}),
    ("CreateElasticityAssurance", {"instance_type": ["ecs.gn6i-c4g1.xlarge"]}),
    ("CreateCapacityReservation", {"instance_type": "ecs.gn6i-c4g1.xlarge"}),
    ("PurchaseStorageCapacityUnit", {"capacity": 20}),
]


def method_of(action: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower()


@pytest.mark.parametrize(("action", "parameters"), PURCHASES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_purchase_cannot_be_sent_with_the_providers_own_clients(
    wire: Wire, action: str, parameters: dict[str, Any]
) -> None:
    request = getattr(ecs_models(), f"{action}Request")(**parameters)
    with pytest.raises(ActionRefusedError, match="was not sent"):
        getattr(AlibabaProvider(own_profile()).own_account.clients.ecs(REGION), method_of(action))(request)
    assert not wire.sent


@pytest.mark.parametrize(
    "parameters",
    [
        {"instance_charge_type": "PrePaid"},
        {},
        {"instance_charge_type": "PostPaid", "auto_pay": True},
        {"instance_charge_type": "PostPaid", "auto_renew": True},
        {"instance_charge_type": "PostPaid", "period": 1, "period_unit": "Month"},
    ],
)
def test_a_launch_that_would_buy_a_subscription_cannot_be_sent(
    wire: Wire, parameters: dict[str, Any]
) -> None:
    with pytest.raises(ActionRefusedError, match="was not sent"):
        AlibabaProvider(own_profile()).own_account.clients.ecs(REGION).run_instances(
            asked("RunInstances", **parameters)
        )
    assert not wire.sent


def test_the_same_purchase_would_reach_the_wire_from_an_ordinary_client(wire: Wire) -> None:
    """So that the tests above can fail: it is the list that stops it, not the server."""
    wire.say("RenewInstance", {"RequestId": "x"})
    config = Config(
        access_key_id="a",
        access_key_secret="b",
        region_id=REGION,
        endpoint=wire.url.removeprefix("http://"),
        protocol="http",
    )
    request = ecs_models().RenewInstanceRequest(instance_id="i-1", period=1)
    alibabacloud_ecs20140526.client.Client(config).renew_instance(request)
    assert len(wire.sent["RenewInstance"]) == 1


def test_nothing_can_be_sent_past_the_list_asynchronously(wire: Wire) -> None:
    import asyncio

    ecs = AlibabaProvider(own_profile()).own_account.clients.ecs(REGION)
    with pytest.raises(NotImplementedError):
        asyncio.run(ecs.renew_instance_async(ecs_models().RenewInstanceRequest(instance_id="i-1")))
    assert not wire.sent


def test_nothing_on_the_list_buys_a_commitment() -> None:
    bought = re.compile("Purchase|ReservedInstance|Renew|CreateCapacity|CreateElasticity|ChargeType|Allocate")
    changing = [action for (_, action), repeat in ACTIONS.items() if repeat is not Repeat.SAFE]
    assert not [action for action in changing if bought.search(action)]
    reading = ("AssumeRole", "Describe", "Get", "List")
    assert all(action.startswith(reading) for _, action in ACTIONS if action not in changing)


def test_what_is_made_is_repeated_by_token() -> None:
    assert {action for (_, action), repeat in ACTIONS.items() if repeat is Repeat.TOKEN} == {
        "CreateDeploymentSet",
        "CreateDisk",
        "CreateImage",
        "CreateSnapshot",
        "CreateSecurityGroup",
        "CreateVSwitch",
        "CreateVpc",
        "RunInstances",
    }


SDKS: dict[str, Any] = {
    "ecs": alibabacloud_ecs20140526.client.Client,
    "vpc": alibabacloud_vpc20160428.client.Client,
}
ODD = {"CreateVSwitch": "create_vswitch", "DeleteVSwitch": "delete_vswitch"}


@pytest.mark.parametrize(("product", "action"), [key for key in ACTIONS if key[0] in SDKS])
def test_every_listed_call_exists_in_the_sdk(product: str, action: str) -> None:
    name = ODD.get(action, method_of(action)).replace("v_switches", "vswitches")
    assert hasattr(SDKS[product], name)


def test_every_call_in_the_code_is_on_the_list() -> None:
    """A call that is written but not listed would only be found when it is first needed."""
    known = {method_of(action) for _, action in ACTIONS} | {action for _, action in ACTIONS}
    folder = Path(gpucloud_alibaba.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    verbs = "describe|get|run|delete|create|release|authorize|revoke|modify"
    called = set(re.findall(rf"\.((?:{verbs})_[a-z_]+)\(\s*(?:asked|request|models|m)\b", source))
    called |= set(re.findall(r'"((?:Describe|Create|Delete|Release|Get)[A-Za-z]+)", [{(\w]', source))
    assert len(called) > 20
    assert called <= known


RIGHTS = {"oss:ListObjectsV2": "oss:ListObjects"}
"""Calls whose right has another name."""


def test_the_policy_allows_every_listed_call_and_denies_purchases() -> None:
    allowed, denied = statements("Allow"), statements("Deny")
    assert {RIGHTS.get(name, name) for name in map(":".join, ACTIONS)} == allowed
    assert not allowed & denied
    assert {f"ecs:{action}" for action, _ in PURCHASES} <= denied
    assert "*" not in "".join(allowed)


def test_making_and_ending_need_the_owners_tag() -> None:
    for statement in POLICY["Statement"]:
        if statement["Effect"] == "Deny" or "ecs:DescribeRegions" in statement["Action"]:
            continue
        if statement["Action"] == ["sts:AssumeRole"]:
            assert statement["Resource"] == "acs:ram:*:*:role/gpucloud-*"
            continue
        if "oss:DeleteObject" in statement["Action"]:
            assert statement["Resource"] == "acs:oss:*:*:gpucloud-*/*", "objects have no tags of ours"
            continue
        if all("DeploymentSet" in action for action in statement["Action"]):
            continue  # they cannot have tags
        [(operator, condition)] = statement["Condition"].items()
        assert operator == "StringLike"
        [(key, value)] = condition.items()
        assert key.endswith("Tag/gpucloud:owner")
        assert value == "?*"


@pytest.mark.parametrize("url", ["http://192.0.2.1:1", "http://ecs.example"])
def test_a_request_without_tls_leaves_for_this_machine_only(
    alibaba_environment: None, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("GPUCLOUD_ALIBABA_ENDPOINT", url)
    with pytest.raises(ActionRefusedError, match="TLS"):
        AlibabaProvider(own_profile()).account()


def test_a_refusal_is_not_tried_again_by_the_sdk(wire: Wire) -> None:
    wire.say("RunInstances", refusal("ServiceUnavailable", status=503))
    request = asked("RunInstances", instance_charge_type="PostPaid")
    with pytest.raises(Exception, match="ServiceUnavailable"):
        AlibabaProvider(own_profile()).own_account.clients.ecs(REGION).run_instances(request)
    assert len(wire.sent["RunInstances"]) == 1


def regions() -> list[str]:
    return sorted(region for cloud, region in Market.load().regions if cloud == "alibaba")


@pytest.mark.parametrize("region", regions())
def test_every_region_is_asked_where_the_vendors_own_clients_ask(
    alibaba_environment: None, region: str
) -> None:
    def home(product: str) -> str:
        config = Config(access_key_id="a", access_key_secret="b", region_id=region)
        return str(SDKS[product](config)._endpoint)

    clients = Clients(own_profile())
    assert clients.ecs(region)._endpoint == home("ecs")
    assert clients._client("vpc", region)._endpoint == home("vpc")
