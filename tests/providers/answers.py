"""Answers made from the vendors' own models, with damage: what an answer of a cloud could look like at worst.

A member may be missing, null, of another type or an unknown word. A seed makes the same answers again.
"""

from __future__ import annotations

import inspect
import json
import random
import re
import typing
import zlib
from functools import cache
from importlib import import_module
from typing import Any
from xml.sax.saxutils import escape

WORDS = {
    "date": "2026-11-22T10:00:00Z",
    "time": "2026-11-22T10:00:00Z",
    "count": "1",
    "timestamp": "2026-11-22T10:00:00Z",
    "ip": "203.0.113.7",
}
"""Plausible values of members whose names hold these words, for a text."""

NONSENSE: tuple[Any, ...] = ("NeverHeardOf", "", -1, 1.5, True, [], {}, [None], {"x": None})


class Damage:
    """Decides about each member in turn.

    Args:
        seed: makes the same decisions again.
        share: the share of members that are damaged.
    """

    def __init__(self, seed: int, share: float) -> None:
        self._random = random.Random(seed)  # noqa: S311  (no secret)
        self._seed = seed
        self._share = share

    def of(self, call: str) -> Damage:
        """The damage of a call's answer: the same whatever else is asked at the same time."""
        return Damage(self._seed ^ zlib.crc32(call.encode()), self._share)

    def missing(self) -> bool:
        """Whether a member is left out."""
        return self._random.random() < self._share / 2

    def instead(self) -> tuple[Any, ...]:
        """What stands there instead of a member's value; empty to leave it as it is."""
        if self._random.random() >= self._share / 2:
            return ()
        return (self._random.choice((None, *NONSENSE)),)

    def length(self) -> int:
        """The length of a list."""
        return self._random.choice((0, 1, 1, 2))

    def one_of(self, values: typing.Sequence[Any]) -> Any:
        """One of a model's own words."""
        return self._random.choice(values)


def text_for(name: str) -> str:
    """A plausible text for a member of this name."""
    lowered = name.lower()
    return next((value for word, value in WORDS.items() if word in lowered), f"{name}-1")


# --- botocore


def aws_value(shape: Any, name: str, damage: Damage, depth: int = 0) -> Any:
    """A value of a shape as plain JSON, by the names of the wire."""
    other = damage.instead() if depth else ()
    if other:
        return other[0]
    match shape.type_name:
        case "structure":
            members = shape.members.items() if depth < 8 else ()
            return {
                member.serialization.get("name", key): aws_value(member, key, damage, depth + 1)
                for key, member in members
                if not damage.missing()
            }
        case "list":
            return [aws_value(shape.member, name, damage, depth + 1) for _ in range(damage.length())]
        case kind:
            plain = {"integer": 1, "long": 1, "double": 1.0, "float": 1.0, "boolean": False}
            return plain.get(
                kind, damage.one_of(shape.enum) if getattr(shape, "enum", None) else text_for(name)
            )


def xml(value: Any, name: str) -> str:
    """A JSON value in the form of EC2's protocol."""
    match value:
        case dict():
            members: dict[str, Any] = value
            return f"<{name}>{''.join(xml(each, key) for key, each in members.items())}</{name}>"
        case list():
            listed: list[Any] = value
            return f"<{name}>{''.join(xml(each, 'item') for each in listed)}</{name}>"
        case None:
            return f"<{name}/>"
        case bool():
            return f"<{name}>{str(value).lower()}</{name}>"
        case _:
            return f"<{name}>{escape(str(value))}</{name}>"


def aws_answer(service_model: Any, operation: str, damage: Damage) -> str:
    """A whole answer in the service's protocol."""
    model = service_model.operation_model(operation)
    value = aws_value(model.output_shape, operation, damage.of(operation)) if model.output_shape else {}
    match service_model.protocol:
        case "ec2":
            return xml({**value, "requestId": "req-1"}, f"{operation}Response")
        case "query":
            return xml({f"{operation}Result": value}, f"{operation}Response")
        case _:
            return json.dumps(value)


# --- Alibaba Cloud's SDK


@cache
def _wire_names(kind: Any) -> dict[str, str]:
    found = re.findall(r"self\.(\w+) is not None:[^']*result\['([^']+)'\]", inspect.getsource(kind.to_map))
    return dict(found)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind.__init__)


def alibaba_value(kind: Any, name: str, damage: Damage, depth: int = 0) -> Any:
    """A value of a type of the SDK's models as plain JSON."""
    other = damage.instead() if depth else ()
    if other:
        return other[0]
    if typing.get_origin(kind) is list:
        [inner] = typing.get_args(kind)
        return [alibaba_value(inner, name, damage, depth + 1) for _ in range(damage.length())]
    if hasattr(kind, "to_map"):
        names = _wire_names(kind)
        return {
            names[key]: alibaba_value(hint, names[key], damage, depth + 1)
            for key, hint in _hints(kind).items()
            if key in names and not damage.missing()
        }
    return {int: 1, float: 1.0, bool: False}.get(kind, text_for(name))


def alibaba_answer(product: str, action: str, damage: Damage) -> dict[str, Any]:
    """A whole answer."""
    package = {"ecs": "alibabacloud_ecs20140526", "vpc": "alibabacloud_vpc20160428"}[product]
    value: dict[str, Any] = alibaba_value(
        getattr(import_module(f"{package}.models"), f"{action}ResponseBody"), action, damage.of(action)
    )
    return value
