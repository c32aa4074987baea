"""docs/library.md: its examples run, in order, and give what the page shows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.pages import ROOT, examples, shape

PAGE = ROOT / "docs" / "library.md"


@pytest.fixture
def own_sandbox(endpoint: Endpoint) -> Endpoint:
    """The user's own sandbox is this test's."""
    home = Path(os.environ["GPUCLOUD_HOME"])
    home.mkdir(mode=0o700, parents=True)
    (home / "sandbox").symlink_to(endpoint.folder)
    endpoint.client.reset()
    return endpoint


def test_the_examples_of_the_page_give_what_it_shows(
    own_sandbox: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """One program, block after block; figures, ids and seconds may differ, words may not."""
    program: dict[str, Any] = {}
    for number, (code, shown) in enumerate(examples(PAGE), start=1):
        exec(compile(code, f"{PAGE.name}, example {number}", "exec"), program)  # noqa: S102
        appeared = capsys.readouterr().out.splitlines()
        assert [shape(line) for line in appeared] == [shape(line) for line in shown], code
    assert own_sandbox.client.status()["billing"] == []
