"""Programs and SDKs that nobody here wrote, pointed at the sandbox; ``make fidelity`` installs them."""

from __future__ import annotations

from tests.shell import cli, endpoint, forks

__all__ = ["cli", "endpoint", "forks"]
