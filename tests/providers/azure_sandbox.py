"""Azure for the tests of its provider: the sandbox, or a server that answers exactly what a test says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucloud_azure.provider import AzureProvider
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.profiles import own_profile
from tests.providers.azure_wire import SECRET, SUBSCRIPTION, TENANT, Wire, self_signed


@pytest.fixture
def azure_sandbox(endpoint: Endpoint, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxClient:
    """An empty subscription in the sandbox."""
    endpoint.client.reset()
    endpoint.client.calls(clear=True)
    for name, value in endpoint.environ.items():
        monkeypatch.setenv(name, value)
    return endpoint.client


@pytest.fixture
def azure(azure_sandbox: SandboxClient) -> AzureProvider:
    """The provider on an empty subscription."""
    return AzureProvider(own_profile())


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def azure_wire(certificate: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A server that answers what the test says and remembers what it was sent."""
    with Wire(certificate) as server:
        monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
        monkeypatch.setenv("AZURE_CLIENT_ID", "00000000-0000-0000-0000-000000000002")
        monkeypatch.setenv("AZURE_CLIENT_SECRET", SECRET)
        monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", SUBSCRIPTION)
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
        monkeypatch.setenv("GPUCLOUD_AZURE_ENDPOINT", server.url)
        monkeypatch.setenv("GPUCLOUD_AZURE_PRICES_URL", f"{server.url}/api/retail/prices")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        yield server
