"""The account's own images: made of an instance, of snapshots, or of another image.

An image itself costs nothing; its snapshots are billed, and stay when it is deregistered. Sources: EC2 API
Reference; "Error codes for the Amazon EC2 API".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpucloud_sandbox.aws import boxes, instances, snapshots
from gpucloud_sandbox.aws.disks import (
    configuration,
    find_snapshot,
    find_volume,
    read_disk,
    valid_device,
    with_snapshot,
)
from gpucloud_sandbox.aws.images import check_available, find_image
from gpucloud_sandbox.aws.instances import find_instances
from gpucloud_sandbox.aws.keys import check_key
from gpucloud_sandbox.aws.region import ACCOUNT, Region, tags_of
from gpucloud_sandbox.aws.review import review_storage
from gpucloud_sandbox.aws.tags import tags_for, tags_of_made
from gpucloud_sandbox.aws.tokens import once
from gpucloud_sandbox.aws.wire import AwsError, part
from gpucloud_sandbox.database import Document

_NAME = re.compile(r"[\w()\[\] ./\-'@]{3,128}", re.ASCII)
"""Source: EC2 API Reference, CreateImage, ``Name``."""


def create_image(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateImage: snapshots of an instance's disks. It is rebooted unless ``NoReboot`` says not to."""
    review_storage(parameters, "image", "snapshot")
    (instance,) = find_instances(region, [parameters["InstanceId"]])
    id_ = instance["InstanceId"]
    if instance["State"]["Name"] not in {"running", "stopping", "stopped"}:
        text = (
            f"Invalid value '{id_}' for instanceId. Instance is not in state 'running' or 'stopping' or "
            "'stopped'"
        )
        raise AwsError("InvalidParameterValue", text)
    instances.check_root(instance)
    _check_name(region, parameters["Name"])
    tags = tags_of_made(parameters, "image", "snapshot")
    mappings = _snapshot_disks(region, instance, parameters)
    if not parameters.get("NoReboot") and instance["State"] == instances.RUNNING:
        boxes.restart(region, instance)
    like = {name: instance[name] for name in ("Architecture", "RootDeviceName", "VirtualizationType")}
    like |= {"EnaSupport": instance["EnaSupport"], "SourceInstanceId": id_}
    like |= {"SourceImageId": instance["ImageId"], "SourceImageRegion": region.name}
    image = _make(region, parameters, like, mappings, tags)
    return {"ImageId": image["ImageId"]}


def register_image(region: Region, parameters: Mapping[str, Any]) -> Document:
    """RegisterImage, of snapshots. What is left out has the defaults of EC2's first years."""
    review_storage(parameters, "image")
    _check_name(region, parameters["Name"])
    tags = tags_of_made(parameters, "image")
    root = parameters.get("RootDeviceName", "/dev/sda1")
    mappings = [_mapping(region, each, root) for each in parameters.get("BlockDeviceMappings") or ()]
    if not any(each["DeviceName"] == root and "SnapshotId" in each["Ebs"] for each in mappings):
        text = f"No snapshot is specified for the root device {root}"
        raise AwsError("InvalidBlockDeviceMapping", text)  # UNVERIFIED
    like = {
        "Architecture": parameters.get("Architecture", "i386"),
        "RootDeviceName": root,
        "VirtualizationType": parameters.get("VirtualizationType", "paravirtual"),
        "EnaSupport": parameters.get("EnaSupport", False),
    }
    image = _make(region, parameters, like, mappings, tags)
    return {"ImageId": image["ImageId"]}


def copy_image(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CopyImage, called where the copy is to be: copies of the image's snapshots, and an image of them."""
    review_storage(parameters, "image", "snapshot")

    def make() -> Document:
        _check_name(region, parameters["Name"])
        tags = tags_of_made(parameters, "image", "snapshot")
        from_ = snapshots.source_region(region, parameters["SourceRegion"])
        settle(from_)
        source = find_image(from_, parameters["SourceImageId"])
        shown = source.shown_in(from_.name)
        check_key(parameters)
        check_available(shown)
        if parameters.get("CopyImageTags"):
            tags = [
                *tags,
                *({"Key": k, "Value": v} for k, v in tags_of(shown).items() if k not in _keys(tags)),
            ]
        mappings = _copy_disks(region, from_, shown, parameters, source.driver)
        kept = ("Architecture", "RootDeviceName", "VirtualizationType", "EnaSupport")
        like = {name: shown[name] for name in kept}
        like |= {"SourceImageId": shown["ImageId"], "SourceImageRegion": from_.name}
        return _make(region, parameters, like, mappings, tags)

    return {"ImageId": once(region, "CopyImage", parameters, "image", make)["ImageId"]}


def deregister_image(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeregisterImage: its snapshots are deleted only if that is asked for, and no other image needs them."""
    image = find_image(region, parameters["ImageId"])
    if image.own is None:
        text = f"Not authorized for image:{parameters['ImageId']}"
        raise AwsError("AuthFailure", text, 403)
    region.drop("image", image.own["ImageId"])
    results: list[Document] = []
    if parameters.get("DeleteAssociatedSnapshots"):
        for each in image.own["BlockDeviceMappings"]:
            id_ = each["Ebs"].get("SnapshotId")
            if id_ is not None:
                needed = bool(snapshots.images_of(region, id_))
                if not needed:
                    snapshots.drop(region, id_)
                results.append({"SnapshotId": id_, "ReturnCode": "skipped" if needed else "success"})
    return {"Return": True, "DeleteSnapshotResults": results}


def settle(region: Region) -> None:
    """Images whose snapshots are all completed are available; with one that failed they have failed."""
    for image in list(region.all("image").values()):
        ids = [each["Ebs"].get("SnapshotId") for each in image["BlockDeviceMappings"]]
        if image["State"] != "pending":
            continue
        states = {region.all("snapshot").get(id_, {}).get("State") for id_ in ids if id_ is not None}
        if "error" in states:
            region.put("image", {**image, "State": "failed"})
        elif states == {"completed"}:
            region.put("image", {**image, "State": "available"})


def _make(
    region: Region,
    parameters: Mapping[str, Any],
    like: Mapping[str, Any],
    mappings: Sequence[Document],
    tags: list[dict[str, str]],
) -> Document:
    """A new image, named as a call says, with the disks and properties of what it is made of."""
    (root,) = [each["Ebs"] for each in mappings if each["DeviceName"] == like["RootDeviceName"]]
    return region.put(
        "image",
        {
            "ImageId": region.new_id("ami"),
            "Name": parameters["Name"],
            "Description": parameters.get("Description", ""),
            "ImageLocation": f"{ACCOUNT}/{parameters['Name']}",
            "OwnerId": ACCOUNT,
            "CreationDate": region.stamp,
            "State": "pending",
            "Public": False,
            "ImageType": "machine",
            "RootDeviceType": "ebs",
            "Hypervisor": "xen",
            "PlatformDetails": "Linux/UNIX",
            "UsageOperation": "RunInstances",
            "BlockDeviceMappings": list(mappings),
            "Tags": tags,
            **like,
            "_driver": find_snapshot(region, root["SnapshotId"])["_driver"],
        },
    )


def _check_name(region: Region, name: str) -> None:
    if not _NAME.fullmatch(name):
        text = (
            "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', "
            "')', '.', '-', '/' and '_'"
        )
        raise AwsError("InvalidAMIName.Malformed", text)
    for image in region.all("image").values():
        if image["Name"] == name:
            text = f"AMI name {name} is already in use by AMI {image['ImageId']}"
            raise AwsError("InvalidAMIName.Duplicate", text)


def _snapshot_disks(region: Region, instance: Document, parameters: Mapping[str, Any]) -> list[Document]:
    """Snapshots of an instance's disks, as mappings; a call may leave disks out, or let them outlive."""
    asked = {each.get("DeviceName", ""): each for each in parameters.get("BlockDeviceMappings") or ()}
    attached = {each["DeviceName"]: each["Ebs"] for each in instance["BlockDeviceMappings"]}
    if wrong := asked.keys() - attached.keys():
        text = f"{min(wrong)} is no device of {instance['InstanceId']}"
        raise AwsError("InvalidBlockDeviceMapping", text)  # UNVERIFIED
    about = f"Created by CreateImage({instance['InstanceId']})"
    tags = tags_for(parameters, "snapshot")
    mappings: list[Document] = []
    for device, ebs in attached.items():
        change: Mapping[str, Any] = asked.get(device, {})
        if "NoDevice" in change and device != instance["RootDeviceName"]:
            continue
        volume = find_volume(region, ebs["VolumeId"])
        snapshot = snapshots.take(region, volume, about, tags)
        ends = part(change, "Ebs").get("DeleteOnTermination", ebs["DeleteOnTermination"])
        mappings.append({"DeviceName": device, "Ebs": _ebs(volume, snapshot, ends=ends)})
    return mappings


def _copy_disks(
    region: Region, from_: Region, shown: Document, parameters: Mapping[str, Any], driver: str
) -> list[Document]:
    """Copies of an image's snapshots, as mappings."""
    about = f"Copied for DestinationAmi from SourceAmi {shown['ImageId']}"
    tags = tags_for(parameters, "snapshot")
    mappings: list[Document] = []
    for each in shown["BlockDeviceMappings"]:
        ebs: Document = each["Ebs"]
        known = from_.all("snapshot").get(ebs.get("SnapshotId", ""))
        public = {"VolumeSize": ebs["VolumeSize"], "Encrypted": False, "_driver": driver}
        snapshot = snapshots.copy(region, known or public, about, tags, parameters)
        copied = {"SnapshotId": snapshot["SnapshotId"], "Encrypted": snapshot["Encrypted"]}
        mappings.append({**each, "Ebs": {**ebs, **copied}})
    return mappings


def _mapping(region: Region, asked: Mapping[str, Any], root: str) -> Document:
    """A mapping of RegisterImage, checked."""
    device = asked.get("DeviceName", "")
    if not valid_device(device):
        raise AwsError("InvalidBlockDeviceMapping", f"Invalid device name {device}")
    # the default type is UNVERIFIED: Terraform documents it so
    defaults: dict[str, Any] = {"VolumeType": "standard", "DeleteOnTermination": device == root}
    wanted = {**defaults, **part(asked, "Ebs")}
    disk = read_disk(with_snapshot(region, wanted, "InvalidBlockDeviceMapping"), device=device)
    snapshot = {"SnapshotId": disk.snapshot, "Encrypted": disk.encrypted} if disk.snapshot else {}
    return {
        "DeviceName": device,
        "Ebs": _ebs(configuration(disk), snapshot, ends=wanted["DeleteOnTermination"]),
    }


def _ebs(volume: Mapping[str, Any], snapshot: Mapping[str, Any], *, ends: bool) -> Document:
    """The disk of a mapping: a volume's configuration and a snapshot's contents."""
    speed = {name: volume[name] for name in ("Iops", "Throughput") if volume[name] is not None}
    return {
        "VolumeType": volume["VolumeType"],
        "VolumeSize": volume["Size"],
        "DeleteOnTermination": ends,
        **(speed if volume["VolumeType"] in {"gp3", "io1", "io2"} else {}),
        **{name: snapshot[name] for name in ("SnapshotId", "Encrypted") if name in snapshot},
    }


def _keys(tags: Sequence[Mapping[str, str]]) -> set[str]:
    return {tag["Key"] for tag in tags}
