"""Options that belong together, declared as the fields of a frozen dataclass.

A command receives them as one value::

    @takes_options
    def cost(app: App, answer: AnswerOptions) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from inspect import Parameter
from typing import Any, get_type_hints


class Options:
    """The base class of a dataclass of options."""


def takes_options(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Adds to a command the fields of its parameters that are annotated with :class:`Options`."""
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        each.name: each.annotation
        for each in signature.parameters.values()
        if inspect.isclass(each.annotation) and issubclass(each.annotation, Options)
    }
    parameters = [
        flag
        for each in signature.parameters.values()
        for flag in (_flags(groups[each.name]) if each.name in groups else (each,))
    ]

    def command(**values: Any) -> int | None:
        read = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        return function(**read, **values)

    keyword = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    command.__doc__ = inspect.getdoc(function)
    return command


def _flags(group: Any) -> list[Parameter]:
    """The fields of a dataclass of options as parameters."""
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
