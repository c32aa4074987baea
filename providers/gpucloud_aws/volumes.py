"""Volumes: EBS volumes that outlive instances.

Sources: EC2 API reference, CreateVolume, AttachVolume and their errors; EBS User Guide, "gp3 volumes", and
"Map EBS volumes to NVMe device names", read 2026-11-23.
"""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpucloud.clouds.abilities import Volumes
from gpucloud.clouds.provider import Record
from gpucloud.resources import Ref, Request, Resource, ResourceKind, VolumeOrder
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import code_of, reading
from gpucloud_aws.find import resource_of

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

SIZES_GIB = (1, 64 * 1024)
DEVICES = "fghijklmnop"
"""The letters that are recommended for EBS volumes: EC2 User Guide, "Device names for volumes"."""


class AwsVolumes(Volumes):
    """EBS volumes."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size."""
        return SIZES_GIB

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:  # noqa: ARG002
        """The create call as plain JSON: a volume needs nothing beside itself."""
        tags = {"Name": order.name, **order.tags.as_dict()}
        call = {
            "ClientToken": order.key,
            "AvailabilityZoneId": order.zone,
            "Size": order.size_gib,
            **({"SnapshotId": order.snapshot.id} if order.snapshot else {}),
            "VolumeType": "gp3",
            "Encrypted": True,
            "TagSpecifications": [
                {
                    "ResourceType": "volume",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        }
        return {"account": order.account, "region": order.region, "create_volume": call}

    def create_volume(self, request: Request, /) -> Resource:
        """Sends the call, once; AWS recognises a repeated call by its token."""
        region = request["region"]
        answer = self._account.clients.ec2_once(region).create_volume(**request["create_volume"])
        with reading("CreateVolume"):
            return resource_of(
                ResourceKind.DISK,
                answer,
                account=request["account"],
                region=region,
                zone_id=self._account.zone_id_in(region),
            )

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:
        """Attaches a volume; returns the link that udev makes to its NVMe device, and older types' device."""
        self._account.refuse_foreign(disk)
        ec2, letter = self._account.clients.ec2_once(disk.region), DEVICES[number]
        try:
            ec2.attach_volume(VolumeId=disk.id, InstanceId=machine.id, Device=f"/dev/sd{letter}")
        except Exception as error:
            if code_of(error) != "VolumeInUse" or not _is_attached(disk.id, machine.id, ec2):
                raise
        by_id = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{disk.id.replace('-', '')}"
        return [by_id, f"/dev/xvd{letter}"]


def _is_attached(disk_id: str, instance_id: str, ec2: EC2Client) -> bool:
    """Whether an earlier try has attached it."""
    shown = ec2.describe_volumes(VolumeIds=[disk_id])["Volumes"]
    return any(
        each.get("InstanceId") == instance_id for volume in shown for each in volume.get("Attachments", [])
    )
