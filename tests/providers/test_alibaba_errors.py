"""What Alibaba Cloud's refusals mean, as the real SDK raises them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import alibabacloud_credentials.exceptions
import alibabacloud_tea_openapi.exceptions
import darabonba.exceptions
import pytest
import Tea.exceptions

from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import RULES, ErrorClass, Scope
from gpucloud_alibaba import errors
from gpucloud_alibaba.errors import classify, table
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.provider import AlibabaProvider
from tests.ports import free_port
from tests.profiles import own_profile
from tests.providers.alibaba_sandbox import alibaba_environment, wire
from tests.providers.alibaba_wire import Answer, Wire, refusal
from tests.providers.test_error_table import STATUS, Row, code_of, message_of, on_the_wire, raised

__all__ = ["alibaba_environment", "wire"]

ROWS = on_the_wire("alibaba")


def run_instances(provider: AlibabaProvider) -> object:
    models = ecs_models()
    request = models.RunInstancesRequest(region_id="cn-hangzhou", instance_charge_type="PostPaid")
    return provider.own_account.clients.ecs("cn-hangzhou").run_instances(request)


def refused(wire: Wire, answer: Answer) -> Verdict:
    wire.say("RunInstances", answer)
    provider = AlibabaProvider(own_profile())
    verdict = classify(raised(lambda: run_instances(provider)))
    assert verdict is not None
    return verdict


# --- the table


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.code}-{row.says}")
def test_every_collected_code_means_what_was_found_for_it(wire: Wire, row: Row) -> None:
    status = STATUS.get(row.says, 400)
    verdict = refused(wire, refusal(code_of(row), message_of(row), status=status))
    assert verdict.error_class in row.allowed
    assert verdict.code == code_of(row)


@pytest.mark.parametrize("row", [row for row in ROWS if row.texts], ids=lambda row: row.code)
def test_another_message_is_not_what_a_text_is_about(wire: Wire, row: Row) -> None:
    verdict = refused(wire, refusal(row.code, "It is otherwise.", status=403))
    assert verdict.error_class is ErrorClass.UNSUPPORTED
    assert row.says == "capacity"


def test_no_code_has_two_rows_that_fit_equally() -> None:
    for rows in table().values():
        keys = [(row.match, row.operations) for row in rows]
        assert len(keys) == len(set(keys)), rows


@pytest.mark.parametrize(
    ("code", "error_class", "scope"),
    [
        ("OperationDenied.NoStock", ErrorClass.CAPACITY, Scope.ATTEMPT),
        ("InstanceType.Offline", ErrorClass.CAPACITY, Scope.TYPE),
        ("InvalidOperation.PublicIpAddressNoStock", ErrorClass.CAPACITY, Scope.REGION),
        ("InvalidInstanceType.ZoneNotSupported", ErrorClass.UNSUPPORTED, Scope.ATTEMPT),
        ("QuotaExceed.ElasticQuota", ErrorClass.QUOTA, Scope.TYPE_IN_REGION),
        ("Forbidden.RAM", ErrorClass.AUTH, Scope.ACCOUNT),
        ("RealNameAuthenticationError", ErrorClass.AUTH, Scope.REGION),
        ("RegionUnauthorized", ErrorClass.AUTH, Scope.REGION),
        ("InvalidAccountStatus.NotEnoughBalance", ErrorClass.BILLING, Scope.ACCOUNT),
    ],
)
def test_a_refusal_says_how_far_it_reaches(
    wire: Wire, code: str, error_class: ErrorClass, scope: Scope
) -> None:
    verdict = refused(wire, refusal(code, status=403))
    assert (verdict.error_class, verdict.scope) == (error_class, scope)


def test_a_group_that_is_missing_is_gone_when_deleted_and_late_when_used(wire: Wire) -> None:
    assert refused(wire, refusal("InvalidSecurityGroupId.NotFound", status=404)).error_class is (
        ErrorClass.EVENTUAL
    )
    wire.say("DeleteSecurityGroup", refusal("InvalidSecurityGroupId.NotFound", status=404))
    request = ecs_models().DeleteSecurityGroupRequest(region_id="cn-hangzhou", security_group_id="sg-1")
    ecs = AlibabaProvider(own_profile()).own_account.clients.ecs("cn-hangzhou")
    verdict = classify(raised(lambda: ecs.delete_security_group(request)))
    assert verdict is not None
    assert verdict.error_class is ErrorClass.NOT_FOUND


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (400, ErrorClass.BAD_PARAM),
        (401, ErrorClass.AUTH),
        (403, ErrorClass.UNSUPPORTED),
        (404, ErrorClass.BAD_PARAM),  # of a create call
        (409, ErrorClass.EVENTUAL),
        (429, ErrorClass.THROTTLED),
        (500, ErrorClass.SERVER),
        (503, ErrorClass.SERVER),
    ],
)
def test_an_unknown_code_goes_by_its_http_status_and_is_logged(
    wire: Wire, status: int, error_class: ErrorClass, caplog: pytest.LogCaptureFixture
) -> None:
    assert refused(wire, refusal("NeverHeardOf", status=status)).error_class is error_class
    assert "NeverHeardOf" in caplog.text


def test_the_clouds_own_words_are_kept(wire: Wire) -> None:
    verdict = refused(wire, refusal("OperationDenied.NoStock", "We have none of it.", status=403))
    assert (verdict.code, verdict.message) == ("OperationDenied.NoStock", "We have none of it.")
    assert verdict.request_id == "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E"


def test_how_long_to_wait_is_passed_on_only_where_it_is_told(wire: Wire) -> None:
    told = refusal("Throttling.User", headers={"x-acs-retry-after": "7000"})
    assert refused(wire, told).retry_after_s == 7.0
    untold = refused(wire, refusal("Throttling.User"))
    assert (untold.error_class, untold.retry_after_s) == (ErrorClass.THROTTLED, None)


# --- no answer, and no request


def maybe_applied(verdict: Verdict) -> bool:
    return verdict.sent and not RULES[verdict.error_class].definite


def test_an_answer_that_never_came_leaves_the_outcome_unknown(wire: Wire) -> None:
    assert maybe_applied(refused(wire, Answer("", hang_up=True)))


@pytest.mark.parametrize("status", [200, 500, 502])
@pytest.mark.parametrize("text", ["<html>Bad gateway</html>", "[]", '"x"', ""])
def test_an_answer_of_somebody_else_leaves_the_outcome_unknown(wire: Wire, status: int, text: str) -> None:
    wire.say("RunInstances", Answer(text, status))
    verdict = classify(raised(lambda: run_instances(AlibabaProvider(own_profile()))))
    assert verdict is not None
    assert maybe_applied(verdict)


def test_a_refused_connection_is_known_not_to_have_been_sent(
    alibaba_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCLOUD_ALIBABA_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    verdict = classify(raised(lambda: run_instances(AlibabaProvider(own_profile()))))
    assert verdict is not None
    assert (verdict.error_class, verdict.sent) == (ErrorClass.SERVER, False)


def test_a_failed_connection_is_told_without_the_boot_script_that_travels_in_the_url(
    alibaba_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCLOUD_ALIBABA_ENDPOINT", "http://127.0.0.1:1")
    request = ecs_models().RunInstancesRequest(
        region_id="cn-hangzhou", instance_charge_type="PostPaid", user_data="c2VjcmV0LWhvc3Qta2V5"
    )
    ecs = AlibabaProvider(own_profile()).own_account.clients.ecs("cn-hangzhou")
    verdict = classify(raised(lambda: ecs.run_instances(request)))
    assert verdict is not None
    assert "refused" in verdict.message
    assert "c2VjcmV0" not in verdict.message


def test_without_credentials_nothing_is_sent_and_the_cloud_is_left_out(own_home: Path) -> None:
    provider = AlibabaProvider(
        Profile({"ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true", "HOME": str(own_home)})
    )
    verdict = provider.classify(raised(provider.account))
    assert verdict is not None
    assert (verdict.error_class, verdict.scope, verdict.sent) == (ErrorClass.AUTH, Scope.ACCOUNT, False)
    assert verdict.code == "CredentialException"


# --- the SDK's exception classes


def sdk_exceptions() -> list[type[Exception]]:
    homes = (
        Tea.exceptions,
        alibabacloud_credentials.exceptions,
        alibabacloud_tea_openapi.exceptions,
        darabonba.exceptions,
    )
    found = {
        kind
        for home in homes
        for _, kind in inspect.getmembers(home, inspect.isclass)
        if issubclass(kind, Exception) and kind.__module__.split(".")[0] in errors.PACKAGES
    }
    return sorted(found, key=lambda kind: f"{kind.__module__}.{kind.__name__}")


@pytest.mark.parametrize("kind", sdk_exceptions(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_exception_class_of_the_sdk_is_in_the_table_itself_or_by_its_base(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """A new SDK that brings a new exception fails here, and is then thought about."""
    error: Any = kind.__new__(kind)
    error.__dict__ |= {"code": None, "message": "x", "data": None, "arg": "x", "status_code": None}
    error.inner_exception = ValueError("x") if "Unretryable" in kind.__name__ else None
    verdict = classify(error)
    assert verdict is not None
    assert not caplog.records, "fell through to the default"


def test_an_exception_of_somebody_else_has_no_verdict() -> None:
    assert classify(ValueError("x")) is None
    assert classify(OSError("x")) is None


def test_what_this_package_refuses_itself_was_not_sent() -> None:
    unsent = [errors.NoZoneError("x"), errors.NoImageError("x"), errors.ActionRefusedError("x")]
    assert [verdict.sent for error in unsent if (verdict := classify(error))] == [False] * len(unsent)


def test_an_answer_without_ids_leaves_the_outcome_unknown() -> None:
    verdict = classify(errors.MalformedAnswerError("x"))
    assert verdict is not None
    assert maybe_applied(verdict)
