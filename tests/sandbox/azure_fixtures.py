"""Azure in the sandbox as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpucloud_sandbox.azure import AzureSandbox
from gpucloud_sandbox.client import Endpoint
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import HollowBoxes, hollow_sandbox


@pytest.fixture(scope="session")
def running_azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, HollowBoxes]]:
    boxes = HollowBoxes()
    with hollow_sandbox(tmp_path_factory.mktemp("azure"), boxes, AzureSandbox) as endpoint:
        yield endpoint, boxes


@pytest.fixture
def azure(running_azure: tuple[Endpoint, HollowBoxes]) -> Iterator[Azure]:
    """An empty subscription, where everything is done at once."""
    endpoint, boxes = running_azure
    endpoint.client.reset()
    endpoint.client.pace(transition_s=0.0, lag_s=0.0, lag_calls=0, latency_s=0.0)
    lab = Azure(endpoint, boxes)
    yield lab
    lab.close()
