"""Disks: what a launch or CreateVolume asks for, within EBS's limits, and what is made of it.

Limits and defaults: EC2 API Reference, CreateVolume and EbsBlockDevice; EBS User Guide, "EBS volume types".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox import billing
from gpucloud_aws.sandbox.hardware import most_disks
from gpucloud_aws.sandbox.images import Image
from gpucloud_aws.sandbox.region import ACCOUNT, CLOUD, Region
from gpucloud_aws.sandbox.wire import AwsError


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of volume: sizes in GiB, operations per second (and per GiB), and throughput in MiB/s."""

    gib: tuple[int, int]
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    throughput: tuple[int, int] | None = None


_KINDS = {
    "gp2": _Kind((1, 16384)),
    "gp3": _Kind((1, 65536), (3000, 80000), 500, (125, 2000)),
    "io1": _Kind((4, 16384), (100, 64000), 50),
    "io2": _Kind((4, 65536), (100, 256000), 1000),
    "st1": _Kind((125, 16384)),
    "sc1": _Kind((125, 16384)),
    "standard": _Kind((1, 1024)),
}
_MIB_PER_IOPS = 0.25
_DEVICE = re.compile(r"/dev/(sd[a-z]([1-9]|1[0-5])?|xvd[a-z]{1,2})|xvd[a-z]{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One disk that is wanted, all checked."""

    device: str
    gib: int
    kind: str
    iops: int | None
    throughput: int | None
    encrypted: bool
    ends: bool
    snapshot: str = ""


def read_disks(parameters: Mapping[str, Any], image: Image, instance_type: str) -> list[Disk]:
    """The disks of a launch: the image's own, changed as asked, and the others.

    Raises:
        AwsError: EC2 would refuse them.
    """
    asked: dict[str, Mapping[str, Any]] = {image.root_device: {}}
    seen = set[str]()
    for each in parameters.get("BlockDeviceMappings") or ():
        name = each.get("DeviceName", "")
        if not _DEVICE.fullmatch(name):
            raise AwsError("InvalidBlockDeviceMapping", f"Invalid device name {name}")
        if name in seen:
            raise AwsError(
                "InvalidBlockDeviceMapping", f"The device '{name}' is used in more than one mapping"
            )
        seen.add(name)
        asked[name] = each.get("Ebs") or {}
    if len(asked) > most_disks(instance_type):
        text = f"Attachment count {len(asked)} exceeds the limit for {instance_type}"
        raise AwsError("AttachmentLimitExceeded", text)
    return [_disk(name, wanted, image) for name, wanted in asked.items()]


def _disk(name: str, wanted: Mapping[str, Any], image: Image) -> Disk:
    root = name == image.root_device
    defaults = {"VolumeSize": image.root_gib, "VolumeType": "gp3"} if root else {"VolumeType": "gp2"}
    disk = read_disk({**defaults, **wanted}, device=name, ends=wanted.get("DeleteOnTermination", root))
    if root and disk.gib < image.root_gib:
        text = f"Volume of size {disk.gib}GB is smaller than snapshot, expect size >= {image.root_gib}GB"
        raise AwsError("InvalidBlockDeviceMapping", text)
    if root and disk.kind in {"st1", "sc1"}:
        raise AwsError("InvalidParameterValue", f"The volume type {disk.kind} cannot be a boot volume")
    return disk


def read_disk(wanted: Mapping[str, Any], *, device: str = "", ends: bool = False, snapshot: str = "") -> Disk:
    """One disk, of a mapping's ``Ebs``.

    Raises:
        AwsError: EBS would refuse it.
    """
    kind, gib = wanted["VolumeType"], wanted.get("VolumeSize")
    limits = _KINDS.get(kind)
    if limits is None:
        raise AwsError("InvalidParameterValue", f"Invalid volume type {kind}")
    if gib is None:
        raise AwsError("MissingParameter", "The request must contain the parameter size or snapshotId")
    if not limits.gib[0] <= gib <= limits.gib[1]:
        text = f"Volume of {gib}GiB: must be in [{limits.gib[0]}, {limits.gib[1]}]"
        raise AwsError("InvalidParameterValue", text)
    iops, throughput = wanted.get("Iops"), wanted.get("Throughput")
    _check_speed("iops", iops, limits.iops, kind)
    _check_speed("throughput", throughput, limits.throughput, kind)
    if kind in {"io1", "io2"} and iops is None:
        raise AwsError("MissingParameter", f"The request must contain the parameter iops for {kind} volumes")
    if iops is not None and iops > max(limits.iops_per_gib * gib, 3000 if kind == "gp3" else 0):
        text = f"Iops to volume size ratio of {iops / gib:.0f} is too high; maximum is {limits.iops_per_gib}"
        raise AwsError("InvalidParameterValue", text)
    if throughput is not None and throughput > (iops or 3000) * _MIB_PER_IOPS:
        text = f"Throughput (MiBps) to iops ratio is too high; maximum is {_MIB_PER_IOPS} MiBps per iops"
        raise AwsError("InvalidParameterValue", text)
    return Disk(
        device=device,
        gib=gib,
        kind=kind,
        iops=_iops(kind, gib) if iops is None else iops,
        throughput=throughput or (125 if kind == "gp3" else None),
        encrypted=wanted.get("Encrypted", False),
        ends=ends,
        snapshot=snapshot,
    )


def make_volume(
    region: Region, disk: Disk, zone: str, tags: list[dict[str, str]], token: str | None = None
) -> Document:
    """A new volume, billed, attached to nothing."""
    id_ = region.new_id("vol")
    volume = region.put(
        "volume",
        {
            "VolumeId": id_,
            "Size": disk.gib,
            "VolumeType": disk.kind,
            "Iops": disk.iops,
            "Throughput": disk.throughput,
            "Encrypted": disk.encrypted,
            "KmsKeyId": f"arn:aws:kms:{region.name}:{ACCOUNT}:key/aws/ebs" if disk.encrypted else None,
            "AvailabilityZone": zone,
            "AvailabilityZoneId": region.zones[zone],
            "State": "available",
            "CreateTime": region.stamp,
            "SnapshotId": disk.snapshot,
            "MultiAttachEnabled": False,
            "Tags": tags,
            "Attachments": [],
        },
    )
    bill_volume(region, volume, token)
    return volume


def bill_volume(region: Region, volume: Document, token: str | None = None) -> None:
    """Bills a volume by its size from now on."""
    price = region.world.market.disk_price(CLOUD, region.name, volume["Size"]).amount
    zone = volume["AvailabilityZone"]
    billing.begin(region, "disk", volume["VolumeId"], price, billed=volume, zone=zone, token=token)


def attach(region: Region, volume: Document, instance: Document, device: str, *, ends: bool) -> Document:
    """Attaches a volume to an instance, in both their documents; returns the attachment."""
    attached = {
        "InstanceId": instance["InstanceId"],
        "VolumeId": volume["VolumeId"],
        "Device": device,
        "State": "attached",
        "AttachTime": region.stamp,
        "DeleteOnTermination": ends,
    }
    region.put("volume", {**volume, "State": "in-use", "Attachments": [attached]})
    mapping = {
        "VolumeId": volume["VolumeId"],
        "Status": "attached",
        "AttachTime": region.stamp,
        "DeleteOnTermination": ends,
    }
    instance["BlockDeviceMappings"].append({"DeviceName": device, "Ebs": mapping})
    return attached


def valid_device(name: str) -> bool:
    """Whether EC2 takes a name of a device."""
    return _DEVICE.fullmatch(name) is not None


def _check_speed(name: str, value: int | None, limits: tuple[int, int] | None, kind: str) -> None:
    if value is None:
        return
    if limits is None:
        raise AwsError(
            "InvalidParameterCombination", f"The parameter {name} is not supported for {kind} volumes."
        )
    if not limits[0] <= value <= limits[1]:
        text = f"Volume {name} of {value} is out of range: must be in [{limits[0]}, {limits[1]}] for {kind}"
        raise AwsError("InvalidParameterValue", text)


def _iops(kind: str, gib: int) -> int | None:
    match kind:
        case "gp3":
            return 3000
        case "gp2":
            return min(16000, max(100, 3 * gib))
        case _:
            return None
