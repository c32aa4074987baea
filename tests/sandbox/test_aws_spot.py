"""RequestSpotInstances: one-time and persistent requests, as boto3 sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import IMAGE, shown
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_power import kinds

SPECIFICATION = {"ImageId": IMAGE, "InstanceType": "g4dn.xlarge"}
BILLED = ["address", "disk", "instance"]


@pytest.fixture
def ec2(ec2: Any, endpoint: Endpoint) -> Any:
    """EC2 for clients that are not gpucloud."""
    endpoint.client.review(Review.OWN)
    return ec2


def ask(ec2: Any, **changes: Any) -> str:
    """Makes a request; returns its id."""
    asked = {"LaunchSpecification": SPECIFICATION, **changes}
    (made,) = ec2.request_spot_instances(**asked)["SpotInstanceRequests"]
    assert (made["State"], made["Status"]["Code"]) == ("open", "pending-evaluation")
    id_: str = made["SpotInstanceRequestId"]
    return id_


def told(ec2: Any, id_: str) -> tuple[str, str, str | None]:
    """A request's state, status and instance."""
    (seen,) = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[id_])["SpotInstanceRequests"]
    return seen["State"], seen["Status"]["Code"], seen.get("InstanceId")


def test_a_one_time_request_ends_with_its_instance(ec2: Any, endpoint: Endpoint) -> None:
    id_ = ask(ec2)
    state, status, instance = told(ec2, id_)
    assert (state, status) == ("active", "fulfilled")
    assert instance is not None
    (seen,) = shown(ec2, instance)
    assert (seen["InstanceLifecycle"], seen["SpotInstanceRequestId"]) == ("spot", id_)
    assert kinds(endpoint) == BILLED
    ec2.terminate_instances(InstanceIds=[instance])
    assert told(ec2, id_)[:2] == ("closed", "instance-terminated-by-user")
    assert kinds(endpoint) == []


def test_a_persistent_request_starts_another_instance_until_it_is_cancelled(
    ec2: Any, endpoint: Endpoint
) -> None:
    id_ = ask(ec2, Type="persistent")
    first = told(ec2, id_)[2]
    ec2.terminate_instances(InstanceIds=[first])
    state, status, second = told(ec2, id_)
    assert (state, status) == ("active", "fulfilled")
    assert second != first
    assert kinds(endpoint) == BILLED
    assert refused(ec2.stop_instances, InstanceIds=[second]) == ("UnsupportedOperation", 400)
    ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[id_])
    assert told(ec2, id_)[:2] == ("cancelled", "request-canceled-and-instance-running")
    assert kinds(endpoint) == BILLED, "the instance runs on, billed"
    ec2.terminate_instances(InstanceIds=[second])
    assert told(ec2, id_)[0] == "cancelled"
    assert kinds(endpoint) == []


def test_a_request_waits_for_capacity_and_for_the_price(ec2: Any, endpoint: Endpoint) -> None:
    cheap = ask(ec2, SpotPrice="0.001")
    assert told(ec2, cheap)[:2] == ("open", "price-too-low")
    endpoint.client.stock(count=0)
    id_ = ask(ec2)
    assert told(ec2, id_)[:2] == ("open", "capacity-not-available")
    assert kinds(endpoint) == []
    endpoint.client.stock(count=1)
    assert told(ec2, id_)[:2] == ("active", "fulfilled")
    ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[cheap])
    assert told(ec2, cheap)[:2] == ("cancelled", "canceled-before-fulfillment")


def test_a_request_is_evaluated_between_its_times(ec2: Any, endpoint: Endpoint) -> None:
    now = datetime.now(UTC)
    later = ask(ec2, ValidFrom=now + timedelta(hours=1), ValidUntil=now + timedelta(hours=9))
    brief = ask(ec2, SpotPrice="0.001", ValidUntil=now + timedelta(hours=1))
    assert told(ec2, later)[:2] == ("open", "not-scheduled-yet")
    endpoint.client.clock(advance_s=2 * 3600)
    assert told(ec2, later)[:2] == ("active", "fulfilled")
    assert told(ec2, brief)[:2] == ("cancelled", "schedule-expired")


def test_the_wrong_is_refused_at_once(ec2: Any, endpoint: Endpoint) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"LaunchSpecification": {**SPECIFICATION, "ImageId": "ami-0"}}, "InvalidAMIID.NotFound"),
        ({"LaunchSpecification": {**SPECIFICATION, "KeyName": "none"}}, "InvalidKeyPair.NotFound"),
        ({"LaunchSpecification": {"ImageId": IMAGE}}, "MissingParameter"),
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"SpotPrice": "much"}, "InvalidParameterValue"),
        ({"ValidUntil": past}, "InvalidParameterValue"),
    ]
    plain = {"LaunchSpecification": SPECIFICATION}
    answers = [refused(ec2.request_spot_instances, **{**plain, **changes}) for changes, _ in wrong]
    assert answers == [(code, 400) for _, code in wrong]
    assert ec2.describe_spot_instance_requests()["SpotInstanceRequests"] == []
    endpoint.client.cloud("aws", "quota", region="us-east-1", code="L-3819A6DF", value=2)
    assert refused(ec2.request_spot_instances, **plain) == ("MaxSpotInstanceCountExceeded", 400)


def test_gpuclouds_own_calls_do_not_hold_up_the_requests_of_others(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.stock(count=0)
    id_ = ask(ec2)
    endpoint.client.stock(count=1)
    endpoint.client.review(Review.ALL)
    assert told(ec2, id_)[:2] == ("active", "fulfilled")
    plain = {"LaunchSpecification": SPECIFICATION}
    assert refused(ec2.request_spot_instances, **plain) == ("UnauthorizedOperation", 403)
