"""What the program prints for programs, held against the JSON Schemas that it prints too."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from gpucloud.cli.json_schema import schema_of

ENDS = 3
"""How many rows to check at each end of a long list: a thousand offers take seconds."""


def check_documents(out: str) -> None:
    """Fails if stdout has a document, or lines of them, that the schema it names does not allow."""
    for document in _documents(out):
        schema = document["schema"]
        wrong = [_text(error) for error in _validator(schema).iter_errors(_shortened(document))]
        assert not wrong, "\n".join([f"not as the JSON Schema of {schema} says:", *wrong])


def _documents(out: str) -> list[dict[str, Any]]:
    if not out.startswith("{"):
        return []
    try:
        read = [json.loads(out)]
    except ValueError:
        read = [_line(line) for line in out.splitlines()]
    objects = [each for each in read if isinstance(each, dict)]
    return [each for each in objects if str(each.get("schema")).startswith("gpucloud.")]


def _line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None  # an interrupted command may end within a line


@cache
def _validator(schema: str) -> Any:
    name, _, version = schema.removeprefix("gpucloud.").partition("/")
    assert version == "v1", schema
    document = schema_of(name)
    kind = jsonschema.Draft202012Validator
    kind.check_schema(document)
    return kind(document, format_checker=kind.FORMAT_CHECKER)


def _text(error: Any) -> str:
    return f"{error.json_path}: {error.message[:500]}"


def _shortened(value: Any) -> Any:
    match value:
        case dict():
            return {name: _shortened(each) for name, each in value.items()}
        case list() if len(value) > 2 * ENDS:
            return [_shortened(each) for each in (*value[:ENDS], *value[-ENDS:])]
        case list():
            return [_shortened(each) for each in value]
        case _:
            return value
