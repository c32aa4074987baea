"""The commitments of the account: reserved instances, held capacity, savings plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from gpucloud.clouds.abilities import CommitmentInquiry
from gpucloud_aws.errors import MalformedAnswerError, reading
from gpucloud_aws.price_list import PLAN_NAMES, PLANS
from gpucloud_aws.prices import CLOUD, whole
from gpucloud_pricing import Commitment, Money
from gpucloud_pricing.commitments import SAVINGS_PLAN, last_whole_day
from gpucloud_pricing.values import SavingsPlan

if TYPE_CHECKING:
    from gpucloud_aws.clients import Clients

RESERVED, CAPACITY, PLANNED = (
    "aws-reserved-instances",
    "aws-capacity-reservations",
    "aws-own-savings-plans",
)
"""The sources of commitments: ids of the market's sources."""
_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_PAGES = 100
"""Of 1000 plans each; more is a broken endpoint."""


def regional_inquiries(
    ec2: Any, region: str, account: str, zone_id: Callable[[str], str], today: date
) -> Iterator[CommitmentInquiry]:
    """The commitments of one region."""
    yield CommitmentInquiry(
        name=f"reserved instances in {region}", ask=partial(_reserved, ec2, region, zone_id, today)
    )
    yield CommitmentInquiry(
        name=f"capacity reservations in {region}", ask=partial(_held, ec2, region, account, zone_id, today)
    )


def plans_inquiry(clients: Clients, today: date) -> CommitmentInquiry:
    """Savings plans, which have one endpoint for all regions."""

    def ask() -> Sequence[Commitment]:
        from gpucloud_aws.clients import READ_ATTEMPTS

        plans = clients.client("savingsplans", "us-east-1", attempts=READ_ATTEMPTS)
        with reading("DescribeSavingsPlans"):
            return [_plan(row, today) for row in _plans(plans) if row["savingsPlanType"] in PLAN_NAMES]

    return CommitmentInquiry(name="savings plans", ask=ask)


def _reserved(ec2: Any, region: str, zone_id: Callable[[str], str], today: date) -> Sequence[Commitment]:
    """Reserved Instances for Linux on shared hardware; the answer has no pages.

    Source: EC2 API Reference, DescribeReservedInstances. A regional one has no zone.
    """
    answer = ec2.describe_reserved_instances(Filters=[{"Name": "state", "Values": ["active"]}])
    with reading("DescribeReservedInstances"):
        return [
            Commitment(
                cloud=CLOUD,
                kind="reserved_instance",
                id=row["ReservedInstancesId"],
                region=region,
                zone=_zone(row, zone_id),
                instance_type=row["InstanceType"],
                count=row["InstanceCount"],
                until=last_whole_day(row["End"]),
                as_of=today,
                source=RESERVED,
            )
            for row in answer["ReservedInstances"]
            if row["State"] == "active"
            and row["ProductDescription"] in _LINUX
            and row.get("InstanceTenancy", "default") == "default"
        ]


def _held(
    ec2: Any, region: str, account: str, zone_id: Callable[[str], str], today: date
) -> Sequence[Commitment]:
    """Capacity reservations and blocks for Linux on shared hardware, without those of other payers.

    A reservation is billed like running machines as long as it exists, a block was paid for at once. Source:
    EC2 User Guide, "Reserve compute capacity with EC2 On-Demand Capacity Reservations", "Capacity Blocks for
    ML".
    """
    pages = ec2.get_paginator("describe_capacity_reservations").paginate(
        Filters=[{"Name": "state", "Values": ["active"]}, {"Name": "owner-id", "Values": [account]}]
    )
    with reading("DescribeCapacityReservations"):
        return [
            Commitment(
                cloud=CLOUD,
                kind=(
                    "capacity_block"
                    if row.get("ReservationType") == "capacity-block"
                    else "capacity_reservation"
                ),
                id=row["CapacityReservationId"],
                region=region,
                zone=_zone(row, zone_id),
                instance_type=row["InstanceType"],
                count=row["TotalInstanceCount"],
                until=last_whole_day(row["EndDate"]) if row.get("EndDate") else None,
                as_of=today,
                source=CAPACITY,
            )
            for page in whole(pages)
            for row in page["CapacityReservations"]
            if (row["State"], row.get("OwnerId", account)) == ("active", account)
            and row["InstancePlatform"] in _LINUX
            and row.get("Tenancy", "default") == "default"
        ]


def _zone(row: Mapping[str, Any], zone_id: Callable[[str], str]) -> str | None:
    """The id of a zone, from its id or its name; ``None`` for a whole region."""
    name = row.get("AvailabilityZone")
    return row.get("AvailabilityZoneId") or (zone_id(name) if name else None)


def _plans(plans: Any) -> Iterator[Mapping[str, Any]]:
    token: dict[str, str] = {}
    for _ in range(_PAGES):
        page = plans.describe_savings_plans(states=["active"], maxResults=1000, **token)
        yield from page["savingsPlans"]
        if not page.get("nextToken"):
            return
        token = {"nextToken": page["nextToken"]}
    raise MalformedAnswerError(f"DescribeSavingsPlans gave {_PAGES} pages and still more")


def _plan(row: Mapping[str, Any], today: date) -> Commitment:
    """A plan for machines. Source: Savings Plans API Reference, SavingsPlan."""
    spending = SavingsPlan(
        per_hour=Money(amount=Decimal(row["commitment"]), currency=row["currency"]),
        purchase=PLANS[row["termDurationInSeconds"]],
        terms=f"{PLAN_NAMES[row['savingsPlanType']]}, {row['paymentOption'].lower()}",
        family=row.get("ec2InstanceFamily") or None,
    )
    return Commitment(
        cloud=CLOUD,
        kind=SAVINGS_PLAN,
        id=row["savingsPlanId"],
        region=row["region"] if spending.family else None,
        plan=spending,
        until=last_whole_day(datetime.fromisoformat(row["end"])),
        as_of=today,
        source=PLANNED,
    )
