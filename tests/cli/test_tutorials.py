"""The tutorials: who follows one word for word, in a fresh home, sees what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import pytest

from gpucloud.sandbox.client import find
from tests.forked import ForkServer
from tests.pages import ROOT
from tests.tutorials import Ran, Step, differences, environment, run, steps
from tests.waiting import until

FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted({*FOLDER.glob("*.md")} - {FOLDER / "index.md"})
ASKS = "echo $?"
SANDBOX = ".local/state/gpucloud/sandbox"


@pytest.fixture
def home(tmp_path: Path, forks: ForkServer) -> Iterator[Path]:
    """A fresh home, whose sandbox runs already, which saves its start; the page ends it."""
    folder = tmp_path / SANDBOX
    process = forks.start_sandbox(folder, everywhere=True)
    until(lambda: find(folder), "the sandbox")
    yield tmp_path
    if left := find(folder):
        left.client.stop(force=True)
    process.wait(30)


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names the PostgreSQL server of the tests, as a tutorial about teams expects it."""
    if request.getfixturevalue("page").stem == "team":
        url = urlsplit(request.getfixturevalue("team_server").url)
        monkeypatch.setenv("PGHOST", str(url.hostname))
        monkeypatch.setenv("PGPORT", str(url.port))
        monkeypatch.setenv("PGUSER", str(url.username))
        monkeypatch.setenv("PGDATABASE", url.path.removeprefix("/"))


@pytest.mark.timeout(900)  # twenty commands in a row, each a process of its own
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_of_a_tutorial_prints_what_the_page_shows(page: Path, home: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = steps(text)
    with TemporaryDirectory(prefix="run-") as runtime:
        ran = run(text, home, environment(Path(runtime)))
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
    assert find(home / SANDBOX) is None, (
        "the page ends what it has started, which needs that nothing is billed"
    )


def test_a_line_that_is_missing_or_too_much_is_a_difference() -> None:
    step = Step("gpucloud list", ("NAME  LEFT", "first  59m57s", "…", "the end"))
    assert differences(step, Ran(("NAME  LEFT", "first  1h2m", "more", "the end"), 0)) == []
    for lines in (("NAME  LEFT", "second  1h2m", "the end"), ("NAME  LEFT", "first  1h2m")):
        assert differences(step, Ran(lines, 0))
    assert differences(step, Ran(("NAME  LEFT", "first  1h2m", "the end", "more"), 0)) == ["+ more"]
