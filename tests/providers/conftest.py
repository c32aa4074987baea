"""AWS for the tests of its provider: the sandbox, moto, or a server that answers exactly what a test says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpucloud_aws.provider import AwsProvider
from gpucloud_sandbox.client import Endpoint, SandboxClient
from tests.forked import ForkServer
from tests.profiles import own_profile
from tests.providers.aws_wire import Wire, answer
from tests.providers.azure_sandbox import azure, azure_sandbox, azure_wire, certificate
from tests.shell import forked_sandbox

__all__ = ["azure", "azure_sandbox", "azure_wire", "certificate"]


@pytest.fixture
def aws_environment(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that open nothing."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def _no_placement_groups(_: object) -> str:
    return answer("DescribePlacementGroups", "<placementGroupSet/>")


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    from moto.ec2.models import amis
    from moto.ec2.responses import EC2Response
    from moto.server import ThreadedMotoServer

    setattr(EC2Response, "describe_placement_groups", _no_placement_groups)  # noqa: B010  (moto knows none)
    few, load = (
        slice(10),
        amis.load_resource,
    )  # of the hundreds that each region would make anew at every reset
    setattr(amis, "AMIS", amis.AMIS[few])  # noqa: B010
    setattr(amis, "load_resource", lambda name: load(name)[few])  # noqa: B010
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(moto_url: str, aws_environment: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty account in moto."""
    from botocore.awsrequest import AWSRequest
    from botocore.httpsession import URLLib3Session

    with_reset = AWSRequest("POST", f"{moto_url}/moto-api/reset").prepare()
    assert URLLib3Session().send(with_reset).status_code == 200
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    return moto_url


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Endpoint]:
    """A sandbox process for each file of tests: one that is idle for half an hour ends itself."""
    with forked_sandbox(tmp_path_factory.mktemp("sandbox") / "sandbox", forks) as started:
        yield started


@pytest.fixture
def sandbox(endpoint: Endpoint, aws_environment: None, monkeypatch: pytest.MonkeyPatch) -> SandboxClient:
    """An empty account in the sandbox."""
    endpoint.client.reset()
    endpoint.client.calls(clear=True)
    for name, value in endpoint.environ.items():
        monkeypatch.setenv(name, value)
    return endpoint.client


@pytest.fixture(params=["sandbox", "moto"])
def aws(request: pytest.FixtureRequest) -> AwsProvider:
    """The provider on an empty account: in the sandbox, and in moto, which somebody else wrote."""
    request.getfixturevalue(request.param)
    return AwsProvider(own_profile())


@pytest.fixture
def wire(aws_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """A server that answers what the test says and remembers what it was sent."""
    with Wire() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        yield server
