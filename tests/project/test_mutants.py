"""The guards that mutants take away: each is there, and ``make test`` has a test that is to notice."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.chaos.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


def kept(name: str) -> bool:
    """Whether ``make test`` runs anything of a file of tests, or of one test that is named after ``::``."""
    file, _, test = name.partition("::")
    thorough = tomllib.loads((ROOT / "tests" / "thorough.toml").read_text())
    left = thorough.get(file.removeprefix("tests/"), {"": [""]})
    tests = re.findall(r"^ *def (test_\w+)", (ROOT / file).read_text(), re.MULTILINE)
    return bool(left) and any(left.get(each, [each]) for each in tests if test in {"", each})


def test_every_mutant_takes_away_what_is_there_once() -> None:
    lost = [each.guard for each in MUTANTS if (ROOT / each.file).read_text().count(each.text) != 1]
    assert lost == []


def test_no_guard_loses_its_only_test_to_make_thorough() -> None:
    assert [each.guard for each in MUTANTS if not any(map(kept, each.tests))] == []
