"""How the tests are run: the build machine's second look at one that failed, and what is left for later."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = "def test_good(): pass\n"
FLAKY = """
from pathlib import Path
def test_flaky():
    seen = Path("seen").exists()
    Path("seen").touch()
    assert seen
"""
BROKEN = """
from pathlib import Path
def test_broken():
    with Path("runs").open("a") as runs:
        runs.write("x")
    raise AssertionError
"""
UNREADABLE = "def test_("


def suite(folder: Path, *files: str) -> tuple[int, list[str]]:
    """Exit code and lines of a run of a project with these files of tests."""
    for number, text in enumerate(files):
        (folder / f"test_{number}.py").write_text(text)
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:hypothesispytest"]
    command = [sys.executable, str(ROOT / ".ci" / "suite.py"), *tests]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    return ran.returncode, ran.stdout.strip().splitlines()


def test_a_test_that_passes_by_itself_is_named_as_flaky_and_fails_nothing(tmp_path: Path) -> None:
    code, lines = suite(tmp_path, GOOD, FLAKY)
    assert (code, lines[-3:]) == (0, ["FLAKY", "test_1.py::test_flaky", "2 passed, 0 failed"])


def test_a_test_that_fails_again_fails_the_run_whatever_else_was_flaky(tmp_path: Path) -> None:
    code, lines = suite(tmp_path, GOOD, FLAKY, BROKEN)
    assert (code, lines[-3:]) == (1, ["FLAKY", "test_1.py::test_flaky", "2 passed, 1 failed"])
    assert (tmp_path / "runs").read_text() == "xx"


@pytest.mark.parametrize(
    ("text", "code", "said"), [(GOOD, 0, "1 passed in "), (UNREADABLE, 2, "1 error in ")]
)
def test_where_all_pass_or_some_never_ran_the_last_line_is_pytests_own(
    tmp_path: Path, text: str, code: int, said: str
) -> None:
    ended, lines = suite(tmp_path, text)
    assert ended == code
    assert said in lines[-1]
    assert "FLAKY" not in lines


def test_what_is_left_to_make_thorough_is_in_its_file() -> None:
    files = tomllib.loads((ROOT / "tests" / "thorough.toml").read_text())
    for name, tests in files.items():
        text = (ROOT / "tests" / name).read_text()
        assert set(tests) <= set(re.findall(r"^def (test_\w+)", text, re.MULTILINE)), name
