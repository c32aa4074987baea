"""The fixtures of somebody at a shell, and the lab."""

from collections.abc import Iterator

import pytest

from tests.chaos.lab import Lab, a_lab
from tests.forked import ForkServer
from tests.shell import cli, endpoint

__all__ = ["cli", "endpoint", "lab"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Lab]:
    """Three clouds without insides."""
    with a_lab(tmp_path_factory.mktemp("lab"), forks) as made:
        yield made
