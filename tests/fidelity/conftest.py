"""Programs and SDKs that nobody here wrote, pointed at the sandbox; ``make fidelity`` installs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fidelity.operations import read
from tests.shell import Shell, cli, endpoint

__all__ = ["cli", "endpoint"]


@pytest.fixture
def foreign(request: pytest.FixtureRequest, cli: Shell) -> Iterator[Shell]:
    """A shell for one client, its module's ``CLIENT``: what it calls must be in the table of operations."""
    yield cli
    listed = {(row.service, row.operation) for row in read() if row.client == request.module.CLIENT}
    called = {(each["service"], each["action"]) for each in cli.sandbox.calls() if each["cloud"] == "aws"}
    assert called, "the client called nothing"
    assert called <= listed, f"not in operations.csv: {sorted(called - listed)}"
