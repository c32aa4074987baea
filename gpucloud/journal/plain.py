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
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

Data = Mapping[str, Any]
"""Plain JSON."""

Read = Callable[[Any], Any]
"""Makes a value of plain JSON."""


def plain(value: Any) -> Any:  # noqa: PLR0911  (one per kind of value)
    """A value as plain JSON: decimals and times as strings, without the fields that are not set."""
    match value:
        case Enum():
            return str(value)
        case str() | int() | float() | None:
            return value
        case list() | tuple():
            return [plain(each) for each in cast("Sequence[Any]", value)]
        case Decimal():
            return format(value, "f")
        case date():  # a datetime too
            return value.isoformat()
        case _ if is_dataclass(value) and not isinstance(value, type):
            values = ((each, getattr(value, each.name)) for each in fields(value))
            return {
                each.name: plain(item)
                for each, item in values
                if item is not None or each.default is not None
            }
        case Mapping():  # at last: what is none is compared with each of an SDK's thousand models
            return {str(key): plain(each) for key, each in cast("Data", value).items()}
        case _:
            return value


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

    def read(value: Any) -> Any:
        return kind(**{name: readers[name](item) for name, item in _checked(dict, value).items()})

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
