"""The fixtures of somebody at a shell."""

from tests.shell import cli, endpoint, own_clouds, run

__all__ = ["cli", "endpoint", "own_clouds", "run"]
