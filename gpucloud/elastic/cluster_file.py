"""Reads a cluster from ``cluster.yaml``; errors name the file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from gpucloud.costs.amounts import time
from gpucloud.elastic.cluster import (
    IDLE,
    LEASE,
    NOT_HERE,
    Cluster,
    NodeClass,
    problems_of_class,
    problems_of_lease,
    problems_of_name,
)
from gpucloud.errors import UsageError
from gpucloud.spec.declarations import FIELDS
from gpucloud.spec.fields import nearest, shown
from gpucloud.spec.file import spec_in
from gpucloud.spec.yaml import Outline, SpecFile, read_outline

HINT = "such as: {cluster: lab, classes: {t4: {gpu: T4, max: 16}}, lease: 1h, idle: 10m}"


def load_cluster(file: Path) -> Cluster:
    """Reads a cluster: ``cluster``, ``classes`` by name, ``lease`` and ``idle``.

    Raises:
        UsageError: the file cannot be read, or is not valid; with file and line.
    """
    outline = read_outline(file)
    value = (outline.texts, "a single value")
    classes_by_name = (outline.sections, "the classes by name")
    outline.check({"cluster": value, "classes": classes_by_name, "lease": value, "idle": value}, HINT)
    for name in ("cluster", "classes"):
        if name not in outline.lines:
            raise _error(f"{file}:1: {name} is missing")
    name, lease = outline.texts["cluster"], _time(outline, "lease", LEASE)
    _refuse(f"{file}:{outline.lines['cluster']}", problems_of_name(name, "cluster"))
    _refuse(f"{file}:{outline.lines.get('lease', 1)}", problems_of_lease(lease))
    classes = {key: _node_class(name, key, section) for key, section in outline.sections["classes"].items()}
    _refuse(f"{file}:{outline.lines['classes']}", () if classes else ["classes are missing"])
    idle, source = _time(outline, "idle", IDLE), str(file.resolve())
    return Cluster(name=name, classes=classes, lease=lease, idle=idle, source=source)


def _node_class(cluster: str, name: str, section: SpecFile) -> NodeClass:
    for key, line in section.lines.items():
        if key in NOT_HERE:
            raise _error(f"{section.source}:{line}: {key} is not allowed here: {NOT_HERE[key]}")
        if key not in FIELDS and key != "max":
            near = nearest(key, (*FIELDS, "max"))
            raise _error(f"{section.source}:{line}: unknown field {shown(key)}{near}")
    box = {key: value for key, value in section.fields.items() if key != "max"}
    found = NodeClass(spec=spec_in(replace(section, fields=box)), max=_most(name, section))
    where = f"{section.source}:{section.line}: {name}"
    _refuse(where, problems_of_class(cluster, name, found))
    return found


def _most(name: str, section: SpecFile) -> int:
    text = section.fields.get("max")
    if text is None:
        raise _error(f"{section.source}:{section.line}: {name}: max is missing: how many nodes there may be")
    if not isinstance(text, str) or not re.fullmatch("[0-9]{1,9}", text):
        raise _error(f"{section.source}:{section.lines['max']}: max: {shown(text)} is not a whole number")
    return int(text)


def _time(outline: Outline, key: str, default: timedelta) -> timedelta:
    if key not in outline.texts:
        return default
    return time(f"{outline.source}:{outline.lines[key]}: {key}", outline.texts[key])


def _refuse(where: str, problems: Iterable[str]) -> None:
    """Refuses what has problems.

    Raises:
        UsageError: the first one, with the place.
    """
    for problem in problems:
        raise _error(f"{where}: {problem}")


def _error(message: str) -> UsageError:
    return UsageError(message, hint=HINT)
