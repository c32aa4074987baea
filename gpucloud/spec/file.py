"""Reads a spec from a YAML file and from flags; errors name the flag, or the file and line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError, first_of
from gpucloud.spec.declarations import FIELDS, renamed
from gpucloud.spec.model import Spec, SpecError

if TYPE_CHECKING:
    from gpucloud.spec.yaml import SpecFile


_OF_SKYPILOT = (
    "this looks like a SkyPilot task: its accelerators are gpu here (A100:8), cloud, region and use_spot are "
    "clouds, regions and purchase, num_nodes is nodes, workdir is sync, envs is env; `gpucloud schema` "
    "prints all fields"
)


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
    if file is None:
        return _spec({}, flags, flag_of, hint=None)
    from gpucloud.spec.yaml import read_file  # most commands are called without a file

    return spec_in(read_file(file), flags)


def spec_in(section: SpecFile, flags: Mapping[str, object] | None = None) -> Spec:
    """Makes a spec of the fields of a file, or of a part of it.

    Args:
        section: the fields and their lines.
        flags: see :func:`load_spec`.

    Raises:
        UsageError: see :func:`load_spec`.
    """

    def where(name: str) -> str:
        return f"{section.source}:{section.lines.get(name, section.line)}: {name}"

    hint = "`gpucloud schema` prints the fields of a spec file"
    return _spec(section.fields, flags or {}, where, hint=hint)


def _spec(
    fields: Mapping[str, object],
    flags: Mapping[str, object],
    where: Callable[[str], str],
    *,
    hint: str | None,
) -> Spec:
    told = {name: value for name, value in flags.items() if value is not None and value not in ([], ())}
    given = renamed(told)
    try:
        return Spec(**{**renamed(fields), **given})
    except SpecError as error:
        problems = [
            f"{flag_of(name) if name in given else where(name)}: {text}" if name else text
            for name, text in error.problems
        ]
        hint = error.hint or (_OF_SKYPILOT if "resources" in fields else hint)
        raise UsageError(first_of(problems), hint=hint) from None
