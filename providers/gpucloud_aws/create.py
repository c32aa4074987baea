"""Creates instances: an order becomes a RunInstances request, and its answer becomes machines."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, assert_never

from gpucloud.clouds.kit import bid
from gpucloud.resources import Machine, Order, Request
from gpucloud_aws.errors import NoReservationError, reading
from gpucloud_aws.find import machine_of
from gpucloud_aws.images import image_for, is_own
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import TagTypeDef

BID_STEP = Decimal("0.000001")


def tags_of(order: Order) -> list[TagTypeDef]:
    """The tags of all resources of a box: a name, the user's own, and the five of gpucloud, which win."""
    tags = {"Name": order.name, **order.extra_tags, **order.tags.as_dict()}
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def root_device_of(ec2: EC2Client, image_id: str) -> str:
    """The root device's name of a user's own image."""
    shown = ec2.describe_images(ImageIds=[image_id])["Images"]
    return shown[0].get("RootDeviceName", "/dev/sda1") if shown else "/dev/sda1"


def image_of(order: Order, ec2: EC2Client) -> tuple[str, str]:
    """The image of the order: ``ImageId`` and the name of its root device."""
    if is_own(order.image):
        return order.image, root_device_of(ec2, order.image)
    image = image_for(order.image, order.arch, order.instance_type)
    return image.image_id, image.root_device


def is_block(order: Order, ec2: EC2Client) -> bool:
    """Whether the order's reservation is a capacity block.

    Raises:
        NoReservationError: the reservation cannot take this order.
    """
    assert order.reservation  # noqa: S101  (checked by the preflight)
    held = ec2.describe_capacity_reservations(CapacityReservationIds=[order.reservation])
    for reservation in held["CapacityReservations"]:
        if reservation.get("State") == "active" and reservation.get("InstanceType") == order.instance_type:
            return str(reservation.get("ReservationType", "")) == "capacity-block"
    raise NoReservationError(
        f"{order.reservation} in {order.region} is not an active reservation of {order.instance_type}"
    )


def market_of(order: Order, *, block: bool, currency: str) -> dict[str, Any]:
    """The part of the call with the way of paying.

    Args:
        order: the order.
        block: whether its reservation is a capacity block.
        currency: the currency of bids in the region: CNY in China.

    Raises:
        UsageError: no rate of that currency is known.
    """
    match order.purchase:
        case Purchase.ON_DEMAND:
            return {}
        case Purchase.SPOT:
            options = {
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
                "MaxPrice": f"{bid(order, currency, BID_STEP):f}",
            }
            return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}
        case Purchase.RESERVED:
            target: dict[str, Any] = {
                "CapacityReservationSpecification": {
                    "CapacityReservationTarget": {"CapacityReservationId": order.reservation}
                }
            }
            return target | ({"InstanceMarketOptions": {"MarketType": "capacity-block"}} if block else {})
        case _:
            assert_never(order.purchase)


def request_of(
    order: Order,
    *,
    interfaces: Sequence[Mapping[str, Any]],
    placement_group: str | None,
    image: tuple[str, str],
    market: Mapping[str, Any],
) -> Request:
    """The create call as plain JSON. Pure: the same order yields the same request.

    Args:
        order: the order.
        interfaces: from :func:`gpucloud_aws.cluster.interfaces`; their subnet decides the zone.
        placement_group: the name of the group that keeps the instances close together; ``None`` for none.
        image: ``ImageId`` and root device.
        market: from :func:`market_of`.
    """
    kinds = ["instance", "volume", "network-interface"]
    if order.purchase is Purchase.SPOT:
        kinds.append("spot-instances-request")
    image_id, root_device = image
    disk = {"VolumeSize": order.disk_gib, "VolumeType": "gp3", "DeleteOnTermination": True, "Encrypted": True}
    call: dict[str, Any] = {
        "ClientToken": order.key,
        "MinCount": len(order.ranks),
        "MaxCount": len(order.ranks),
        "InstanceType": order.instance_type,
        "ImageId": image_id,
        "UserData": base64.b64encode(order.user_data).decode(),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "BlockDeviceMappings": [{"DeviceName": root_device, "Ebs": disk}],
        "NetworkInterfaces": list(interfaces),
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "InstanceMetadataTags": "enabled",
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags_of(order)} for kind in kinds],
        **({"Placement": {"GroupName": placement_group}} if placement_group else {}),
        **market,
    }
    return {"account": order.account, "region": order.region, "run_instances": call}


def create(request: Request, ec2: EC2Client, zone_id: Callable[[str], str]) -> Sequence[Machine]:
    """Sends the call, once.

    Args:
        request: from :func:`request_of`.
        ec2: a client that sends once.
        zone_id: returns the AZ id of an AZ name.
    """
    account, region = request["account"], request["region"]
    call = dict(request["run_instances"])
    call["UserData"] = base64.b64decode(call["UserData"])  # boto3 encodes it by itself
    answer = ec2.run_instances(**call)
    with reading("RunInstances"):
        return [
            machine_of(instance, account=account, region=region, zone_id=zone_id)
            for instance in answer["Instances"]
        ]
