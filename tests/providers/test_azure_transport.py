"""Azure's transport: whose certificates it trusts, and that it reads them once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import certifi
import pytest
from azure.core.exceptions import ServiceRequestError
from azure.core.rest import HttpRequest

from gpucloud.clouds.abilities import Checkup
from gpucloud.errors import UsageError
from gpucloud_azure.provider import AzureProvider
from gpucloud_azure.transport import ssl_context, transport
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.azure_wire import Wire


@pytest.fixture
def servers(certificate: Path) -> Iterator[list[Wire]]:
    """Two, with one certificate."""
    with ExitStack() as stack:
        yield [stack.enter_context(Wire(certificate)) for _ in range(2)]


def test_the_certificates_are_read_once_for_all_connections(
    servers: list[Wire], certificate: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(certificate.read_bytes())
    context = ssl_context(str(bundle))
    bundle.unlink()
    for server in servers:
        with transport(context, connect_s=5, read_s=5) as sender:
            assert sender.send(HttpRequest("GET", f"{server.url}/anything")).status_code == 404


def test_a_server_of_another_authority_is_not_trusted(servers: list[Wire]) -> None:
    for bundle in (None, certifi.where()):
        with (
            transport(ssl_context(bundle), connect_s=5, read_s=5) as sender,
            pytest.raises(ServiceRequestError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            sender.send(HttpRequest("GET", f"{servers[0].url}/anything"))
    assert not servers[0].sent


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "other"])
def test_a_bundle_without_certificates_is_named(
    azure_wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    with pytest.raises(UsageError, match=str(bundle)) as refused:
        able(AzureProvider(own_profile()), Checkup).identity()
    assert "REQUESTS_CA_BUNDLE" in str(refused.value.hint)
    assert not azure_wire.sent
