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
from gpucloud_aws.errors import code_of, reading
from gpucloud_aws.find import resource_of

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

SIZES_GIB = (1, 64 * 1024)
DEVICES = "fghijklmnop"
"""The letters that are recommended for EBS volumes: EC2 User Guide, "Device names for volumes"."""


def request_of(order: VolumeOrder) -> Request:
    """The create call as plain JSON. Pure: the same order yields the same request."""
    tags = {"Name": order.name, **order.tags.as_dict()}
    call = {
        "ClientToken": order.key,
        "AvailabilityZoneId": order.zone,
        "Size": order.size_gib,
        **({"SnapshotId": order.snapshot.id} if order.snapshot else {}),
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


def attach(disk_id: str, instance_id: str, number: int, ec2: EC2Client) -> list[str]:
    """Attaches a volume; returns the link that udev makes to its NVMe device, and older types' device."""
    letter = DEVICES[number]
    try:
        ec2.attach_volume(VolumeId=disk_id, InstanceId=instance_id, Device=f"/dev/sd{letter}")
    except Exception as error:
        if code_of(error) != "VolumeInUse" or not _is_attached(disk_id, instance_id, ec2):
            raise
    by_id = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{disk_id.replace('-', '')}"
    return [by_id, f"/dev/xvd{letter}"]


def _is_attached(disk_id: str, instance_id: str, ec2: EC2Client) -> bool:
    """Whether an earlier try has attached it."""
    shown = ec2.describe_volumes(VolumeIds=[disk_id])["Volumes"]
    return any(
        each.get("InstanceId") == instance_id for volume in shown for each in volume.get("Attachments", [])
    )
