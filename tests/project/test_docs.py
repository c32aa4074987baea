"""The documentation says what the code does."""

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
