"""Filters and pages of the Describe calls."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpucloud_sandbox.aws.region import tags_of
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

Field = str | Callable[[Document], Iterable[str]]
"""Where a filter looks: a path such as ``State.Name``, or a function."""


class UnknownFilterError(AwsError):
    """A filter that is not known here. AWS may know it."""

    def __init__(self, name: str) -> None:
        super().__init__("InvalidParameterValue", f"The filter '{name}' is invalid")
        self.name = name


def select(
    documents: Iterable[Document], filters: Sequence[Mapping[str, Any]] | None, fields: Mapping[str, Field]
) -> list[Document]:
    """The documents that pass all filters. ``tag:KEY`` and ``tag-key`` are always known.

    Raises:
        UnknownFilterError: a filter is unknown.
        AwsError: one has no values.
    """
    found = list(documents)
    for each in filters or ():
        name: str = each["Name"]
        values: list[str] = each.get("Values") or []
        field = _field(name, fields)
        if not values:
            raise AwsError("InvalidParameterValue", f"The filter '{name}' has no values")
        found = [
            document
            for document in found
            if any(
                fnmatchcase(value, _glob(wanted)) for value in _values(document, field) for wanted in values
            )
        ]
    return found


def page(
    documents: Sequence[Any],
    parameters: Mapping[str, Any],
    *,
    lowest: int = 5,
    highest: int = 1000,
    ids: str | None = None,
) -> tuple[list[Any], str | None]:
    """One page of an answer, and the token of the next.

    Args:
        documents: all that was found.
        parameters: the call's.
        lowest: how small a page may be.
        highest: how large.
        ids: the parameter beside which the call takes no ``MaxResults``.

    Raises:
        AwsError: ``MaxResults`` or ``NextToken`` is not valid.
    """
    size = parameters.get("MaxResults")
    if size is not None and ids is not None and parameters.get(ids):
        text = f"The parameter {ids} cannot be used with the parameter maxResults"
        raise AwsError("InvalidParameterCombination", text)
    if size is not None and not lowest <= size <= highest:
        raise AwsError(
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. "
            f"Expecting a value between {lowest} and {highest}.",
        )
    start = _read_token(parameters.get("NextToken"))
    end = len(documents) if size is None else start + size
    token = _write_token(end) if end < len(documents) else None
    return list(documents[start:end]), token


def _field(name: str, fields: Mapping[str, Field]) -> Field:
    if name == "tag-key":
        return tags_of
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda document: [tags_of(document)[key]] if key in tags_of(document) else []
    if name not in fields:
        raise UnknownFilterError(name)
    return fields[name]


Value = list[Any] | Document | str | int | None


def _values(document: Document, field: Field) -> Iterable[str]:
    return _at(document, field.split(".")) if isinstance(field, str) else field(document)


def _at(value: Value, path: Sequence[str]) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [each for item in value for each in _at(item, path)]
    if not path:
        return [str(value).lower() if isinstance(value, bool) else str(value)]
    return _at(value.get(path[0]), path[1:]) if isinstance(value, dict) else []


def _glob(wanted: str) -> str:
    return wanted.replace("[", "[[]")  # EC2 knows * and ? only


def _write_token(position: int) -> str:
    return base64.urlsafe_b64encode(f"sandbox:{position}".encode()).decode()


def _read_token(token: str | None) -> int:
    if token is None:
        return 0
    try:
        return int(base64.urlsafe_b64decode(token).decode().removeprefix("sandbox:"))
    except ValueError:
        raise AwsError("InvalidNextToken", "The nextToken is invalid or is expired") from None
