"""What sizes support (``sizes.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(files("gpucloud_azure").joinpath("sizes.toml").read_text(encoding="utf-8"))


def accelerates_networking(size: str) -> bool:
    """Whether a size supports accelerated networking."""
    return any(fnmatchcase(size, pattern) for pattern in _table()["accelerated_networking"])


def max_network_interfaces(size: str) -> int:
    """How many network interfaces a machine of a size has at most."""
    known: Mapping[str, int] = _table()["network_interfaces"]
    return next((count for pattern, count in known.items() if fnmatchcase(size, pattern)), 1)
