"""Writes the pages and pictures that follow from the code, before Sphinx reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.site import pictures, reference
from docs.site.commands import command_pages
from docs.site.index import llms

FIRST_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=docs/index.html">
<title>gpucloud</title>
<a href="docs/index.html">gpucloud</a>
"""

EXTRA: Mapping[str, Callable[[], str]] = {"index.html": lambda: FIRST_PAGE, "llms.txt": lambda: llms(made())}
"""Files of the site beside its pages."""


def made() -> dict[str, str]:
    """Every file that is made, by its path in ``docs/``."""
    return {
        "reference/spec.md": reference.spec(),
        "reference/documents.md": reference.documents(),
        "reference/error-codes.md": reference.errors(),
        "reference/events.md": reference.events_page(),
        "reference/metrics.md": reference.metrics(),
        "reference/library.md": reference.library(),
        "reference/unverified.md": reference.unverified(),
        "reference/architecture.md": pictures.page(),
        **{f"reference/commands/{name}": text for name, text in command_pages().items()},
        **{f"pictures/{name}": text for name, text in pictures.drawn().items()},
        **{f"schemas/{name}.json": text for name, text in reference.schemas().items()},
    }


def write(folder: Path) -> None:
    """Writes what has changed: Sphinx reads a page again when its file is newer."""
    for name, text in made().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
