"""A team's journal for each test, on the server or pooler that ``--journal`` names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.journals import URL, url_of
from tests.shell import endpoint, own_clouds

__all__ = ["endpoint", "own_clouds"]


@pytest.fixture(autouse=True)
def on_a_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``--journal``, the tests of this folder use a server all the same."""
    if URL not in os.environ:
        monkeypatch.setenv(URL, request.getfixturevalue("team_server").url)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A journal of its own."""
    return url_of(tmp_path)
