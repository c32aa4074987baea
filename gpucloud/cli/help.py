"""The help of a command: what it does, two examples, its common options first; the rest on request.

``--help`` leaves out most flags of the spec and names them in one line; ``--help-all`` shows them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from gpucloud.cli.app import HELP_ALL
from gpucloud.cli.examples import examples_of
from gpucloud.spec.flags import PANELS

COMMON, OWN, FOLDED, EVERYWHERE = "Common options", "Options", "More options", "Options of every command"
SWITCHES = ("--json", "--sandbox", "--verbose", "--no-color", "--help")
OF_MARKET = ("--gpu", "--spot", "--cloud", "--region", "--max-price", "--file")
OF_BOX = ("--name", "--ttl", "--nodes", "--disk", "--image", "--setup", "--idle")
BUYING = ("plan", "launch", "run")
"""The commands for which the flags of the box are common too."""

MOST_NAME = 30
"""How many characters the column of names has at most."""

Rows = list[tuple[str, str]]


def write_help(parameters: Sequence[Any], ctx: Any, formatter: Any, *, whole: bool) -> None:
    """Writes arguments, options and examples of a command.

    Args:
        parameters: the parameters of the command.
        ctx: its context.
        formatter: receives the sections.
        whole: whether to show the spec's flags that are not common, under the headings of the spec.
    """
    path = ctx.command_path.split()[1:]
    common = OF_MARKET + (OF_BOX if path[-1] in BUYING else ())
    sections: dict[str, Rows] = {title: [] for title in ("Arguments", COMMON)}
    folded: list[str] = []
    for parameter in sorted(parameters, key=lambda each: _place(each, common)):
        row = parameter.get_help_record(ctx)
        if row is None:
            continue
        title = _section(parameter, common)
        if title in PANELS and not whole:
            folded.append(parameter.opts[0])
        else:
            sections.setdefault(title, []).append(row)
    write_examples(ctx.command, formatter)
    sections |= {title: sections.pop(title, []) for title in (OWN, EVERYWHERE)}
    if folded or whole:
        sections[EVERYWHERE].append((HELP_ALL, "Show all options and exit."))
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                _write_rows(rows, formatter)
    if folded:
        with formatter.section(f"{FOLDED} ({ctx.command_path} {HELP_ALL})"):
            _write_rows([("", " ".join(folded))], formatter)


def _write_rows(rows: Rows, formatter: Any) -> None:
    """Writes names and what they are, in two columns. No name is broken at its hyphens, as click does."""
    column = min(max(len(name) for name, _ in rows), MOST_NAME)
    indent = " " * (column + 4 if column else 2)
    for term, text in rows:
        lines = wrap(text, max(formatter.width - len(indent), 20), break_on_hyphens=False) or [""]
        first = f"  {term:<{column}}  " if column else indent
        if len(term) > column:
            formatter.write(f"  {term}\n")
            first = indent
        formatter.write("\n".join((first + lines[0], *(indent + line for line in lines[1:]))).rstrip() + "\n")


def write_examples(command: Any, formatter: Any) -> None:
    """Writes the examples as they can be copied: unwrapped."""
    with formatter.section("Examples"):
        for example in examples_of(command):
            formatter.write(f"  {example}\n")


def _section(parameter: Any, common: Sequence[str]) -> str:
    """The heading under which a parameter is shown."""
    if parameter.param_type_name == "argument":
        return "Arguments"
    names = set(parameter.opts)
    if names & set(SWITCHES):
        return EVERYWHERE
    panel = getattr(parameter, "rich_help_panel", None) or OWN
    return COMMON if panel in PANELS and names & set(common) else panel


def _place(parameter: Any, common: Sequence[str]) -> int:
    """The place of a common option among them, which is that of the table; others keep their order."""
    return next(_places(parameter, common), len(common))


def _places(parameter: Any, common: Sequence[str]) -> Iterator[int]:
    return (common.index(name) for name in parameter.opts if name in common)
