"""Volumes: data disks that outlive instances; and snapshots of them.

Sources: ECS API reference, CreateDisk, AttachDisk, CreateSnapshot; ECS user guide, "ESSDs" and "Snapshots",
read 2026-11-24. A disk that was never attached has no snapshot: ``IncorrectDiskStatus.NeverAttached``.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpucloud.clouds.abilities import Snapshots, Volumes
from gpucloud.clouds.provider import Record
from gpucloud.resources import Ref, Request, Resource, ResourceKind, SnapshotOrder, State, Tags, VolumeOrder
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import Clients, listed
from gpucloud_alibaba.describe import ref_of
from gpucloud_alibaba.errors import code_of, named, reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_alibaba.prices import DISK_CATEGORY

SIZES_GIB = (20, 64 * 1024)
"""Of an ESSD of level PL1."""


class AlibabaVolumes(Volumes):
    """Data disks."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size."""
        return SIZES_GIB

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:  # noqa: ARG002
        """The create call as plain JSON: a disk needs nothing beside itself."""
        call = {
            "RegionId": order.region,
            "ZoneId": order.zone,
            "DiskName": order.name,
            "Size": order.size_gib,
            "DiskCategory": DISK_CATEGORY,
            "PerformanceLevel": "PL1",
            "Encrypted": True,
            "ClientToken": order.key,
            **({"SnapshotId": order.snapshot.id} if order.snapshot else {}),
            "Tag": [{"Key": key, "Value": value} for key, value in order.tags.as_dict().items()],
        }
        return {"account": order.account, "create_disk": call}

    def create_volume(self, request: Request, /) -> Resource:
        """Sends the call, once; the cloud recognises a repeated one by its token.

        The answer has the id only; all other fields are as ordered.
        """
        models, call = ecs_models(), request["create_disk"]
        asked = models.CreateDiskRequest().from_map(dict(call))
        answer = self._account.clients.ecs(call["RegionId"]).create_disk(asked).body
        with reading("CreateDisk"):
            id_ = named(answer.disk_id)
        return Resource(
            ref=ref_of(request["account"], call["RegionId"], ResourceKind.DISK, id_),
            state=State.PENDING,
            tags=Tags.parse({tag["Key"]: tag["Value"] for tag in call["Tag"]}),
            size_gib=call["Size"],
            zone=call["ZoneId"],
        )

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:  # noqa: ARG002
        """Attaches a disk, which outlives the instance; returns the link that udev makes to it.

        A disk's serial number is its id without ``d-`` (ECS user guide, "Query the serial number of a disk").
        """
        self._account.refuse_foreign(disk)
        clients = self._account.clients
        asked = ecs_models().AttachDiskRequest(
            instance_id=machine.id, disk_id=disk.id, delete_with_instance=False
        )
        try:
            clients.ecs(disk.region).attach_disk(asked)
        except Exception as error:
            if code_of(error) != "IncorrectDiskStatus" or not _is_attached(disk, machine.id, clients):
                raise
        return [f"/dev/disk/by-id/virtio-{disk.id.removeprefix('d-')}"]


class AlibabaSnapshots(Snapshots):
    """Snapshots of disks."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:  # noqa: ARG002
        """The create call as plain JSON; the cloud itself deletes it after ``RetentionDays``."""
        call = {
            "DiskId": order.of.id,
            "SnapshotName": order.name,
            "RetentionDays": order.keep_days,
            "ClientToken": order.key,
            "Tag": [{"Key": key, "Value": value} for key, value in order.tags.as_dict().items()],
        }
        about = {"account": order.account, "region": order.region, "size_gib": order.size_gib}
        return {**about, "create_snapshot": call}

    def create_snapshot(self, request: Request, /) -> Resource:
        """Sends the call, once; the cloud recognises a repeated one by its token.

        The answer has the id only; all other fields are as ordered.
        """
        models, call = ecs_models(), request["create_snapshot"]
        asked = models.CreateSnapshotRequest().from_map(dict(call))
        answer = self._account.clients.ecs(request["region"]).create_snapshot(asked).body
        with reading("CreateSnapshot"):
            id_ = named(answer.snapshot_id)
        return Resource(
            ref=ref_of(request["account"], request["region"], ResourceKind.SNAPSHOT, id_),
            state=State.PENDING,
            tags=Tags.parse({tag["Key"]: tag["Value"] for tag in call["Tag"]}),
            size_gib=request["size_gib"],
        )


def _is_attached(disk: Ref, instance_id: str, clients: Clients) -> bool:
    """Whether an earlier try has attached it."""
    asked = ecs_models().DescribeDisksRequest(region_id=disk.region, instance_id=instance_id)
    body = clients.ecs(disk.region).describe_disks(asked).body
    with reading("DescribeDisks"):
        return any(each.disk_id == disk.id for each in listed(body.disks.disk))
