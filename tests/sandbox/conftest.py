from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpucloud.sandbox.client import Endpoint
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox, make_group


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
