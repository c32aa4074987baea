"""Policies as IAM writes them (RAM has taken the grammar over): which statements count for a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

Keys = Mapping[str, str]
"""What a request says of itself and of what it touches, such as ``aws:RequestTag/NAME``."""

Statement = Mapping[str, Any]

_OPERATORS: Mapping[str, Callable[[str | None, str], bool]] = {
    "Null": lambda value, wanted: (value is None) == (wanted.lower() == "true"),
    "StringEquals": lambda value, wanted: value == wanted,
    "StringLike": lambda value, wanted: value is not None and fnmatchcase(value, wanted),
}
"""The operators that gpucloud's own policies use.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
"""
_NEGATED = {"StringNotEquals": "StringEquals", "StringNotLike": "StringLike"}
"""Operators that hold where none of the values fits, and where the key is missing."""


def statements_of(document: Mapping[str, Any]) -> list[Statement]:
    """The statements of a policy.

    Raises:
        ValueError: one has a condition that is not understood here, and must not count as fulfilled.
    """
    statements: list[Statement] = list(document["Statement"])
    for statement in statements:
        if statement["Effect"] not in {"Allow", "Deny"}:
            raise ValueError(f"Effect {statement['Effect']!r} is neither Allow nor Deny")
        unknown = sorted(set(statement.get("Condition", {})) - set(_OPERATORS) - set(_NEGATED))
        if unknown:
            raise ValueError(f"conditions with {', '.join(unknown)} are not understood by the sandbox")
    return statements


def holding(statements: Iterable[Statement], keys: Keys) -> list[Statement]:
    """The statements whose conditions all hold."""
    return [statement for statement in statements if _holds(statement.get("Condition", {}), keys)]


def words(value: str | list[str]) -> list[str]:
    """What may be written as one word or as a list."""
    return [value] if isinstance(value, str) else value


def _holds(condition: Mapping[str, Mapping[str, str | list[str]]], keys: Keys) -> bool:
    return all(
        _fits(_NEGATED.get(operator, operator), keys.get(key), words(wanted)) != (operator in _NEGATED)
        for operator, demands in condition.items()
        for key, wanted in demands.items()
    )


def _fits(operator: str, value: str | None, wanted: list[str]) -> bool:
    return any(_OPERATORS[operator](value, word) for word in wanted)
