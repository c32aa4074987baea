"""Alibaba Cloud in the sandbox as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpucloud_sandbox.alibaba import AlibabaSandbox
from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.alibaba_lab import Alibaba
from tests.sandbox.running import HollowBoxes, hollow_sandbox


@pytest.fixture(scope="session")
def running_alibaba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, HollowBoxes]]:
    boxes = HollowBoxes()
    with hollow_sandbox(tmp_path_factory.mktemp("alibaba"), boxes, AlibabaSandbox) as endpoint:
        yield endpoint, boxes


@pytest.fixture
def alibaba(running_alibaba: tuple[Endpoint, HollowBoxes]) -> Alibaba:
    """An empty account, where everything is done at once."""
    endpoint, boxes = running_alibaba
    endpoint.client.reset()
    endpoint.client.review(Review.ALL)
    endpoint.client.pace(transition_s=0.0, lag_s=0.0, lag_calls=0, latency_s=0.0)
    return Alibaba(endpoint, boxes)
