"""The user's defaults: fields of the spec that a file sets where neither a flag nor a spec file does.

A flag wins over the spec file, the spec file over the defaults, and these over what is built in. Tags are
joined instead, key by key in the same order: a tag for one box leaves out none that every box must have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpucloud.errors import UsageError, first_of
from gpucloud.spec.fields import nearest
from gpucloud.spec.model import Spec, SpecError

OF_OFFERS = ("clouds", "regions", "residency", "purchase", "max_price")
"""The fields that narrow a search of the market."""
ALLOWED = (*OF_OFFERS, "ttl", "tags")
JOURNAL = "journal"
"""The key that names a team's journal, where the environment names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the file says; nothing if there is none.

    Attributes:
        file: the file, whether it exists or not.
        spec: its fields, as a spec.
    """

    file: Path
    spec: Spec = field(default_factory=Spec)

    def document(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"file": str(self.file), "fields": self.spec.document()}


def read_defaults(file: Path) -> Defaults:
    """Reads the defaults; a missing file has none.

    Raises:
        UsageError: naming the file and line, the value, and what is allowed.
    """
    if not file.exists():
        return Defaults(file=file)
    from gpucloud.spec.yaml import read_file  # most commands are called without a file

    read = read_file(file)
    problems = [
        (name, f"cannot be a default{nearest(name, ALLOWED)}; allowed: {', '.join((*ALLOWED, JOURNAL))}")
        for name in read.fields
        if name not in (*ALLOWED, JOURNAL)
    ]
    try:
        spec = Spec(**{name: value for name, value in read.fields.items() if name in ALLOWED})
    except SpecError as error:
        problems += [(name or file.name, text) for name, text in error.problems]
    else:
        if not problems:
            return Defaults(file=file, spec=spec)
    raise UsageError(
        first_of([f"{file}:{read.lines.get(name, 1)}: {name}: {text}" for name, text in problems])
    )


def journal_of(file: Path) -> str | None:
    """The URL of the team's journal that the file names; ``None`` if it names none, or is missing.

    Raises:
        UsageError: the file is no YAML, or does not name it by a text.
    """
    if not file.exists():
        return None
    from gpucloud.spec.yaml import read_file

    url = read_file(file).fields.get(JOURNAL)
    if url is not None and not isinstance(url, str):
        raise UsageError(f"{file}: {JOURNAL}: it is no text", hint="give postgresql://USER@HOST/DATABASE")
    return url


def with_defaults(
    spec: Spec, defaults: Defaults, fields: Collection[str] = ALLOWED
) -> tuple[Spec, Mapping[str, Any]]:
    """A spec with the defaults of its user.

    Args:
        spec: the spec.
        defaults: the defaults.
        fields: the fields that matter here; defaults of others are left out.

    Returns:
        The spec, and the fields that the defaults decided, as plain JSON.

    Raises:
        UsageError: a default contradicts the spec.
    """
    values = {name: value for name, value in defaults.spec.document().items() if name in fields}
    values["tags"] = {key: each for key, each in values.get("tags", {}).items() if key not in spec.tags}
    decided = {name: value for name, value in values.items() if value and name not in spec.given - {"tags"}}
    if not decided:
        return spec, decided
    try:
        return spec.replaced(**{**decided, "tags": {**spec.tags, **values["tags"]}}), decided
    except SpecError as error:
        raise UsageError(
            error.message, hint=f"{defaults.file} sets {', '.join(decided)}; a flag overrides it"
        ) from None
