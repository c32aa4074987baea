"""The reference besides the commands: spec, JSON documents, errors, events, metrics, library, open facts."""

from __future__ import annotations

import csv
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import gpucloud
from docs.site.commands import command_of
from docs.site.markdown import cell, escaped, head, table
from gpucloud.cli.documents import DOCUMENTS
from gpucloud.cli.json_schema import schema_of
from gpucloud.cli.output import schema_name
from gpucloud.journal import events
from gpucloud.journal.facts import NO_FACTS
from gpucloud.monitor.families import OF_GUARD, OF_JOURNAL, Family
from gpucloud.spec.declarations import FIELDS
from gpucloud.spec.flags import PANELS, Flag
from gpucloud.spec.schema import json_schema

ROOT = Path(__file__).parents[2]
SOURCES = ("gpucloud", "pricing", "providers", "sandbox", "templates")
MARK = "UNVERIFIED"
MARKED = {".csv", ".md", ".py", ".sh", ".toml"}
"""The kinds of files that may hold the mark."""


def spec() -> str:
    """The fields of a spec, by the headings of the help."""
    introduction = """
    A spec says what a box is to be. Every field is optional.

    A file (`-f box.yaml`), flags and `gpucloud.Spec` have the same fields. `gpucloud schema` prints the JSON
    Schema, with which an editor completes a file.
    """
    lines = head("The spec", introduction)
    properties = json_schema()["properties"]
    for panel in PANELS:
        lines += [f"## {panel}", ""]
        for name, field in FIELDS.items():
            if field.flag.panel == panel:
                lines += [f"### {name}", "", escaped(field.description), ""]
                lines += [f"- flag: {_code(_flags(name, field.flag))}"]
                lines += [f"- in a file: {_type(properties[name])}"]
                examples = _examples(properties[name])
                lines += [f"- for example: {_code(examples)}", ""] if examples else [""]
    return "\n".join(lines)


def _flags(name: str, flag: Flag) -> list[str]:
    switches = [f"--{each.replace('_', '-')}" for each in flag.switches]
    return [*flag.names_for(name), *switches]


def _code(values: list[Any]) -> str:
    return ", ".join(f"`{each}`" for each in values)


def _examples(schema: Mapping[str, Any]) -> list[Any]:
    others = [each for form in schema.get("anyOf", []) for each in _examples(form)]
    return [*schema.get("examples", []), *others]


def documents() -> str:
    """All JSON documents with the fields of their objects."""
    introduction = """
    With `--json` a command prints one document; a command that follows something prints one per line.

    Amounts of money are decimal strings with a currency, times are in UTC. `v1` never changes its meaning.

    `gpucloud schema NAME` prints the JSON Schema of a document. The site has it at `schemas/NAME.json`.
    """
    lines = head("JSON documents", introduction)
    for name in DOCUMENTS:
        schema = schema_of(name)
        command = "every command that fails" if name == "error" else _command_link(name)
        lines += [f"## {schema_name(name)}", ""]
        lines += [f"Printed by {command}. JSON Schema: [{name}.json](../schemas/{name}.json).", ""]
        for form in schema.get("anyOf", [schema]):
            lines += _object(form)
    lines += [
        "## Objects in documents",
        "",
        "Objects that several documents have, or that are in a list.",
        "",
    ]
    for name, schema in sorted(_shared().items()):
        lines += [f"### {name}", "", *_object(schema)]
    return "\n".join(lines)


def schemas() -> dict[str, str]:
    """The JSON Schema of each document, by its name."""
    return {name: json.dumps(schema_of(name), indent=2) + "\n" for name in DOCUMENTS}


def _command_link(name: str) -> str:
    command = command_of(name)
    return f"[gpucloud {command}](commands/{command}.md)"


def _shared() -> dict[str, dict[str, Any]]:
    """The objects in documents. Where one name has two forms, the fields of both."""
    found: dict[str, dict[str, Any]] = {}
    for name in DOCUMENTS:
        for each, schema in schema_of(name)["$defs"].items():
            known = found.setdefault(each, {**schema, "properties": {}})
            known["properties"] = {**known["properties"], **schema["properties"]}
    return found


def _object(schema: Mapping[str, Any]) -> list[str]:
    required = set(schema["required"])
    rows = [
        (f"`{name}`", _type(each) + ("" if name in required else ", may be missing"), _means(each))
        for name, each in schema["properties"].items()
    ]
    return [escaped(schema["description"]), "", *table(("field", "type", "means"), rows)]


def _means(schema: Mapping[str, Any]) -> str:
    return cell(schema.get("description", ""))


def _type(schema: Mapping[str, Any]) -> str:  # noqa: PLR0911  (one per kind of schema)
    """A JSON Schema in words."""
    match schema:
        case {"const": value}:
            return f"`{value}`"
        case {"enum": values}:
            return _code(values)
        case {"$ref": ref}:
            name = str(ref).rpartition("/")[2]
            return f"[{name}](documents.md#{name.lower()})"
        case {"anyOf": forms}:
            return " or ".join(dict.fromkeys(_type(form) for form in forms))
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": each} if each is not False:
            return f"object of {_type(each)}"
        case {"type": [*kinds]}:
            return " or ".join(map(str, kinds))
        case {"type": kind}:
            return str(kind)
        case _:
            return "anything"


def errors() -> str:
    """Every documented code of every call, by cloud."""
    introduction = """
    Every documented code of every call that gpucloud makes, from `docs/error-codes.csv`.

    [Errors](../errors.md) says what the classes are, and what follows from them.
    """
    lines = head("Error codes", introduction)
    with (ROOT / "docs" / "error-codes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ("code", "status", "class", "scope", "next", "calls")
    for cloud in dict.fromkeys(row["cloud"] for row in rows):
        own = [row for row in rows if row["cloud"] == cloud]
        lines += [f"## {cloud}", "", *table(columns, [_error(row) for row in own])]
    return "\n".join(lines)


def _error(row: Mapping[str, str]) -> list[str]:
    calls = _code(row["calls"].split("|"))
    return [f"`{row['code']}`", row["status"], f"`{row['class']}`", row["scope"], f"`{row['next']}`", calls]


def events_page() -> str:
    """Every event of the journal, with the fields of its payload."""
    introduction = f"""
    Each event is a row of the table `events`. Payloads are of version {events.VERSION}.

    [The journal](../journal.md) says when which event is written.
    """
    lines = head("Events of the journal", introduction)
    for kind in _event_types():
        rows = [
            (f"`{each.name}`", f"`{str(each.type).replace('|', 'or')}`", _default(each))
            for each in fields(kind)
        ]
        text = escaped(inspect.getdoc(kind) or "").splitlines()
        lines += [f"## {kind.type}", "", *text, "", *table(("field", "type", "default"), rows)]
    return "\n".join(lines)


def _event_types() -> Iterator[type[events.JournalEvent]]:
    for _, each in inspect.getmembers(events, inspect.isclass):
        if issubclass(each, events.JournalEvent) and "type" in vars(each):
            yield each


def _default(field: Any) -> str:
    if field.default is MISSING:
        return ""
    return "empty" if field.default in (NO_FACTS, ()) else f"`{field.default}`"


def metrics() -> str:
    """Every metric that gpucloud writes."""
    introduction = """
    [Metrics, alerts, messages and traces](../monitoring.md) says how Prometheus gets them.
    """
    lines = head("Metrics", introduction)
    for title, families in (("Of a box, by its guard", OF_GUARD), ("Of the journal", OF_JOURNAL)):
        rows = [_metric(each) for each in families.values()]
        lines += [f"## {title}", "", *table(("metric", "kind", "labels", "means"), rows)]
    return "\n".join(lines)


def _metric(family: Family) -> list[str]:
    return [f"`{family.name}`", family.kind, _code(list(family.labels)), cell(family.help)]


def library() -> str:
    """The public names of ``gpucloud``, from their docstrings."""
    introduction = """
    The names in `gpucloud.__all__`, which are what is stable.

    [gpucloud from Python](../library.md) shows how they are used.
    """
    lines = head("The library", introduction)
    parts: dict[str, list[str]] = {"The client": ["Client"], "Errors": [], "Values": []}
    for name in sorted({*gpucloud.__all__} - {"Client", "__version__"}):
        value = getattr(gpucloud, name)
        error = inspect.isclass(value) and issubclass(value, BaseException)
        parts["Errors" if error else "Values"].append(name)
    for title, names in parts.items():
        lines += [f"## {title}", ""]
        for name in names:
            directive = [f".. autoclass:: gpucloud.{name}", "   :members:"]
            lines += [f"### {name}", "", "```{eval-rst}", *directive, "```", ""]
    return "\n".join(lines)


def unverified() -> str:
    """What no source proves, file by file."""
    introduction = """
    These places are marked `UNVERIFIED`: no document, SDK or recorded answer proves them. Most are texts and
    codes of refusals in the sandbox.

    [What was never run on a real cloud](../explanation/never-run.md) says what that means.
    """
    lines = head("Facts without proof", introduction)
    folders: dict[str, list[tuple[str, str, str]]] = {}
    for path, found in _marked():
        folder = "/".join(path.parts[:2])
        row = (f"`{path.relative_to(folder)}`", str(len(found)), cell(found[0]))
        folders.setdefault(folder, []).append(row)
    for folder, rows in folders.items():
        lines += [f"## {folder}", "", *table(("file", "marked", "the first"), rows)]
    return "\n".join(lines)


def _marked() -> Iterator[tuple[Path, list[str]]]:
    """The files with marked lines, and these lines."""
    for source in SOURCES:
        for file in sorted((ROOT / source).rglob("*")):
            if file.suffix in MARKED and file.is_file():
                lines = file.read_text(encoding="utf-8").splitlines()
                found = [_remark(line) for line in lines if MARK in line]
                if found:
                    yield file.relative_to(ROOT), found


def _remark(line: str) -> str:
    """A line of code or data, without what is only syntax."""
    return re.sub(r"\s+", " ", line.strip().strip('"#').strip())[:160]
