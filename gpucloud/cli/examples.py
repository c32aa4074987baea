"""The examples of a command: the command lines at the end of its docstring, as ``--help`` shows them."""

from __future__ import annotations

from typing import Any

_HEADING = "\n\nExamples:\n"


def split_examples(docstring: str) -> tuple[str, tuple[str, ...]]:
    """What a docstring says of a command, and its examples."""
    text, _, lines = docstring.partition(_HEADING)
    return text, tuple(line.strip() for line in lines.splitlines())


def examples_of(command: Any) -> tuple[str, ...]:
    """The examples of a command that was read by :func:`gpucloud.cli.app.bind`.

    Those of a group are two of its commands': the first of each, before the second of any.
    """
    members = getattr(command, "commands", None)
    if members is None:
        examples: tuple[str, ...] = command.callback.examples
        return examples
    first, *more = zip(*map(examples_of, members.values()), strict=True)
    return (*first, *more[0])[:2]
