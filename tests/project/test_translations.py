"""What is wrong with a translation is named; ``make translations`` holds the catalogues to it.

That is every week and before a release: a commit may leave a translation behind its page.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from docs.site.search import terms
from docs.site.translations import (
    WORDS,
    idle,
    own_faults,
    pages,
    read_catalogue,
    read_words,
    stale,
    wrong_words,
)
from tests.pages import ROOT

words = cache(lambda: read_words(WORDS.read_text(encoding="utf-8")))
CHINESE = [ROOT / "README.zh-CN.md", ROOT / "gpucloud" / "dashboard" / "static" / "words.json"]
PAGE = """
msgid ""
msgstr "Language: zh_CN\\n"

msgid "The **guard** ends it: see `down`, or [here](ends.md)."
msgstr "**守护程序**会结束它：见 `down`，或[这里](ends.md)。"
"""


@pytest.mark.parametrize("file", CHINESE, ids=lambda file: file.name)
def test_what_is_written_in_chinese_elsewhere_has_the_same_words(file: Path) -> None:
    assert list(wrong_words(file.read_text(encoding="utf-8"), words())) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("`down`，", "`up`，"), "lacks `down`"),
        (("(ends.md)。", "(end.md)。"), "adds ](end.md)"),
        (("**守护程序**会", "守护程序会"), "lacks **"),
        (("**守护程序**会", "**守护程序。**会"), "lacks a space after **守护程序。**"),
        (("守护程序", "守卫"), "says 守卫: the word is 守护程序"),
        (("守护程序", "卫士"), "has another word than 守护程序 for guard"),
        (('msgid "The', '#, fuzzy\nmsgid "The'), "is marked fuzzy: look at it, and remove the mark"),
        (('msgid "The', '#~ msgid "The'), "is on no page any more: remove it"),
        (('msgstr "**守护程序**会结束它：见 `down`，或[这里](ends.md)。"', 'msgstr ""'), "is not translated"),
    ],
)
def test_a_translation_that_differs_is_named(change: tuple[str, str], fault: str) -> None:
    assert own_faults({"page": read_catalogue(PAGE)}, words()) == []
    changed = PAGE.replace(*change)
    assert changed != PAGE
    found = own_faults({"page": read_catalogue(changed)}, words())
    assert any(each.endswith(fault) for each in found), found


def test_a_text_that_has_changed_on_its_page_is_named() -> None:
    now = read_catalogue(re.sub("ends it", "deletes it", PAGE))
    before = {"page": read_catalogue(PAGE), "gone": []}
    problems = stale(before, {"page": now, "new": now})
    assert [each.partition(" “")[0] for each in problems if "“" in each] == ["page: lacks", "page:"]
    assert "gone: has a catalogue, and is no page of the site" in problems
    assert "new: has no catalogue, and is not in untranslated.toml" in problems


def test_a_pattern_that_no_page_needs_any_more_is_named() -> None:
    patterns = ["docs/dev/*", "docs/dev/launch", "docs/runs"]
    found = idle(patterns, {"docs/dev/testing", "docs/dev/launch"})
    assert found == ["untranslated.toml: no page needs “docs/runs”; remove it"]
    assert {"README", "docs/runs", "docs/reference/commands/run"} <= pages()


def test_the_translations_are_checked_every_week_and_before_a_release() -> None:
    weekly = (ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8")
    assert "- run: make translations\n" in weekly
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    released = re.search(r"^release:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert released is not None
    assert " translations " in released[1]


def test_a_line_that_is_not_of_the_format_is_refused() -> None:
    with pytest.raises(ValueError, match="not a line of a catalogue: msgstr 守护程序"):
        read_catalogue('msgid "guard"\nmsgstr 守护程序\n')


def test_the_search_takes_chinese_by_pairs_and_other_words_whole() -> None:
    assert terms("用 gpucloud2 恢复检查点，max_price") == [
        "用",
        "gpucloud2",
        "恢复",
        "复检",
        "检查",
        "查点",
        "max_price",
    ]
