"""Capacity reservations of the caller's own: billed from the start, whether instances run in them or not.

Source: EC2 User Guide, "Capacity Reservation pricing and billing": what is unused costs as much as instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.aws import billing
from gpucloud_sandbox.aws.held import unused
from gpucloud_sandbox.aws.order import available, current_price
from gpucloud_sandbox.aws.quotas import check_quota
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.reservations import find, make_reservation
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.tokens import idempotent
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

MOST = 1000
"""Instances of a reservation (EC2 API Reference, CreateCapacityReservation)."""


@idempotent
def create_capacity_reservation(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateCapacityReservation, as far as the zone has stock."""
    name, count = parameters["InstanceType"], parameters["InstanceCount"]
    type_ = region.type_of(name)
    if type_ is None:
        raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    if not 1 <= count <= MOST:
        raise AwsError("InvalidParameterValue", f"Value ({count}) for parameter instanceCount is invalid.")
    zone = _zone(region, parameters)
    if not region.offers(name, region.zones[zone]):
        text = f"The requested configuration is currently not supported: {name} in {zone}."
        raise AwsError("Unsupported", text)
    end = _end(region, parameters)
    price = current_price(region, name, zone, "on_demand", None)
    check_quota(region, type_, "on_demand", count)
    available(region, name, zone, "on_demand", least=count, most=count)
    made = make_reservation(
        region,
        zone,
        name,
        count,
        EndDateType="unlimited" if end is None else "limited",
        EndDate=end,
        InstanceMatchCriteria=parameters.get("InstanceMatchCriteria", "open"),
        EbsOptimized=parameters.get("EbsOptimized", False),
        EphemeralStorage=False,
        Tags=tags_for(parameters, "capacity-reservation"),
        _price=format(price, "f"),
        _billed=0,
    )
    settle(region)
    return {"CapacityReservation": {**made, "AvailableInstanceCount": count}}


def cancel_capacity_reservation(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CancelCapacityReservation. Instances in it run on."""
    reservation = find(region, parameters["CapacityReservationId"])
    if reservation["State"] != "active" or "_billed" not in reservation:
        text = f"The capacity reservation {reservation['CapacityReservationId']} cannot be cancelled"
        raise AwsError("InvalidState", text)  # UNVERIFIED
    region.put("reservation", {**reservation, "State": "cancelled"})
    settle(region)
    return {"Return": True}


def settle(region: Region) -> None:
    """Ends the reservations whose time is over, and bills what is unused of the others."""
    for each in list(region.all("reservation").values()):
        if each["State"] == "active" and each["EndDate"] is not None and each["EndDate"] <= region.stamp:
            region.put("reservation", {**each, "State": "expired"})
    for each in list(unused(region)):
        free, id_ = each.pop("AvailableInstanceCount"), each["CapacityReservationId"]
        if free == each["_billed"]:
            continue
        billing.end(region, id_, "its use changed" if each["State"] == "active" else each["State"])
        if free:
            price = free * Decimal(each["_price"])
            billing.begin(region, "reservation", id_, price, billed=each, zone=each["AvailabilityZone"])
        region.put("reservation", {**each, "_billed": free})


def _zone(region: Region, parameters: Mapping[str, Any]) -> str:
    """The name of the zone that is named, by name or id."""
    asked: str | None = parameters.get("AvailabilityZone") or parameters.get("AvailabilityZoneId")
    if asked is None:
        text = "The request must contain the parameter availabilityZone or availabilityZoneId"
        raise AwsError("MissingParameter", text)
    zone = {id_: name for name, id_ in region.zones.items()}.get(asked, asked)
    if zone not in region.zones:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{asked}]")
    return zone


def _end(region: Region, parameters: Mapping[str, Any]) -> str | None:
    """When it ends; ``None`` for until it is cancelled."""
    end: datetime | None = parameters.get("EndDate")
    limited = parameters.get("EndDateType", "unlimited" if end is None else "limited") == "limited"
    if limited != (end is not None):
        text = "The parameter endDate is needed for the endDateType limited, and for no other"
        raise AwsError("InvalidParameterCombination", text)
    if end is None:
        return None
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    if end <= region.now:
        raise AwsError("InvalidParameterValue", f"The end date {stamp(end)} is in the past")
    return stamp(end)
