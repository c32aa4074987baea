"""The fixtures of somebody at a shell."""

from tests.shell import cli, endpoint, forks, own_clouds, run

__all__ = ["cli", "endpoint", "forks", "own_clouds", "run"]
