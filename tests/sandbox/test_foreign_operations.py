"""The table of what foreign clients may call is right about the sandbox."""

from __future__ import annotations

from functools import cache
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.serialize import create_serializer

from gpucloud.sandbox.client import Endpoint
from gpucloud_aws.sandbox.wire import SERVICES
from tests.fidelity.operations import NOT_EMULATED, read, state_of
from tests.shell import endpoint

__all__ = ["endpoint"]

MODELS = {"elasticloadbalancing": "elbv2", "monitoring": "cloudwatch"}
"""botocore's names of services whose signing name is another."""


def test_the_table_is_sorted_and_gives_reasons() -> None:
    rows = read()
    assert rows == sorted(rows)
    assert len({(row.client, row.service, row.operation) for row in rows}) == len(rows)
    assert all(row.why for row in rows)


def test_the_states_are_those_of_the_sandbox() -> None:
    wrong = [row for row in read() if row.state != state_of(row.service, row.operation)]
    assert wrong == [], "`python -m tests.fidelity.operations` writes the states again"


def test_what_is_not_emulated_is_refused_by_name(endpoint: Endpoint) -> None:
    refused = sorted({(row.service, row.operation) for row in read() if row.state == NOT_EMULATED})
    answers = {(service, operation): send(endpoint, service, operation) for service, operation in refused}
    wrong = {call: answer for call, answer in answers.items() if not is_refused_by_name(*call, answer)}
    assert wrong == {}


def is_refused_by_name(service: str, operation: str, answer: str) -> bool:
    """Whether an answer is the sandbox's refusal of an operation of EC2, or of a whole other service."""
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
