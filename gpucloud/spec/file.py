"""Reads a spec from a YAML file and from flags, and says where what is wrong stands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpucloud.errors import UsageError
from gpucloud.spec.fields import nearest
from gpucloud.spec.model import FLAGS, BadSpecError, Problem, Spec, read_spec


def flag_of(name: str) -> str:
    """The flag that says the same as a field, or what such a flag would be called."""
    flag = FLAGS.get(name)
    return "--" + name.replace("_", "-") if flag is None else flag.names_for(name)[0]


def load_spec(file: Path | None, flags: Mapping[str, object]) -> Spec:
    """Reads a spec from a file, from flags, or from both; a flag wins over the same field of the file.

    Args:
        file: a YAML file, or ``None``.
        flags: values by field name; ``None`` and empty lists are flags that were not given.

    Raises:
        UsageError: naming the file and line or the flag, the value, what is allowed and the nearest choice.
    """
    fields: Mapping[str, object] = {}
    lines: Mapping[str, int] = {}
    if file is not None:
        from gpucloud.spec.yaml import read_file  # most commands are given flags alone

        read = read_file(file)
        fields, lines = read.fields, read.lines
    given = {name: value for name, value in flags.items() if value is not None and value not in ([], ())}
    try:
        return read_spec({**fields, **given})
    except BadSpecError as error:
        problems = [_problem(each, given, file, lines) for each in error.problems]
        hint = None if file is None else "`gpucloud schema` prints what a spec file may hold"
        raise UsageError("; ".join(problems), hint=hint) from None


def _problem(
    problem: Problem, given: Mapping[str, object], file: Path | None, lines: Mapping[str, int]
) -> str:
    """A problem in the user's terms."""
    name = problem.field
    if name is None:
        return problem.text
    where = flag_of(name) if name in given else f"{file}:{lines.get(name, 1)}: {name}"
    text = problem.text or f"unknown field{nearest(name, Spec.model_fields)}"
    return f"{where}: {text}"
