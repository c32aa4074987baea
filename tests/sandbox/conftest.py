from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpucloud.sandbox.client import Endpoint
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox, make_group


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    """Every session of boto3 reads EC2's model anew; that would be most of the time of these tests."""
    import botocore.session

    read = botocore.session.create_loader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(read))
        yield


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
