"""What Azure's refusals mean: real answers over HTTP, the real SDK's exceptions."""

from __future__ import annotations

import inspect
from typing import Any

import azure.core.exceptions
import azure.identity
import pytest

from gpucloud.clouds.abilities import Prices
from gpucloud.clouds.error_table import row_for, table_of
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import ResourceKind
from gpucloud_azure import errors
from gpucloud_azure.errors import classify
from gpucloud_azure.ids import id_in
from gpucloud_azure.provider import AzureProvider
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.azure_wire import SUBSCRIPTION, Answer, Wire, ref, refusal
from tests.providers.test_error_table import rows

MEANS = {
    "throttle": {ErrorClass.THROTTLED},
    "retry": {ErrorClass.EVENTUAL, ErrorClass.SERVER},
    "gone": {ErrorClass.NOT_FOUND},
}
"""The collected table's classes that are finer here; the others have the same name."""

CLASS_OF_SDK = {"py:HttpResponseError", "ResourceExistsError"}
"""Judged by what the answer says; see the tests of the status and of the code."""

DISK = id_in(SUBSCRIPTION, "group", ResourceKind.DISK, "disk")


def collected() -> list[tuple[str, str, str]]:
    return [(row.code, row.says, "|".join(row.texts)) for row in rows() if row.cloud == "azure"]


def messages(match: str) -> list[str]:
    return [f"It says: {text}. More." for text in match.split("|")] if match else ["No."]


def said(wire: Wire, body: Any, *, status: int = 409, headers: dict[str, str] | None = None) -> Verdict:
    """The verdict on the real SDK's exception for an answer."""
    wire.say("DELETE", "/disks/disk", Answer(body, status, headers or {}))
    provider = AzureProvider(own_profile())
    with pytest.raises(azure.core.exceptions.HttpResponseError) as caught:
        provider.own_account.clients.resources().resources.begin_delete_by_id(
            DISK, api_version="2024-03-02", polling=False
        )
    verdict = provider.classify(caught.value)
    assert verdict is not None
    return verdict


@pytest.fixture
def asked(azure_wire: Wire) -> Wire:
    return azure_wire


def on_the_wire() -> list[tuple[str, str, str]]:
    said = [row for row in collected() if not row[0].startswith("py:") and row[0] not in CLASS_OF_SDK]
    return [(code, meant, message) for code, meant, match in said for message in messages(match)]


def test_every_collected_code_has_the_class_that_was_found_for_it(asked: Wire) -> None:
    provider = AzureProvider(own_profile())
    resources = provider.own_account.clients.resources().resources
    wrong: list[tuple[str, str, str, str]] = []
    for code, meant, message in on_the_wire():
        asked.say("DELETE", "/disks/disk", Answer(refusal(code, message), 409))
        with pytest.raises(azure.core.exceptions.HttpResponseError) as caught:
            resources.begin_delete_by_id(DISK, api_version="2024-03-02", polling=False)
        verdict = provider.classify(caught.value)
        assert verdict is not None
        if verdict.error_class not in MEANS.get(meant, {meant}) or verdict.code != code:
            wrong.append((code, message, meant, str(verdict.error_class)))
    assert len(on_the_wire()) > 100
    assert not wrong


def test_no_code_has_two_rows_that_fit_equally() -> None:
    for fitting in table_of("gpucloud_azure").values():
        keys = [(row.match, row.operations) for row in fitting]
        assert len(keys) == len(set(keys)), fitting


@pytest.mark.parametrize(
    ("code", "hit", "means", "otherwise"),
    [
        (
            "OperationNotAllowed",
            "Operation could not be completed as it results in exceeding approved "
            "StandardNCADSA100v4Family Cores quota.",
            ErrorClass.QUOTA,
            ErrorClass.BAD_PARAM,
        ),
        (
            "OperationNotAllowed",
            "exceeding approved LowPriorityCores quota",
            ErrorClass.QUOTA,
            ErrorClass.BAD_PARAM,
        ),
        ("OperationNotAllowed", "VM 'a' is marked for deletion.", ErrorClass.EVENTUAL, ErrorClass.BAD_PARAM),
        (
            "InvalidParameter",
            "The VM size is not available in the current region.",
            ErrorClass.UNSUPPORTED,
            ErrorClass.BAD_PARAM,
        ),
    ],
)
def test_the_message_decides_where_a_code_is_ambiguous(
    asked: Wire, code: str, hit: str, means: ErrorClass, otherwise: ErrorClass
) -> None:
    assert said(asked, refusal(code, hit)).error_class is means
    assert said(asked, refusal(code, "Something else.")).error_class is otherwise


def test_the_clouds_own_words_are_kept(asked: Wire) -> None:
    verdict = said(asked, refusal("SkuNotAvailable", "We have none of it."))
    assert (verdict.code, verdict.message, verdict.request_id) == (
        "SkuNotAvailable",
        "We have none of it.",
        "req-1",
    )


def test_a_wrapper_is_opened_from_the_inside(asked: Wire) -> None:
    inner = {"code": "NicReservedForAnotherVm", "message": "Wait."}
    middle = {"code": "Whatever", "message": "x", "details": [inner]}
    verdict = said(asked, refusal("RetryableError", "A retryable error.", details=[middle]), status=429)
    assert (verdict.code, verdict.message) == ("NicReservedForAnotherVm", "Wait.")
    unknown = said(asked, refusal("DeploymentFailed", "See below.", details=[inner]))
    assert unknown.error_class is ErrorClass.EVENTUAL


def test_a_code_that_says_enough_is_believed_before_its_details(asked: Wire) -> None:
    inner = {"code": "TooManyRequests", "message": "x"}
    assert said(asked, refusal("SkuNotAvailable", details=[inner])).error_class is ErrorClass.CAPACITY


def test_codes_are_compared_without_regard_to_case(asked: Wire) -> None:
    assert said(asked, refusal("overConstrainedallocationREQUEST")).error_class is ErrorClass.CAPACITY


@pytest.mark.parametrize(
    ("code", "error_class", "scope"),
    [
        ("AllocationFailed", ErrorClass.CAPACITY, Scope.TYPE_IN_REGION),
        ("ZonalAllocationFailed", ErrorClass.CAPACITY, Scope.ATTEMPT),
        ("SkuNotAvailable", ErrorClass.CAPACITY, Scope.ATTEMPT),
        ("QuotaExceeded", ErrorClass.QUOTA, Scope.TYPE_IN_REGION),
        ("AuthorizationFailed", ErrorClass.AUTH, Scope.ACCOUNT),
        ("MissingSubscriptionRegistration", ErrorClass.AUTH, Scope.ACCOUNT),
        ("ReadOnlyDisabledSubscription", ErrorClass.BILLING, Scope.ACCOUNT),
        ("RegionDoesNotAllowProvisioning", ErrorClass.UNSUPPORTED, Scope.REGION),
        ("AzureSpotIsNotSupportedForThisVMSize", ErrorClass.UNSUPPORTED, Scope.TYPE),
    ],
)
def test_a_refusal_says_how_far_it_reaches(
    asked: Wire, code: str, error_class: ErrorClass, scope: Scope
) -> None:
    verdict = said(asked, refusal(code))
    assert (verdict.error_class, verdict.scope) == (error_class, scope)


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        (400, ErrorClass.BAD_PARAM),
        (401, ErrorClass.AUTH),
        (403, ErrorClass.AUTH),
        (404, ErrorClass.NOT_FOUND),
        (408, ErrorClass.SERVER),
        (409, ErrorClass.EVENTUAL),
        (412, ErrorClass.CONFLICT),
        (429, ErrorClass.THROTTLED),
        (500, ErrorClass.SERVER),
        (502, ErrorClass.SERVER),
        (503, ErrorClass.SERVER),
        (504, ErrorClass.SERVER),
    ],
)
@pytest.mark.parametrize(
    "body", [refusal("NeverHeardOf"), {}, "<html>gateway</html>"], ids=["code", "empty", "text"]
)
def test_an_answer_that_nobody_explains_goes_by_its_http_status_and_is_logged(
    asked: Wire, status: int, error_class: ErrorClass, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    verdict = said(asked, body, status=status)
    assert verdict.error_class is error_class
    assert verdict.code in {"NeverHeardOf", f"HTTP {status}"}
    assert "not in the table" in caplog.text


def test_what_the_cloud_tells_to_wait_is_passed_on(asked: Wire) -> None:
    verdict = said(asked, refusal("TooManyRequests"), status=429, headers={"Retry-After": "7"})
    assert (verdict.error_class, verdict.retry_after_s) == (ErrorClass.THROTTLED, 7.0)


def test_too_many_requests_are_throttling_whatever_the_code(asked: Wire) -> None:
    """ "OperationNotAllowed" says of too many requests as well, and of quota with any other status."""
    many = refusal("OperationNotAllowed", "The request limit of this subscription was reached: Cores quota.")
    verdict = said(asked, many, status=429, headers={"Retry-After": "17"})
    assert (verdict.error_class, verdict.retry_after_s) == (ErrorClass.THROTTLED, 17)
    assert said(asked, refusal("AuthorizationFailed"), status=429).error_class is ErrorClass.THROTTLED


def test_an_operation_that_failed_after_it_was_accepted_has_status_200_and_its_own_code(asked: Wire) -> None:
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/group"
    location = f"{asked.url}{group}/providers/Microsoft.Compute/virtualMachines/vm"
    accepted = {"name": "vm", "location": "eastus", "properties": {"provisioningState": "Creating"}}
    headers = {"Azure-AsyncOperation": location}
    asked.say("PUT", "/virtualMachines/vm", Answer(accepted, 201, headers))
    failed = {"status": "Failed", "error": {"code": "AllocationFailed", "message": "No room."}}
    asked.say("GET", "/virtualMachines/vm", Answer(failed))
    provider = AzureProvider(own_profile())
    machines: Any = provider.own_account.clients.compute().virtual_machines
    with pytest.raises(azure.core.exceptions.HttpResponseError) as caught:
        machines.begin_create_or_update("group", "vm", {"location": "eastus"}, polling_interval=0).result()
    assert caught.value.status_code == 200
    verdict = classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.code, verdict.message) == (
        ErrorClass.CAPACITY,
        "AllocationFailed",
        "No room.",
    )


# --- without an answer


def raised_by(call: Any) -> Verdict:
    with pytest.raises(azure.core.exceptions.AzureError) as caught:
        call()
    verdict = classify(caught.value)
    assert verdict is not None
    return verdict


def test_a_connection_that_was_never_made_is_known_not_to_have_been_sent(
    asked: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCLOUD_AZURE_PRICES_URL", "https://127.0.0.1:1/none")
    provider = AzureProvider(own_profile())
    provider.account()
    monkeypatch.setattr("gpucloud_azure.pipeline.READ_RETRIES", 0)
    from gpucloud_pricing.purchases import Purchase

    verdict = raised_by(lambda: able(provider, Prices).quotes("eastus", ["Standard_X"], Purchase.SPOT))
    assert (verdict.code, verdict.error_class, verdict.sent) == (
        "ServiceRequestError",
        ErrorClass.SERVER,
        False,
    )


def test_an_answer_that_never_came_leaves_the_outcome_unknown(asked: Wire) -> None:
    asked.say("DELETE", "/disks/disk", Answer(hang_up=True))
    provider = AzureProvider(own_profile())
    verdict = raised_by(lambda: provider.delete(ref(ResourceKind.DISK, DISK)))
    assert verdict.error_class is ErrorClass.SERVER
    assert verdict.sent
    assert len(asked.calls("DELETE")) == 1


def test_credentials_that_are_refused_keep_the_sign_in_services_own_code(asked: Wire) -> None:
    body = {
        "error": "invalid_client",
        "error_description": "AADSTS7000215: Invalid client secret provided.\r\nTrace",
    }
    asked.say("POST", "/oauth2/v2.0/token", Answer(body, 401))
    verdict = raised_by(AzureProvider(own_profile()).account)
    assert verdict.error_class is ErrorClass.AUTH
    assert "AADSTS7000215" in f"{verdict.code} {verdict.message}"
    assert "\n" not in verdict.message


def test_no_credentials_at_all_are_a_matter_of_credentials(
    asked: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_CLIENT_SECRET")
    verdict = raised_by(AzureProvider(own_profile()).account)
    assert (verdict.error_class, verdict.scope, verdict.sent) == (ErrorClass.AUTH, Scope.ACCOUNT, False)


def test_several_subscriptions_and_no_choice_are_a_matter_of_credentials(
    asked: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_SUBSCRIPTION_ID")
    asked.say("GET", "/subscriptions", Answer({"value": [{"subscriptionId": "a"}, {"subscriptionId": "b"}]}))
    with pytest.raises(errors.NoSubscriptionError, match="AZURE_SUBSCRIPTION_ID") as caught:
        AzureProvider(own_profile()).account()
    verdict = classify(caught.value)
    assert verdict is not None
    assert (verdict.error_class, verdict.sent) == (ErrorClass.AUTH, False)
    asked.say("GET", "/subscriptions", Answer({"value": [{"subscriptionId": SUBSCRIPTION}]}))
    assert AzureProvider(own_profile()).account() == SUBSCRIPTION


def sdk_exceptions() -> list[type[Exception]]:
    modules = (azure.core.exceptions, azure.identity)
    kinds = [kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)]
    errors_ = [kind for kind in kinds if issubclass(kind, azure.core.exceptions.AzureError)]
    return [kind for kind in errors_ if kind is not azure.core.exceptions.ODataV4Error]  # needs an answer


@pytest.mark.parametrize("kind", sdk_exceptions(), ids=lambda kind: kind.__name__)
def test_every_exception_of_the_sdk_has_a_verdict(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    """A new SDK that brings a new exception without a known base fails here, and is then thought about."""
    verdict = classify(kind.__new__(kind))
    assert verdict is not None
    assert not caplog.records, "fell through to the default"


def own_exceptions() -> list[type[Exception]]:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    return [k for k in kinds if issubclass(k, errors.AzureRefusal) and k is not errors.AzureRefusal]


@pytest.mark.parametrize("kind", own_exceptions(), ids=lambda kind: kind.__name__)
def test_every_exception_of_our_own_has_a_row(kind: type[Exception]) -> None:
    assert row_for(table_of("gpucloud_azure"), f"py:{kind.__name__}") is not None


def test_an_exception_of_somebody_else_has_no_verdict() -> None:
    assert classify(ValueError("x")) is None
    assert classify(OSError("x")) is None
