"""A page for each command, which is also its man page: from the parameters that the command itself has."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typer._click.core import Context
from typer.core import TyperCommand, TyperGroup

from docs.site.markdown import escaped, table
from gpucloud.cli.app import COMMANDS, Entry, build, load
from gpucloud.cli.documents import DOCUMENTS
from gpucloud.cli.examples import examples_of
from gpucloud.cli.help import SWITCHES
from gpucloud.cli.output import schema_name
from gpucloud.spec.flags import PANELS

OF_OTHERS: Mapping[str, str] = {"project": "cost", "snapshots": "snapshot", "volumes": "volume"}
"""The commands of documents that are not called as they are."""

RELAYS = (
    "Exits with the exit code of the remote command; with 125 if gpucloud itself failed, or something is"
    " still owed."
)
EXITS = "0: done. Any other: see the table of exit codes in [gpucloud](index.md#exit-codes)."

EXIT_CODES: Mapping[str, str] = {
    "0": "done",
    "1": "unexpected; or a box was lost, or was taken over by another gpucloud",
    "2": "bad usage or spec, or a wrong clock of this machine; nothing was spent",
    "3": "no offer matches",
    "4": "credentials, permission or account",
    "5": "no capacity anywhere",
    "6": "quota",
    "7": "price or budget limit",
    "8": "something may still be billed; what, and the command that removes it, is printed",
    "125": "`run` and `exec`: gpucloud itself failed, or something is still owed",
    "129, 130, 143": "ended by SIGHUP, SIGINT, SIGTERM, with everything taken down",
}


def man_pages() -> Iterator[tuple[str, str, str]]:
    """Each man page: the page that it is made of, its name, and its line."""
    yield "index", "gpucloud", "find, cost, launch and delete GPU boxes on AWS, Azure and Alibaba Cloud"
    for name, entry in COMMANDS.items():
        yield name, f"gpucloud-{name}", entry.help.rstrip(".")


def command_pages() -> dict[str, str]:
    """The pages of all commands, and the one of the program, by the names of their files."""
    pages = {f"{name}.md": _page(name, entry) for name, entry in COMMANDS.items()}
    return {"index.md": _index(), **pages}


def documents_of(command: str) -> list[str]:
    """The names of the documents that a command, or one of its sub-commands, answers with."""
    return [name for name in DOCUMENTS if name != "error" and command_of(name) == command]


def command_of(document: str) -> str:
    """The command that answers with a document."""
    starts = [each for each in COMMANDS if f"{document}-".startswith(f"{each}-")]
    return OF_OTHERS.get(document) or max(starts, key=len)


def _index() -> str:
    lines = ["# gpucloud", "", *_text(build().help), "", "## Synopsis", ""]
    lines += ["```text", "gpucloud [OPTIONS] COMMAND [ARGUMENTS]", "```", ""]
    for panel in dict.fromkeys(entry.panel for entry in COMMANDS.values()):
        rows = [
            (f"[{name}]({name}.md)", entry.help) for name, entry in COMMANDS.items() if entry.panel == panel
        ]
        lines += [f"## {panel}", "", *table(("command", "does"), rows)]
    lines += ["## Options of every command", "", *_switches(), "## Exit codes", ""]
    lines += table(("code", "means"), EXIT_CODES.items())
    lines += ["[Errors](../../errors.md) has the classes of errors, and what gpucloud does after each.", ""]
    lines += ["```{toctree}", ":hidden:", "", *COMMANDS, "```"]
    return "\n".join(lines) + "\n"


def _page(name: str, entry: Entry) -> str:
    command = load(name)
    lines = [f"# gpucloud {name}", ""]
    if isinstance(command, TyperGroup):
        lines += [entry.help, ""]
        for sub, each in command.commands.items():
            lines += [f"## gpucloud {name} {sub}", "", *_command(f"{name} {sub}", each, level=3)]
    else:
        lines += _command(name, command, level=2)
    lines += ["## JSON", "", _json(name), "", "## Exit codes", "", RELAYS if entry.relays else EXITS, ""]
    lines += ["The options `--json`, `--sandbox`, `--verbose`, `--no-color` and `--help` are"]
    lines += ["[those of every command](index.md#options-of-every-command)."]
    return "\n".join(lines) + "\n"


def _json(name: str) -> str:
    links = [
        f"[{schema_name(each)}](../documents.md#{schema_name(each).replace('.', '').replace('/', '')})"
        for each in documents_of(name)
    ]
    return f"`--json` prints {', '.join(links)}." if links else "`--json` changes errors alone."


def _command(path: str, command: Any, *, level: int) -> list[str]:
    context = Context(command, info_name=f"gpucloud {path}")
    usage = " ".join([f"gpucloud {path}", *command.collect_usage_pieces(context)])
    lines = [*_text(command.help), "", f"{'#' * level} Synopsis", "", "```text", usage, "```", ""]
    lines += [f"{'#' * level} Examples", "", "```sh"]
    lines += [*examples_of(command), "```", ""]
    for title, rows in _sections(command, context).items():
        lines += [f"{'#' * level} {title}", "", *_definitions(rows)]
    return lines


def _sections(command: TyperCommand, context: Any) -> dict[str, list[tuple[str, str]]]:
    """Arguments and options under the headings that ``--help-all`` has, without those of every command."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for each in command.get_params(context):
        row = each.get_help_record(context)
        if row is None or set(each.opts) & {*SWITCHES}:
            continue
        panel = getattr(each, "rich_help_panel", None)
        argument = each.param_type_name == "argument"
        title = "Arguments" if argument else panel if panel in PANELS else "Options"
        sections.setdefault(str(title), []).append(row)
    return {title: rows for title, rows in sections.items() if rows}


def _switches() -> list[str]:
    context = Context(build(), info_name="gpucloud")
    rows = [each.get_help_record(context) for each in build().get_params(context)]
    return _definitions([row for row in rows if row])


def _definitions(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [line for term, text in rows for line in (f"`{term}`", f": {escaped(text)}", "")]


def _text(text: str | None) -> list[str]:
    """A docstring as Markdown; what follows a form feed, or stands after ``\\b``, is for the terminal."""
    paragraphs = inspect.cleandoc(text or "").partition("\b")[0].strip().split("\n\n")
    return "\n\n".join(escaped(" ".join(each.split())) for each in paragraphs).split("\n")
