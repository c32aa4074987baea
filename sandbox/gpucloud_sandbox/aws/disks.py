"""Disks: what a launch or CreateVolume asks for, within EBS's limits, and what is made of it.

Limits and defaults: EC2 API Reference, CreateVolume and EbsBlockDevice; EBS User Guide, "EBS volume types";
EC2 User Guide, "Device names for volumes". Prices per month: AWS's price list of EC2 for us-east-1, 2026 (gp3
has 40.96 USD per GiB/s); another region is as much dearer as its gp3 is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.aws import billing
from gpucloud_sandbox.aws.hardware import most_disks
from gpucloud_sandbox.aws.images import Image
from gpucloud_sandbox.aws.keys import check_key, usable_key
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of volume.

    Attributes:
        usd_per_gib: per month.
        gib: sizes, in GiB.
        iops: operations per second.
        iops_per_gib: at most so many of them per GiB.
        throughput: in MiB/s.
        usd_per_iops: per month, for those beyond ``free_iops``; the first tier's for all.
        free_iops: that the price of the size includes.
    """

    usd_per_gib: Decimal
    gib: tuple[int, int]
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    throughput: tuple[int, int] | None = None
    usd_per_iops: Decimal = Decimal(0)
    free_iops: int = 0


GP3_USD_PER_GIB = Decimal("0.08")
"""Of a month, in us-east-1: what prices that the market's data lack are relative to."""

_KINDS = {
    "gp2": _Kind(Decimal("0.10"), (1, 16384)),
    "gp3": _Kind(GP3_USD_PER_GIB, (1, 65536), (3000, 80000), 500, (125, 2000), Decimal("0.005"), 3000),
    "io1": _Kind(Decimal("0.125"), (4, 16384), (100, 64000), 50, None, Decimal("0.065")),
    "io2": _Kind(Decimal("0.125"), (4, 65536), (100, 256000), 1000, None, Decimal("0.065")),
    "st1": _Kind(Decimal("0.045"), (125, 16384)),
    "sc1": _Kind(Decimal("0.015"), (125, 16384)),
    "standard": _Kind(Decimal("0.05"), (1, 1024)),
}
_USD_PER_MIB_S, _FREE_MIB_S = Decimal("0.04"), 125
_MIB_PER_IOPS = 0.25
_DEVICE = re.compile(r"/dev/sda1|/dev/sd[a-z]|(/dev/)?xvd([a-z]|[b-d][a-z])")
"""Of instances with hardware virtualization, which all types here are."""


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
    driver: str = ""
    key: str | None = None


def read_disks(region: Region, parameters: Mapping[str, Any], image: Image, instance_type: str) -> list[Disk]:
    """The disks of a launch: the image's own, changed as asked, and the others.

    Raises:
        AwsError: EC2 would refuse them.
    """
    own = image.disks()
    asked: dict[str, Mapping[str, Any]] = {name: {} for name in own}
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
        check_key(asked[name])
        if "NoDevice" in each and name != image.root_device:
            del asked[name]
    check_count(len(asked), instance_type)
    return [_disk(region, name, wanted, image) for name, wanted in asked.items()]


def check_count(count: int, instance_type: str) -> None:
    """Refuses more disks than a type takes.

    Raises:
        AwsError: they are more.
    """
    if count > most_disks(instance_type):
        text = f"Attachment count {count} exceeds the limit for {instance_type}"
        raise AwsError("AttachmentLimitExceeded", text)


def _disk(region: Region, name: str, wanted: Mapping[str, Any], image: Image) -> Disk:
    root = name == image.root_device
    own = image.disks().get(name, {})
    if root and wanted.get("SnapshotId") not in {None, own.get("SnapshotId")}:
        raise AwsError("InvalidBlockDeviceMapping", "snapshotId cannot be modified on root device")
    if wanted.get("VolumeType") not in {None, own.get("VolumeType")}:
        own = {key: value for key, value in own.items() if key not in {"Iops", "Throughput"}}
    merged: dict[str, Any] = {"VolumeType": "gp2", "DeleteOnTermination": root, **own, **wanted}
    disk = read_disk(
        with_snapshot(region, merged, "InvalidBlockDeviceMapping"),
        device=name,
        ends=merged["DeleteOnTermination"],
    )
    if root and disk.gib < image.root_gib:
        text = f"Volume of size {disk.gib}GB is smaller than snapshot, expect size >= {image.root_gib}GB"
        raise AwsError("InvalidBlockDeviceMapping", text)
    if root and disk.kind in {"st1", "sc1"}:
        raise AwsError("InvalidParameterValue", f"The volume type {disk.kind} cannot be a boot volume")
    return disk


def with_snapshot(region: Region, wanted: Mapping[str, Any], too_small: str) -> Mapping[str, Any]:
    """What is wanted of a disk, completed by its snapshot: the least size, and its encryption.

    Args:
        region: where.
        wanted: of a disk, a mapping's ``Ebs``.
        too_small: the code of the refusal of a disk that is smaller than its snapshot.

    Raises:
        AwsError: there is no such snapshot, it is not completed, or the disk does not fit it.
    """
    id_ = wanted.get("SnapshotId")
    if not id_:
        return wanted
    snapshot = find_snapshot(region, id_)
    if snapshot["State"] != "completed":
        raise AwsError("IncorrectState", f"Snapshot is in invalid state - {snapshot['State']}")
    if snapshot["Encrypted"] and wanted.get("Encrypted") is False:
        text = "Encrypted snapshots must be used to create encrypted volumes."  # its code is UNVERIFIED
        raise AwsError("InvalidParameterCombination", text)
    least: int = snapshot["VolumeSize"]
    gib = wanted.get("VolumeSize") or least
    if gib < least:
        text = f"Volume of size {gib}GB is smaller than snapshot '{id_}', expect size >= {least}GB"
        raise AwsError(too_small, text)
    encrypted = snapshot["Encrypted"] or wanted.get("Encrypted", False)
    key = wanted.get("KmsKeyId") or snapshot["KmsKeyId"]
    own = {"VolumeSize": gib, "Encrypted": encrypted, "KmsKeyId": key, "_driver": snapshot["_driver"]}
    return {**wanted, **own}


def read_disk(wanted: Mapping[str, Any], *, device: str = "", ends: bool = False) -> Disk:
    """One disk, of a mapping's ``Ebs``.

    Raises:
        AwsError: EBS would refuse it.
    """
    kind, gib = wanted["VolumeType"], wanted.get("VolumeSize")
    limits = _KINDS.get(kind)
    if limits is None:
        raise AwsError("UnknownVolumeType", f"Unsupported volume type '{kind}' for volume creation.")
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
        snapshot=wanted.get("SnapshotId", ""),
        driver=wanted.get("_driver", ""),
        key=wanted.get("KmsKeyId"),
    )


def find_volume(region: Region, id_: str) -> Document:
    """A volume by its id.

    Raises:
        AwsError: there is none.
    """
    if not id_.startswith("vol-"):
        text = f"Value ({id_}) for parameter volumes is invalid. Expected: 'vol-...'."
        raise AwsError("InvalidParameterValue", text)
    volume = region.all("volume").get(id_)
    if volume is None:
        raise AwsError("InvalidVolume.NotFound", f"The volume '{id_}' does not exist.")
    return volume


def find_snapshot(region: Region, id_: str) -> Document:
    """A snapshot of the account by its id.

    Raises:
        AwsError: there is none.
    """
    if not id_.startswith("snap-"):
        text = f'Invalid id: "{id_}" (expecting "snap-...")'
        raise AwsError("InvalidSnapshotID.Malformed", text)
    snapshot = region.all("snapshot").get(id_)
    if snapshot is None:
        raise AwsError("InvalidSnapshot.NotFound", f"The snapshot '{id_}' does not exist.")
    return snapshot


def make_volume(
    region: Region, disk: Disk, zone: str, tags: list[dict[str, str]], token: str | None = None
) -> Document:
    """A new volume, billed, attached to nothing: ``creating`` for a moment, which a wrong key ends."""
    id_ = region.new_id("vol")
    key = usable_key(region, disk.key) if disk.encrypted else None
    volume = region.put(
        "volume",
        {
            "VolumeId": id_,
            **configuration(disk),
            "Encrypted": disk.encrypted,
            "KmsKeyId": key or disk.key,
            "AvailabilityZone": zone,
            "AvailabilityZoneId": region.zones[zone],
            "State": "creating",
            "CreateTime": region.stamp,
            "SnapshotId": disk.snapshot,
            "MultiAttachEnabled": False,
            "Tags": tags,
            "Attachments": [],
            "_due_at": region.later(region.world.dials.pace.transition_s),
            "_driver": disk.driver,
            "_fails": disk.encrypted and key is None,
        },
    )
    bill_volume(region, volume, token)
    if disk.snapshot:
        region.world.boxes.copy(disk.snapshot, id_)
    return volume


def configuration(disk: Disk) -> Document:
    """What ModifyVolume can change of a volume."""
    return {
        "Size": disk.gib,
        "VolumeType": disk.kind,
        "Iops": disk.iops,
        "Throughput": disk.throughput,
    }


def bill_volume(region: Region, volume: Document, token: str | None = None) -> None:
    """Bills a volume by its size, type and speed from now on."""
    zone = volume["AvailabilityZone"]
    price = _price(region, volume)
    billing.begin(region, "disk", volume["VolumeId"], price, billed=volume, zone=zone, token=token)


def _price(region: Region, volume: Document) -> Decimal:
    """What a volume costs per hour, in the region's currency."""
    kind, gib = _KINDS[volume["VolumeType"]], volume["Size"]
    paid_iops = max(0, (volume["Iops"] or 0) - kind.free_iops)
    paid_mib_s = max(0, (volume["Throughput"] or 0) - _FREE_MIB_S)
    month = gib * kind.usd_per_gib + paid_iops * kind.usd_per_iops + paid_mib_s * _USD_PER_MIB_S
    return relative_price(region, gib, month / gib)


def relative_price(region: Region, gib: int, usd_per_gib: Decimal) -> Decimal:
    """What storage costs per hour that costs ``usd_per_gib`` a month in us-east-1."""
    gp3 = region.world.market.disk_price(CLOUD, region.name, gib).amount
    return (gp3 * usd_per_gib / GP3_USD_PER_GIB).quantize(Decimal("0.000001"))


def attach(
    region: Region, volume: Document, instance: Document, device: str, *, ends: bool, state: str = "attached"
) -> Document:
    """Attaches a volume to an instance, in both their documents; returns the attachment."""
    told = {
        "VolumeId": volume["VolumeId"],
        "AttachTime": region.stamp,
        "DeleteOnTermination": ends,
    }
    attached = {**told, "InstanceId": instance["InstanceId"], "Device": device, "State": state}
    due = region.later(region.world.dials.pace.transition_s) if state == "attaching" else None
    region.put("volume", {**volume, "State": "in-use", "Attachments": [attached], "_due_at": due})
    instance["BlockDeviceMappings"].append({"DeviceName": device, "Ebs": {**told, "Status": state}})
    return attached


def detached(region: Region, volume: Document) -> None:
    """A volume is attached to nothing any more, and is billed on."""
    region.put("volume", {**volume, "State": "available", "Attachments": [], "_due_at": None})


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
