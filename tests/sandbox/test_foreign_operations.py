"""The table of what foreign clients may call is right about the sandbox."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.serialize import create_serializer

import gpucloud_alibaba.actions as alibaba_provider
import gpucloud_aws.actions as aws_provider
import gpucloud_sandbox.alibaba.actions as alibaba_emulator
import gpucloud_sandbox.aws.actions as aws_emulator
from gpucloud_sandbox.alibaba.validation import parameters_of
from gpucloud_sandbox.aws.wire import SERVICES
from gpucloud_sandbox.azure.api_versions import versions_of
from gpucloud_sandbox.client import Endpoint
from tests.fidelity.operations import NOT_EMULATED, WORKS, azure_path, call_of, read, state_of
from tests.sandbox.alibaba_lab import Alibaba, ClientException, ServerException
from tests.sandbox.azure_lab import Azure
from tests.shell import endpoint

__all__ = ["endpoint"]

MODELS = {"elasticloadbalancing": "elbv2", "monitoring": "cloudwatch"}
"""botocore's names of services whose signing name is another."""


def test_the_table_is_sorted_and_gives_reasons() -> None:
    rows = read()
    assert rows == sorted(rows)
    assert len({(row.cloud, row.client, row.service, row.operation) for row in rows}) == len(rows)
    assert all(row.why for row in rows)


@pytest.mark.parametrize(
    ("emulated", "sent"),
    [
        pytest.param(aws_emulator.ACTIONS, aws_provider.ACTIONS, id="aws"),
        pytest.param(alibaba_emulator.ACTIONS, alibaba_provider.ACTIONS, id="alibaba"),
    ],
)
def test_modules_whose_calls_only_foreign_tools_send_are_in_the_folder_of_these(
    emulated: Mapping[tuple[str, str], Any], sent: Collection[tuple[str, str]]
) -> None:
    calls: dict[str, set[str]] = defaultdict(set)
    for (_, name), handler in emulated.items():
        calls[handler.__module__].add(name)
    names = {name for _, name in sent}
    foreign = {module for module, answered in calls.items() if answered.isdisjoint(names)}
    assert foreign == {module for module in calls if ".foreign." in module}


def test_the_states_are_those_of_the_sandbox() -> None:
    wrong = [row for row in read() if row.state != state_of(row.cloud, row.service, row.operation)]
    assert wrong == [], "`python -m tests.fidelity.operations` writes the states again"


def operations(cloud: str, state: str) -> list[tuple[str, str]]:
    """The operations of a cloud in a state, each once, with their services."""
    return sorted(
        {(row.service, row.operation) for row in read() if (row.cloud, row.state) == (cloud, state)}
    )


def test_what_is_not_emulated_of_aws_is_refused_by_name(endpoint: Endpoint) -> None:
    answers = {each: send(endpoint, *each) for each in operations("aws", NOT_EMULATED)}
    wrong = {call: answer for call, answer in answers.items() if not is_refused_by_name(*call, answer)}
    assert wrong == {}


def test_what_is_not_emulated_of_azure_is_refused_by_name_and_the_rest_is_not(azure: Azure) -> None:
    refused = {each[1]: asked_of_azure(azure, each[1]) for each in operations("azure", NOT_EMULATED)}
    assert {call: said for call, said in refused.items() if not of_the_sandbox(said)} == {}
    works = {each[1]: asked_of_azure(azure, each[1]) for each in operations("azure", WORKS)}
    assert {call: said for call, said in works.items() if is_wrong(said, f"{call_of(call)}'")} == {}


def test_what_is_not_emulated_of_alibaba_is_refused_by_name_and_the_rest_is_not(alibaba: Alibaba) -> None:
    refused = {each: asked_of_alibaba(alibaba, *each) for each in operations("alibaba", NOT_EMULATED)}
    assert {call: said for call, said in refused.items() if not of_the_sandbox(said)} == {}
    works = {each: asked_of_alibaba(alibaba, *each) for each in operations("alibaba", WORKS)}
    assert {call: said for call, said in works.items() if is_wrong(said, f"{':'.join(call)}.")} == {}


def of_the_sandbox(answer: str) -> bool:
    """Whether an answer is a refusal in the sandbox's own name: not emulated, or a commitment to pay."""
    return "The gpucloud sandbox does not emulate" in answer or "Refused by the gpucloud sandbox" in answer


def is_wrong(answer: str, whole: str) -> bool:
    """Whether an answer contradicts that an operation works: not emulated as a whole, or a fault of ours."""
    return f"does not emulate {whole}" in answer or "fault of the gpucloud sandbox" in answer


def asked_of_azure(azure: Azure, operation: str) -> str:
    """The answer to a request with an empty body."""
    method, path = azure_path(operation)
    namespace, _, type_ = call_of(operation).partition(" ")[2].partition("/")
    version = next(iter(versions_of(namespace, type_.partition("/")[0])), "2024-11-01")
    body: dict[str, Any] | None = None if method in {"GET", "HEAD", "DELETE"} else {}
    return str(azure.ask(method, f"{path}?api-version={version}", body=body).body)


def asked_of_alibaba(alibaba: Alibaba, product: str, action: str) -> str:
    """The refusal of a request with the parameters that the metadata requires; empty if it passes."""
    needed = {
        name: _VALUES.get(kind, "x")
        for name, (kind, required, *_) in (parameters_of(product, action) or {}).items()
        if required and name != "RegionId"
    }
    try:
        alibaba.ask(action, product, **needed)
    except (ClientException, ServerException) as error:
        return str(error)
    return ""


_VALUES: Mapping[str, Any] = {
    "Integer": 1,
    "Long": 1,
    "Float": 1,
    "Double": 1,
    "Boolean": False,
    "RepeatList": ["x"],
}
"""What is sent for a required parameter, by its type; for any other, a text."""


def is_refused_by_name(service: str, operation: str, answer: str) -> bool:
    """Whether an answer is the sandbox's refusal of an operation, or of a whole other service."""
    what = f"{service}:{operation}" if service in SERVICES else service
    return "UnsupportedOperation" in answer and f"does not emulate {what}" in answer


def send(endpoint: Endpoint, service: str, operation: str) -> str:
    """The body of the answer to a signed request without parameters."""
    called = model(service)
    protocol = create_serializer(called.metadata["protocol"], include_validation=False)
    form: dict[str, Any] = protocol.serialize_to_request({}, called.operation_model(operation))
    request = AWSRequest(
        method=form["method"],
        url=endpoint.endpoints["aws"] + form["url_path"],
        headers=form["headers"],
        data=form["body"],
    )
    credentials = Credentials(
        endpoint.environ["AWS_ACCESS_KEY_ID"], endpoint.environ["AWS_SECRET_ACCESS_KEY"]
    )
    SigV4Auth(credentials, service, "us-east-1").add_auth(request)
    return str(URLLib3Session().send(request.prepare()).text)


@cache
def model(service: str) -> ServiceModel:
    """botocore's model of a service, by its signing name."""
    name = MODELS.get(service, service)
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)
