"""Snapshots of volumes, which outlive the volume and its instance, and are billed until they are deleted.

EBS bills the blocks that have changed since the snapshot before. The sandbox's volumes hold no blocks: every
snapshot is billed as the first one of a full volume. Sources: EC2 API Reference, "Error codes for the Amazon
EC2 API".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gpucloud_sandbox.aws import billing
from gpucloud_sandbox.aws.boxes import root_of
from gpucloud_sandbox.aws.disks import find_snapshot, find_volume
from gpucloud_sandbox.aws.instances import find_instances
from gpucloud_sandbox.aws.keys import check_key, usable_key
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import ACCOUNT, CLOUD, Region, tags_of
from gpucloud_sandbox.aws.review import review_storage
from gpucloud_sandbox.aws.tags import tags_of_made
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

_APART = timedelta(seconds=15)
"""Between concurrent snapshots of one volume. Source: error codes, SnapshotCreationPerVolumeRateExceeded."""

_OF_A_COPY = "vol-ffffffff"
"""What a copy calls its volume. Source: EC2 API Reference, CopySnapshot: "an arbitrary source volume ID"."""

_OWNER = re.compile(r"\d{12}|self|amazon|all")

_FILTERS: dict[str, Field] = {
    "description": "Description",
    "encrypted": "Encrypted",
    "owner-id": "OwnerId",
    "progress": "Progress",
    "snapshot-id": "SnapshotId",
    "start-time": "StartTime",
    "status": "State",
    "storage-tier": "StorageTier",
    "volume-id": "VolumeId",
    "volume-size": "VolumeSize",
}


def create_snapshot(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSnapshot. It knows no client token: each call makes another snapshot."""
    review_storage(parameters, "snapshot")
    tags = tags_of_made(parameters, "snapshot")
    return take(region, find_volume(region, parameters["VolumeId"]), parameters.get("Description"), tags)


def create_snapshots(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateSnapshots: of all volumes of an instance at one moment."""
    review_storage(parameters, "snapshot")
    tags = tags_of_made(parameters, "snapshot")
    asked = parameters["InstanceSpecification"]
    (instance,) = find_instances(region, [asked["InstanceId"]])
    attached = {each["Ebs"]["VolumeId"]: each["DeviceName"] for each in instance["BlockDeviceMappings"]}
    left_out = set(asked.get("ExcludeDataVolumeIds") or ())
    roots = {id_ for id_, device in attached.items() if device == instance["RootDeviceName"]}
    if wrong := left_out - (attached.keys() - roots):
        text = f"{min(wrong)} is no data volume of {instance['InstanceId']}"
        raise AwsError("InvalidParameterValue", text)  # UNVERIFIED
    if asked.get("ExcludeBootVolume"):
        left_out |= roots
    made: list[Document] = []
    for id_ in attached:
        if id_ not in left_out:
            volume = find_volume(region, id_)
            copied = tags_of(volume) if parameters.get("CopyTagsFromSource") == "volume" else {}
            all_tags = {**copied, **{tag["Key"]: tag["Value"] for tag in tags}}
            listed = [{"Key": key, "Value": value} for key, value in all_tags.items()]
            made.append(take(region, volume, parameters.get("Description"), listed))
    return {"Snapshots": made}


def copy_snapshot(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CopySnapshot, called where the copy is to be. Encryption cannot be taken away; tags are not copied."""
    review_storage(parameters, "snapshot")
    if parameters.get("DestinationRegion") not in {None, region.name}:
        text = f"The destination region must be {region.name}, where the request was sent"
        raise AwsError("InvalidParameterValue", text)  # UNVERIFIED
    tags = tags_of_made(parameters, "snapshot")
    from_ = parameters["SourceRegion"]
    source = find_snapshot(source_region(region, from_), parameters["SourceSnapshotId"])
    if source["State"] != "completed":
        text = f"Snapshot {source['SnapshotId']} is in invalid state - {source['State']}"
        raise AwsError("IncorrectState", text)
    about = parameters.get("Description") or f"[Copied {source['SnapshotId']} from {from_}]"
    if not source["Encrypted"]:
        check_key(parameters)
    copied = copy(region, source, about, tags, parameters)
    return {"SnapshotId": copied["SnapshotId"], "Tags": tags}


def describe_snapshots(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSnapshots: the account's own alone; those of the public images are not listed."""
    ids = parameters.get("SnapshotIds")
    known = region.all("snapshot")
    found = list(known.values()) if ids is None else [find_snapshot(region, id_) for id_ in ids]
    for name in ("OwnerIds", "RestorableByUserIds"):
        asked = set(parameters.get(name) or ())
        if wrong := [each for each in asked if not _OWNER.fullmatch(each)]:
            raise AwsError("InvalidUserID.Malformed", f'Invalid user id: "{min(wrong)}"')
        if asked and not {"self", ACCOUNT} & asked:
            found = []
    found = select([_shown(region, each) for each in found], parameters.get("Filters"), _FILTERS)
    shown, token = page(found, parameters, ids="SnapshotIds")
    return {"Snapshots": shown, "NextToken": token}


def delete_snapshot(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteSnapshot: not while an image needs it; volumes that were made of it need it no longer."""
    snapshot = find_snapshot(region, parameters["SnapshotId"])
    users = images_of(region, snapshot["SnapshotId"])
    if users:
        text = f"The snapshot {snapshot['SnapshotId']} is currently in use by {users[0]}"
        raise AwsError("InvalidSnapshot.InUse", text)
    drop(region, snapshot["SnapshotId"])
    return {}


def take(region: Region, volume: Document, about: str | None, tags: list[dict[str, str]]) -> Document:
    """A snapshot of a volume, which may be in use.

    Raises:
        AwsError: the volume is being made or deleted, or its last snapshot began a moment ago.
    """
    if volume["State"] not in {"available", "in-use"}:
        text = f"Volume '{volume['VolumeId']}' is in the '{volume['State']}' state."
        raise AwsError("IncorrectState", text)
    since = stamp(region.now - _APART)
    if any(
        each["VolumeId"] == volume["VolumeId"] and each["State"] == "pending" and each["StartTime"] > since
        for each in region.all("snapshot").values()
    ):
        text = (
            "The maximum per volume CreateSnapshot request rate has been exceeded. Use an increasing or "
            "variable sleep interval between requests."
        )
        raise AwsError("SnapshotCreationPerVolumeRateExceeded", text)
    snapshot = _make(region, {**volume, "VolumeSize": volume["Size"]}, about, tags)
    holder = next((each["InstanceId"] for each in volume["Attachments"]), None)
    instance = region.all("instance").get(holder or "")
    if instance is not None and root_of(instance) == volume["VolumeId"]:
        region.world.boxes.copy_root(instance["InstanceId"], snapshot["SnapshotId"])
    else:
        region.world.boxes.copy(volume["VolumeId"], snapshot["SnapshotId"])
    return snapshot


def copy(
    region: Region,
    source: Document,
    about: str,
    tags: list[dict[str, str]],
    parameters: Mapping[str, Any],
) -> Document:
    """A copy of a snapshot; the call may encrypt what is not, and name a key of this region.

    A copy whose key cannot be used fails later.
    """
    encrypted = source["Encrypted"] or parameters.get("Encrypted", False)
    key = usable_key(region, parameters.get("KmsKeyId")) if encrypted else None
    copied = {"VolumeId": _OF_A_COPY, "TransferType": "standard", "Encrypted": encrypted, "KmsKeyId": key}
    snapshot = _make(region, {**source, **copied}, about, tags)
    if "SnapshotId" in source:  # the snapshots of public images hold no files
        region.world.boxes.copy(source["SnapshotId"], snapshot["SnapshotId"])
    return snapshot


def drop(region: Region, id_: str) -> None:
    """Deletes a snapshot."""
    region.drop("snapshot", id_)
    region.world.boxes.wipe(id_)
    billing.end(region, id_, "deleted")


def images_of(region: Region, id_: str) -> list[str]:
    """The images that need a snapshot."""
    return [
        image["ImageId"]
        for image in region.all("image").values()
        if any(each.get("Ebs", {}).get("SnapshotId") == id_ for each in image["BlockDeviceMappings"])
    ]


def source_region(region: Region, name: str) -> Region:
    """The region of the source of a copy, as it is now.

    Raises:
        AwsError: there is none of this name.
    """
    if name not in region.regions:
        raise AwsError("InvalidRegion", f"Invalid region: {name}")
    source = region.elsewhere(name)
    settle(source)
    return source


def settle(region: Region) -> None:
    """Snapshots that have had their time are completed, or have failed."""
    for snapshot in list(region.all("snapshot").values()):
        if snapshot["State"] != "pending" or snapshot["_done_at"] > region.stamp:
            continue
        if snapshot["Encrypted"] and snapshot["KmsKeyId"] is None:
            failed = {"State": "error", "StateMessage": "Given key ID is not accessible"}
            region.put("snapshot", {**snapshot, **failed})
            billing.end(region, snapshot["SnapshotId"], failed["StateMessage"])
        else:
            done = {"State": "completed", "Progress": "100%", "CompletionTime": snapshot["_done_at"]}
            region.put("snapshot", {**snapshot, **done})


def _make(region: Region, source: Document, about: str | None, tags: list[dict[str, str]]) -> Document:
    """A new snapshot, billed."""
    snapshot = region.put(
        "snapshot",
        {
            "SnapshotId": region.new_id("snap"),
            "VolumeId": source["VolumeId"],
            "VolumeSize": source["VolumeSize"],
            "FullSnapshotSizeInBytes": source["VolumeSize"] * 1024**3,
            "TransferType": source.get("TransferType"),
            "Description": about or "",
            "Encrypted": source["Encrypted"],
            "KmsKeyId": source["KmsKeyId"],
            "OwnerId": ACCOUNT,
            "State": "pending",
            "Progress": "0%",
            "StartTime": region.stamp,
            "StorageTier": "standard",
            "Tags": tags,
            "_driver": source.get("_driver", ""),
            "_done_at": region.later(region.world.dials.pace.transition_s),
        },
    )
    price = region.world.market.snapshot_price(CLOUD, region.name, snapshot["VolumeSize"]).amount
    billing.begin(region, "snapshot", snapshot["SnapshotId"], price, billed=snapshot)
    return snapshot


def _shown(region: Region, snapshot: Document) -> Document:
    """A snapshot as a caller sees it: a pending one has come as far as the time that has passed."""
    if snapshot["State"] != "pending":
        return snapshot
    begun, done = (datetime.fromisoformat(snapshot[name]) for name in ("StartTime", "_done_at"))
    return {**snapshot, "Progress": f"{int(100 * ((region.now - begun) / (done - begun)))}%"}
