"""A shell with a sandbox for each file of tests."""

from tests.ci.conftest import repository
from tests.shell import cli, endpoint, own_clouds

__all__ = ["cli", "endpoint", "own_clouds", "repository"]
