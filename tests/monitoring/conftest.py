"""The fixtures of somebody at a shell, and Debian's programs for monitoring."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.shell import cli, endpoint, own_clouds

__all__ = ["cli", "endpoint", "own_clouds", "program"]


@pytest.fixture
def program() -> Callable[[str], str]:
    """Finds a program; a test that needs one which is not installed is skipped."""

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed")
        return found

    return find
