"""The documentation says what the code does."""

import ast
import re
from pathlib import Path

import pytest

from docs.generate import (
    ERRORS_PAGE,
    FILE_SHOWN,
    PAGES_WITH_FILES,
    TARIFFS_PAGE,
    errors_table,
    renew,
    tariffs_tables,
    with_files,
)
from tests.pages import ROOT

DEV = ROOT / "docs" / "dev"
CODE_SHOWN = re.compile(r"\[`([\w.]+)`\]\((\S+\.py)\)")
"""A link whose text names a function or class, and which leads to its file."""


def test_the_errors_page_shows_the_table_that_the_engine_works_by() -> None:
    page = ERRORS_PAGE.read_text(encoding="utf-8")
    assert page == renew(page, errors_table()), "docs/errors.md is behind the code: run `make docs`"


def test_the_page_of_tariffs_counts_what_the_shipped_ones_are() -> None:
    page = TARIFFS_PAGE.read_text(encoding="utf-8")
    assert page == renew(page, tariffs_tables()), "docs/tariffs.md is behind the data: run `make docs`"


@pytest.mark.parametrize("page", PAGES_WITH_FILES, ids=lambda page: page.stem)
def test_a_page_shows_the_files_of_the_examples_as_they_are(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert FILE_SHOWN.search(text)
    assert text == with_files(text), f"docs/{page.name} is behind docs/examples: run `make docs`"


def test_a_page_without_marks_is_refused_rather_than_left_as_it_is() -> None:
    with pytest.raises(ValueError, match="lacks"):
        renew("# A page\n", "| a table |\n")


def defined(source: str) -> set[str]:
    """The functions and classes of a module, and the methods of its classes as ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def test_the_pages_for_developers_lead_to_functions_that_exist() -> None:
    links = [
        (name, page.parent / file)
        for page in sorted(DEV.glob("*.md"))
        for name, file in CODE_SHOWN.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 20
    lost = [f"{name} in {file}" for name, file in links if name not in defined(file.read_text("utf-8"))]
    assert lost == []


def test_a_method_counts_by_the_name_of_its_class() -> None:
    assert defined("def f(): ...\nclass C:\n    def m(self): ...\n") == {"f", "C", "C.m"}


def test_every_room_is_on_the_page_of_rooms() -> None:
    page = (ROOT / "docs" / "dev" / "rooms.md").read_text(encoding="utf-8")
    rooms = {file.parent.name for file in (ROOT / "gpucloud").glob("*/__init__.py")}
    named = set(re.findall(r"`(\w+)/`", page.partition("## Beside it")[0]))
    assert named - {"gpucloud", "ray", "slurm", "kubernetes", "sqlite", "postgresql"} == rooms
