"""The meaning of clouds' errors: reads the table of a provider (``errors.csv``), the same way for all.

The table's columns: ``code`` (the cloud's error code, a pattern with ``*``, or ``py:`` and the name of an
exception class), ``match`` (texts separated by ``|``, one of which the message must contain), ``operation``
(operations separated by ``|`` to which the row is restricted), ``class``, ``scope`` (empty: the usual one of
the class), ``sent``, ``hint`` (what it means and what to do, for the user; empty: the hint of the class),
``note`` (for maintainers), ``source``.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import chain

from gpucloud.clouds.provider import LateFailureError, Verdict
from gpucloud.errors import ErrorClass, Scope

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """One row of ``errors.csv``."""

    code: str
    match: tuple[str, ...]
    operations: frozenset[str]
    error_class: ErrorClass
    scope: Scope
    sent: bool
    hint: str | None

    def fits(self, message: str, operation: str | None) -> bool:
        """Whether the row's restrictions, if any, are met."""
        return (not self.match or any(text in message.lower() for text in self.match)) and (
            not self.operations or operation in self.operations
        )

    @property
    def restricted(self) -> int:
        """How narrow the row is: narrower rows win."""
        return bool(self.match) + bool(self.operations)


Table = Mapping[str, tuple[ErrorRow, ...]]
"""The rows by lower-case code or pattern, narrow rows first; codes before patterns, long patterns first."""

_SCOPES = {
    ErrorClass.QUOTA: Scope.TYPE_IN_REGION,
    ErrorClass.AUTH: Scope.ACCOUNT,
    ErrorClass.BILLING: Scope.ACCOUNT,
}


def _usual_scope(error_class: ErrorClass) -> Scope:
    """How far a refusal of a class reaches unless its row says otherwise."""
    return _SCOPES.get(error_class, Scope.ATTEMPT)


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word for word in cell.split("|") if word)


@cache
def table_of(package: str) -> Table:
    """The table that a provider's package ships as ``errors.csv``."""
    rows: dict[str, list[ErrorRow]] = {}
    text = files(package).joinpath("errors.csv").read_text(encoding="utf-8")
    for cells in csv.DictReader(text.splitlines()):
        error_class = ErrorClass(cells["class"])
        row = ErrorRow(
            code=cells["code"],
            match=_words(cells["match"].lower()),
            operations=frozenset(_words(cells["operation"])),
            error_class=error_class,
            scope=Scope(cells["scope"]) if cells["scope"] else _usual_scope(error_class),
            sent=cells["sent"] == "yes",
            hint=cells["hint"] or None,
        )
        rows.setdefault(row.code.lower(), []).append(row)
    return {
        code: tuple(sorted(rows[code], key=lambda row: row.restricted, reverse=True))
        for code in sorted(rows, key=lambda code: ("*" in code, -len(code)))
    }


def row_for(table: Table, code: str, message: str = "", operation: str | None = None) -> ErrorRow | None:
    """The row of a code: an exact code before a pattern, a longer pattern before a shorter one."""
    lowered = code.lower()
    patterns = (rows for key, rows in table.items() if "*" in key and fnmatchcase(lowered, key))
    fitting = chain(table.get(lowered, ()), chain.from_iterable(patterns))
    return next((row for row in fitting if row.fits(message, operation)), None)


_BY_STATUS = {
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.NOT_FOUND,
    408: ErrorClass.SERVER,
    409: ErrorClass.EVENTUAL,
    412: ErrorClass.CONFLICT,
    429: ErrorClass.THROTTLED,
}


def verdict_of(
    row: ErrorRow | None,
    unlisted: Callable[[], ErrorClass],
    *,
    code: str,
    message: str,
    request_id: str | None = None,
    retry_after_s: float | None = None,
    sent: bool = True,
) -> Verdict:
    """The verdict of a row; for a code that has none, of the class that ``unlisted`` returns.

    How far a refusal without a row reaches is not known: at most as far as its region, until another region
    refuses with the same code (:mod:`gpucloud.purchase.failover`).
    """
    if row is not None:
        error_class, scope, hint = row.error_class, row.scope, row.hint
    else:
        error_class, hint = unlisted(), None
        scope = Scope.REGION if _usual_scope(error_class) is Scope.ACCOUNT else Scope.ATTEMPT
    return Verdict(
        error_class=error_class,
        code=code,
        message=message,
        request_id=request_id,
        retry_after_s=retry_after_s,
        scope=scope,
        hint=hint,
        listed=row is not None,
        sent=sent,
    )


def class_of_status(status: int) -> ErrorClass:
    """The class of a code that no table knows, by its HTTP status alone."""
    return _BY_STATUS.get(status) or (ErrorClass.SERVER if status >= 500 else ErrorClass.BAD_PARAM)


def raised_by(error: Exception, packages: Collection[str]) -> list[str]:
    """The names of an exception's classes, the narrowest first, that were defined in these packages.

    Names, so that an exception is judged without importing the SDK that it would have come from.
    """
    return [kind.__name__ for kind in type(error).__mro__ if kind.__module__.split(".")[0] in packages]


def verdict_on_exception(table: Table, error: Exception, packages: Collection[str]) -> Verdict | None:
    """The meaning of an exception without an answer of the cloud, by the ``py:`` rows of the table.

    Args:
        table: the table of the provider.
        error: the exception.
        packages: the top-level packages of the SDK and of the provider.

    Returns:
        ``None`` for an exception of any other package. One of these packages without a row counts as a
        failure of the server with unknown outcome, and is logged. So does a late failure without a row.
    """
    if isinstance(error, LateFailureError):
        row = row_for(table, error.code, str(error))
        return verdict_of(row, lambda: ErrorClass.SERVER, code=error.code, message=str(error))
    names = raised_by(error, packages)
    if not names:
        return None
    for name in names:
        row = row_for(table, f"py:{name}")
        if row is not None:
            return verdict_of(
                row, lambda: ErrorClass.SERVER, code=names[0], message=str(error), sent=row.sent
            )
    log.warning("the SDK's exception %s is not in the table", names[0])
    return Verdict(error_class=ErrorClass.SERVER, code=names[0], message=str(error))
