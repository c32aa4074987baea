"""What AWS's refusals mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass, Scope
from gpucloud_aws import errors
from gpucloud_aws.errors import classify, table
from gpucloud_aws.provider import AwsProvider
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile


def refused(code: str, *, status: int = 400, message: str = "no", operation: str = "RunInstances") -> Verdict:
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "req-1", "HTTPHeaders": {}},
    }
    verdict = classify(ClientError(response, operation))
    assert verdict is not None
    return verdict


def test_no_code_has_two_rows_that_fit_equally() -> None:
    for rows in table().values():
        keys = [(row.match, row.operations) for row in rows]
        assert len(keys) == len(set(keys)), rows


def sdk_exceptions() -> list[type[Exception]]:
    return [
        kind
        for _, kind in inspect.getmembers(botocore.exceptions, inspect.isclass)
        if issubclass(kind, Exception)
        and not issubclass(kind, Warning)
        and kind not in (BotoCoreError, ClientError)
        and kind.__module__ == "botocore.exceptions"
    ]


@pytest.mark.parametrize("kind", sdk_exceptions(), ids=lambda kind: kind.__name__)
def test_every_exception_class_of_the_sdk_is_in_the_table_itself_or_by_its_base(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """A new botocore that brings a new exception fails here, and is then thought about."""
    verdict = classify(kind.__new__(kind))
    assert verdict is not None
    assert not caplog.records, "fell through to the default"


def test_an_exception_of_somebody_else_has_no_verdict() -> None:
    assert classify(ValueError("x")) is None
    assert classify(OSError("x")) is None


def test_the_clouds_own_words_are_kept() -> None:
    verdict = refused("InsufficientInstanceCapacity", status=500, message="We have none of it.")
    assert (verdict.code, verdict.message, verdict.request_id) == (
        "InsufficientInstanceCapacity",
        "We have none of it.",
        "req-1",
    )


@pytest.mark.parametrize(
    ("code", "error_class", "scope"),
    [
        ("InsufficientInstanceCapacity", ErrorClass.CAPACITY, Scope.ATTEMPT),
        ("Unsupported", ErrorClass.UNSUPPORTED, Scope.ATTEMPT),
        ("VcpuLimitExceeded", ErrorClass.QUOTA, Scope.TYPE_IN_REGION),
        ("MaxSpotInstanceCountExceeded", ErrorClass.QUOTA, Scope.TYPE_IN_REGION),
        ("SpotMaxPriceTooLow", ErrorClass.PRICE, Scope.ATTEMPT),
        ("UnauthorizedOperation", ErrorClass.AUTH, Scope.ACCOUNT),
        ("OptInRequired", ErrorClass.AUTH, Scope.REGION),
        ("Blocked", ErrorClass.BILLING, Scope.ACCOUNT),
    ],
)
def test_a_refusal_says_how_far_it_reaches(code: str, error_class: ErrorClass, scope: Scope) -> None:
    verdict = refused(code)
    assert (verdict.error_class, verdict.scope) == (error_class, scope)


def test_codes_are_compared_without_regard_to_case() -> None:
    assert refused("insufficientinstancecapacity").error_class is ErrorClass.CAPACITY


def test_a_group_that_is_missing_is_gone_when_asked_for_and_late_when_used() -> None:
    assert refused("InvalidGroup.NotFound").error_class is ErrorClass.EVENTUAL
    asked = refused("InvalidGroup.NotFound", operation="DescribeSecurityGroups")
    assert asked.error_class is ErrorClass.NOT_FOUND
    assert (
        refused("InvalidGroup.NotFound", operation="DeleteSecurityGroup").error_class is ErrorClass.NOT_FOUND
    )


def test_the_message_decides_where_a_code_is_ambiguous() -> None:
    in_use = "Network interface 'eni-1' is currently in use."
    verdict = refused("InvalidParameterValue", message=in_use, operation="DeleteNetworkInterface")
    assert verdict.error_class is ErrorClass.EVENTUAL
    assert refused("InvalidParameterValue", message=in_use).error_class is ErrorClass.BAD_PARAM
    assert refused("InvalidParameterValue", message="Value (x)").error_class is ErrorClass.BAD_PARAM


@pytest.mark.parametrize(
    ("status", "operation", "error_class"),
    [
        (401, "RunInstances", ErrorClass.AUTH),
        (403, "DescribeVolumes", ErrorClass.AUTH),
        (404, "DeleteVolume", ErrorClass.NOT_FOUND),
        (404, "RunInstances", ErrorClass.BAD_PARAM),
        (408, "RunInstances", ErrorClass.SERVER),
        (409, "RunInstances", ErrorClass.EVENTUAL),
        (429, "RunInstances", ErrorClass.THROTTLED),
        (400, "RunInstances", ErrorClass.BAD_PARAM),
        (500, "RunInstances", ErrorClass.SERVER),
        (503, "RunInstances", ErrorClass.SERVER),
    ],
)
def test_an_unknown_code_goes_by_its_http_status_and_is_logged(
    status: int, operation: str, error_class: ErrorClass, caplog: pytest.LogCaptureFixture
) -> None:
    assert refused("NeverHeardOf", status=status, operation=operation).error_class is error_class
    assert "NeverHeardOf" in caplog.text


def test_an_unknown_code_that_says_not_found_is_believed() -> None:
    assert refused("InvalidThing.NotFound", operation="DeleteVolume").error_class is ErrorClass.NOT_FOUND


def test_what_certainly_never_left_is_known_not_to_have_been_sent() -> None:
    at = "http://127.0.0.1:1"
    unsent: list[Exception] = [
        botocore.exceptions.EndpointConnectionError(endpoint_url=at),
        botocore.exceptions.ConnectTimeoutError(endpoint_url=at),
        botocore.exceptions.ParamValidationError(report="x"),
        botocore.exceptions.NoCredentialsError(),
        errors.NoSubnetError("x"),
        errors.ClosedSubnetError("x"),
    ]
    assert [verdict.sent for error in unsent if (verdict := classify(error))] == [False] * len(unsent)


def test_what_may_have_been_applied_counts_as_sent() -> None:
    at = "http://127.0.0.1:1"
    maybe: list[Exception] = [
        botocore.exceptions.ReadTimeoutError(endpoint_url=at),
        botocore.exceptions.ConnectionClosedError(endpoint_url=at),
        botocore.exceptions.HTTPClientError(error="reset"),
        errors.MalformedAnswerError("x"),
    ]
    verdicts = [classify(error) for error in maybe]
    assert all(verdict and verdict.sent and verdict.error_class is ErrorClass.SERVER for verdict in verdicts)


def test_what_the_cloud_tells_to_wait_is_passed_on() -> None:
    response: Any = {
        "Error": {"Code": "RequestLimitExceeded", "Message": "slow"},
        "ResponseMetadata": {"HTTPStatusCode": 503, "HTTPHeaders": {"retry-after": "7"}},
    }
    verdict = classify(ClientError(response, "RunInstances"))
    assert verdict is not None
    assert (verdict.error_class, verdict.retry_after_s) == (ErrorClass.THROTTLED, 7.0)


def provoked(ask: Callable[[AwsProvider], object]) -> Verdict:
    """The verdict on what a client in this environment raises."""
    provider = AwsProvider(own_profile())
    with pytest.raises(Exception) as raised:  # noqa: PT011  (which one, the verdict's code says)
        ask(provider)
    verdict = provider.classify(raised.value)
    assert verdict is not None
    return verdict


def who(provider: AwsProvider) -> object:
    return provider.account()


NOBODY = {
    "AWS_ACCESS_KEY_ID": None,
    "AWS_SECRET_ACCESS_KEY": None,
    "AWS_SESSION_TOKEN": None,
    "AWS_EC2_METADATA_DISABLED": "true",
}
SSO_PROFILE = """[profile tired]
sso_session = house
sso_account_id = 111122223333
sso_role_name = builder
region = us-east-1
[sso-session house]
sso_start_url = https://sso.invalid/start
sso_region = us-east-1
"""


@pytest.mark.parametrize(
    ("code", "environment", "error_class"),
    [
        ("NoCredentialsError", NOBODY, ErrorClass.AUTH),
        ("PartialCredentialsError", {"AWS_SECRET_ACCESS_KEY": None}, ErrorClass.AUTH),
        ("ProfileNotFound", {"AWS_PROFILE": "nobody"}, ErrorClass.AUTH),
        ("EndpointConnectionError", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, ErrorClass.SERVER),
    ],
)
def test_a_client_that_cannot_ask_says_why(
    aws_environment: None,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    environment: dict[str, str | None],
    error_class: ErrorClass,
) -> None:
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    verdict = provoked(who)
    assert (verdict.code, verdict.error_class, verdict.sent) == (code, error_class, False)


def test_a_sign_on_that_has_ended_is_a_matter_of_credentials(
    aws_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text(SSO_PROFILE)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "tired")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert provoked(who).error_class is ErrorClass.AUTH


def test_wrong_parameters_never_leave(aws_environment: None) -> None:
    wrong: Any = {"Nonsense": 1}
    verdict = provoked(lambda aws: aws.own_account.clients.ec2_once("us-east-1").run_instances(**wrong))
    assert (verdict.code, verdict.error_class) == ("ParamValidationError", ErrorClass.BAD_PARAM)
    assert not verdict.sent


def test_a_connection_that_ends_without_an_answer_leaves_the_outcome_open(sandbox: SandboxClient) -> None:
    aws = AwsProvider(own_profile())
    aws.account()
    sandbox.fault(effect="drop", action="RunInstances", times=None)
    with pytest.raises(botocore.exceptions.ConnectionClosedError) as raised:
        aws.own_account.clients.ec2_once("us-east-1").run_instances(MinCount=1, MaxCount=1, ImageId="ami-0")
    sandbox.clear_faults()
    verdict = aws.classify(raised.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.sent) == (ErrorClass.SERVER, True)
