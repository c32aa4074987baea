"""Whose certificates OSS's SDK trusts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucloud.clouds.profile import Profile
from gpucloud_alibaba.oss import Oss
from tests.providers.azure_wire import Wire


@pytest.fixture
def server(certificate: Path) -> Iterator[Wire]:
    """One with a certificate of its own, which has no object."""
    with Wire(certificate) as started:
        yield started


def asked(server: Wire, **variables: str) -> str:
    """What is said of a bucket on a server; keys are read from nowhere."""
    keys = SimpleNamespace(access_key_id="k", access_key_secret="s", security_token=None)
    credential = SimpleNamespace(get_credential=lambda: keys)
    with pytest.raises(Exception) as refused:  # noqa: PT011  (the SDK's own, which the test reads)
        Oss(Profile(variables), credential, "cn-hangzhou", server.url).ask("ListObjectsV2", bucket="bucket")
    return str(refused.value)


def test_an_authority_of_the_profile_is_trusted_and_no_other(server: Wire, certificate: Path) -> None:
    assert "CERTIFICATE_VERIFY_FAILED" in asked(server)
    assert not server.sent
    assert "CERTIFICATE" not in asked(server, REQUESTS_CA_BUNDLE=str(certificate))
    assert [each.path for each in server.sent] == ["/bucket/"]
