"""Frozen values as plain JSON, and back: one pair of functions for everything that the journal stores.

Nothing here imports pydantic, so that commands that read the journal start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Data = Mapping[str, Any]
"""Plain JSON."""

Read = Callable[[Any], Any]
"""Makes a value of plain JSON."""
Write = Callable[[Any], Any]
"""Makes plain JSON of a value."""


def plain(value: Any) -> Any:
    """A value as plain JSON: decimals and times as strings, without the fields that are not set."""
    return _writer(value.__class__)(value)


@cache
def _writer(kind: Any) -> Write:  # noqa: PLR0911  (one per kind of value)
    """Gives the function that makes plain JSON of the values of one type."""
    if issubclass(kind, Enum):
        return str
    if issubclass(kind, str | int | float | NoneType):
        return _as_it_is
    if issubclass(kind, list | tuple):
        return lambda value: [plain(each) for each in value]
    if issubclass(kind, Decimal):
        return lambda value: format(value, "f")
    if issubclass(kind, date):  # a datetime too
        return lambda value: value.isoformat()
    if is_dataclass(kind):
        return _fields_writer(kind)
    return lambda value: {str(key): plain(each) for key, each in value.items()}


def _fields_writer(kind: Any) -> Write:
    names = [(each.name, each.default is None) for each in fields(kind)]

    def write(value: Any) -> Any:
        data: dict[str, Any] = {}
        for name, may_be_left_out in names:
            item = getattr(value, name)
            if item is not None or not may_be_left_out:
                data[name] = plain(item)
        return data

    return write


@cache
def reader(kind: Any) -> Read:  # noqa: PLR0911  (one per kind of value)
    """Gives the function that is the reverse of :func:`plain` for one type.

    The function raises ``ValueError``, ``TypeError``, ``LookupError`` or ``ArithmeticError`` for what is no
    value of the type: a field that it does not have, one that is missing, text in place of a number.

    Args:
        kind: a dataclass; ``str``, ``int``, ``float``, ``bool``, ``Decimal``, ``date``, ``datetime``, an enum
            or ``Any``; ``Literal``, ``tuple``, ``Mapping`` from ``str``, and unions of these.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _as_it_is
    if origin in (Union, UnionType):
        return _union([reader(each) for each in arguments if each is not NoneType], NoneType in arguments)
    if origin is Literal:
        return lambda value: arguments[arguments.index(value)]
    if origin is tuple:
        return _tuple(arguments)
    if origin is Mapping:
        return _mapping(reader(arguments[1]))
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _SCALARS[kind]


def _as_it_is(value: Any) -> Any:
    return value


def _union(options: Sequence[Read], with_none: bool) -> Read:
    def read(value: Any) -> Any:
        if value is None and with_none:
            return None
        for option in options[:-1]:
            try:
                return option(value)
            except (TypeError, ValueError):
                continue
        return options[-1](value)

    return read


def _tuple(arguments: Sequence[Any]) -> Read:
    if arguments[-1] is Ellipsis:
        each = reader(arguments[0])
        return lambda value: tuple(map(each, _checked(list, value)))
    readers = [reader(argument) for argument in arguments]
    return lambda value: tuple(read(item) for read, item in zip(readers, _checked(list, value), strict=True))


def _mapping(each: Read) -> Read:
    return lambda value: {name: each(item) for name, item in _checked(dict, value).items()}


def _dataclass(kind: type) -> Read:
    hints = get_type_hints(kind)
    readers = {each.name: reader(hints[each.name]) for each in fields(kind)}
    texts = frozenset(each.name for each in fields(kind) if hints[each.name] is str)

    def read(value: Any) -> Any:
        values = {
            name: item if type(item) is str and name in texts else readers[name](item)
            for name, item in _checked(dict, value).items()
        }
        return kind(**values)

    return read


def _checked(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.60} is no {kind.__name__}")
    return value


def _number(value: Any) -> Any:
    return value if type(value) is int else _checked(float, value)


def _decimal(value: Any) -> Decimal:
    amount = Decimal(_checked(str, value))
    if not amount.is_finite():
        raise ValueError(f"{value!r:.60} is no amount")
    return amount


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(_checked(str, value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r:.60} is a time without a zone")
    return moment


_SCALARS: Mapping[Any, Read] = {
    **{kind: partial(_checked, kind) for kind in (str, int, bool)},
    float: _number,
    Decimal: _decimal,
    date: date.fromisoformat,
    datetime: _moment,
}
