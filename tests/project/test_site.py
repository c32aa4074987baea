"""The pages of the site that are made from the code: nothing of the code is missing on them."""

import json
import re
from functools import cache

import jsonschema  # type: ignore[import-untyped]

import gpucloud
from docs.command_line import COMMAND_LINE
from docs.site.commands import EXIT_CODES, documents_of
from docs.site.index import SECTIONS, llms, pages_of
from docs.site.pages import made
from gpucloud.cli.app import COMMANDS
from gpucloud.cli.documents import DOCUMENTS
from gpucloud.monitor.families import OF_GUARD, OF_JOURNAL
from gpucloud.spec.declarations import FIELDS
from tests.pages import ROOT

pages = cache(made)


def test_every_command_has_a_page_with_all_its_options_and_documents() -> None:
    for name in COMMANDS:
        page = pages()[f"reference/commands/{name}.md"]
        terms = re.findall(r"^`(-.+)`$", page, re.MULTILINE)
        shown = {option for term in terms for option in re.findall(r"--[a-z-]+", term)}
        assert shown == _options(name), name
        for document in documents_of(name):
            assert f"gpucloud.{document}/v1" in page


def _options(command: str) -> set[str]:
    """The options of a command and of its sub-commands, as shell completion knows them."""
    table = json.loads(COMMAND_LINE.read_text(encoding="utf-8"))
    row = table["commands"][command]
    keys = [*row["options"], *(key for each in row.get("commands", {}).values() for key in each["options"])]
    found = {name for key in keys for name in table["options"][key]["names"] if name.startswith("--")}
    return found - {"--json", "--sandbox", "--verbose", "--no-color", "--help"}


def test_every_field_of_a_spec_is_on_its_page() -> None:
    assert re.findall(r"^### (\w+)$", pages()["reference/spec.md"], re.MULTILINE) != []
    assert set(re.findall(r"^### (\w+)$", pages()["reference/spec.md"], re.MULTILINE)) == set(FIELDS)


def test_every_document_has_a_json_schema_that_a_validator_takes() -> None:
    files = {name: text for name, text in pages().items() if name.startswith("schemas/")}
    assert {*files} == {f"schemas/{name}.json" for name in DOCUMENTS}
    for text in files.values():
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_every_document_has_a_section_and_a_command() -> None:
    shown = re.findall(r"^## gpucloud\.(.+)/v1$", pages()["reference/documents.md"], re.MULTILINE)
    assert shown == list(DOCUMENTS)
    assert {*DOCUMENTS} - {"error"} == {each for name in COMMANDS for each in documents_of(name)}


def test_the_events_are_those_that_the_page_of_the_journal_explains() -> None:
    journal = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
    table = journal.partition("| event | written |")[2].partition("\n\n")[0]
    explained = {
        name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in row.split("`")[1::2]
    }
    assert set(re.findall(r"^## (\w+)$", pages()["reference/events.md"], re.MULTILINE)) == explained


def test_every_metric_and_every_public_name_has_its_row() -> None:
    shown = set(re.findall(r"^\| `(\w+)` \|", pages()["reference/metrics.md"], re.MULTILINE))
    assert shown == {*OF_GUARD, *OF_JOURNAL}
    public = set(re.findall(r"autoclass:: gpucloud\.(\w+)", pages()["reference/library.md"]))
    assert public == {name for name in gpucloud.__all__ if not name.startswith("__")}


def test_the_exit_codes_are_those_of_the_page_of_errors() -> None:
    errors = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| ([0-9][0-9, ]*) \|", errors, re.MULTILINE)) == set(EXIT_CODES)


def test_every_page_is_in_a_table_of_contents_and_in_the_list_for_programs() -> None:
    folder = ROOT / "docs"
    made_pages = {folder / name for name in pages() if name.endswith(".md")}
    written = {each for each in folder.rglob("*.md") if "locale" not in each.parts}
    commands = {folder / f"reference/commands/{name}.md" for name in COMMANDS}
    listed = {page for name in SECTIONS for page in pages_of(folder / name / "index.md")}
    indexes = {folder / "index.md", *(folder / name / "index.md" for name in SECTIONS)}
    assert {each for each in listed if folder in each.parents} == (made_pages | written) - commands - indexes
    text = llms(made())
    assert all(f"({page.relative_to(ROOT).with_suffix('.html')})" in text for page in listed)
