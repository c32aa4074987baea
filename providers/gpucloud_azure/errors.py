"""The meaning of Azure's errors: ``errors.csv``, read by :mod:`gpucloud.clouds.error_table`.

Resource Manager's error code comes first: the SDK raises one exception class for every HTTP 409, and a
long-running operation that failed has HTTP status 200. Nested details are read from the innermost outwards.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from gpucloud.clouds import kit
from gpucloud.clouds.error_table import (
    class_of_status,
    raised_by,
    row_for,
    table_of,
    verdict_of,
    verdict_on_exception,
)
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass, Scope

log = logging.getLogger(__name__)

PACKAGE = "gpucloud_azure"
SDK = frozenset({"azure", "msal", PACKAGE})

MESSAGE_LENGTH = 1000

_WRAPPERS = frozenset({"retryableerror", "conflict", "badrequest", "multipleerrorsoccurred"})
"""Generic codes: their details are read first."""

_SIGN_IN_CODE = re.compile(r"\b(AADSTS\d+)")


class AzureRefusal(Exception):  # noqa: N818  (the base of what this package itself refuses)
    """A request that Azure would refuse, or an unusable answer; classified by the table as well."""


class NoSubscriptionError(AzureRefusal):
    """The subscription to use is ambiguous or missing."""


class ActionRefusedError(AzureRefusal):
    """A call that may not be sent; see :mod:`gpucloud_azure.actions`."""


class MalformedAnswerError(AzureRefusal):
    """An answer lacks a mandatory member: after a changing call, its outcome is unknown."""


class ChangedRequestError(AzureRefusal):
    """A machine of this name exists with another request."""


class NotEndingError(AzureRefusal):
    """Azure accepted no timer that would end the machine at its deadline."""


class DeadlineTooFarError(NotEndingError):
    """The deadline is further ahead than any timer of Azure reaches."""


class NotCancelledError(AzureRefusal):
    """Azure did not cancel a timer."""


class FailedImageError(AzureRefusal):
    """An image version that Azure accepted could not be made."""


reading = partial(kit.reading, malformed=MalformedAnswerError)
"""Makes what reading a malformed answer raises a :class:`MalformedAnswerError`."""


def error_in(body: Any) -> Mapping[str, Any]:
    """The error object of an answer: under ``error``, as everywhere in Resource Manager, or bare."""
    if not isinstance(body, dict):
        return {}
    whole = cast("dict[str, Any]", body)
    inner: Any = whole.get("error")
    if isinstance(inner, dict):
        return cast("dict[str, Any]", inner)
    if isinstance(inner, str):  # the sign-in service: RFC 6749, 5.2
        text = str(whole.get("error_description", ""))
        found = _SIGN_IN_CODE.search(text)
        return {"code": found.group(1) if found else inner, "message": text.splitlines()[0] if text else ""}
    return whole if "code" in whole else {}


def _innermost_first(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for detail in error.get("details") or ():
        if isinstance(detail, dict):
            yield from _innermost_first(cast("dict[str, Any]", detail))
    yield error


_SIGN_IN_TRIED = "Credential: Authentication failed"
"""azure-identity's message about a credential of a chain that was present and tried."""


def telling(error: Mapping[str, Any]) -> tuple[str, str]:
    """Code and message of the most specific part of an error."""
    table = table_of(PACKAGE)
    code, message = str(error.get("code") or ""), str(error.get("message") or "")
    if code.lower() in _WRAPPERS or row_for(table, code, message) is None:
        for part in _innermost_first(error):
            inner, said = str(part.get("code") or ""), str(part.get("message") or "")
            if part is not error and row_for(table, inner, said) is not None:
                return inner, said or message
    return code, message


def classify(error: Exception) -> Verdict | None:
    """The meaning of an exception of the SDK or of this package; ``None`` for any other.

    Goes by the names of the exception's classes, so that it needs no import of the SDK.
    """
    names = raised_by(error, SDK)
    response = getattr(error, "response", None)
    if "HttpResponseError" in names and response is not None and "DecodeError" not in names:
        said = error_in(_body(response))
        code, message = telling(said)
        headers = {key.lower(): value for key, value in dict(response.headers).items()}
        code = code or headers.get("x-ms-error-code", "")  # the blob service's body is XML
        verdict = _judged(code, message or _first_line(error), status=response.status_code, headers=headers)
        if verdict is not None:
            return verdict
    verdict = verdict_on_exception(table_of(PACKAGE), error, SDK)
    if verdict is None:
        return None
    sign_in = _SIGN_IN_CODE.search(str(error))
    # A sign-in that was tried, without an answer from Entra, was not refused: it did not get through.
    lost = _SIGN_IN_TRIED in str(error) and sign_in is None
    return replace(
        verdict,
        error_class=ErrorClass.SERVER if lost else verdict.error_class,
        code=sign_in.group(1) if sign_in else verdict.code,
        message=_first_line(error),
        hint=None if lost else verdict.hint,
        sent=verdict.sent or sign_in is not None,
    )


def _judged(code: str, message: str, *, status: int, headers: Mapping[str, str]) -> Verdict | None:
    """The verdict on Azure's answer; ``None`` for a success without an error.

    Status 429 is throttling whatever the code: "OperationNotAllowed", too, says of too many requests.
    """
    row = row_for(table_of(PACKAGE), code, message) if code else None
    if row is None and status < 400:
        return None
    verdict = verdict_of(
        row,
        partial(_unlisted, code, status),
        code=code or f"HTTP {status}",
        message=message,
        request_id=headers.get("x-ms-request-id") or headers.get("x-ms-correlation-request-id"),
        retry_after_s=_seconds(headers.get("retry-after", "")),
    )
    if status != HTTPStatus.TOO_MANY_REQUESTS:
        return verdict
    return replace(verdict, error_class=ErrorClass.THROTTLED, scope=Scope.ATTEMPT, hint=None)


def _unlisted(code: str, status: int) -> ErrorClass:
    """The class of a code that is not in the table, by HTTP status."""
    log.warning("Azure error code %r (HTTP %d) is not in the table", code, status)
    return class_of_status(status)


def _body(response: Any) -> Any:
    try:
        return json.loads(response.text())
    except Exception:  # a broken answer may raise anything in a decoder: it has no error object
        return None


def _first_line(error: Exception) -> str:
    """The message of an exception in one line; for a chain of credentials, the message of each."""
    lines = [line.strip() for line in str(error).splitlines()]
    tried = [line for line in lines if re.match(r"\w+Credential: ", line)]
    said = "; ".join(tried) or next(filter(None, lines), "") or type(error).__name__
    return said[:MESSAGE_LENGTH]


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() else None


def code_of(error: Exception) -> str:
    """Azure's own code of an exception; empty for an exception of any other package."""
    verdict = classify(error)
    return verdict.code if verdict else ""
