"""Snapshots of disks, and the account's own images, which are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gpucloud_sandbox.alibaba import bills
from gpucloud_sandbox.alibaba.disks import disks_of, find_disk, find_ready_snapshot, find_snapshot
from gpucloud_sandbox.alibaba.images import IMAGES, images_of
from gpucloud_sandbox.alibaba.instances import find_instance
from gpucloud_sandbox.alibaba.region import CLOUD, Region, asked_tags, ecs_tags, has_tags, page, shown
from gpucloud_sandbox.alibaba.review import review_tags
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.tokens import once
from gpucloud_sandbox.alibaba.wire import AlibabaError, json_list, true
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

PER_DISK = 256
"""How many snapshots a disk may have. Source: ECS user guide, "Snapshots", limits."""

_SAME = {
    "DiskId": "SourceDiskId",
    "Encrypted": "Encrypted",
    "SnapshotName": "SnapshotName",
    "SnapshotType": "SnapshotType",
    "SourceDiskType": "SourceDiskType",
    "Status": "Status",
    "Usage": "Usage",
}
"""Parameters of a search, and the members of a snapshot that they ask about."""


# --- snapshots


def create_snapshot(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSnapshot: one at a time of each disk."""
    review_tags(parameters)
    disk = find_disk(region, parameters["DiskId"])
    days = int(parameters.get("RetentionDays", 0))
    if "RetentionDays" in parameters and not 1 <= days <= 65536:
        raise AlibabaError("InvalidRetentionDays.Malformed", "The specified RetentionDays is not valid.")
    tags = asked_tags(parameters)

    def make() -> Document:
        made = _take(region, disk, parameters, tags=tags, days=days)
        return {"SnapshotId": made["SnapshotId"]}

    return once(region, "CreateSnapshot", parameters, make)


def _take(
    region: Region, disk: Document, about: Mapping[str, Any], *, tags: Mapping[str, str], days: int = 0
) -> Document:
    if not disk["InstanceId"] and not disk["DetachedTime"]:
        text = "The specified disk has never been attached to any instance."
        raise AlibabaError("IncorrectDiskStatus.NeverAttached", text, 403)
    earlier = [each for each in region.all("snapshot").values() if each["SourceDiskId"] == disk["DiskId"]]
    if any(each["Status"] == "progressing" for each in earlier):
        text = "A previous snapshot creation is in process."
        raise AlibabaError("IncorrectDiskStatus.CreatingSnapshot", text, 403)
    if len(earlier) >= PER_DISK:
        raise AlibabaError("QuotaExceed.Snapshot", "The snapshot quota exceeds.", 403)
    snapshot = region.put(
        "snapshot",
        {
            "SnapshotId": region.new_id("snapshot"),
            "SnapshotName": about.get("SnapshotName", ""),
            "Description": about.get("Description", ""),
            "SnapshotType": "user",
            "Category": "standard",
            "RegionId": region.name,
            "SourceDiskId": disk["DiskId"],
            "SourceDiskSize": str(disk["Size"]),
            "SourceDiskType": disk["Type"],
            "SourceStorageType": "disk",
            "Encrypted": disk["Encrypted"],
            "Status": "progressing",
            "Progress": "0%",
            "Usage": "none",
            "RetentionDays": days,
            "CreationTime": region.second,
            "LastModifiedTime": region.second,
            "Tags": ecs_tags(tags),
            "_base": disk["_base"],
            "_done_at": region.later(region.world.dials.pace.transition_s),
            "_ends_at": stamp(region.now + timedelta(days=days)) if days else None,
        },
    )
    price = region.world.market.snapshot_price(CLOUD, region.name, disk["Size"])
    token = about.get("ClientToken", "")
    bills.begin(region, "snapshot", snapshot["SnapshotId"], price, tags=tags, token=token)
    if disk["Type"] == "system":
        region.world.boxes.copy_root(disk["InstanceId"], snapshot["SnapshotId"])
    else:
        region.world.boxes.copy(disk["DiskId"], snapshot["SnapshotId"])
    return snapshot


def describe_snapshots(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSnapshots."""
    ids = json_list(parameters.get("SnapshotIds"), "SnapshotIds")
    instance = parameters.get("InstanceId")
    disks = None if instance is None else {each["DiskId"] for each in disks_of(region, instance)}
    given = {member: str(parameters.get(name, "")).lower() for name, member in _SAME.items()}
    wanted = {member: value for member, value in given.items() if value not in {"", "all"}}
    found = [
        each
        for each in region.all("snapshot").values()
        if (ids is None or each["SnapshotId"] in ids)
        and (disks is None or each["SourceDiskId"] in disks)
        and all(str(each[member]).lower() == value for member, value in wanted.items())
        and has_tags(each, parameters)
    ]
    items, about = page(found, parameters)
    return {"Snapshots": {"Snapshot": [shown(each) for each in items]}, **about}


def delete_snapshot(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteSnapshot: never one of an image, and by force only one that a disk was made of."""
    snapshot = find_snapshot(region, parameters["SnapshotId"])
    if "image" in snapshot["Usage"]:
        text = "The snapshot has been used to create an image."
        raise AlibabaError("SnapshotCreatedImage", text, 403)
    if "disk" in snapshot["Usage"] and not true(parameters.get("Force")):
        text = "The snapshot has been used to create a disk."
        raise AlibabaError("SnapshotCreatedDisk", text, 403)
    _drop(region, snapshot, "deleted")
    return {}


def settle(region: Region) -> None:
    """What is being made is done; what is kept for some days only ends after them."""
    for snapshot in list(region.all("snapshot").values()):
        if snapshot["_ends_at"] and snapshot["_ends_at"] <= region.stamp and snapshot["Usage"] == "none":
            _drop(region, snapshot, "kept for as long as asked")
        elif snapshot["Status"] == "progressing" and snapshot["_done_at"] <= region.stamp:
            region.put("snapshot", {**snapshot, "Status": "accomplished", "Progress": "100%"})
    for image in list(region.all("image").values()):
        parts = [find_snapshot(region, id_) for id_ in image["_snapshots"]]
        if image["Status"] == "Creating" and all(each["Status"] == "accomplished" for each in parts):
            region.put("image", {**image, "Status": "Available", "Progress": "100%"})


def _drop(region: Region, snapshot: Document, reason: str) -> None:
    region.drop("snapshot", snapshot["SnapshotId"])
    bills.end(region, snapshot["SnapshotId"], reason)
    region.world.boxes.wipe(snapshot["SnapshotId"])


# --- images


def create_image(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateImage, of an instance with all its disks, or of the snapshot of a system disk."""
    review_tags(parameters)
    given = [parameters.get(name) for name in ("InstanceId", "SnapshotId")]
    if given.count(None) != 1:
        text = "One of the parameters InstanceId and SnapshotId is needed."
        raise AlibabaError("MissingParameter", text)
    name = parameters.get("ImageName", "")
    if name and any(each["ImageName"] == name for each in region.all("image").values()):
        raise AlibabaError("InvalidImageName.Duplicated", "The specified Image name has already existed.")
    tags = asked_tags(parameters)
    imds = _imds_of(region, parameters)

    def make() -> Document:
        snapshots = _parts(region, parameters, tags)
        system = next((each for each in snapshots if each["SourceDiskType"] == "system"), None)
        if system is None:
            text = "The specified snapshot is not of a system disk."
            raise AlibabaError("InvalidSnapshotId.NotFound", text, 404)
        id_ = region.new_id("image")
        for each in snapshots:
            usage = {"none": "image", "disk": "image_disk"}.get(each["Usage"], each["Usage"])
            region.put("snapshot", {**each, "Usage": usage})
        image = {
            "ImageId": id_,
            "ImageName": name or id_,
            "Description": parameters.get("Description", ""),
            "Status": "Creating",
            "Progress": "0%",
            "Size": int(system["SourceDiskSize"]),
            "CreationTime": region.second,
            "Tags": ecs_tags(tags),
            "_base": system["_base"],
            "_imds": imds,
            "_system": system["SnapshotId"],
            "_snapshots": [each["SnapshotId"] for each in snapshots],
        }
        region.put("image", image)
        return {"ImageId": id_}

    return once(region, "CreateImage", parameters, make)


def _imds_of(region: Region, parameters: Mapping[str, Any]) -> str:
    """Whether instances of a new image can require tokens for their metadata: v2, or v1 for not.

    Source: alibabacloud-ecs20140526 7.11.8, CreateImage, ``Features.ImdsSupport`` and its defaults.
    """
    features: Mapping[str, str] = parameters.get("Features") or {}
    asked = features.get("ImdsSupport")
    if asked not in {None, "v1", "v2"}:
        raise AlibabaError("InvalidParameter", f"The specified Features.ImdsSupport {asked!r} is not valid.")
    if asked or "InstanceId" not in parameters:
        return asked or "v1"
    id_ = find_instance(region, parameters["InstanceId"])["ImageId"]
    return next((each.imds for each in images_of(region) if each.id == id_), "v1")


def _parts(region: Region, parameters: Mapping[str, Any], tags: Mapping[str, str]) -> list[Document]:
    if id_ := parameters.get("SnapshotId"):
        return [find_ready_snapshot(region, id_)]
    instance = find_instance(region, parameters["InstanceId"])
    if instance["Status"] not in {"Running", "Stopped"}:
        text = "The current status of the resource does not support this operation."
        raise AlibabaError("IncorrectInstanceStatus", text, 403)
    return [_take(region, disk, {}, tags=tags) for disk in disks_of(region, instance["InstanceId"])]


def delete_image(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteImage: what is not there is no error; its snapshots stay, and are billed."""
    id_ = parameters["ImageId"]
    if any(image.id == id_ for image in IMAGES):
        raise AlibabaError("InvalidImageId.NotFound", "The specified ImageId does not exist.", 404)
    image = region.all("image").get(id_)
    if image is None:
        return {}
    used = any(alive(each) and each["ImageId"] == id_ for each in region.all("instance").values())
    if used and not true(parameters.get("Force")):
        raise AlibabaError("ImageIsUsed", "The specified image is used by instances.", 403)
    region.drop("image", id_)
    for part in image["_snapshots"]:
        snapshot = find_snapshot(region, part)
        if not any(part in each["_snapshots"] for each in region.all("image").values()):
            usage = {"image": "none", "image_disk": "disk"}[snapshot["Usage"]]
            region.put("snapshot", {**snapshot, "Usage": usage})
    return {}
