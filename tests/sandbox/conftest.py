"""The clouds of the sandbox, each with an account that is empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.alibaba_fixtures import alibaba, running_alibaba
from tests.sandbox.azure_fixtures import azure, running_azure
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox, make_group

__all__ = ["alibaba", "azure", "running_alibaba", "running_azure"]


@pytest.fixture
def boxes() -> HollowBoxes:
    return HollowBoxes()


@pytest.fixture
def endpoint(tmp_path: Path, boxes: HollowBoxes) -> Iterator[Endpoint]:
    with hollow_sandbox(tmp_path, boxes) as running:
        yield running


@pytest.fixture
def ec2(endpoint: Endpoint) -> Any:
    return client(endpoint)


@pytest.fixture
def group(ec2: Any) -> str:
    return make_group(ec2)
