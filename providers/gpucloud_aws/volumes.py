"""Volumes: EBS volumes that outlive instances.

Sources: EC2 API reference, CreateVolume, AttachVolume and their errors; EBS User Guide, "gp3 volumes", and
"Map EBS volumes to NVMe device names", read 2026-11-23.
"""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpucloud.resources import Request, Resource, ResourceKind, VolumeOrder
from gpucloud_aws.errors import reading
from gpucloud_aws.find import resource_of

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

SIZES_GIB = (1, 64 * 1024)


def request_of(order: VolumeOrder) -> Request:
    """The create call as plain JSON. Pure: the same order yields the same request."""
    tags = {"Name": order.name, **order.tags.as_dict()}
    call = {
        "ClientToken": order.key,
        "AvailabilityZoneId": order.zone,
        "Size": order.size_gib,
        "VolumeType": "gp3",
        "Encrypted": True,
        "TagSpecifications": [
            {"ResourceType": "volume", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    }
    return {"account": order.account, "region": order.region, "create_volume": call}


def create(request: Request, ec2: EC2Client, zone_id: Callable[[str], str]) -> Resource:
    """Sends the call, once.

    Args:
        request: from :func:`request_of`.
        ec2: a client that sends once.
        zone_id: returns the AZ id of an AZ name.
    """
    answer = ec2.create_volume(**request["create_volume"])
    with reading("CreateVolume"):
        return resource_of(
            ResourceKind.DISK,
            answer,
            account=request["account"],
            region=request["region"],
            zone_id=zone_id,
        )
