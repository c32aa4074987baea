"""The expressions of Resource Manager's templates: ``[concat('a', parameters('b').c[0])]``.

The functions are those that ``az`` writes. Source: learn.microsoft.com, "ARM template functions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.wire import AzureError

Functions = Mapping[str, Callable[..., Any]]

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?\d+)|(?P<name>\w+)|(?P<mark>[()\[\].,]))")


def evaluated(value: Any, functions: Functions) -> Any:
    """A part of a template with its expressions replaced by their values.

    Raises:
        AzureError: an expression is malformed, or has a function that is not among these.
    """
    if isinstance(value, dict):
        return {name: evaluated(each, functions) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [evaluated(each, functions) for each in cast("Sequence[Any]", value)]
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return value
    if value.startswith("[["):  # an escaped bracket: text
        return value[1:]
    return _Expression(value[1:-1], functions).value()


class _Expression:
    """One expression, read from left to right."""

    def __init__(self, text: str, functions: Functions) -> None:
        self._text, self._functions = text, functions
        self._tokens = self._split()
        self._at = 0

    def _split(self) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(self._text.rstrip()):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise self._malformed()
            tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        return tokens

    def value(self) -> Any:
        """Its value."""
        value = self._part()
        if self._at < len(self._tokens):
            raise self._malformed()
        return value

    def _part(self) -> Any:
        kind, text = self._next()
        match kind:
            case "text":
                value: Any = text[1:-1].replace("''", "'")
            case "number":
                value = int(text)
            case "name":
                value = self._called(text)
            case _:
                raise self._malformed()
        while self._peek() in {".", "["}:
            value = self._within(value)
        return value

    def _called(self, name: str) -> Any:
        known = {each.lower(): call for each, call in self._functions.items()}
        if name.lower() not in known:
            raise not_emulated(f"PUT Microsoft.Resources/deployments: properties.template: {name}()")
        self._expect("(")
        arguments: list[Any] = []
        while self._peek() != ")":
            arguments.append(self._part())
            if self._peek() == ",":
                self._next()
        self._expect(")")
        return known[name.lower()](*arguments)

    def _within(self, value: Any) -> Any:
        _, mark = self._next()
        try:
            if mark == ".":
                return value[self._next()[1]]
            inner = value[self._part()]
        except (KeyError, IndexError, TypeError):
            raise self._malformed() from None
        self._expect("]")
        return inner

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise self._malformed()
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, mark: str) -> None:
        if self._next()[1] != mark:
            raise self._malformed()

    def _malformed(self) -> AzureError:
        text = f"Unable to parse language expression '{self._text}'."
        return AzureError("InvalidTemplate", text)
