"""Every documented error code of every call in use, raised by the vendor's SDK at the sandbox's answer.

``docs/error-codes.csv`` says what each means and what follows. In its ``calls``, ``*`` is every call in use.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from azure.core.rest import HttpRequest
from botocore.session import get_session

from gpucloud.clouds.provider import Provider, Verdict
from gpucloud.errors import RULES, ErrorClass, Next, Scope
from gpucloud_alibaba import actions as alibaba_actions
from gpucloud_aws import actions as aws_actions
from gpucloud_azure import actions as azure_actions
from gpucloud_sandbox.client import SandboxClient
from tests.providers.test_error_table import opened, raised

TABLE = Path(__file__).parents[2] / "docs" / "error-codes.csv"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"

CALLS: Mapping[str, Sequence[str]] = {
    "aws": [":".join(action) for action in aws_actions.ACTIONS],
    "azure": [f"{action.method} {action.path}" for action in azure_actions.ACTIONS],
    "alibaba": [":".join(action) for action in alibaba_actions.ACTIONS],
}
"""The calls in use of each cloud, as the table names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table."""

    cloud: str
    calls: Sequence[str]
    code: str
    status: int
    error_class: ErrorClass
    scope: Scope
    next: Next


def rows(cloud: str) -> Iterator[Row]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["cloud"] == cloud:
                yield Row(
                    cloud=cloud,
                    calls=_calls(cloud, row["calls"]),
                    code=row["code"],
                    status=int(row["status"]),
                    error_class=ErrorClass(row["class"]),
                    scope=Scope(row["scope"]),
                    next=Next(row["next"]),
                )


def _calls(cloud: str, cell: str) -> Sequence[str]:
    patterns = [re.sub(r"\{}", "[{]}", pattern) for pattern in cell.split("|")]
    return [call for call in CALLS[cloud] if any(fnmatchcase(call, pattern) for pattern in patterns)]


# --- one call of each cloud with the vendor's SDK


def least(shape: Any) -> Any:
    """The smallest value that botocore accepts for a shape."""
    match shape.type_name:
        case "structure":
            return {name: least(shape.members[name]) for name in shape.required_members}
        case "list":
            return [least(shape.member)] * int(shape.metadata.get("min", 0))
        case "integer" | "long":
            return max(1, int(shape.metadata.get("min", 1)))
        case "boolean":
            return False
        case "timestamp":
            return "2026-11-22T00:00:00Z"
        case _:
            return (shape.enum or ["x" * max(1, int(shape.metadata.get("min", 1)))])[0]


def ask_aws(provider: Any, call: str) -> object:
    service, operation = call.split(":")
    clients = provider.own_account.clients
    region = "us-east-1"
    client = clients.ec2_once(region) if service == "ec2" else clients.client(service, region, attempts=1)
    model = client.meta.service_model.operation_model(operation)
    method = next(name for name, wire in client.meta.method_to_api_mapping.items() if wire == operation)
    return getattr(client, method)(**(least(model.input_shape) if model.input_shape else {}))


def ask_alibaba(provider: Any, call: str) -> object:
    product, action = call.split(":")
    if product == "oss":
        members = {} if action == "ListBuckets" else {"bucket": "lab"}
        members |= {"key": "a"} if action.endswith("Object") else {}
        return provider.own_account.clients.oss("cn-hangzhou").ask(action, **members)
    charged = {"InstanceChargeType": "PostPaid"} if action == "RunInstances" else {}
    return provider.own_account.clients.call(
        product, "cn-hangzhou", action, {"RegionId": "cn-hangzhou", **charged}
    )


def ask_azure(provider: Any, call: str) -> object:
    method, path = call.split(" ")
    resource = path.replace("/subscriptions/{}", f"/subscriptions/{SUBSCRIPTION}").replace("{}", "eastus")
    client: Any = provider.own_account.clients.resources()
    version = {"api_version": "2024-03-02"}
    match method:
        case "GET":
            return client.resources.get_by_id(resource, **version)
        case "PUT":
            return client.resources.begin_create_or_update_by_id(resource, {}, polling=False, **version)
        case "DELETE":
            return client.resources.begin_delete_by_id(resource, polling=False, **version)
        case _:
            response = client.send_request(HttpRequest(method, f"{resource}?api-version=2024-03-02", json={}))
            return response.raise_for_status()


ASK: Mapping[str, Callable[[Any, str], object]] = {
    "aws": ask_aws,
    "azure": ask_azure,
    "alibaba": ask_alibaba,
}


CALL_IN = {"aws": "operation_name", "alibaba": "gpucloud_operation"}
"""The member of a cloud's exceptions that names the call, by which alone the calls of a service differ.

Azure's exceptions name none.
"""


def verdicts(
    sandbox: SandboxClient, provider: Provider, row: Row, number: int
) -> Iterator[tuple[str, Verdict]]:
    """What the provider makes of the row's code at each of its calls.

    Of each service one call is sent, another one at each row.
    """
    services: dict[str, list[str]] = {}
    for call in row.calls:
        services.setdefault(re.split("[: ]", call)[0], []).append(call)
    sandbox.fault(
        effect="error",
        cloud=row.cloud,
        times=len(services),
        code=row.code,
        status=row.status,
        message="It is so, they say.",
    )
    for calls in services.values():
        sent = calls[number % len(calls)]
        error = raised(lambda sent=sent: ASK[row.cloud](provider, sent))  # type: ignore[misc]
        for call in calls:
            if row.cloud in CALL_IN:
                assert getattr(error, CALL_IN[row.cloud]) is not None
                setattr(error, CALL_IN[row.cloud], call.partition(":")[2])
            verdict = provider.classify(error)
            assert verdict is not None
            assert verdict.code == row.code
            yield call, verdict


# --- the walk


@pytest.mark.parametrize("cloud", list(CALLS))
def test_every_documented_code_of_every_call_means_what_the_table_says(
    sandbox: SandboxClient, cloud: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gpucloud_azure.pipeline.READ_RETRIES", 0)
    caplog.set_level(logging.WARNING)
    provider = opened(cloud)
    wrong = [
        (call, row.code, verdict.error_class, verdict.scope)
        for number, row in enumerate(rows(cloud))
        for call, verdict in verdicts(sandbox, provider, row, number)
        if (verdict.error_class, verdict.scope) != (row.error_class, row.scope)
    ]
    assert not wrong
    assert "is not in the table" not in caplog.text, "a documented code fell into the default"


@pytest.mark.parametrize("cloud", list(CALLS))
def test_the_table_has_every_call_and_says_what_follows(cloud: str) -> None:
    listed = list(rows(cloud))
    assert {call for row in listed for call in row.calls} == set(CALLS[cloud])
    assert [row.code for row in listed if row.next is not RULES[row.error_class].next] == []
    pairs = [(call, row.code) for row in listed for call in row.calls]
    assert len(pairs) == len(set(pairs))


def test_the_table_has_every_code_of_botocores_models() -> None:
    """EC2's model has none; its codes are from the reference."""
    listed = {(call, row.code) for row in rows("aws") for call in row.calls}
    for service, operation in aws_actions.ACTIONS:
        model = get_session().get_service_model(service).operation_model(operation)
        errors: list[Any] = model.error_shapes
        for shape in errors:
            assert (f"{service}:{operation}", shape.error_code) in listed


OF_THE_ACCOUNT = (
    *("Forb*", "*Unauthorized*", "*RAM*", "*PassRoleForbidden", "InvalidUserData.Forbidden"),
    *("NoPermission*", "PermissionDenied*", "*AccessKey*", "*Signature*", "*SecurityToken*", "*TimeStamp*"),
    *("AccessDenied", "RequestTimeTooSkewed"),
    *("RealName*", "SecurityRisk*", "InvalidSpotA*", "InvalidRamRole*", "*DeletionProtection"),
    *("InvalidUserType.*", "Abs.InvalidAccount.*"),
)
"""The codes of Alibaba Cloud that refuse credentials, an account or a right of it."""


def test_at_alibaba_nothing_else_than_a_refused_account_ends_the_cloud() -> None:
    ended = {row.code for row in rows("alibaba") if row.error_class is ErrorClass.AUTH}
    assert {code for code in ended if not any(fnmatchcase(code, each) for each in OF_THE_ACCOUNT)} == set()


ELSEWHERE = {
    "alibaba": [
        "OperationDenied.ZoneNotAllowed",
        "OperationDenied.ZoneSystemCategoryNotMatch",
        "OperationDenied.DiskTypeNotSupport",
        "InvalidDiskCategory.Mismatch",
        "InvalidParameter.EncryptedNotSupported",
    ],
    "aws": [
        "UnsupportedOperation",
        "InvalidZone.NotFound",
        "InvalidAMIID.NotFound",
        "DefaultVpcDoesNotExist",
    ],
    "azure": ["PlatformImageNotFound", "RequestDisallowedByAzure", "AllocationFailed"],
}
CREATE = {
    "aws": "ec2:RunInstances",
    "alibaba": "ecs:RunInstances",
    "azure": next(call for call in CALLS["azure"] if call.startswith("PUT") and "virtualMachines/" in call),
}


@pytest.mark.parametrize("cloud", list(CALLS))
def test_a_create_that_is_refused_for_its_type_or_zone_goes_elsewhere(cloud: str) -> None:
    next_of = {row.code: row.next for row in rows(cloud) if CREATE[cloud] in row.calls}
    assert {next_of[code] for code in ELSEWHERE[cloud]} == {Next.ELSEWHERE}


@pytest.mark.parametrize(
    ("cloud", "code", "error_class", "scope"),
    [
        ("alibaba", "IdempotentProcessing", ErrorClass.EVENTUAL, Scope.ATTEMPT),
        ("alibaba", "AuthorizationLimitExceed", ErrorClass.QUOTA, Scope.ACCOUNT),
        ("azure", "IPv4StandardSkuPublicIpCountLimitReached", ErrorClass.QUOTA, Scope.REGION),
        ("azure", "IPv6StandardSkuPublicIpCountLimitReached", ErrorClass.QUOTA, Scope.REGION),
        ("azure", "PublicIPPrefixCountLimitReached", ErrorClass.QUOTA, Scope.REGION),
    ],
)
def test_a_limit_of_the_region_is_a_quota_and_a_call_under_way_is_repeated(
    cloud: str, code: str, error_class: ErrorClass, scope: Scope
) -> None:
    found = {(row.error_class, row.scope) for row in rows(cloud) if row.code == code}
    assert found == {(error_class, scope)}
