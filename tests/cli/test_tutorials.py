"""The tutorials: who follows one word for word, in a fresh home, sees what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest

from gpucloud_sandbox.client import find
from tests.forked import ForkServer
from tests.journals import Postgres
from tests.pages import ROOT
from tests.tutorials import WORK, Ran, Step, differences, environment, needs_server, run, steps
from tests.waiting import until

FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted({*FOLDER.glob("*.md")} - {FOLDER / "index.md"})
ASKS = "echo $?"


@pytest.fixture
def sandbox(page: Path, tmp_path: Path, forks: ForkServer) -> Iterator[Path]:
    """The folder of the page's sandbox, which runs already: that saves its start. The page ends it."""
    shared = "GPUCLOUD_SANDBOX_HOME=$PWD/clouds" in page.read_text(encoding="utf-8")
    folder = tmp_path / (f"{WORK}/clouds" if shared else ".local/state/gpucloud/sandbox")
    process = forks.start_sandbox(folder, everywhere=True)
    until(lambda: find(folder), "the sandbox")
    yield folder
    if left := find(folder):
        left.client.stop(force=True)
    process.wait(30)


@pytest.fixture
def server(page: Path, request: pytest.FixtureRequest) -> Postgres | None:
    """The PostgreSQL server of the tests, as a tutorial about teams expects it."""
    if not needs_server(page.read_text(encoding="utf-8")):
        return None
    return cast("Postgres", request.getfixturevalue("team_server"))


@pytest.mark.timeout(900)  # twenty commands in a row, each a process of its own
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_of_a_tutorial_prints_what_the_page_shows(
    page: Path, tmp_path: Path, sandbox: Path, server: Postgres | None
) -> None:
    text = page.read_text(encoding="utf-8")
    shown = steps(text)
    with TemporaryDirectory(prefix="run-") as runtime:
        ran = run(text, tmp_path, environment(Path(runtime), server))
    assert len(ran) == len(shown), ran[-1]
    wrong = [
        "\n".join([f"$ {step.command}", *lines])
        for step, each in zip(shown, ran, strict=True)
        if (lines := differences(step, each))
    ]
    assert not wrong, "\n\n".join(wrong)
    asked = [*(step.command == ASKS for step in shown[1:]), False]
    failed = [
        step.command for step, each, ask in zip(shown, ran, asked, strict=True) if each.code and not ask
    ]
    assert not failed, "the exit code of a command that fails is shown"
    assert find(sandbox) is None, "the page ends what it has started, which needs that nothing is billed"


def test_a_line_that_is_missing_or_too_much_is_a_difference() -> None:
    step = Step("gpucloud list", ("NAME  LEFT", "first  59m57s", "…", "the end"))
    assert differences(step, Ran(("NAME  LEFT", "first  1h2m", "more", "the end"), 0)) == []
    for lines in (("NAME  LEFT", "second  1h2m", "the end"), ("NAME  LEFT", "first  1h2m")):
        assert differences(step, Ran(lines, 0))
    assert differences(step, Ran(("NAME  LEFT", "first  1h2m", "the end", "more"), 0)) == ["+ more"]
