"""The volumes and data sets of a spec: what a box has at a path of its own.

Each is text in a spec (``data:/data``, ``s3://bucket/set:/data``), parsed by the rules of
:mod:`gpucloud.spec.fields`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from gpucloud.spec.fields import listed, name, scalar, shown, store_url


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume of a spec: the first of these names that can be used, and where a box mounts it."""

    names: tuple[str, ...]
    path: str


_MOUNT = re.compile(r"([^:]+):(/[A-Za-z0-9._/-]{1,200})")
_VOLUME_FORM = "NAME:/PATH, such as data:/data"
_OF_THE_SYSTEM = re.compile(r"/(bin|boot|dev|etc|home|lib|opt|proc|root|run|sbin|sys|tmp|usr|var)(/|$)")


def volumes(value: object) -> tuple[str, ...]:
    """Reads ``NAME:/PATH``, ``NAME,OTHER:/PATH``, or a mapping with ``name`` and ``path``."""
    each_given: list[object] = [value] if isinstance(value, Mapping) else listed(value)
    mounts = [mount(_volume_text(given)) for given in each_given]
    paths = [each.path for each in mounts]
    names = [name for each in mounts for name in each.names]
    for what, words in (("path", paths), ("volume", names)):
        twice = [word for word in words if words.count(word) > 1]
        if twice:
            raise ValueError(f"the {what} {twice[0]} is there twice")
    return tuple(f"{','.join(each.names)}:{each.path}" for each in mounts)


def mount(text: str) -> Mount:
    """One volume of :func:`volumes`.

    Raises:
        ValueError: it is none.
    """
    found = _MOUNT.fullmatch(text.strip())
    if found is None or ".." in found[2].split("/"):
        raise ValueError(f"{shown(text)} is not a volume; allowed: {_VOLUME_FORM}")
    names = tuple(name(each) for each in found[1].split(","))
    return Mount(names, _own_path(found[2], _OF_THE_SYSTEM, _VOLUME_FORM))


def _own_path(path: str, taken: re.Pattern[str], form: str) -> str:
    """A path of a box that is the user's own, without slashes at its end.

    Raises:
        ValueError: the system, or a box as gpucloud makes it, has it.
    """
    path = path.rstrip("/")
    if not path or taken.match(path):
        raise ValueError(f"{shown(path or '/')} is a path of the system; allowed: {form}")
    return path


def _volume_text(value: object) -> str:
    if not isinstance(value, Mapping):
        return scalar(value, _VOLUME_FORM)
    fields = dict(cast("Mapping[str, object]", value))
    if set(fields) != {"name", "path"}:
        raise ValueError(f"{shown(fields)} is not a volume; allowed: a name and a path")
    names = ",".join(scalar(each, "a name") for each in listed(fields["name"]))
    return f"{names}:{scalar(fields['path'], 'a path')}"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of a spec: a folder in an object store, where a box has it, and whether on local disks."""

    url: str
    path: str
    scratch: bool


_DATA = re.compile(r"([a-z][a-z0-9]{1,9}://[^:]+):(/[A-Za-z0-9._/-]{1,200})(:scratch)?")
_DATA_FORM = "URL:/PATH or URL:/PATH:scratch, such as s3://bucket/set:/data"
_TAKEN = re.compile(rf"{_OF_THE_SYSTEM.pattern}|/(lib32|lib64|scratch|snap|workspace)(/|$)")


def data(value: object) -> tuple[str, ...]:
    """Reads ``URL:/PATH``, ``URL:/PATH:scratch``, or a mapping with ``from``, ``path`` and ``cache``."""
    given: list[object] = [value] if isinstance(value, Mapping) else listed(value)
    sets = [data_set(_data_text(each)) for each in given]
    return tuple(f"{each.url}:{each.path}{':scratch' if each.scratch else ''}" for each in sets)


def data_set(text: str) -> DataSet:
    """One data set of :func:`data`.

    Raises:
        ValueError: it is none.
    """
    found = _DATA.fullmatch(text.strip())
    if found is None or {"", ".", ".."} & set(found[2].rstrip("/").split("/")[1:]):
        raise ValueError(f"{shown(text)} is not a data set; allowed: {_DATA_FORM}")
    return DataSet(store_url(found[1]), _own_path(found[2], _TAKEN, _DATA_FORM), found[3] is not None)


def _data_text(value: object) -> str:
    if not isinstance(value, Mapping):
        return scalar(value, _DATA_FORM)
    fields = dict(cast("Mapping[str, object]", value))
    if not {"from", "path"} <= set(fields) <= {"from", "path", "cache"}:
        raise ValueError(f"{shown(fields)} is not a data set; allowed: from, path, and cache if wanted")
    cache = fields.get("cache")
    if cache not in {None, "scratch"}:
        raise ValueError(f"cache: {shown(cache)} is not allowed; allowed: scratch")
    text = f"{scalar(fields['from'], _DATA_FORM)}:{scalar(fields['path'], _DATA_FORM)}"
    return f"{text}:scratch" if cache else text


def nested(one: str, other: str) -> bool:
    """Whether two absolute paths are the same, or one is inside the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
