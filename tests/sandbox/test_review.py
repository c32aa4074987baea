"""Whose requests the reviewers examine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpucloud_sandbox.client import Endpoint, ensure_started
from gpucloud_sandbox.review import Review
from tests.sandbox.running import GROUP_PORT, TAGS, HollowBoxes, client, hollow_sandbox

WORLD: dict[str, Any] = {**GROUP_PORT, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Endpoint]:
    with hollow_sandbox(tmp_path, HollowBoxes()) as endpoint:
        yield endpoint


def opened(sandbox: Endpoint, *, agent: str = "", description: str = "") -> bool:
    """Whether a group of its own can be opened to the world."""
    ec2 = client(sandbox)
    if agent:
        ec2.meta.events.register(
            "before-send", lambda request, **_: request.headers.update({"User-Agent": agent})
        )
    name = f"g{len(ec2.describe_security_groups()['SecurityGroups'])}"
    group = ec2.create_security_group(GroupName=name, Description="-")["GroupId"]
    rule = {**WORLD, "IpRanges": [{"CidrIp": "0.0.0.0/0", "Description": description or "-"}]}
    with suppress(ClientError):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
        return True
    return False


def test_the_reviewer_examines_gpucloud_alone_unless_it_is_set_otherwise(sandbox: Endpoint) -> None:
    own, tagged = {"agent": "Boto3/1 gpucloud/0.1.0"}, {"description": next(iter(TAGS))}
    found = {}
    for review in Review:
        sandbox.client.review(review)
        assert sandbox.client.status()["review"] == review
        found[review] = (opened(sandbox), opened(sandbox, **own), opened(sandbox, **tagged))
    assert found == {
        Review.ALL: (False, False, False),
        Review.OWN: (True, False, False),
        Review.OFF: (True, True, True),
    }


def test_a_new_sandbox_examines_gpucloud_and_one_that_starts_again_remembers(tmp_path: Path) -> None:
    endpoint = ensure_started(tmp_path)
    assert endpoint.client.status()["review"] == Review.OWN
    endpoint.client.review(Review.OFF)
    endpoint.stop()
    endpoint = ensure_started(tmp_path)
    assert endpoint.client.status()["review"] == Review.OFF
    endpoint.stop()
