"""Capacity reservations of one's own, as boto3 sees them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import shown
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_power import PLAIN

ZONE = "us-east-1a"
HERE = {**PLAIN, "Placement": {"AvailabilityZone": ZONE}}
TWO = {
    "InstanceType": "g4dn.xlarge",
    "InstancePlatform": "Linux/UNIX",
    "AvailabilityZone": ZONE,
    "InstanceCount": 2,
}


@pytest.fixture
def ec2(ec2: Any, endpoint: Endpoint) -> Any:
    """EC2 for clients that are not gpucloud."""
    endpoint.client.review(Review.OWN)
    return ec2


def billed(endpoint: Endpoint) -> dict[str, Decimal]:
    """What an hour costs, by kind."""
    rows = endpoint.client.status()["billing"]
    return {row["kind"]: Decimal(row["price"]["amount"]) for row in rows}


def target(id_: str) -> dict[str, Any]:
    """Parameters of a launch into a reservation."""
    named = {"CapacityReservationTarget": {"CapacityReservationId": id_}}
    return {**HERE, "CapacityReservationSpecification": named}


def test_what_no_instance_uses_is_billed_until_it_is_cancelled(ec2: Any, endpoint: Endpoint) -> None:
    made = ec2.create_capacity_reservation(**TWO, InstanceMatchCriteria="targeted")["CapacityReservation"]
    id_ = made["CapacityReservationId"]
    assert (made["State"], made["AvailableInstanceCount"], made["TotalInstanceCount"]) == ("active", 2, 2)
    whole = billed(endpoint)["reservation"]
    plain = ec2.run_instances(**HERE)["Instances"][0]["InstanceId"]
    assert billed(endpoint)["reservation"] == whole, "it was targeted, and not named"
    inside = ec2.run_instances(**target(id_))["Instances"][0]["InstanceId"]
    assert shown(ec2, inside)[0]["CapacityReservationId"] == id_
    assert billed(endpoint)["reservation"] == whole / 2 == billed(endpoint)["instance"]
    ec2.terminate_instances(InstanceIds=[inside, plain])
    assert billed(endpoint) == {"reservation": whole}
    assert ec2.cancel_capacity_reservation(CapacityReservationId=id_)["Return"]
    assert billed(endpoint) == {}
    (seen,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert (seen["State"], seen["AvailableInstanceCount"]) == ("cancelled", 0)
    assert refused(ec2.run_instances, **target(id_)) == ("ReservationCapacityExceeded", 400)
    assert refused(ec2.cancel_capacity_reservation, CapacityReservationId=id_) == ("InvalidState", 400)


def test_an_open_reservation_takes_what_fits(ec2: Any) -> None:
    id_ = ec2.create_capacity_reservation(**TWO)["CapacityReservation"]["CapacityReservationId"]
    only = {"CapacityReservationPreference": "capacity-reservations-only"}
    none = {"CapacityReservationPreference": "none"}
    left = ec2.run_instances(**HERE, CapacityReservationSpecification=none)["Instances"][0]
    assert "CapacityReservationId" not in left
    for wanted in ({}, {"CapacityReservationSpecification": only}):
        made = ec2.run_instances(**HERE, **wanted)["Instances"][0]
        assert made["CapacityReservationId"] == id_
    third = {**HERE, "CapacityReservationSpecification": only}
    assert refused(ec2.run_instances, **third) == ("ReservationCapacityExceeded", 400)


def test_it_holds_stock_and_counts_in_the_quota(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.stock(count=2, cloud="aws", instance_type="g4dn.xlarge")
    id_ = ec2.create_capacity_reservation(**TWO)["CapacityReservation"]["CapacityReservationId"]
    short = ("InsufficientInstanceCapacity", 500)
    assert refused(ec2.create_capacity_reservation, **TWO) == short
    none = {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    assert refused(ec2.run_instances, **HERE, **none) == short
    endpoint.client.stock(count=9, cloud="aws", instance_type="g4dn.xlarge")
    endpoint.client.cloud("aws", "quota", region="us-east-1", code="L-DB2E81BA", value=8)
    assert refused(ec2.run_instances, **HERE, **none) == ("VcpuLimitExceeded", 400)
    assert ec2.run_instances(**target(id_))["Instances"], "what is reserved is counted already"


def test_it_ends_at_its_end(ec2: Any, endpoint: Endpoint) -> None:
    end = datetime.now(UTC) + timedelta(hours=2)
    ec2.create_capacity_reservation(**TWO, EndDateType="limited", EndDate=end)
    endpoint.client.clock(advance_s=3 * 3600)
    (seen,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert seen["State"] == "expired"
    assert billed(endpoint) == {}


def test_wrong_reservations_are_refused_and_bill_nothing(ec2: Any, endpoint: Endpoint) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"InstanceType": "x9.large"}, "InvalidParameterValue"),
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-east-1z"}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
        ({"EndDate": past}, "InvalidParameterValue"),
    ]
    answers = [refused(ec2.create_capacity_reservation, **{**TWO, **changes}) for changes, _ in wrong]
    assert answers == [(code, 400) for _, code in wrong]
    lost = refused(ec2.cancel_capacity_reservation, CapacityReservationId="cr-0")
    assert lost == ("InvalidCapacityReservationId.NotFound", 400)
    assert billed(endpoint) == {}


def test_gpucloud_itself_may_make_none(ec2: Any, endpoint: Endpoint) -> None:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "gpucloud:owner", "Value": "u"}]}]
    own = refused(ec2.create_capacity_reservation, **TWO, TagSpecifications=tags)
    assert own == ("UnauthorizedOperation", 403)
    assert billed(endpoint) == {}


def test_a_repeated_token_makes_no_second_reservation(ec2: Any) -> None:
    for _ in range(2):
        ec2.create_capacity_reservation(**TWO, ClientToken="once")
    assert len(ec2.describe_capacity_reservations()["CapacityReservations"]) == 1
    other = {**TWO, "InstanceCount": 3, "ClientToken": "once"}
    assert refused(ec2.create_capacity_reservation, **other) == ("IdempotentParameterMismatch", 400)
