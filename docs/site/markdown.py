"""Markdown from plain text."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence


def head(title: str, introduction: str) -> list[str]:
    """The first lines of a page: its title, and paragraphs in Markdown."""
    return [f"# {title}", "", *inspect.cleandoc(introduction).splitlines(), ""]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of cells in Markdown."""
    lines = [" | ".join(columns), " | ".join(["---"] * len(columns)), *(" | ".join(row) for row in rows)]
    return [*(f"| {line} |" for line in lines), ""]


def escaped(text: str) -> str:
    """Plain text as Markdown: characters mean themselves, and backticks stay code."""
    parts = text.replace("``", "`").split("`")
    parts[::2] = [part.replace("*", r"\*").replace("<", r"\<").replace("_", r"\_") for part in parts[::2]]
    return "`".join(parts)


def cell(text: object) -> str:
    """The same for a cell of a table, which no bar may be in."""
    return escaped(str(text).replace("|", "/"))
