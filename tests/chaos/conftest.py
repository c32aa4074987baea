"""The fixtures of somebody at a shell."""

from tests.shell import cli, endpoint, forks

__all__ = ["cli", "endpoint", "forks"]
