"""Spot requests, and what spot costs where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.tags import tags_for
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import Price

_STATUS = {
    "fulfilled": "Your Spot request is fulfilled.",
    "marked-for-termination": "Your Spot instance is marked for termination.",
    "instance-terminated-by-user": "Spot Instance terminated due to user-initiated termination.",
    "instance-terminated-no-capacity": "Your Spot instance was terminated: no Spot capacity.",
    "bad-parameters": "Your Spot request failed: a parameter of its launch is not valid.",
    "canceled-before-fulfillment": "Your Spot request is canceled before it could be fulfilled.",
    "capacity-not-available": "There is no Spot capacity available that matches your request.",
    "not-scheduled-yet": "Your Spot request is not evaluated before its valid-from time.",
    "pending-evaluation": "Your Spot request is pending evaluation.",
    "price-too-low": "Your Spot request price is lower than the current Spot price.",
    "schedule-expired": "Your Spot request was not fulfilled before its valid-until time.",
    "request-canceled-and-instance-running": "Your Spot request is canceled, your instance runs on.",
}

_CANCELLED = {
    "active": "request-canceled-and-instance-running",
    "open": "canceled-before-fulfillment",
}
"""By state: the status of a request after it was cancelled."""

_FILTERS: dict[str, Field] = {
    "create-time": "CreateTime",
    "launch.image-id": "LaunchSpecification.ImageId",
    "launch.instance-type": "LaunchSpecification.InstanceType",
    "spot-price": "SpotPrice",
    "instance-id": "InstanceId",
    "launched-availability-zone": "LaunchedAvailabilityZone",
    "product-description": "ProductDescription",
    "spot-instance-request-id": "SpotInstanceRequestId",
    "state": "State",
    "status-code": "Status.Code",
    "type": "Type",
}


def new_request(region: Region, parameters: Mapping[str, Any], instance: Document, max_price: str) -> str:
    """Creates the request of a spot launch; returns its id."""
    id_ = f"sir-{region.world.token(8)}"
    region.put(
        "spot",
        {
            "SpotInstanceRequestId": id_,
            "SpotPrice": max_price,
            "Type": "one-time",
            "State": "active",
            "Status": status_of(region, "fulfilled"),
            "InstanceId": instance["InstanceId"],
            "InstanceInterruptionBehavior": "terminate",
            "LaunchedAvailabilityZone": instance["Placement"]["AvailabilityZone"],
            "LaunchedAvailabilityZoneId": instance["Placement"]["AvailabilityZoneId"],
            "LaunchSpecification": {
                "ImageId": instance["ImageId"],
                "InstanceType": instance["InstanceType"],
                "Placement": {"AvailabilityZone": instance["Placement"]["AvailabilityZone"]},
            },
            "ProductDescription": "Linux/UNIX",
            "CreateTime": region.stamp,
            "Tags": tags_for(parameters, "spot-instances-request"),
        },
    )
    return id_


def mark_request(region: Region, instance: Document) -> None:
    """An instance is about to be interrupted: its request says so."""
    request = _request_of(region, instance)
    if request is not None:
        region.put("spot", {**request, "Status": status_of(region, "marked-for-termination")})


def close_request(region: Region, instance: Document, reason: str) -> None:
    """An instance ends: so does its request, or it waits for another instance if it is persistent."""
    request = _request_of(region, instance)
    if request is None:
        return
    taken = reason.startswith("Server.")
    status = "instance-terminated-no-capacity" if taken else "instance-terminated-by-user"
    ended = {**request, "Status": status_of(region, status)}
    if request["State"] != "cancelled":
        ended["State"] = "open" if is_persistent(region, instance) else "closed"
    region.put("spot", ended)


def is_persistent(region: Region, instance: Document) -> bool:
    """Whether the spot request of an instance is persistent."""
    request = _request_of(region, instance)
    return request is not None and request["Type"] == "persistent"


def describe_spot_instance_requests(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSpotInstanceRequests."""
    ids = parameters.get("SpotInstanceRequestIds")
    requests = list(region.all("spot").values()) if ids is None else [_find(region, id_) for id_ in ids]
    shown, token = page(select(requests, parameters.get("Filters"), _FILTERS), parameters)
    return {"SpotInstanceRequests": shown, "NextToken": token}


def cancel_spot_instance_requests(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CancelSpotInstanceRequests. The instance of an active one runs on."""
    requests = [_find(region, id_) for id_ in parameters["SpotInstanceRequestIds"]]
    for request in requests:
        if request["State"] in _CANCELLED:
            request["Status"] = status_of(region, _CANCELLED[request["State"]])
            request["State"] = "cancelled"
            region.put("spot", request)
    return {
        "CancelledSpotInstanceRequests": [
            {"SpotInstanceRequestId": each["SpotInstanceRequestId"], "State": each["State"]}
            for each in requests
        ]
    }


def describe_spot_price_history(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSpotPriceHistory: the price in force, of each type in each zone that sells it."""
    types: list[str] | None = parameters.get("InstanceTypes")
    products = parameters.get("ProductDescriptions") or ["Linux/UNIX"]
    market = region.world.market
    wanted = market.catalog(CLOUD).types if types is None else types
    zones = {
        name: id_
        for name, id_ in region.zones.items()
        if parameters.get("AvailabilityZone") in {None, name}
        and parameters.get("AvailabilityZoneId") in {None, id_}
    }
    rows: list[Document] = []
    for type_ in wanted if any(product.startswith("Linux/UNIX") for product in products) else ():
        for name, id_ in zones.items():
            price = market.price(CLOUD, region.name, id_, type_, "spot")
            if price is not None and region.offers(type_, id_) and _in_force(price, parameters):
                rows.append(
                    {
                        "AvailabilityZone": name,
                        "AvailabilityZoneId": id_,
                        "InstanceType": type_,
                        "ProductDescription": "Linux/UNIX",
                        "SpotPrice": f"{price.amount:.6f}",
                        "Timestamp": stamp(_since(price)),
                    }
                )
    fields: dict[str, Field] = {
        "availability-zone": "AvailabilityZone",
        "availability-zone-id": "AvailabilityZoneId",
        "instance-type": "InstanceType",
        "product-description": "ProductDescription",
        "spot-price": "SpotPrice",
    }
    shown, token = page(select(rows, parameters.get("Filters"), fields), parameters, lowest=1)
    return {"SpotPriceHistory": shown, "NextToken": token or ""}


def _since(price: Price) -> datetime:
    return datetime.fromisoformat(price.as_of).replace(tzinfo=UTC)


def _in_force(price: Price, parameters: Mapping[str, Any]) -> bool:
    """Whether a price applied before the end of the time asked for. It applies to this day."""
    end: datetime | None = parameters.get("EndTime")
    return end is None or _since(price) <= (end if end.tzinfo else end.replace(tzinfo=UTC))


def _request_of(region: Region, instance: Document) -> Document | None:
    return region.all("spot").get(instance.get("SpotInstanceRequestId", ""))


def _find(region: Region, id_: str) -> Document:
    request = region.all("spot").get(id_)
    if request is None:
        text = f"The spot instance request ID '{id_}' does not exist"
        raise AwsError("InvalidSpotInstanceRequestID.NotFound", text)
    return request


def status_of(region: Region, code: str) -> Document:
    """The status of a request from now on."""
    return {"Code": code, "Message": _STATUS[code], "UpdateTime": region.stamp}
