"""Presets, from ``presets.toml``: fields of a spec for a kind of work, under the user's own values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

NAMES = ("train", "infer", "render", "science")
"""The tables of the file, for help texts: the file is read only for a spec that names one."""


@cache
def presets() -> Mapping[str, Mapping[str, object]]:
    """The fields of each preset, by its name."""
    import tomllib

    return tomllib.loads(files("gpucloud.spec").joinpath("presets.toml").read_text(encoding="utf-8"))
