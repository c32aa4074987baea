"""Capacity that the account holds: reservations and blocks, granted or made, and which a launch uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.held import with_free
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document

_FILTERS: dict[str, Field] = {
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "instance-match-criteria": "InstanceMatchCriteria",
    "instance-type": "InstanceType",
    "owner-id": "OwnerId",
    "reservation-type": "ReservationType",
    "state": "State",
    "tenancy": "Tenancy",
}


def grant(region: Region, *, zone_id: str, instance_type: str, count: int, block: bool) -> Document:
    """Gives the account a reservation, or a capacity block.

    Raises:
        ValueError: the zone does not have the type.
    """
    zone = next((name for name, id_ in region.zones.items() if id_ == zone_id), None)
    if zone is None or not region.offers(instance_type, zone_id) or count < 1:
        raise ValueError(f"{zone_id} in {region.name} has no {instance_type} to reserve")
    return make_reservation(
        region,
        zone,
        instance_type,
        count,
        EndDateType="limited" if block else "unlimited",
        EndDate=region.later(24 * 3600) if block else None,
        InstanceMatchCriteria="targeted",
        ReservationType="capacity-block" if block else "default",
    )


def make_reservation(region: Region, zone: str, instance_type: str, count: int, **members: Any) -> Document:
    """A reservation in a zone, with some members given."""
    id_ = region.new_id("cr")
    return region.put(
        "reservation",
        {
            "CapacityReservationId": id_,
            "CapacityReservationArn": f"arn:aws:ec2:{region.name}:{ACCOUNT}:capacity-reservation/{id_}",
            "OwnerId": ACCOUNT,
            "AvailabilityZone": zone,
            "AvailabilityZoneId": region.zones[zone],
            "InstanceType": instance_type,
            "InstancePlatform": "Linux/UNIX",
            "Tenancy": "default",
            "TotalInstanceCount": count,
            "State": "active",
            "StartDate": region.stamp,
            "CreateDate": region.stamp,
            "ReservationType": "default",
            "Tags": [],
            **members,
        },
    )


def describe_capacity_reservations(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeCapacityReservations."""
    known = region.all("reservation")
    ids: list[str] = parameters.get("CapacityReservationIds") or list(known)
    found = [with_free(region, find(region, id_)) for id_ in ids]
    shown, token = page(select(found, parameters.get("Filters"), _FILTERS), parameters, lowest=1)
    return {"CapacityReservations": shown, "NextToken": token}


def find_reservation(region: Region, parameters: Mapping[str, Any], zone: str, least: int) -> Document | None:
    """The reservation of a launch, with its free instances: the one that it names, or an open one that fits.

    Raises:
        AwsError: it is not there, does not fit, or is full.
    """
    specification = part(parameters, "CapacityReservationSpecification")
    id_ = part(specification, "CapacityReservationTarget").get("CapacityReservationId")
    market = part(parameters, "InstanceMarketOptions").get("MarketType")
    if id_ is None:
        if market == "capacity-block":
            text = "A capacity block launch needs CapacityReservationTarget.CapacityReservationId"
            raise AwsError("InvalidParameterCombination", text)
        preference = specification.get("CapacityReservationPreference", "open")
        matching = None if market or preference == "none" else _open(region, parameters, zone)
        if matching is None and preference == "capacity-reservations-only":
            raise AwsError("ReservationCapacityExceeded", "No open capacity reservation matches.")
        return matching
    reservation = with_free(region, find(region, id_))
    if (reservation["ReservationType"] == "capacity-block") != (market == "capacity-block"):
        text = (
            f"The reservation {id_} is of type {reservation['ReservationType']}, the market type is {market}"
        )
        raise AwsError("InvalidParameterCombination", text)
    if (reservation["InstanceType"], reservation["AvailabilityZone"]) != (parameters["InstanceType"], zone):
        text = f"The attributes of the reservation {id_} do not match those of the request"
        raise AwsError("InvalidParameterValue", text)
    if reservation["AvailableInstanceCount"] < least:
        text = (
            f"The requested Capacity Reservation {id_} does not have sufficient capacity available "
            "to fulfill your request."
        )
        raise AwsError("ReservationCapacityExceeded", text)
    return reservation


def _open(region: Region, parameters: Mapping[str, Any], zone: str) -> Document | None:
    """A reservation that takes all instances of a launch that names none; never one that takes some."""
    for each in region.all("reservation").values():
        reservation = with_free(region, each)
        fits = (reservation["InstanceType"], reservation["AvailabilityZone"]) == (
            parameters["InstanceType"],
            zone,
        )
        open_ = reservation["InstanceMatchCriteria"] == "open"
        if fits and open_ and reservation["AvailableInstanceCount"] >= parameters["MaxCount"]:
            return reservation
    return None


def find(region: Region, id_: str) -> Document:
    """A reservation by id. Raises :class:`AwsError`."""
    reservation = region.all("reservation").get(id_)
    if reservation is None:
        text = f"The capacity reservation '{id_}' does not exist"
        raise AwsError("InvalidCapacityReservationId.NotFound", text)
    return reservation
