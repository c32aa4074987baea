"""The JSON Schema of each document, from the ``TypedDict`` that its writer is checked against."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gpucloud.cli.documents import DOCUMENTS
from gpucloud.cli.output import schema_name

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {6,}.+)*)", re.MULTILINE)


def schema_of(name: str) -> Schema:
    """The JSON Schema of a document: ``offers`` for ``gpucloud.offers/v1``.

    Raises:
        KeyError: there is no such document.
    """
    kind = DOCUMENTS[name]
    forms = get_args(kind) if get_origin(kind) is types.UnionType else (kind,)
    shared: dict[str, Schema] = {}
    objects = [_object(form, shared) for form in forms]
    for each in objects:
        each["properties"] = {"schema": {"const": schema_name(name)}, **each["properties"]}
        each["required"] = ["schema", *each["required"]]
    return {
        "$schema": DIALECT,
        "$id": f"urn:gpucloud:{name}:v1",
        "title": schema_name(name),
        **(objects[0] if len(objects) == 1 else {"anyOf": objects}),
        "$defs": dict(sorted(shared.items())),
    }


def _object(kind: Any, shared: dict[str, Schema]) -> Schema:
    """The schema of a ``TypedDict``; those of the objects in it are added to ``shared``."""
    fields = get_type_hints(kind, include_extras=True)
    told = dict(_descriptions(kind))
    return {
        "description": _summary(kind),
        "type": "object",
        "properties": {
            name: {**_schema(hint, shared), **({"description": told[name]} if name in told else {})}
            for name, hint in fields.items()
        },
        "required": [name for name, hint in fields.items() if get_origin(hint) is not NotRequired],
        "additionalProperties": False,
    }


def _schema(hint: Any, shared: dict[str, Schema]) -> Schema:  # noqa: PLR0911  (one per kind of type)
    """The schema of a field's type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if is_typeddict(hint):
        name = hint.__name__.removesuffix("Document")
        if name not in shared:
            shared[name] = {}  # it may hold itself
            shared[name] = _object(hint, shared)
        return {"$ref": f"#/$defs/{name}"}
    if origin is NotRequired:
        return _schema(arguments[0], shared)
    if origin is Annotated:
        return {**_schema(arguments[0], shared), **dict(hint.__metadata__)}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], shared)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], shared)}
    if origin in {Union, types.UnionType}:
        kinds = [each for each in arguments if each is not int or float not in arguments]
        schemas = [_schema(each, shared) for each in kinds]
        if all(list(each) == ["type"] for each in schemas):
            return {"type": names[0] if len(names := [each["type"] for each in schemas]) == 1 else names}
        return {"anyOf": schemas}
    return {"type": _SCALARS[hint]}


def _summary(kind: Any) -> str:
    """The docstring without its list of attributes."""
    text = (inspect.getdoc(kind) or "").partition("Attributes:")[0]
    return " ".join(text.split()).replace("``", "`")


def _descriptions(kind: Any) -> Iterator[tuple[str, str]]:
    """The attributes in the docstrings of a ``TypedDict`` and its bases.

    Such a class does not know its bases. They are the classes of its module that have no other fields.
    """
    fields = kind.__annotations__.items()
    around = [each for each in vars(sys.modules[kind.__module__]).values() if is_typeddict(each)]
    for each in (*(each for each in around if each.__annotations__.items() < fields), kind):
        attributes = (inspect.getdoc(each) or "").partition("Attributes:")[2]
        for name, text in _ATTRIBUTE.findall(attributes):
            yield name, " ".join(text.split()).replace("``", "`")
