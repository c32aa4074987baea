"""The fixtures of somebody at a shell."""

from tests.shell import cli, endpoint, own_clouds

__all__ = ["cli", "endpoint", "own_clouds"]
