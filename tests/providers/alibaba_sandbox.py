"""Alibaba Cloud for the tests of its provider: the sandbox, or a server that answers what a test says."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.profiles import own_profile
from tests.providers.alibaba_wire import Wire


@pytest.fixture
def alibaba_environment(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Credentials that open nothing, and no waiting for the metadata of an instance.

    The SDK keeps a session for each host and port for good; here each test has a port of its own.
    """
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "LTAI5tExample")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "not-a-secret")
    monkeypatch.setenv("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true")
    monkeypatch.setenv("ALIBABA_CLOUD_REGION_ID", "cn-hangzhou")
    yield
    core: Any = import_module("darabonba.core").DaraCore
    while core._sessions:
        core._sessions.popitem()[1].close()


@pytest.fixture
def sandbox(endpoint: Endpoint, alibaba_environment: None, monkeypatch: pytest.MonkeyPatch) -> SandboxClient:
    """An empty account in the sandbox."""
    endpoint.client.reset()
    endpoint.client.calls(clear=True)
    for name, value in endpoint.environ.items():
        monkeypatch.setenv(name, value)
    return endpoint.client


@pytest.fixture
def alibaba(sandbox: SandboxClient) -> AlibabaProvider:
    """The provider on an empty account."""
    return AlibabaProvider(own_profile())


@pytest.fixture
def wire(alibaba_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A server that answers what the test says and remembers what it was sent."""
    with Wire() as server:
        monkeypatch.setenv("GPUCLOUD_ALIBABA_ENDPOINT", server.url)
        yield server


__all__ = ["alibaba", "alibaba_environment", "sandbox", "wire"]
