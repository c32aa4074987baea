"""Volumes and snapshots: managed disks that outlive machines, each in a resource group of its own.

What is in the resource group of a box would be deleted with the box. A snapshot is incremental: it is billed
for what it holds, and a disk can be made of it at once (azure-compute-docs, disks-incremental-snapshots.md,
read 2026-11-24). Sources: azure-mgmt-compute, ``Disk`` and
``DataDisk``; azure-compute-docs, disks-types.md, read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpucloud.clouds.abilities import Snapshots, Volumes
from gpucloud.clouds.provider import Record
from gpucloud.resources import Ref, Request, Resource, ResourceKind, SnapshotOrder, VolumeOrder
from gpucloud_azure.account import AzureAccount
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import MalformedAnswerError
from gpucloud_azure.find import CLOUD, resource_of
from gpucloud_azure.ids import TYPES, group_id, id_in
from gpucloud_azure.network import all_tags, group_name, put

SIZES_GIB = (1, 32767)
DISK_TYPE = "Premium_LRS"
CLOSED = {"networkAccessPolicy": "DenyAll", "publicNetworkAccess": "Disabled"}
"""Nobody may download what is stored: by default anybody with the right to read it could make a link."""


class AzureVolumes(Volumes):
    """Managed disks."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size."""
        return SIZES_GIB

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:
        """Creates the resource group of a volume, or finds it; returns the disk's PUT as plain JSON.

        Azure encrypts every disk at rest.
        """
        origin = {"createOption": "Empty"}
        if order.snapshot is not None:
            origin = {"createOption": "Copy", "sourceResourceId": order.snapshot.id}
        more = {
            **({"zones": [order.zone]} if order.zone else {}),
            "sku": {"name": DISK_TYPE},
            "properties": {"creationData": origin, "diskSizeGB": order.size_gib, **CLOSED},
        }
        return _request(order, ResourceKind.DISK, more, record, self._account.clients)

    def create_volume(self, request: Request, /) -> Resource:
        """Puts the disk, recognised by its name when repeated, and waits until it is provisioned."""
        return _create(request, self._account.clients)

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:  # noqa: ARG002
        """The PUT of the machine has attached it.

        Returns the links that Azure's udev rules make: those of SCSI sizes, and of NVMe sizes.
        """
        return [f"/dev/disk/azure/scsi1/lun{number}", f"/dev/disk/azure/data/by-lun/{number}"]


class AzureSnapshots(Snapshots):
    """Incremental snapshots of managed disks."""

    def __init__(self, account: AzureAccount) -> None:
        self._account = account

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Creates the resource group of a snapshot, or finds it; returns its PUT as plain JSON."""
        origin = {"createOption": "Copy", "sourceResourceId": order.of.id}
        properties = {"creationData": origin, "incremental": True, **CLOSED}
        clients = self._account.clients
        return _request(order, ResourceKind.SNAPSHOT, {"properties": properties}, record, clients)

    def create_snapshot(self, request: Request, /) -> Resource:
        """Puts the snapshot, recognised by its name when repeated, and waits until it is provisioned."""
        return _create(request, self._account.clients)


def _request(
    order: VolumeOrder | SnapshotOrder,
    kind: ResourceKind,
    more: Mapping[str, Any],
    record: Record,
    clients: Clients,
) -> Request:
    make_group(order, record, clients)
    return {
        "account": order.account,
        "kind": str(kind),
        "id": id_in(order.account, group_name(order), kind, order.name),
        "body": {"location": order.region, "tags": all_tags(order.name, {}, order.tags), **more},
    }


def make_group(order: VolumeOrder | SnapshotOrder, record: Record, clients: Clients) -> None:
    """Creates the resource group of what is stored, or finds it."""
    group = group_name(order)
    tags = all_tags(order.name, {}, order.tags)
    record.making(ResourceKind.RESOURCE_GROUP, group)
    clients.resources().resource_groups.create_or_update(group, {"location": order.region, "tags": tags})
    record.made(
        Ref(
            cloud=CLOUD,
            account=order.account,
            region=order.region,
            kind=ResourceKind.RESOURCE_GROUP,
            id=group_id(order.account, group),
        )
    )


def _create(request: Request, clients: Clients) -> Resource:
    """Puts the disk or the snapshot, and waits until it is provisioned."""
    kind = ResourceKind(request["kind"])
    answer = put(clients, request["id"], kind, request["body"])
    made = resource_of({**answer, "type": TYPES[kind].type, "id": request["id"]}, request["account"])
    if made is None:
        raise MalformedAnswerError(f"the answer to the PUT of a {kind} is no {kind}")
    return made


def data_disks(disks: Sequence[Ref]) -> list[dict[str, Any]]:
    """The part of a machine's PUT that attaches disks, which outlive the machine."""
    return [
        {
            "lun": number,
            "createOption": "Attach",
            "deleteOption": "Detach",
            "managedDisk": {"id": disk.id},
        }
        for number, disk in enumerate(disks)
    ]
