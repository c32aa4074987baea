"""The command line as data, for shell completion: commands, options, arguments, and what each takes.

Completion reads the table instead of the commands: importing those takes too long for a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from gpucloud.cli.app import COMMANDS, build, load
from gpucloud.cli.documents import DOCUMENTS
from gpucloud.spec.declarations import FIELDS
from gpucloud.spec.fields import PURCHASES
from gpucloud_templates.software import PYTHONS, releases

FILE = "file"
OPTIONS: Mapping[str, str] = {
    "--gpu": "gpu",
    "--cloud": "cloud",
    "--policy": "cloud",
    "--region": "region",
    "--residency": "region",
    "--zone": "zone",
    "--instance-type": "type",
    "--type": "type",
    "--box": "box-id",
    "--run-id": "run",
    "--sync": FILE,
    "--ssh-key": FILE,
    "--fetch": "nothing",
    "--volume": "volume",
    "--of": "disk",
}
"""What an option takes (``gpucloud.cli.completion_values.KINDS``), where its type does not tell."""

ARGUMENTS: Mapping[tuple[str, str], str | Sequence[str]] = {
    ("equivalents", "sizes"): "gpu",
    ("exec", "command"): FILE,
    ("run", "command"): FILE,
    ("ssh", "command"): FILE,
    ("sync", "source"): "box-path",
    ("sync", "destination"): "box-path",
    ("runs cancel", "run"): "open-run",
    ("runs logs", "run"): "recorded-run",
    ("runs show", "run"): "recorded-run",
    ("sandbox control", "cloud"): "cloud",
    ("sandbox control", "name"): "nothing",
    ("schema", "document"): [*DOCUMENTS],
    ("volume create", "name"): "nothing",
    ("snapshot create", "name"): "nothing",
    ("snapshot show", "name"): "snapshot",
    ("snapshot restore", "name"): "snapshot",
    ("snapshot delete", "name"): "snapshot",
    ("volume show", "name"): "volume",
    ("volume delete", "name"): "volume",
}
"""The same for the arguments of commands; one that is called ``name`` or ``names`` is a box."""


def command_line() -> dict[str, Any]:
    """The table: ``{"commands": {name: COMMAND}, "options": {key: OPTION}}``.

    COMMAND is ``{"help", "options": [keys], "arguments": [KIND], "repeats"}`` or ``{"help", "commands"}``;
    OPTION is ``{"names", "help", "takes": KIND}``, without ``takes`` for a switch. KIND is the name of a kind
    of value, or a list of the allowed words; ``also`` is a kind of value that is allowed beside those.
    """
    table = _Table()
    root = build()
    commands = {name: table.command(name, load(name), entry.help) for name, entry in COMMANDS.items()}
    return {"root": table.options_of("", root), "commands": commands, "options": table.options}


def written(table: Mapping[str, Any]) -> str:
    """The table as JSON with one command or option on a line, so that changes can be read."""
    lines: list[str] = []
    for part, value in table.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            lines.append(f"{json.dumps(part)}: {{\n{rows}\n}}")
        else:
            lines.append(f"{json.dumps(part)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


class _Table:
    def __init__(self) -> None:
        self.options: dict[str, dict[str, Any]] = {}

    def command(self, name: str, command: TyperCommand | TyperGroup, text: str) -> dict[str, Any]:
        if isinstance(command, TyperGroup):
            subs = {
                sub: self.command(f"{name} {sub}", each, each.get_short_help_str(100))  # type: ignore[arg-type]
                for sub, each in command.commands.items()
            }
            return {"help": text, "options": self.options_of(name, command), "commands": subs}
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        return {
            "help": text,
            "options": self.options_of(name, command),
            "arguments": [_argument(name, each) for each in arguments],
            "repeats": any(each.nargs == -1 for each in arguments),
        }

    def options_of(self, command: str, owner: TyperCommand | TyperGroup) -> list[str]:
        """The keys of a command's options; an option that is another elsewhere has the command in its key."""
        from typer._click.core import Context

        keys: list[str] = []
        for each in owner.get_params(Context(owner)):
            if each.param_type_name == "argument" or getattr(each, "hidden", False):
                continue
            row = _option(command, each)
            key = max(each.opts, key=len)
            if self.options.setdefault(key, row) != row:
                key = f"{key} of {command}"
                self.options[key] = row
            keys.append(key)
        return keys


def _option(command: str, option: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "names": sorted({*option.opts, *option.secondary_opts}, key=len, reverse=True),
        "help": (option.help or "").partition(". ")[0].rstrip("."),
    }
    if not (option.is_flag or option.count):
        row["takes"] = _kind_of_option(command, option)
    if "--image" in option.opts:  # own ones beside the recipes
        row["also"] = "image"
    return row


def _kind_of_option(command: str, option: Any) -> str | Sequence[str]:
    name = max(option.opts, key=len)
    found = _kind_of_type(option)
    if name == "--image":
        return _images()
    if name == "--purchase":  # the sandbox has the words of the market
        return ["on_demand", "spot"] if command.startswith("sandbox ") else list(PURCHASES)
    if name == "--near" and command == "volume create":  # of a spec, it is a bucket
        return "gpu"
    if name == "--run-id" and command == "spend":
        return "any-run"
    field = FIELDS.get(option.name)
    if field is not None and "enum" in field.schema:
        return list(field.schema["enum"])
    return found or OPTIONS.get(name, "nothing")


def _argument(command: str, argument: Any) -> str | Sequence[str]:
    found = _kind_of_type(argument) or ARGUMENTS.get((command, argument.name))
    return found or ("box" if argument.name in {"name", "names"} else "nothing")


def _kind_of_type(parameter: Any) -> str | Sequence[str] | None:
    choices = getattr(parameter.type, "choices", None)
    if choices:
        return [str(getattr(each, "value", each)) for each in choices]
    return FILE if type(parameter.type).__name__ == "TyperPath" else None


def _images() -> list[str]:
    """The recipes of ``--image``: with a version, and without one for the newest that works."""
    recipes = [release.recipe for release in releases()]
    return [*dict.fromkeys(recipe.partition("-")[0] for recipe in recipes), *recipes, *PYTHONS]


COMMAND_LINE = Path(__file__).parents[1] / "gpucloud" / "cli" / "command_line.json"
