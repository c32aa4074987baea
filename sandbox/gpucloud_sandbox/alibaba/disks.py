"""Disks: their kinds, prices and owners. A box does not see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucloud_sandbox.alibaba import bills
from gpucloud_sandbox.alibaba.images import Image
from gpucloud_sandbox.alibaba.region import CLOUD, Region, ecs_tags, tags_of
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.database import Document

DATA_DISKS = 16
"""How many data disks an instance takes. Source: ECS API reference, RunInstances, ``DataDisk.N``."""

SYSTEM_MOST_GIB = 2048
"""The largest system disk. Source: as above, ``SystemDisk.Size``."""

_SIZES = {
    "cloud_essd": (1, 65536),
    "cloud_auto": (1, 65536),
    "cloud_ssd": (20, 32768),
    "cloud_efficiency": (20, 32768),
}
"""From how many GiB to how many a data disk is. Source: as above, ``DataDisk.N.Size``."""

_LEVELS = {"PL0": 1, "PL1": 20, "PL2": 461, "PL3": 1261}
"""The least size of an ESSD of each level, in GiB. Source: ECS user guide, "ESSDs"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOrder:
    """A disk that is to be made, checked."""

    type: str
    category: str
    level: str
    gib: int
    encrypted: bool
    deleted_with_instance: bool
    name: str
    description: str
    snapshot: str


def read_system_disk(asked: Mapping[str, Any], image_gib: int) -> DiskOrder:
    """The system disk of a launch.

    Raises:
        AlibabaError: there is no such disk, or the image does not fit on it.
    """
    order = _read("system", asked, int(asked.get("Size", max(40, image_gib))))
    if order.gib < image_gib:
        raise AlibabaError(
            "InvalidSystemDiskSize.LessThanImageSize", "The system disk is smaller than the image."
        )
    low, high = _sizes(order)
    if not low <= order.gib <= min(high, SYSTEM_MOST_GIB):
        raise AlibabaError("InvalidSystemDiskSize", f"The system disk's size {order.gib} is not valid.")
    return order


def read_data_disk(region: Region, asked: Mapping[str, Any]) -> DiskOrder:
    """A data disk of a launch, or one by itself; of a snapshot it is as large, and as encrypted.

    Raises:
        AlibabaError: there is no such disk.
    """
    gib = int(asked.get("Size", 0))
    if id_ := asked.get("SnapshotId"):
        snapshot = find_ready_snapshot(region, id_)
        gib = max(gib, int(snapshot["SourceDiskSize"]))
        asked = {**asked, "Encrypted": snapshot["Encrypted"] or asked.get("Encrypted")}
    order = _read("data", asked, gib)
    low, high = _sizes(order)
    if not low <= order.gib <= high:
        raise AlibabaError(
            "InvalidDataDiskSize.ValueNotSupported", f"The specified disk size {order.gib} is not valid.", 403
        )
    return order


def _read(type_: str, asked: Mapping[str, Any], gib: int) -> DiskOrder:
    category = asked.get("Category", "cloud_efficiency")
    if category not in _SIZES:
        which = {"system": "InvalidSystemDiskCategory", "data": "InvalidDataDiskCategory"}[type_]
        raise AlibabaError(f"{which}.ValueNotSupported", f"The category {category} is not valid.")
    level = asked.get("PerformanceLevel", "PL1") if category == "cloud_essd" else ""
    if level and level not in _LEVELS:
        raise AlibabaError(
            "InvalidPerformanceLevel.Malformed", f"The performance level {level} is not valid."
        )
    return DiskOrder(
        type=type_,
        category=category,
        level=level,
        gib=gib,
        encrypted=true(asked.get("Encrypted")),
        deleted_with_instance=true(asked.get("DeleteWithInstance", "true")),
        name=asked.get("DiskName", ""),
        description=asked.get("Description", ""),
        snapshot=asked.get("SnapshotId", ""),
    )


def _sizes(order: DiskOrder) -> tuple[int, int]:
    low, high = _SIZES[order.category]
    return _LEVELS.get(order.level, low), high


# --- finding


def find_disk(region: Region, id_: str) -> Document:
    """A disk by id.

    Raises:
        AlibabaError: there is none.
    """
    disk = region.all("disk").get(id_)
    if disk is None:
        raise AlibabaError("InvalidDiskId.NotFound", "The specified disk does not exist.", 404)
    return disk


def find_snapshot(region: Region, id_: str) -> Document:
    """A snapshot by id.

    Raises:
        AlibabaError: there is none.
    """
    snapshot = region.all("snapshot").get(id_)
    if snapshot is None:
        raise AlibabaError("InvalidSnapshotId.NotFound", "The specified SnapshotId does not exist.", 404)
    return snapshot


def find_ready_snapshot(region: Region, id_: str) -> Document:
    """A snapshot that something can be made of.

    Raises:
        AlibabaError: there is none, or it is being made.
    """
    snapshot = find_snapshot(region, id_)
    if snapshot["Status"] != "accomplished":
        raise AlibabaError("InvalidSnapshotId.NotReady", "The specified snapshot has not completed yet.", 403)
    return snapshot


# --- making and ending


def make_disk(
    region: Region,
    order: DiskOrder,
    *,
    zone: str,
    tags: Mapping[str, str],
    token: str = "",
    image: Image | None = None,
) -> Document:
    """A new disk, attached to nothing; its bill begins."""
    if order.snapshot:
        snapshot = find_snapshot(region, order.snapshot)
        usage = {"none": "disk", "image": "image_disk"}.get(snapshot["Usage"], snapshot["Usage"])
        region.put("snapshot", {**snapshot, "Usage": usage})
    disk = region.put(
        "disk",
        {
            "DiskId": region.new_id("disk"),
            "DiskName": order.name,
            "Description": order.description,
            "Type": order.type,
            "Category": order.category,
            "PerformanceLevel": order.level,
            "Size": order.gib,
            "Encrypted": order.encrypted,
            "KMSKeyId": "",
            "RegionId": region.name,
            "ZoneId": zone,
            "Status": "Available",
            "InstanceId": "",
            "Device": "",
            "AttachedTime": "",
            "DetachedTime": "",
            "Attachments": {"Attachment": []},
            "DeleteWithInstance": order.deleted_with_instance,
            "DeleteAutoSnapshot": True,
            "EnableAutoSnapshot": False,
            "MultiAttach": "Disabled",
            "Portable": order.type == "data",
            "DiskChargeType": "PostPaid",
            "SourceSnapshotId": order.snapshot,
            "ImageId": image.id if image else "",
            "CreationTime": region.second,
            "Tags": ecs_tags(tags),
            "_base": image.base if image else "",
        },
    )
    _bill(region, disk, token)
    source = order.snapshot or (image.snapshot if image else "")
    if source:
        region.world.boxes.copy(source, disk["DiskId"])
    return disk


def attach(region: Region, disk: Document, instance_id: str) -> Document:
    """Attaches a disk by the next device name."""
    taken = {each["Device"] for each in disks_of(region, instance_id)}
    letters = "a" if disk["Type"] == "system" else "bcdefghijklmnopqrstuvwxyz"
    device = next(name for letter in letters if (name := f"/dev/xvd{letter}") not in taken)
    if disk["Type"] == "data":
        serial = f"/dev/disk/by-id/virtio-{disk['DiskId'].removeprefix('d-')}"
        region.world.boxes.plug(instance_id, serial, disk["DiskId"])
    held: Document = {"InstanceId": instance_id, "Device": device, "AttachedTime": region.second}
    return region.put("disk", {**disk, **held, "Status": "In_use", "Attachments": {"Attachment": [held]}})


def detach(region: Region, disk: Document) -> Document:
    """Detaches a disk; it is kept, and billed."""
    if disk["InstanceId"]:
        region.world.boxes.unplug(disk["InstanceId"], disk["DiskId"])
    free: Document = {"InstanceId": "", "Device": "", "AttachedTime": "", "Attachments": {"Attachment": []}}
    return region.put("disk", {**disk, **free, "Status": "Available", "DetachedTime": region.second})


def disks_of(region: Region, instance_id: str) -> list[Document]:
    """The disks of an instance."""
    return [each for each in region.all("disk").values() if each["InstanceId"] == instance_id]


def let_go(region: Region, instance_id: str) -> None:
    """What becomes of the disks of an instance that is released."""
    for disk in disks_of(region, instance_id):
        if disk["DeleteWithInstance"]:
            drop(region, disk, "released with its instance")
        else:
            detach(region, disk)


def check_disk_count(count: int) -> None:
    """Refuses more data disks than an instance takes."""
    if count > DATA_DISKS:
        text = "The amount of the disk on instance in question reach its limits."
        raise AlibabaError("InstanceDiskLimitExceeded", text, 403)


def resize(region: Region, disk: Document, gib: int, token: str) -> None:
    """Makes a disk larger. What it costs changes at once.

    Raises:
        AlibabaError: it would be no larger, or too large.
    """
    if gib <= disk["Size"]:
        text = "Specified new disk size is less than the original disk size."
        raise AlibabaError("InvalidDiskSize.TooSmall", text, 403)
    most = SYSTEM_MOST_GIB if disk["Type"] == "system" else _SIZES[disk["Category"]][1]
    if gib > most:
        raise AlibabaError("InvalidDiskSize.NotSupported", f"The disk has at most {most} GiB.")
    bills.end(region, disk["DiskId"], "resized")
    _bill(region, region.put("disk", {**disk, "Size": gib}), token)


def drop(region: Region, disk: Document, reason: str) -> None:
    """Deletes a disk; its bill ends."""
    region.drop("disk", disk["DiskId"])
    region.world.boxes.wipe(disk["DiskId"])
    bills.end(region, disk["DiskId"], reason)


def _bill(region: Region, disk: Document, token: str) -> None:
    price = region.world.market.disk_price(CLOUD, region.name, disk["Size"])
    bills.begin(region, "disk", disk["DiskId"], price, tags=tags_of(disk), zone=disk["ZoneId"], token=token)
