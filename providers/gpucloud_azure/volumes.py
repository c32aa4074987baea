"""Volumes: managed disks that outlive machines, each in a resource group of its own.

A disk in the resource group of a box would be deleted with the box. Sources: azure-mgmt-compute, ``Disk`` and
``DataDisk``; azure-compute-docs, disks-types.md, read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpucloud.clouds.provider import Record
from gpucloud.resources import Ref, Request, Resource, ResourceKind, VolumeOrder
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import MalformedAnswerError
from gpucloud_azure.find import CLOUD, resource_of
from gpucloud_azure.ids import TYPES, group_id, id_in
from gpucloud_azure.network import all_tags, group_name, put

SIZES_GIB = (1, 32767)
DISK_TYPE = "Premium_LRS"


def prepare(order: VolumeOrder, record: Record, clients: Clients) -> Request:
    """Creates the resource group of a volume, or finds it; returns the disk's PUT as plain JSON.

    Azure encrypts every disk at rest. Nobody may download it: by default anybody with the right to read it
    could make a link.
    """
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
    body = {
        "location": order.region,
        **({"zones": [order.zone]} if order.zone else {}),
        "tags": tags,
        "sku": {"name": DISK_TYPE},
        "properties": {
            "creationData": {"createOption": "Empty"},
            "diskSizeGB": order.size_gib,
            "networkAccessPolicy": "DenyAll",
            "publicNetworkAccess": "Disabled",
        },
    }
    return {
        "account": order.account,
        "id": id_in(order.account, group, ResourceKind.DISK, order.name),
        "disk": body,
    }


def create(request: Request, clients: Clients) -> Resource:
    """Puts the disk, and waits until it is provisioned."""
    kind = ResourceKind.DISK
    answer = put(clients, request["id"], kind, request["disk"])
    disk = resource_of({**answer, "type": TYPES[kind].type, "id": request["id"]}, request["account"])
    if disk is None:
        raise MalformedAnswerError("the answer to the PUT of a disk is no disk")
    return disk


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


def devices(number: int) -> list[str]:
    """The links that Azure's udev rules make to a data disk: those of SCSI sizes, and of NVMe sizes."""
    return [f"/dev/disk/azure/scsi1/lun{number}", f"/dev/disk/azure/data/by-lun/{number}"]
