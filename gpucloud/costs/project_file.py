"""Reads a project from a YAML file; errors name the file and line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TypeVar, overload

from gpucloud.costs import amounts as read
from gpucloud.costs.project import INTERNET, Part, Project, Transfer, problem_of
from gpucloud.costs.workload import Workload
from gpucloud.errors import UsageError
from gpucloud.spec.declarations import ALIASES, FIELDS
from gpucloud.spec.fields import NAME, nearest, shown
from gpucloud.spec.file import spec_in
from gpucloud.spec.yaml import SpecFile, read_outline
from gpucloud_pricing.payment import BadProfileError, hours_per_month

HINT = "docs/projects.md shows a project file; `gpucloud schema` prints the other fields of a part"

T = TypeVar("T")

_CHECKPOINTS = ("checkpoint_every", "checkpoint_takes")
_OF_SPEC = {*FIELDS, *ALIASES}
_WORK = ("hours", "profile", "lasts", "boot", *_CHECKPOINTS, "failed_attempts", "snapshots")
_NOT_HERE = {
    "name": "the part has one already",
    "budget": "the costs of a project are not limited",
    "egress": f"write a transfer to {INTERNET}",
}


def load_project(file: Path) -> Project:
    """Reads a project: ``parts`` by name, and ``transfers`` between them.

    Raises:
        UsageError: the file cannot be read, or is not valid; with file and line.
    """
    outline = read_outline(file)
    outline.check(
        {
            "parts": (outline.sections, "the parts by name"),
            "transfers": (outline.entries, "a list of {from, to, size}"),
        },
        HINT,
    )
    if not outline.sections.get("parts"):
        raise _error(f"{file}:1: parts are missing")
    parts = [_part(name, section) for name, section in outline.sections["parts"].items()]
    names = [part.name for part in parts]
    transfers = [_transfer(entry, names) for entry in outline.entries.get("transfers", ())]
    try:
        return Project(parts=parts, transfers=transfers)
    except UsageError as error:
        raise _error(f"{file}:{outline.lines['parts']}: {error.message}") from None


def _part(name: str, section: SpecFile) -> Part:
    if not re.fullmatch(NAME, name) or name == INTERNET:
        raise _error(f"{section.source}:{section.line}: {shown(name)} is not a name of a part")
    for key, line in section.lines.items():
        if key in _NOT_HERE:
            raise _error(f"{section.source}:{line}: {key} is not allowed here: {_NOT_HERE[key]}")
        if key not in _OF_SPEC and key not in _WORK:
            near = nearest(key, (*FIELDS, *_WORK))
            raise _error(f"{section.source}:{line}: unknown field {shown(key)}{near}")
    boxes = {key: value for key, value in section.fields.items() if key in _OF_SPEC}
    spec = spec_in(SpecFile(source=section.source, line=section.line, fields=boxes, lines=section.lines))
    if not spec.wants_gpu:
        raise _error(f"{section.source}:{section.line}: {name}: gpu is missing, such as `gpu: A100:8`")
    workload = _workload(name, section)
    lasts = _read(section, "lasts", read.time, None)
    if lasts is not None and "profile" not in section.fields:
        raise _error(f"{_where(section, 'lasts')}: only what has a profile lasts")
    return Part(
        name=name,
        spec=spec,
        workload=workload,
        monthly="profile" in section.fields,
        lasts=lasts,
    )


def _workload(name: str, section: SpecFile) -> Workload:
    """The work of a part: its hours or its profile, and what else is billed."""
    hours, profile = (_text(section, key) for key in ("hours", "profile"))
    if (hours is None) == (profile is None):
        problem = (
            "hours or profile is missing" if hours is None else "hours and profile contradict each other"
        )
        raise _error(f"{section.source}:{section.line}: {name}: {problem}")
    try:
        return Workload(
            hours=_hours(section, hours, profile),
            failed_attempts=_count(section, "failed_attempts"),
            snapshot_gib=math.ceil(_read(section, "snapshots", read.size, "0")),
            boot=_read(section, "boot", read.minutes, "5m"),
            checkpoint_every=_read(section, "checkpoint_every", read.time, None),
            checkpoint_takes=_read(section, "checkpoint_takes", read.time, "1m"),
        )
    except BadProfileError as error:
        raise _error(f"{_where(section, 'profile')}: {error}") from None


def _hours(section: SpecFile, hours: str | None, profile: str | None) -> Decimal:
    """The hours of a part, or those of its profile in a month.

    Raises:
        BadProfileError: the profile cannot be read.
        UsageError: the hours cannot, or are none.
    """
    if hours is None:
        return hours_per_month(profile or "")
    number = read.hours(_where(section, "hours"), hours)
    if not number.is_finite() or number < Decimal("0.01"):
        raise _error(f"{_where(section, 'hours')}: {hours} is not allowed; allowed: 0.01 or more")
    return number


def _transfer(entry: SpecFile, names: list[str]) -> Transfer:
    fields = ("from", "to", "size")
    for key, line in entry.lines.items():
        if key not in fields:
            raise _error(f"{entry.source}:{line}: unknown field {shown(key)}{nearest(key, fields)}")
    texts = {key: _text(entry, key) for key in fields}
    missing = [key for key, text in texts.items() if text is None]
    if missing:
        raise _error(f"{entry.source}:{entry.line}: {' and '.join(missing)} missing: {{from, to, size}}")
    transfer = Transfer(
        origin=texts["from"] or "",
        target=texts["to"] or "",
        gib=read.size(_where(entry, "size"), texts["size"] or ""),
    )
    problem = problem_of(transfer, names)
    if problem is not None:
        raise _error(f"{entry.source}:{entry.line}: {problem}")
    return transfer


def _count(section: SpecFile, key: str) -> int:
    text = _text(section, key) or "0"
    if not re.fullmatch(r"[0-9]|1[0-9]|20", text):
        raise _error(f"{_where(section, key)}: {shown(text)} is not allowed; allowed: 0 to 20")
    return int(text)


@overload
def _read(section: SpecFile, key: str, parse: Callable[[str, str], T], default: str) -> T: ...
@overload
def _read(section: SpecFile, key: str, parse: Callable[[str, str], T], default: None) -> T | None: ...
def _read(section: SpecFile, key: str, parse: Callable[[str, str], T], default: str | None) -> T | None:
    """A value as it is parsed; ``default``, if it is not given."""
    text = _text(section, key) or default
    return None if text is None else parse(_where(section, key), text)


def _text(section: SpecFile, key: str) -> str | None:
    """A single value.

    Raises:
        UsageError: it is a list or a mapping.
    """
    value = section.fields.get(key)
    if value is not None and not isinstance(value, str):
        raise _error(f"{_where(section, key)}: {shown(value)} is not a single value")
    return value


def _where(section: SpecFile, key: str) -> str:
    return f"{section.source}:{section.lines.get(key, section.line)}: {key}"


def _error(message: str) -> UsageError:
    return UsageError(message, hint=HINT)
