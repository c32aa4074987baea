"""What may be sent to AWS at all."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import boto3
import pytest

import gpucloud_aws
from gpucloud_aws.actions import ACTIONS, Repeat, refuse_unlisted
from gpucloud_aws.errors import ActionRefusedError
from gpucloud_aws.provider import AwsProvider
from tests.profiles import own_profile
from tests.providers.aws_wire import Answer, Wire, answer

POLICY: dict[str, Any] = json.loads(files("gpucloud_aws").joinpath("policy.json").read_text(encoding="utf-8"))


def statements(effect: str) -> set[str]:
    found: set[str] = set()
    for statement in POLICY["Statement"]:
        if statement["Effect"] == effect:
            actions = statement["Action"]
            found |= {actions} if isinstance(actions, str) else set(actions)
    return found


PURCHASES: list[tuple[str, str, dict[str, Any]]] = [
    ("ec2", "purchase_capacity_block", {"CapacityBlockOfferingId": "cb-1", "InstancePlatform": "Linux/UNIX"}),
    (
        "ec2",
        "purchase_capacity_block_extension",
        {"CapacityBlockExtensionOfferingId": "cbe-1", "CapacityReservationId": "cr-1"},
    ),
    ("ec2", "purchase_reserved_instances_offering", {"InstanceCount": 1, "ReservedInstancesOfferingId": "o"}),
    ("ec2", "modify_reserved_instances", {"ReservedInstancesIds": ["r"], "TargetConfigurations": [{}]}),
    ("ec2", "purchase_host_reservation", {"HostIdSet": ["h"], "OfferingId": "o"}),
    (
        "ec2",
        "create_capacity_reservation",
        {"InstanceType": "p5.48xlarge", "InstanceCount": 1, "InstancePlatform": "Linux/UNIX"},
    ),
    ("savingsplans", "create_savings_plan", {"savingsPlanOfferingId": "o", "commitment": "1.0"}),
]


@pytest.mark.parametrize(
    ("service", "method", "parameters"), PURCHASES, ids=lambda x: x if isinstance(x, str) else ""
)
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_purchase_cannot_be_sent_with_the_providers_own_clients(
    wire: Wire, service: str, method: str, parameters: dict[str, Any], attempts: int
) -> None:
    client = AwsProvider(own_profile()).own_account.clients.client(service, "us-east-1", attempts=attempts)
    if service == "ec2":  # its model is loaded without what is not on the list
        assert not hasattr(client, method)
        return
    with pytest.raises(ActionRefusedError, match="was not sent"):
        getattr(client, method)(**parameters)
    assert not wire.sent


@pytest.mark.parametrize(
    ("service", "method", "parameters"), PURCHASES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_purchase_that_the_sdk_knows_is_stopped_before_the_wire(
    wire: Wire, service: str, method: str, parameters: dict[str, Any]
) -> None:
    client: Any = boto3.session.Session().client(service, region_name="us-east-1")  # type: ignore[call-overload]
    client.meta.events.register("before-send", refuse_unlisted)
    with pytest.raises(ActionRefusedError, match="was not sent"):
        getattr(client, method)(**parameters)
    assert not wire.sent


def test_the_clients_know_the_listed_calls_of_ec2_and_no_other(wire: Wire) -> None:
    model = AwsProvider(own_profile()).own_account.clients.ec2("us-east-1").meta.service_model
    assert set(model.operation_names) == {operation for service, operation in ACTIONS if service == "ec2"}


def test_the_same_purchase_would_reach_the_wire_from_an_ordinary_client(wire: Wire) -> None:
    """So that the test above can fail: it is the list that stops it, not the server."""
    wire.say("PurchaseCapacityBlock", answer("PurchaseCapacityBlock"))
    client: Any = boto3.session.Session().client("ec2", region_name="us-east-1")
    client.purchase_capacity_block(CapacityBlockOfferingId="cb-1", InstancePlatform="Linux/UNIX")
    assert len(wire.sent["PurchaseCapacityBlock"]) == 1


def test_nothing_on_the_list_buys_a_commitment() -> None:
    bought = re.compile("Purchase|Reserved|SavingsPlan|CreateCapacityReservation|AllocateHosts|Modify")
    changing = [operation for (_, operation), repeat in ACTIONS.items() if repeat is not Repeat.SAFE]
    assert not [operation for operation in changing if bought.search(operation)]
    reading = re.compile("Describe|Get|List|AssumeRole")
    assert all(reading.match(operation) for _, operation in ACTIONS if operation not in changing)


def test_what_is_bought_and_the_rule_that_ends_it_are_repeated_by_token() -> None:
    assert {action for action, repeat in ACTIONS.items() if repeat is Repeat.TOKEN} == {
        ("ec2", "CreateVolume"),
        ("ec2", "RunInstances"),
        ("scheduler", "CreateSchedule"),
    }


def test_every_listed_call_exists_in_the_sdk() -> None:
    session = boto3.session.Session()
    for service, operation in ACTIONS:
        client: Any = session.client(
            service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )  # type: ignore[call-overload]
        assert operation in client.meta.service_model.operation_names


def test_every_call_in_the_code_is_on_the_list() -> None:
    """A call that is written but not listed would only be found when it is first needed."""
    known = {re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower() for _, operation in ACTIONS}
    folder = Path(gpucloud_aws.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    verbs = "describe|get|run|terminate|delete|create|release|cancel|authorize|revoke"
    called = set(re.findall(rf"(?:ec2|client|pricing|sts\(\))\.((?:{verbs})_[a-z_]+)\(", source))
    called |= set(re.findall(r'"((?:describe|get)_[a-z_]+)"', source))
    called -= {"get_paginator", "get_partition_for_region"}
    assert called
    assert called <= known


def test_the_policy_allows_every_listed_call_and_denies_purchases() -> None:
    allowed, denied = statements("Allow"), statements("Deny")
    asked = {f"{service.replace('-', '')}:{operation}" for service, operation in ACTIONS}
    by_another_name = {"s3:ListObjectsV2": "s3:ListBucket"}
    assert {by_another_name.get(each, each) for each in asked} <= allowed
    assert not allowed & denied
    assert {"ec2:PurchaseCapacityBlock", "savingsplans:CreateSavingsPlan"} <= denied
    assert "*" not in "".join(allowed)


def test_changing_and_ending_need_the_owners_tag() -> None:
    for statement in POLICY["Statement"]:
        if "ec2:TerminateInstances" in statement["Action"]:
            assert statement["Condition"] == {"Null": {"aws:ResourceTag/gpucloud:owner": "false"}}
            break
    else:
        pytest.fail("nothing may end an instance")


def test_a_request_without_tls_leaves_for_this_machine_only(
    aws_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://192.0.2.1:1")
    with pytest.raises(ActionRefusedError, match="TLS"):
        AwsProvider(own_profile()).account()


def test_a_shortage_is_not_tried_again_by_the_sdk(wire: Wire) -> None:
    """AWS says it with HTTP 500, which the SDK repeats three times unless told otherwise."""
    from botocore.exceptions import ClientError

    from tests.providers.aws_wire import refusal

    wire.say("RunInstances", Answer(refusal("InsufficientInstanceCapacity"), 500))
    with pytest.raises(ClientError):
        AwsProvider(own_profile()).own_account.clients.ec2_once("us-east-1").run_instances(
            MinCount=1, MaxCount=1, ClientToken="t"
        )
    assert len(wire.sent["RunInstances"]) == 1
