"""The meaning of Alibaba Cloud's errors: ``errors.csv``, read by :mod:`gpucloud.clouds.error_table`.

The SDK wraps every failure before an answer in ``UnretryableException``; the inner exception decides. Its
exceptions do not name their call; :mod:`gpucloud_alibaba.clients` notes it on them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from gpucloud.clouds import error_table, kit
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass

log = logging.getLogger(__name__)

PACKAGES = frozenset(
    {
        "Tea",
        "alibabacloud_credentials",
        "alibabacloud_ecs20140526",
        "alibabacloud_oss_v2",
        "alibabacloud_tea_openapi",
        "darabonba",
        "gpucloud_alibaba",
    }
)
DRY_RUN_PASSED = frozenset({"DryRunOperation", "DRYRUN.SUCCESS"})
"""The error code of a dry run that passed."""


class AlibabaRefusal(Exception):  # noqa: N818  (the base of what this package itself refuses)
    """A request that the cloud would refuse, or answered with an empty list; classified by the table too."""


class NoZoneError(AlibabaRefusal):
    """No zone of the region has the type now."""


class NoImageError(AlibabaRefusal):
    """The region has no public image of the recipe for the type."""


class NoErdmaError(AlibabaRefusal):
    """The type takes no interface for eRDMA, whatever the market says."""


class AlibabaNotReadyError(AlibabaRefusal):
    """A network was created and is not usable yet."""


class GoneError(AlibabaRefusal):
    """The cloud answered a query by id with an empty list, and the caller may read."""


class UnprovenError(AlibabaRefusal):
    """An empty list without proof that the caller may read: it proves nothing."""


class MalformedAnswerError(AlibabaRefusal):
    """An answer lacks a mandatory member: after a changing call, its outcome is unknown."""


class ActionRefusedError(AlibabaRefusal):
    """A call that may not be sent; see :mod:`gpucloud_alibaba.actions`."""


reading = partial(kit.reading, malformed=MalformedAnswerError)
"""Makes what reading a malformed answer raises a :class:`MalformedAnswerError`."""


def named(value: Any) -> str:
    """An id or a name from an answer.

    Raises:
        ValueError: there is none (the SDK returns ``None``); caught by :func:`reading`.
    """
    if not isinstance(value, str) or not value:
        raise ValueError("it lacks an id")
    return value


def table() -> error_table.Table:
    """The rows of ``errors.csv``."""
    return error_table.table_of("gpucloud_alibaba")


def row_for(code: str, message: str = "", operation: str | None = None) -> error_table.ErrorRow | None:
    """The row of a code: an exact code before a pattern, a longer pattern before a shorter one."""
    return error_table.row_for(table(), code, message, operation)


def _unlisted(code: str, status: int, operation: str | None) -> ErrorClass:
    """The class of a code that is not in the table, by the form of the code and HTTP status.

    Most 403 are about a type, a zone or the state of something. The codes that refuse an account have rows.
    """
    log.warning("Alibaba error code %r (HTTP %d) is not in the table", code, status)
    if status == 403:
        return ErrorClass.UNSUPPORTED
    if status == 404 or code.endswith(".NotFound"):
        return ErrorClass.BAD_PARAM if operation == "RunInstances" else ErrorClass.NOT_FOUND
    return error_table.class_of_status(status)


_ANSWERS = frozenset({"AlibabaCloudException", "ServiceError"})
"""What the SDKs raise where the cloud answered: that of OSS, and that of all other products."""


def _answered(error: Any, operation: str | None) -> Verdict:
    """The verdict on an exception where the cloud answered."""
    data = cast("Mapping[str, Any]", getattr(error, "data", None) or {})
    code, message = str(error.code), str(data.get("Message") or error.message)
    request_id = data.get("RequestId") or getattr(error, "request_id", None)
    told_ms = getattr(error, "retry_after", None)
    return error_table.verdict_of(
        row_for(code, message, operation),
        lambda: _unlisted(code, int(error.status_code or 400), operation),
        code=code,
        message=message,
        request_id=str(request_id) if request_id else None,
        retry_after_s=told_ms / 1000 if told_ms else None,
    )


_UNSENT = {"ConnectTimeout", "ConnectTimeoutError", "NameResolutionError", "NewConnectionError", "SSLError"}
"""The exceptions of requests and urllib3 for a connection that was not established."""


def _never_left(error: BaseException) -> bool:
    """Whether a transport failure happened before a connection was established."""
    cause = error.__context__
    reason = getattr(cause.args[0], "reason", None) if cause and cause.args else None
    return bool({type(each).__name__ for each in (cause, reason)} & _UNSENT)


def _without_url(message: str) -> str:
    """A message without the request's URL, which has all parameters, among them the boot script."""
    return re.sub(r"(url: )\S+", r"\1…", message)


_NO_CREDENTIALS = "from any of the providers in the chain"
"""The SDK's message before the list of every place that it searched."""


def _words(inner: Any) -> str:
    """An exception's message, without secrets and useless parts."""
    said = str(getattr(inner, "message", None) or inner)
    if _NO_CREDENTIALS in said:
        return "no credentials in the environment, in ~/.aliyun or ~/.alibabacloud, or of an instance's role"
    return _without_url(said)


def classify(error: Exception) -> Verdict | None:
    """The meaning of an exception of the SDK or of this package; ``None`` for any other.

    Goes by the names of the exception's classes, so that it needs no import of the SDK.
    """
    operation: str | None = getattr(error, "gpucloud_operation", None)
    inner: Any = getattr(error, "inner_exception", None) or error
    if _ANSWERS & {*error_table.raised_by(inner, PACKAGES)} and getattr(inner, "status_code", None):
        return _answered(inner, operation)
    verdict = error_table.verdict_on_exception(
        table(), inner if error_table.raised_by(inner, PACKAGES) else error, PACKAGES
    )
    if verdict is None:
        return None
    code = getattr(inner, "code", None)
    return replace(
        verdict,
        code=str(code) if code else verdict.code,
        message=_words(inner) or verdict.code,
        request_id=getattr(inner, "request_id", None),
        sent=verdict.sent and not _never_left(inner),
    )


def code_of(error: Exception) -> str:
    """The cloud's own code of an exception; empty for an exception of any other package."""
    if not error_table.raised_by(error, PACKAGES):
        return ""
    inner: Any = getattr(error, "inner_exception", None) or error
    return str(getattr(inner, "code", None) or "")
