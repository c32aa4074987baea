"""Reads a spec from a YAML file and from flags; errors name the flag, or the file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpucloud.errors import UsageError
from gpucloud.spec.model import FIELDS, Spec, SpecError


def flag_of(name: str) -> str:
    """The flag of a field, or the name it would have."""
    field = FIELDS.get(name)
    return "--" + name.replace("_", "-") if field is None else field.flag.names_for(name)[0]


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
        from gpucloud.spec.yaml import read_file  # most commands are called without a file

        read = read_file(file)
        fields, lines = read.fields, read.lines
    given = {name: value for name, value in flags.items() if value is not None and value not in ([], ())}
    try:
        return Spec(**{**fields, **given})
    except SpecError as error:

        def where(name: str) -> str:
            return flag_of(name) if name in given else f"{file}:{lines.get(name, 1)}: {name}"

        problems = [f"{where(name)}: {text}" if name else text for name, text in error.problems]
        hint = None if file is None else "`gpucloud schema` prints the fields of a spec file"
        raise UsageError("; ".join(problems), hint=hint) from None
