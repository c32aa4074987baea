"""What AWS's refusals mean: a table (``errors.csv``) and the pure function that reads it.

The table's columns: ``code`` (an EC2 error code, a prefix ending in ``*``, or ``py:`` and the name of an
exception class), ``match`` (texts separated by ``|``, one of which the message must contain), ``operation``
(operations separated by ``|`` to which the row is restricted), ``class``, ``scope`` (empty: the usual one of
the class), ``sent``, ``note``, ``source``.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gpucloud.errors import ErrorClass, Scope
from gpucloud.provider import Verdict

log = logging.getLogger(__name__)


class AwsRefusal(Exception):  # noqa: N818  (the base of what this package itself refuses)
    """Something that AWS would refuse, or answered by an empty list; classified by the table as well."""


class NoNetworkError(AwsRefusal):
    """The region has no default VPC, or the given VPC has no subnet."""


class NoSubnetError(AwsRefusal):
    """The VPC has no subnet in the zone."""


class NoReservationError(AwsRefusal):
    """The held capacity cannot take the order."""


class ForeignGroupError(AwsRefusal):
    """A security group of the box's name exists, but is not the box's."""


class NotVisibleError(AwsRefusal):
    """AWS says that a thing exists and does not show it yet."""


class GoneError(AwsRefusal):
    """AWS answered a question by id with an empty list."""


class MalformedAnswerError(AwsRefusal):
    """An answer lacks what every such answer has: after a change, its outcome is unknown."""


class ActionRefusedError(AwsRefusal):
    """A call that may not be sent; see :mod:`gpucloud_aws.actions`."""


@contextmanager
def reading(operation: str) -> Generator[None]:
    """Gives a missing member of an answer its name.

    Raises:
        MalformedAnswerError: the answer lacks a member.
    """
    try:
        yield
    except KeyError as error:
        raise MalformedAnswerError(f"the answer to {operation} lacks {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of ``errors.csv``."""

    code: str
    match: tuple[str, ...]
    operations: frozenset[str]
    error_class: ErrorClass
    scope: Scope
    sent: bool

    def fits(self, message: str, operation: str | None) -> bool:
        """Whether the row's restrictions, if any, are met."""
        return (not self.match or any(text in message.lower() for text in self.match)) and (
            not self.operations or operation in self.operations
        )

    @property
    def restricted(self) -> int:
        """How narrow the row is: narrower rows win."""
        return bool(self.match) + bool(self.operations)


_SCOPES = {
    ErrorClass.QUOTA: Scope.REGION,
    ErrorClass.AUTH: Scope.CLOUD,
    ErrorClass.BILLING: Scope.CLOUD,
}


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word for word in cell.split("|") if word)


@cache
def table() -> Mapping[str, tuple[Row, ...]]:
    """The rows by lower-case code, narrow rows first."""
    rows: dict[str, list[Row]] = {}
    text = files("gpucloud_aws").joinpath("errors.csv").read_text(encoding="utf-8")
    for cells in csv.DictReader(text.splitlines()):
        error_class = ErrorClass(cells["class"])
        row = Row(
            code=cells["code"],
            match=_words(cells["match"].lower()),
            operations=frozenset(_words(cells["operation"])),
            error_class=error_class,
            scope=Scope(cells["scope"]) if cells["scope"] else _SCOPES.get(error_class, Scope.ZONE),
            sent=cells["sent"] == "yes",
        )
        rows.setdefault(row.code.lower(), []).append(row)
    return {
        code: tuple(sorted(found, key=lambda row: row.restricted, reverse=True))
        for code, found in rows.items()
    }


def row_for(code: str, message: str = "", operation: str | None = None) -> Row | None:
    """The row of a code: an exact code before a prefix, a longer prefix before a shorter one."""
    lowered = code.lower()
    prefixes = (lowered[:end] + "*" for end in range(len(lowered), 0, -1))
    for key in (lowered, *prefixes):
        for row in table().get(key, ()):
            if row.fits(message, operation):
                return row
    return None


_BY_STATUS = {
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.NOT_FOUND,
    408: ErrorClass.SERVER,
    409: ErrorClass.EVENTUAL,
    412: ErrorClass.CONFLICT,
    429: ErrorClass.THROTTLED,
}


def _unlisted(code: str, status: int, operation: str | None) -> ErrorClass:
    """The class of a code that the table does not know, by HTTP status and the shape of the code."""
    log.warning("AWS error code %r (HTTP %d) is not in the table", code, status)
    missing = status == 404 or code.endswith(".NotFound")
    if missing:
        return ErrorClass.BAD_PARAM if operation == "RunInstances" else ErrorClass.NOT_FOUND
    return _BY_STATUS.get(status) or (ErrorClass.SERVER if status >= 500 else ErrorClass.BAD_PARAM)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _answered(error: Any) -> Verdict:
    """The verdict on botocore's ``ClientError``: AWS answered."""
    said: Mapping[str, Any] = error.response.get("Error", {})
    meta: Mapping[str, Any] = error.response.get("ResponseMetadata", {})
    code, message = str(said.get("Code", "")), str(said.get("Message", ""))
    operation: str | None = getattr(error, "operation_name", None)
    row = row_for(code, message, operation)
    if row is None:
        error_class = _unlisted(code, int(meta.get("HTTPStatusCode", 400)), operation)
        scope = _SCOPES.get(error_class, Scope.ZONE)
    else:
        error_class, scope = row.error_class, row.scope
    return Verdict(
        error_class=error_class,
        code=code,
        message=message,
        request_id=meta.get("RequestId"),
        retry_after_s=_retry_after(meta.get("HTTPHeaders", {})),
        scope=scope,
    )


_OURS = {"botocore", "boto3", "gpucloud_aws"}


def classify(error: Exception) -> Verdict | None:
    """What an exception of boto3, botocore or this package means; ``None`` for any other.

    Goes by the names of the exception's classes, so that it needs no import of the SDK.
    """
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__.split(".")[0] in _OURS]
    if not names:
        return None
    if "ClientError" in names and hasattr(error, "response"):
        return _answered(error)
    for name in names:
        row = row_for(f"py:{name}")
        if row is not None:
            return Verdict(
                error_class=row.error_class, code=names[0], message=str(error), scope=row.scope, sent=row.sent
            )
    log.warning("the AWS SDK's exception %s is not in the table", names[0])
    return Verdict(error_class=ErrorClass.SERVER, code=names[0], message=str(error))


def code_of(error: Exception) -> str:
    """AWS's own code of an exception; empty for one of somebody else."""
    verdict = classify(error)
    return verdict.code if verdict else ""
