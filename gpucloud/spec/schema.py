"""The JSON Schema of a spec file, from the declarations of its fields."""

from __future__ import annotations

from typing import Any

from gpucloud.spec.declarations import FIELDS, Field, plain
from gpucloud.spec.model import Spec


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a spec file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpucloud spec",
        "description": (Spec.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": {name: _property(each) for name, each in FIELDS.items()},
        "additionalProperties": False,
    }


def _property(each: Field) -> dict[str, Any]:
    about = {"description": each.description, "default": plain(each.value(each.default))}
    if each.default is None:
        return {"anyOf": [each.schema, {"type": "null"}], **about}
    return {**each.schema, **about}
