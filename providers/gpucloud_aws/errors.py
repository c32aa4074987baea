"""The meaning of AWS's errors: ``errors.csv`` (:mod:`gpucloud.clouds.error_table`), and rules for EC2."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from io import IOBase
from typing import Any, cast

from gpucloud.clouds import kit
from gpucloud.clouds.error_table import (
    Table,
    class_of_status,
    raised_by,
    row_for,
    table_of,
    verdict_of,
    verdict_on_exception,
)
from gpucloud.clouds.provider import Verdict
from gpucloud.errors import ErrorClass

log = logging.getLogger(__name__)


class AwsRefusal(Exception):  # noqa: N818  (the base of what this package itself refuses)
    """A request that AWS would refuse, or answered with an empty list; classified by the table as well."""


class NoNetworkError(AwsRefusal):
    """The region has no default VPC, or the given VPC has no subnet."""


class NoSubnetError(AwsRefusal):
    """The VPC has no subnet in the zone."""


class ClosedSubnetError(AwsRefusal):
    """The VPC's subnets in the zone have no route to an internet gateway."""


class NoReservationError(AwsRefusal):
    """The held capacity cannot take the order."""


class NoFabricError(AwsRefusal):
    """The type has no EFA."""


class ForeignGroupError(AwsRefusal):
    """A security group or placement group of the box's name exists, but is not the box's."""


class NotVisibleError(AwsRefusal):
    """AWS reports that a resource exists and does not list it yet."""


class GoneError(AwsRefusal):
    """AWS answered a query by id with an empty list."""


class NotEndingError(AwsRefusal):
    """AWS refused the schedule that would end instances."""


class MalformedAnswerError(AwsRefusal):
    """An answer lacks a mandatory member: after a changing call, its outcome is unknown."""


class ActionRefusedError(AwsRefusal):
    """A call that may not be sent; see :mod:`gpucloud_aws.actions`."""


reading = partial(kit.reading, malformed=MalformedAnswerError)
"""Makes what reading a malformed answer raises a :class:`MalformedAnswerError`."""


class Answer(dict[str, Any]):
    """An object in an answer: a member that is missing makes the answer malformed, whoever reads it."""

    def __missing__(self, name: str) -> Any:
        raise MalformedAnswerError(f"the answer lacks {name!r}")


def guarded(value: Any) -> Any:
    """An answer with each of its objects as an :class:`Answer`.

    Raises:
        MalformedAnswerError: botocore's parser passes on the elements of XML where there are several for one
            value.
    """
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return Answer({name: guarded(member) for name, member in members.items()})
        case list():
            return [guarded(each) for each in cast("Iterable[Any]", value)]
        case None | str() | bytes() | int() | float() | datetime() | IOBase():  # the last: of an object of S3
            return value
        case _:
            raise MalformedAnswerError("the answer has several values for one")


def table() -> Table:
    """The rows of ``errors.csv``."""
    return table_of("gpucloud_aws")


def _unlisted(code: str, status: int, operation: str | None) -> ErrorClass:
    """The class of a code that is not in the table, by HTTP status and the form of the code."""
    log.warning("AWS error code %r (HTTP %d) is not in the table", code, status)
    missing = status == 404 or code.endswith(".NotFound")
    if missing:
        return ErrorClass.BAD_PARAM if operation == "RunInstances" else ErrorClass.NOT_FOUND
    return class_of_status(status)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _answered(error: Any) -> Verdict:
    """The verdict on botocore's ``ClientError``: AWS answered."""
    said: Mapping[str, Any] = error.response.get("Error", {})
    meta: Mapping[str, Any] = error.response.get("ResponseMetadata", {})
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))
    operation: str | None = getattr(error, "operation_name", None)
    status = int(meta.get("HTTPStatusCode", 400))
    return verdict_of(
        row_for(table(), code, message, operation),
        lambda: _unlisted(code, status, operation),
        code=code,
        message=message,
        request_id=meta.get("RequestId"),
        retry_after_s=_retry_after(meta.get("HTTPHeaders", {})),
    )


_OURS = {"botocore", "boto3", "gpucloud_aws"}


def classify(error: Exception) -> Verdict | None:
    """The meaning of an exception of boto3, botocore or this package; ``None`` for any other.

    Goes by the names of the exception's classes, so that it needs no import of the SDK.
    """
    if "ClientError" in raised_by(error, _OURS) and hasattr(error, "response"):
        return _answered(error)
    return verdict_on_exception(table(), error, _OURS)


def code_of(error: Exception) -> str:
    """AWS's own code of an exception; empty for an exception of any other package."""
    verdict = classify(error)
    return verdict.code if verdict else ""
