"""EBS volumes on their own: making, attaching, detaching, showing and deleting them.

A volume is billed from its creation to its deletion, attached or not. Sources: EC2 API Reference, "Error
codes for the Amazon EC2 API"; messages as public bug reports quote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws import billing
from gpucloud_sandbox.aws.disks import (
    attach,
    check_count,
    detached,
    find_volume,
    make_volume,
    read_disk,
    valid_device,
    with_snapshot,
)
from gpucloud_sandbox.aws.instances import find_instances
from gpucloud_sandbox.aws.keys import check_key
from gpucloud_sandbox.aws.query import Field, page, select
from gpucloud_sandbox.aws.region import Region
from gpucloud_sandbox.aws.review import review_storage
from gpucloud_sandbox.aws.tags import tags_of_made
from gpucloud_sandbox.aws.tokens import once
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document

_FILTERS: dict[str, Field] = {
    "attachment.attach-time": "Attachments.AttachTime",
    "attachment.delete-on-termination": "Attachments.DeleteOnTermination",
    "attachment.device": "Attachments.Device",
    "attachment.instance-id": "Attachments.InstanceId",
    "attachment.status": "Attachments.State",
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "create-time": "CreateTime",
    "encrypted": "Encrypted",
    "multi-attach-enabled": "MultiAttachEnabled",
    "size": "Size",
    "snapshot-id": "SnapshotId",
    "status": "State",
    "volume-id": "VolumeId",
    "volume-type": "VolumeType",
}


def create_volume(region: Region, parameters: Mapping[str, Any]) -> Document:
    """CreateVolume."""
    review_storage(
        parameters, "volume", encrypted=parameters.get("Encrypted", False) or "SnapshotId" in parameters
    )
    zone = _zone(region, parameters)
    tags = tags_of_made(parameters, "volume")
    check_key(parameters)
    asked = ("Encrypted", "Iops", "KmsKeyId", "SnapshotId", "Throughput")
    wanted = {name: parameters[name] for name in asked if name in parameters}
    wanted |= {"VolumeType": parameters.get("VolumeType", "gp2"), "VolumeSize": parameters.get("Size")}

    def make() -> Document:
        disk = read_disk(with_snapshot(region, wanted, "InvalidParameterValue"))
        return make_volume(region, disk, zone, tags, token=parameters.get("ClientToken"))

    return once(region, "CreateVolume", parameters, "volume", make)


def attach_volume(region: Region, parameters: Mapping[str, Any]) -> Document:
    """AttachVolume: the volume stays when its instance ends."""
    volume = find_volume(region, parameters["VolumeId"])
    (instance,) = find_instances(region, [parameters["InstanceId"]])
    id_, device = instance["InstanceId"], parameters["Device"]
    if instance["State"]["Name"] not in {"running", "stopped"}:
        raise AwsError("IncorrectState", f"Instance '{id_}' is not 'running'.")
    if not valid_device(device):
        text = f"Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name."
        raise AwsError("InvalidParameterValue", text)
    if volume["Attachments"]:
        raise AwsError("VolumeInUse", f"{volume['VolumeId']} is already attached to an instance")
    if volume["State"] != "available":
        raise AwsError("IncorrectState", f"{volume['VolumeId']} is not 'available'.")
    if volume["AvailabilityZone"] != instance["Placement"]["AvailabilityZone"]:
        text = f"The volume '{volume['VolumeId']}' is not in the same availability zone as instance '{id_}'"
        raise AwsError("InvalidVolume.ZoneMismatch", text)
    mappings = instance["BlockDeviceMappings"]
    if any(each["DeviceName"] == device for each in mappings):
        text = f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
        raise AwsError("InvalidParameterValue", text)
    check_count(len(mappings) + 1, instance["InstanceType"])
    attached = attach(region, volume, instance, device, ends=False, state="attaching")
    region.put("instance", instance)
    device = f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume['VolumeId'].replace('-', '')}"
    region.world.boxes.plug(id_, device, volume["VolumeId"])
    return attached


def detach_volume(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DetachVolume. That the guest still uses a volume holds nothing up here: the box has no such disks."""
    volume = find_volume(region, parameters["VolumeId"])
    if not volume["Attachments"]:
        text = f"Volume '{volume['VolumeId']}' is in the '{volume['State']}' state."
        raise AwsError("IncorrectState", text)
    attached: Document = volume["Attachments"][0]
    for name in ("InstanceId", "Device"):
        if parameters.get(name) not in {None, attached[name]}:
            text = f"Volume '{volume['VolumeId']}' is not attached to '{parameters[name]}'"
            raise AwsError("InvalidAttachment.NotFound", text)
    (instance,) = find_instances(region, [attached["InstanceId"]])
    if attached["Device"] == instance["RootDeviceName"] and instance["State"]["Name"] != "stopped":
        text = f"Unable to detach root volume '{volume['VolumeId']}' from instance '{instance['InstanceId']}'"
        raise AwsError("IncorrectState", text)
    attached["State"] = "detaching"
    due = region.later(region.world.dials.pace.transition_s)
    region.put("volume", {**volume, "_due_at": due})
    _show_attachment(region, attached)
    return attached


def describe_volumes(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeVolumes."""
    ids = parameters.get("VolumeIds")
    found = list(region.all("volume").values()) if ids is None else [find_volume(region, id_) for id_ in ids]
    shown, token = page(select(found, parameters.get("Filters"), _FILTERS), parameters, ids="VolumeIds")
    return {"Volumes": shown, "NextToken": token}


def delete_volume(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DeleteVolume: it is billed no longer at once, and shown as ``deleting`` for a moment."""
    volume = find_volume(region, parameters["VolumeId"])
    if volume["Attachments"]:
        instance = volume["Attachments"][0]["InstanceId"]
        raise AwsError("VolumeInUse", f"Volume {volume['VolumeId']} is currently attached to {instance}")
    due = region.later(region.world.dials.pace.transition_s)
    region.put("volume", {**volume, "State": "deleting", "_due_at": due})
    billing.end(region, volume["VolumeId"], "deleted")
    region.world.boxes.wipe(volume["VolumeId"])
    return {}


def settle(region: Region) -> None:
    """Advances volumes to the present: made, attached, detached, deleted."""
    for volume in list(region.all("volume").values()):
        due = volume.get("_due_at")
        if due is None or due > region.stamp:
            continue
        match volume["State"], [each["State"] for each in volume["Attachments"]]:
            case "creating", _ if volume.get("_fails"):
                region.drop("volume", volume["VolumeId"])
                billing.end(region, volume["VolumeId"], "its key cannot be used")
            case "creating", _:
                region.put("volume", {**volume, "State": "available", "_due_at": None})
            case "deleting", _:
                region.drop("volume", volume["VolumeId"])
            case _, ["attaching"]:
                volume["Attachments"][0]["State"] = "attached"
                region.put("volume", {**volume, "_due_at": None})
                _show_attachment(region, volume["Attachments"][0])
            case _, ["detaching"]:
                _forget_attachment(region, volume["Attachments"][0])
                detached(region, volume)
            case _:
                pass


def _zone(region: Region, parameters: Mapping[str, Any]) -> str:
    """The name of the zone that a call names, by its name or by its id."""
    name, id_ = parameters.get("AvailabilityZone"), parameters.get("AvailabilityZoneId")
    if name and id_:
        text = "AvailabilityZone and AvailabilityZoneId can't be used together."
        raise AwsError("InvalidParameterCombination", text)
    if not name and not id_:
        raise AwsError("MissingParameter", "The request must contain the parameter zone")
    for zone, known in region.zones.items():
        if name == zone or id_ == known:
            return zone
    raise AwsError("InvalidZone.NotFound", f"The zone '{name or id_}' does not exist.")


def _show_attachment(region: Region, attached: Document) -> None:
    """Gives the instance's list of disks the state of an attachment."""
    instance = region.all("instance")[attached["InstanceId"]]
    for each in instance["BlockDeviceMappings"]:
        if each["Ebs"]["VolumeId"] == attached["VolumeId"]:
            each["Ebs"]["Status"] = attached["State"]
    region.put("instance", instance)


def _forget_attachment(region: Region, attached: Document) -> None:
    instance = region.all("instance")[attached["InstanceId"]]
    kept = [
        each for each in instance["BlockDeviceMappings"] if each["Ebs"]["VolumeId"] != attached["VolumeId"]
    ]
    region.put("instance", {**instance, "BlockDeviceMappings": kept})
    region.world.boxes.unplug(attached["InstanceId"], attached["VolumeId"])
