"""Settings that a caller gives: whose account, through which proxies, with which certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from gpucloud.clouds.cloud import Cloud, Clouds
from gpucloud.clouds.profile import Profile, is_loopback
from gpucloud.resources import Search, Tags
from gpucloud_sandbox.client import Endpoint
from tests.builders import Told, an_order, some_tags
from tests.sandbox.running import running_sandbox


def test_a_setting_that_is_empty_is_not_set() -> None:
    profile = Profile({"AWS_PROFILE": "", "GPUCLOUD_AWS_VPC_ID": "vpc-1"})
    assert profile.get("AWS_PROFILE") is None
    assert profile.get("GPUCLOUD_AWS_VPC_ID") == "vpc-1"
    assert profile.get("AWS_REGION") is None


def test_an_environment_that_changes_later_changes_nothing() -> None:
    environment = {"AWS_PROFILE": "one"}
    profile = Profile(environment)
    environment["AWS_PROFILE"] = "two"
    assert profile.get("AWS_PROFILE") == "one"


def test_no_secret_is_shown() -> None:
    assert "canary" not in repr(Profile({"AWS_SECRET_ACCESS_KEY": "canary"}))


@pytest.mark.parametrize(
    ("variables", "url", "proxies"),
    [
        ({}, "https://ec2.example.org", {}),
        ({"HTTPS_PROXY": "http://p"}, "https://ec2.example.org", {"https": "http://p"}),
        ({"HTTPS_PROXY": "http://p", "https_proxy": "http://q"}, "https://x.org", {"https": "http://q"}),
        ({"https_proxy": "http://p"}, "https://127.0.0.1:7/x", {}),
        ({"https_proxy": "http://p"}, "http://localhost", {}),
        ({"https_proxy": "http://p", "NO_PROXY": "example.org"}, "https://ec2.example.org", {}),
        ({"https_proxy": "http://p", "no_proxy": " .example.org ,x"}, "https://ec2.example.org:443", {}),
        ({"https_proxy": "http://p", "no_proxy": "*"}, "https://ec2.example.org", {}),
        (
            {"https_proxy": "http://p", "no_proxy": "ample.org,,other"},
            "https://example.org",
            {"https": "http://p"},
        ),
        ({"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}, "http://example.org", {}),
    ],
)
def test_proxies_are_those_of_the_profile_and_none_to_this_machine(
    variables: Mapping[str, str], url: str, proxies: Mapping[str, str]
) -> None:
    assert Profile(variables).proxies(url) == proxies


def test_certificate_authorities_are_those_that_requests_would_take() -> None:
    both = {"REQUESTS_CA_BUNDLE": "/one", "CURL_CA_BUNDLE": "/other"}
    assert Profile(both).ca_bundle == "/one"
    assert Profile({"CURL_CA_BUNDLE": "/other"}).ca_bundle == "/other"
    assert Profile({"REQUESTS_CA_BUNDLE": ""}).ca_bundle is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:80", "http://[::1]/x", "https://localhost"])
def test_this_machine_is_known_by_what_is_written(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1.example.org", "https://10.0.0.1", "", "x"])
def test_another_machine_is_not_this_one(url: str) -> None:
    assert not is_loopback(url)


# --- two accounts in one process


@pytest.fixture(scope="module")
def two_sandboxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two sandboxes of their own: other ports, other keys, other certificate authorities."""
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(running_sandbox(tmp_path_factory.mktemp(name))) for name in ("one", "other")
        )
        yield one, other


PLACES: Mapping[str, Mapping[str, str]] = {
    "alibaba": {
        "region": "ap-southeast-1",
        "zone": "ap-southeast-1c",
        "instance_type": "ecs.gn6i-c4g1.xlarge",
    },
    "aws": {},
    "azure": {"region": "eastus", "zone": "1", "instance_type": "Standard_NC4as_T4_v3"},
}


def cloud_of(name: str, endpoint: Endpoint) -> Cloud:
    """A cloud of a sandbox, by its profile alone."""
    return Clouds.installed(Profile({**endpoint.environ, "HOME": "/nonexistent"}))[name]


def launched(cloud: Cloud, owner: str) -> str:
    """Makes one machine through the vendor's SDK; gives its id."""
    changes: dict[str, Any] = {"tags": some_tags(owner=owner), "deadline": None, **PLACES[cloud.name]}
    order = an_order(account=cloud.account(), **changes)
    (machine,) = cloud.provider.create(cloud.prepare(order, Told()))
    return machine.ref.id


def owners_seen(cloud: Cloud) -> set[str]:
    """Whose machines a cloud shows in the region."""
    region = PLACES[cloud.name].get("region", "us-east-1")
    found = [cloud.find(Search(owner=owner, regions=(region,))).resources for owner in ("u-one", "u-other")]
    return {each.tags.owner for resources in found for each in resources if isinstance(each.tags, Tags)}


@pytest.mark.parametrize("name", sorted(PLACES))
def test_two_accounts_of_a_cloud_work_at_the_same_time_in_one_process(
    name: str, two_sandboxes: tuple[Endpoint, Endpoint]
) -> None:
    """What the one makes the other does not see, and the environment stays as it was."""
    before = dict(os.environ)
    one, other = (cloud_of(name, endpoint) for endpoint in two_sandboxes)
    with ThreadPoolExecutor(2) as threads:
        made = list(threads.map(launched, (one, other), ("u-one", "u-other")))
    assert len(set(made)) == 2 or name == "azure"  # Azure's ids are names, and both boxes have the same
    assert owners_seen(one) == {"u-one"}
    assert owners_seen(other) == {"u-other"}
    assert dict(os.environ) == before


@pytest.mark.parametrize("name", sorted(PLACES))
def test_a_profile_does_without_what_the_environment_says(
    name: str, two_sandboxes: tuple[Endpoint, Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment names the other sandbox, with wrong keys and a proxy that is not there."""
    one, other = two_sandboxes
    for variable, value in other.environ.items():
        monkeypatch.setenv(variable, "wrong" if "SECRET" in variable or "TOKEN" in variable else value)
    if name != "alibaba":  # its SDK takes the process's proxies where it is given none
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    one.client.calls(clear=True)
    other.client.calls(clear=True)
    assert cloud_of(name, one).account()
    assert one.client.calls()
    assert not other.client.calls()
