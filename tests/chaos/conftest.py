"""The fixtures of somebody at a shell."""

from tests.shell import cli, endpoint

__all__ = ["cli", "endpoint"]
