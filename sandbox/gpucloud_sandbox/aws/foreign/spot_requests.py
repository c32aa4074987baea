"""RequestSpotInstances: requests that wait for price and capacity, and persistent ones that come back.

Source: EC2 User Guide, "Spot Instance request status" and "Spot Instance request states".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gpucloud_sandbox.aws.launch import make_instance
from gpucloud_sandbox.aws.order import read_order
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.spot import status_of
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.tokens import idempotent
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.review import unexamined

VALID = timedelta(days=7)
"""For so long a request waits that says nothing else (EC2 API Reference, RequestSpotInstances)."""

_WAITING = {
    "InsufficientInstanceCapacity": "capacity-not-available",
    "SpotMaxPriceTooLow": "price-too-low",
}
"""The refusals of a launch that a request sits out, and its status meanwhile."""


@idempotent
def request_spot_instances(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RequestSpotInstances: a request for each instance. They are evaluated after the answer."""
    count = parameters.get("InstanceCount", 1)
    if count < 1:
        raise AwsError("InvalidParameterValue", f"Value ({count}) for parameter instanceCount is invalid.")
    start = _moment(parameters.get("ValidFrom"))
    until = _moment(parameters.get("ValidUntil")) or region.now + VALID
    if until <= (start or region.now):
        raise AwsError("InvalidParameterValue", f"The valid-until time {stamp(until)} is too early")
    launch = _launch(parameters)
    try:
        order = read_order(region, launch)
    except AwsError as refusal:
        if refusal.code not in _WAITING:
            raise
        max_price = parameters.get("SpotPrice")
    else:
        max_price = order.max_price
    made = [
        region.put(
            "spot",
            {
                "SpotInstanceRequestId": f"sir-{region.world.token(8)}",
                "SpotPrice": max_price,
                "Type": parameters.get("Type", "one-time"),
                "State": "open",
                "Status": status_of(region, "pending-evaluation"),
                "InstanceInterruptionBehavior": "terminate",
                "LaunchSpecification": _specification(parameters),
                "ProductDescription": "Linux/UNIX",
                "CreateTime": region.stamp,
                "ValidFrom": stamp(start) if start else None,
                "ValidUntil": stamp(until),
                "Tags": tags_for(parameters, "spot-instances-request"),
                "_launch": launch,
            },
        )
        for _ in range(count)
    ]
    return {"SpotInstanceRequests": [dict(each) for each in made]}


def settle(region: Region) -> None:
    """Evaluates the open requests: they launch, wait on, or end."""
    for request in list(_open(region)):
        if request["ValidUntil"] <= region.stamp:
            _keep(region, request, "schedule-expired", State="cancelled")
        elif request["ValidFrom"] is not None and request["ValidFrom"] > region.stamp:
            _keep(region, request, "not-scheduled-yet")
        else:
            _evaluate(region, request)


def _evaluate(region: Region, request: Document) -> None:
    with unexamined():  # the request that is answered just now is somebody else's
        try:
            order = read_order(region, request["_launch"])
        except AwsError as refusal:
            if refusal.code in _WAITING:
                _keep(region, request, _WAITING[refusal.code])
            else:
                fault = {"Code": refusal.code, "Message": refusal.message}
                _keep(region, request, "bad-parameters", State="failed", Fault=fault)
            return
    instance = make_instance(region, order, region.new_id("r"), 0, request["SpotInstanceRequestId"])
    placement = instance["Placement"]
    _keep(
        region,
        request,
        "fulfilled",
        State="active",
        InstanceId=instance["InstanceId"],
        LaunchedAvailabilityZone=placement["AvailabilityZone"],
        LaunchedAvailabilityZoneId=placement["AvailabilityZoneId"],
    )


def _open(region: Region) -> Iterator[Document]:
    for request in region.all("spot").values():
        if request["State"] == "open":
            yield request


def _keep(region: Region, request: Document, status: str, **members: Any) -> None:
    """Stores a request with a status; an unchanged one keeps the time at which it came about."""
    if request["Status"]["Code"] != status:
        region.put("spot", {**request, "Status": status_of(region, status), **members})


def _launch(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The request as a launch of one instance."""
    price = {"MaxPrice": parameters["SpotPrice"]} if "SpotPrice" in parameters else {}
    market = {"MarketType": "spot", "SpotOptions": price}
    specification = part(parameters, "LaunchSpecification")
    return {**specification, "MinCount": 1, "MaxCount": 1, "InstanceMarketOptions": market}


def _specification(parameters: Mapping[str, Any]) -> Document:
    """The launch specification as answers show it: groups by id in a structure."""
    specification = dict(part(parameters, "LaunchSpecification"))  # its parts go into another shape
    groups = [{"GroupId": id_} for id_ in specification.pop("SecurityGroupIds", ())]
    names = [{"GroupName": name} for name in specification.pop("SecurityGroups", ())]
    return {**specification, "SecurityGroups": [*groups, *names]}


def _moment(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time
