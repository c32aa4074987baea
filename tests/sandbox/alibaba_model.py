"""What the vendor's model says that a call takes: every member, with a value of its type."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from gpucloud_sandbox.alibaba.validation import NEWER, parameters_of

Utils: Any = import_module("alibabacloud_tea_openapi.utils").Utils

PACKAGES = {"ecs": "alibabacloud_ecs20140526", "vpc": "alibabacloud_vpc20160428"}
"""The SDK's packages with request models; the other products are called without any."""

_SAMPLES = {
    "Integer": "1",
    "Long": "1",
    "Boolean": "true",
    "Float": "1.0",
    "Double": "1.0",
}


def path_of(flat: str) -> str:
    """A flat name without the numbers of lists: ``Tag.1.Key`` is ``Tag.Key``."""
    return re.sub(r"\.\d+(?=\.|$)", "", flat)


@cache
def samples(product: str, action: str) -> Mapping[str, str]:
    """A value for every member of a call, by flat name: those of the SDK's model and of the metadata."""
    return {**_of_metadata(parameters_of(product, action) or {}), **_of_sdk(product, action)}


def needed(product: str, action: str) -> Mapping[str, str]:
    """A value for every member that a call must have, by flat name."""
    required = [name for name, about in (parameters_of(product, action) or {}).items() if about[1]]
    values = samples(product, action)
    return {
        flat: value
        for flat, value in values.items()
        if path_of(flat) in required or path_of(flat).split(".")[0] in required
    }


def _of_metadata(parameters: Mapping[str, list[Any]], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, (kind, _, *members) in parameters.items():
        if members:
            found |= _of_metadata(members[0], f"{before}{name}.1.")
        elif kind == "RepeatList":
            found[f"{before}{name}.1"] = "x"
        elif not any(other.startswith(f"{name}.") for other in parameters) and kind not in {
            "Struct",
            "Array",
        }:
            found[f"{before}{name}"] = _SAMPLES.get(kind, "x")
    return found


def _of_sdk(product: str, action: str) -> dict[str, str]:
    if product not in PACKAGES or (product, action) in NEWER:
        return {}
    kind = getattr(import_module(f"{PACKAGES[product]}.models"), f"{action}Request")
    flat: dict[str, Any] = Utils.query(_sample(kind).to_map())
    return {name: str(value) for name, value in flat.items()}


def _sample(kind: Any) -> Any:
    """A value of an annotated type; of a model one with all its members."""
    if typing.get_origin(kind) is list:
        return [_sample(typing.get_args(kind)[0])]
    if typing.get_origin(kind) is dict:
        return {"x": "x"}
    if hasattr(kind, "to_map"):
        module = import_module(kind.__module__)
        hints = typing.get_type_hints(kind.__init__, vars(module))
        return kind(**{name: _sample(each) for name, each in hints.items() if name != "return"})
    return {str: "x", int: 1, bool: True, float: 1.0}.get(kind, "x")
