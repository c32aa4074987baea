"""What sizes support (``sizes.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files


@cache
def _accelerated() -> Sequence[str]:
    text = files("gpucloud_azure").joinpath("sizes.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["accelerated_networking"])


def accelerates_networking(size: str) -> bool:
    """Whether a size supports accelerated networking."""
    return any(fnmatchcase(size, pattern) for pattern in _accelerated())
