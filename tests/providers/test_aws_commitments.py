"""What AWS says that an account has paid for already."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import Commitments
from gpucloud_aws.errors import MalformedAnswerError
from gpucloud_aws.provider import AwsProvider
from gpucloud_pricing import Commitment, Money
from gpucloud_pricing.values import SavingsPlan
from gpucloud_sandbox.client import SandboxClient
from tests.profiles import own_profile
from tests.providers.abilities import able
from tests.providers.aws_wire import Answer, Wire, answer

T4 = {"region": "us-east-1", "instance_type": "g4dn.xlarge"}
LATE = date(2090, 12, 31)
TODAY = datetime.now(UTC).date()


def told(provider: AwsProvider, *names: str) -> list[Commitment]:
    """The answers to some of the inquiries."""
    inquiries = {each.name: each for each in able(provider, Commitments).commitment_inquiries()}
    return [each for name in names for each in inquiries[name].ask()]


def test_what_is_reserved_is_told_region_by_region(sandbox: SandboxClient) -> None:
    everywhere = sandbox.cloud("aws", "commit", **T4, count=2, until="2090-12-31")
    in_zone = sandbox.cloud("aws", "commit", **T4, zone="use1-az1", until="2091-06-30")
    sandbox.cloud("aws", "commit", **T4, until="2020-12-31")  # over
    sandbox.cloud("aws", "commit", **{**T4, "region": "eu-west-1"}, until="2090-12-31")
    found = told(AwsProvider(own_profile()), "reserved instances in us-east-1")
    common: dict[str, Any] = {
        "cloud": "aws",
        "kind": "reserved_instance",
        "region": "us-east-1",
        "instance_type": "g4dn.xlarge",
        "as_of": TODAY,
        "source": "aws-reserved-instances",
    }
    assert found == [
        Commitment(**common, id=everywhere, count=2, until=LATE),
        Commitment(**common, id=in_zone, count=1, zone="use1-az1", until=date(2091, 6, 30)),
    ]
    assert len(told(AwsProvider(own_profile()), "reserved instances in eu-west-1")) == 1


def test_held_capacity_is_told_with_its_end_if_it_has_one(sandbox: SandboxClient) -> None:
    open_ = sandbox.cloud("aws", "reserve", **T4, zone="use1-az1", count=3)
    block = sandbox.cloud("aws", "reserve", **T4, zone="use1-az2", block=True)
    found = {each.id: each for each in told(AwsProvider(own_profile()), "capacity reservations in us-east-1")}
    assert found.keys() == {open_, block}
    assert (found[open_].kind, found[open_].count, found[open_].until) == ("capacity_reservation", 3, None)
    assert (found[block].kind, found[block].zone) == ("capacity_block", "use1-az2")
    assert found[block].until is not None


def test_savings_plans_are_told_once_for_all_regions(sandbox: SandboxClient) -> None:
    compute = sandbox.cloud("aws", "commit", per_hour="12.5", until="2090-12-31", upfront="all", term="3y")
    family = sandbox.cloud("aws", "commit", per_hour=2, until="2090-12-31", family="g4dn", region="eu-west-1")
    sandbox.cloud("aws", "commit", per_hour=99, until="2020-12-31")  # over
    found = {each.id: each for each in told(AwsProvider(own_profile()), "savings plans")}
    assert found.keys() == {compute, family}
    assert (found[compute].region, found[compute].until) == (None, LATE)
    assert found[compute].plan == SavingsPlan(
        per_hour=Money(amount=Decimal("12.5"), currency="USD"),
        purchase="savings_3y",
        terms="compute plan, all upfront",
    )
    assert found[family].region == "eu-west-1"
    assert found[family].plan == SavingsPlan(
        per_hour=Money(amount=Decimal(2), currency="USD"),
        purchase="savings_1y",
        terms="instance plan, no upfront",
        family="g4dn",
    )


# --- what AWS may say besides


def regions(wire: Wire) -> None:
    shown = "<regionInfo><item><regionName>us-east-1</regionName></item></regionInfo>"
    wire.say("DescribeRegions", answer("DescribeRegions", shown))


def reserved(**changes: str) -> str:
    """A Reserved Instance as EC2 shows it."""
    plain = {
        "reservedInstancesId": "ri-1",
        "instanceType": "g4dn.xlarge",
        "instanceCount": "1",
        "productDescription": "Linux/UNIX",
        "state": "active",
        "instanceTenancy": "default",
        "scope": "Region",
        "end": "2090-12-31T23:59:59Z",
    }
    return "".join(f"<{name}>{value}</{name}>" for name, value in {**plain, **changes}.items())


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"productDescription": "Linux/UNIX (Amazon VPC)"}, True),
        ({"productDescription": "Windows"}, False),
        ({"instanceTenancy": "dedicated"}, False),
        ({"state": "retired"}, False),
    ],
)
def test_only_what_boxes_can_use_is_told(wire: Wire, changes: dict[str, str], counts: bool) -> None:
    regions(wire)
    shown = f"<reservedInstancesSet><item>{reserved(**changes)}</item></reservedInstancesSet>"
    wire.say("DescribeReservedInstances", answer("DescribeReservedInstances", shown))
    found = told(AwsProvider(own_profile()), "reserved instances in us-east-1")
    assert [(each.id, each.until) for each in found] == ([("ri-1", LATE)] if counts else [])


def held(*ids: str, token: str = "", **changes: str) -> str:
    plain = {
        "ownerId": "123456789012",
        "instanceType": "g4dn.xlarge",
        "instancePlatform": "Linux/UNIX",
        "availabilityZoneId": "use1-az2",
        "state": "active",
        "tenancy": "default",
        "totalInstanceCount": "1",
    }
    row = "".join(f"<{name}>{value}</{name}>" for name, value in {**plain, **changes}.items())
    items = "".join(f"<item><capacityReservationId>{id_}</capacityReservationId>{row}</item>" for id_ in ids)
    more = f"<nextToken>{token}</nextToken>" if token else ""
    return answer(
        "DescribeCapacityReservations", f"<capacityReservationSet>{items}</capacityReservationSet>{more}"
    )


def test_held_capacity_that_never_ends_is_no_answer(wire: Wire) -> None:
    regions(wire)
    pages = itertools.count(1)

    def page() -> str:
        body = f"<capacityReservationSet/><nextToken>{next(pages)}</nextToken>"
        return answer("DescribeCapacityReservations", body)

    wire.say("DescribeCapacityReservations", Answer(page))
    with pytest.raises(MalformedAnswerError, match="and still more"):
        told(AwsProvider(own_profile()), "capacity reservations in us-east-1")


def test_held_capacity_is_read_page_by_page(wire: Wire) -> None:
    regions(wire)
    wire.say("DescribeCapacityReservations", held("cr-1", "cr-2", token="more"), held("cr-3"))
    found = told(AwsProvider(own_profile()), "capacity reservations in us-east-1")
    assert [each.id for each in found] == ["cr-1", "cr-2", "cr-3"]


@pytest.mark.parametrize(
    "changes",
    [
        {"ownerId": "999999999999"},
        {"instancePlatform": "Windows"},
        {"tenancy": "dedicated"},
        {"state": "expired"},
    ],
)
def test_capacity_that_is_not_ours_to_use_is_left_out(wire: Wire, changes: dict[str, str]) -> None:
    """Whoever shares a reservation pays for it while it stands empty, and we for what runs in it."""
    regions(wire)
    wire.say("DescribeCapacityReservations", held("cr-1", **changes))
    assert told(AwsProvider(own_profile()), "capacity reservations in us-east-1") == []


def plans(ids: Sequence[str], token: str | None = None, **changes: Any) -> Answer:
    plain = {
        "savingsPlanType": "Compute",
        "state": "active",
        "commitment": "1.0",
        "currency": "USD",
        "paymentOption": "No Upfront",
        "termDurationInSeconds": 31536000,
        "end": "2090-12-31T23:59:59.000Z",
        **changes,
    }
    rows = [{**plain, "savingsPlanId": id_} for id_ in ids]
    body = json.dumps({"savingsPlans": rows, **({"nextToken": token} if token else {})})
    return Answer(body, headers={"content-type": "application/json"})


def test_savings_plans_are_read_page_by_page(wire: Wire) -> None:
    regions(wire)
    wire.say("DescribeSavingsPlans", plans(["a", "b"], token="more"), plans(["c"]))
    assert [each.id for each in told(AwsProvider(own_profile()), "savings plans")] == ["a", "b", "c"]
    asked = [json.loads(sent["json"]) for sent in wire.sent["DescribeSavingsPlans"]]
    assert [each.get("nextToken") for each in asked] == [None, "more"]
    assert all(each["states"] == ["active"] for each in asked)


def test_plans_for_other_than_machines_are_left_out(wire: Wire) -> None:
    regions(wire)
    wire.say("DescribeSavingsPlans", plans(["a"], savingsPlanType="SageMaker"))
    assert told(AwsProvider(own_profile()), "savings plans") == []


def test_an_answer_without_an_end_is_no_answer(wire: Wire) -> None:
    regions(wire)
    wire.say("DescribeSavingsPlans", plans(["a"], token="more"))
    with pytest.raises(MalformedAnswerError, match="and still more"):
        told(AwsProvider(own_profile()), "savings plans")
    wire.say("DescribeSavingsPlans", plans(["a"], commitment=None))
    with pytest.raises(MalformedAnswerError, match="commitment"):
        told(AwsProvider(own_profile()), "savings plans")
