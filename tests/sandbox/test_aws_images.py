"""Snapshots and the account's own images in the sandbox, as boto3 sees them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import TAGS, HollowBoxes, client, shown
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_life import run
from tests.sandbox.test_aws_power import PLAIN, kinds
from tests.sandbox.test_aws_volumes import SOON, ec2, make, price, volume_of, zones

__all__ = ["ec2"]


def snapshot_of(ec2: Any, volume: str, **members: Any) -> str:
    made: str = ec2.create_snapshot(VolumeId=volume, **members)["SnapshotId"]
    return made


def seen_snapshot(ec2: Any, id_: str) -> dict[str, Any]:
    (snapshot,) = ec2.describe_snapshots(SnapshotIds=[id_])["Snapshots"]
    return dict(snapshot)


def seen_image(ec2: Any, id_: str) -> dict[str, Any]:
    (image,) = ec2.describe_images(ImageIds=[id_])["Images"]
    return dict(image)


# --- snapshots


def test_a_snapshot_is_billed_until_it_is_deleted(ec2: Any, endpoint: Endpoint) -> None:
    volume = make(ec2, Encrypted=True)
    tags = [{"ResourceType": "snapshot", "Tags": [{"Key": "of", "Value": "data"}]}]
    made = ec2.create_snapshot(VolumeId=volume, Description="nightly", TagSpecifications=tags)
    assert (made["State"], made["Encrypted"], made["VolumeSize"]) == ("pending", True, 100)
    id_ = made["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[id_], WaiterConfig=SOON)
    assert kinds(endpoint) == ["disk", "snapshot"]
    assert (price(endpoint, id_) * 730).quantize(Decimal("0.01")) == Decimal("5.00")
    ec2.delete_volume(VolumeId=volume)
    assert kinds(endpoint) == ["snapshot"]
    filters = [{"Name": "tag:of", "Values": ["data"]}, {"Name": "volume-id", "Values": [volume]}]
    found = ec2.describe_snapshots(OwnerIds=["self"], Filters=filters)["Snapshots"]
    assert [(each["SnapshotId"], each["Description"]) for each in found] == [(id_, "nightly")]
    assert ec2.describe_snapshots(OwnerIds=["amazon"])["Snapshots"] == []
    assert refused(ec2.describe_snapshots, OwnerIds=["nobody"]) == ("InvalidUserID.Malformed", 400)
    ec2.delete_snapshot(SnapshotId=id_)
    assert kinds(endpoint) == []
    assert refused(ec2.describe_snapshots, SnapshotIds=[id_]) == ("InvalidSnapshot.NotFound", 400)
    assert refused(ec2.delete_snapshot, SnapshotId="vol-1") == ("InvalidSnapshotID.Malformed", 400)


def test_a_pending_snapshot_progresses_and_cannot_be_used(ec2: Any, endpoint: Endpoint) -> None:
    volume = make(ec2)
    volume_of(ec2, volume)
    endpoint.client.pace(transition_s=1000)
    id_ = snapshot_of(ec2, volume)
    use = {"SnapshotId": id_, "AvailabilityZone": zones(ec2)[0]}
    assert refused(ec2.create_volume, **use) == ("IncorrectState", 400)
    too_soon = refused(ec2.create_snapshot, VolumeId=volume)
    assert too_soon == ("SnapshotCreationPerVolumeRateExceeded", 400)
    endpoint.client.clock(advance_s=500)
    seen = seen_snapshot(ec2, id_)
    assert (seen["State"], seen["Progress"]) == ("pending", "50%")
    snapshot_of(ec2, volume)
    endpoint.client.clock(advance_s=501)
    seen = seen_snapshot(ec2, id_)
    assert (seen["State"], seen["Progress"]) == ("completed", "100%")
    assert ec2.create_volume(**use)["Size"] == 100


def test_a_volume_of_a_snapshot_is_as_large_and_as_encrypted(ec2: Any) -> None:
    snapshot = snapshot_of(ec2, make(ec2, Size=20, Encrypted=True))
    zone = zones(ec2)[1]
    made = ec2.create_volume(SnapshotId=snapshot, AvailabilityZone=zone)
    assert (made["Size"], made["Encrypted"], made["SnapshotId"]) == (20, True, snapshot)
    assert ec2.create_volume(SnapshotId=snapshot, AvailabilityZone=zone, Size=30)["Size"] == 30
    small = refused(ec2.create_volume, SnapshotId=snapshot, AvailabilityZone=zone, Size=10)
    assert small == ("InvalidParameterValue", 400)
    bare = refused(ec2.create_volume, SnapshotId=snapshot, AvailabilityZone=zone, Encrypted=False)
    assert bare == ("InvalidParameterCombination", 400)


def test_snapshots_of_all_disks_of_an_instance(ec2: Any, group: str) -> None:
    data = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10}}
    instance = ec2.run_instances(**PLAIN, BlockDeviceMappings=[data])["Instances"][0]["InstanceId"]
    volumes = {
        each["DeviceName"]: each["Ebs"]["VolumeId"] for each in shown(ec2, instance)[0]["BlockDeviceMappings"]
    }
    ec2.create_tags(Resources=[volumes["/dev/sdf"]], Tags=[{"Key": "of", "Value": "data"}])
    of_all = ec2.create_snapshots(
        InstanceSpecification={"InstanceId": instance}, CopyTagsFromSource="volume"
    )["Snapshots"]
    assert {each["VolumeId"] for each in of_all} == set(volumes.values())
    tagged = [each["VolumeId"] for each in of_all if each["Tags"] == [{"Key": "of", "Value": "data"}]]
    assert tagged == [volumes["/dev/sdf"]]
    some = {"InstanceId": instance, "ExcludeBootVolume": True}
    of_data = ec2.create_snapshots(InstanceSpecification=some)["Snapshots"]
    assert [each["VolumeId"] for each in of_data] == [volumes["/dev/sdf"]]


def test_a_copy_of_a_snapshot_in_another_region(ec2: Any, endpoint: Endpoint) -> None:
    tags = [{"ResourceType": "snapshot", "Tags": [{"Key": "of", "Value": "data"}]}]
    source = snapshot_of(ec2, make(ec2, Size=20, Encrypted=True), TagSpecifications=tags)
    west = client(endpoint, region="us-west-2")
    made = west.copy_snapshot(SourceRegion="us-east-1", SourceSnapshotId=source)["SnapshotId"]
    west.get_waiter("snapshot_completed").wait(SnapshotIds=[made], WaiterConfig=SOON)
    seen = seen_snapshot(west, made)
    assert (seen["Encrypted"], seen["VolumeSize"], seen.get("Tags", [])) == (True, 20, [])
    assert kinds(endpoint) == ["disk", "snapshot", "snapshot"]
    assert refused(west.copy_snapshot, SourceRegion="us-west-2", SourceSnapshotId=source) == (
        "InvalidSnapshot.NotFound",
        400,
    )
    nowhere = refused(west.copy_snapshot, SourceRegion="us-nowhere-1", SourceSnapshotId=source)
    assert nowhere == ("InvalidRegion", 400)


# --- images


def test_an_image_of_an_instance_launches_others_after_it(
    ec2: Any, group: str, boxes: HollowBoxes, endpoint: Endpoint
) -> None:
    data = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 10, "VolumeType": "io2", "Iops": 500}}
    first = ec2.run_instances(**PLAIN, BlockDeviceMappings=[data])["Instances"][0]["InstanceId"]
    image = ec2.create_image(InstanceId=first, Name="trained", NoReboot=True)["ImageId"]
    ec2.get_waiter("image_available").wait(ImageIds=[image], WaiterConfig=SOON)
    without = [{"DeviceName": "/dev/sdf", "NoDevice": ""}]
    part = ec2.create_image(InstanceId=first, Name="root", NoReboot=True, BlockDeviceMappings=without)
    assert [each["DeviceName"] for each in seen_image(ec2, part["ImageId"])["BlockDeviceMappings"]] == [
        "/dev/sda1"
    ]
    ec2.deregister_image(ImageId=part["ImageId"], DeleteAssociatedSnapshots=True)
    driver = boxes.alive[first].driver
    ec2.terminate_instances(InstanceIds=[first])
    assert kinds(endpoint) == ["disk", "snapshot", "snapshot"], "the data disk, and the image"
    seen = seen_image(ec2, image)
    assert (seen["Public"], seen["SourceInstanceId"], seen["EnaSupport"]) == (False, first, True)
    own = ec2.describe_images(Owners=["self"], Filters=[{"Name": "name", "Values": ["train*"]}])["Images"]
    assert [each["ImageId"] for each in own] == [image]

    second = ec2.run_instances(**{**PLAIN, "ImageId": image})["Instances"][0]["InstanceId"]
    assert boxes.alive[second].driver == driver != ""
    disks = {
        each["DeviceName"]: each["Ebs"]["VolumeId"] for each in shown(ec2, second)[0]["BlockDeviceMappings"]
    }
    seen_disks = {device: volume_of(ec2, id_) for device, id_ in disks.items()}
    assert {device: (each["Size"], each["VolumeType"]) for device, each in seen_disks.items()} == {
        "/dev/sda1": (75, "gp3"),
        "/dev/sdf": (10, "io2"),
    }
    snapshots = {each["DeviceName"]: each["Ebs"]["SnapshotId"] for each in seen["BlockDeviceMappings"]}
    assert {device: each["SnapshotId"] for device, each in seen_disks.items()} == snapshots
    bare = {**PLAIN, "ImageId": image, "BlockDeviceMappings": without}
    third = ec2.run_instances(**bare)["Instances"][0]["InstanceId"]
    assert [each["DeviceName"] for each in shown(ec2, third)[0]["BlockDeviceMappings"]] == ["/dev/sda1"]


def test_an_image_is_made_while_its_instance_reboots(
    ec2: Any, group: str, boxes: HollowBoxes, endpoint: Endpoint
) -> None:
    instance = run(ec2, group)
    ec2.create_image(InstanceId=instance, Name="with its reboot")
    assert boxes.stopped.wait(5)
    endpoint.client.pace(transition_s=3600)
    endpoint.client.clock(advance_s=20)
    pending = ec2.create_image(InstanceId=instance, Name="without", NoReboot=True)["ImageId"]
    assert seen_image(ec2, pending)["State"] == "pending"
    assert refused(ec2.run_instances, **{**PLAIN, "ImageId": pending}) == ("InvalidAMIID.Unavailable", 400)


def test_names_of_images_are_valid_and_unique(ec2: Any, group: str) -> None:
    instance = run(ec2, group)
    ec2.create_image(InstanceId=instance, Name="one")
    assert refused(ec2.create_image, InstanceId=instance, Name="one") == ("InvalidAMIName.Duplicate", 400)
    assert refused(ec2.create_image, InstanceId=instance, Name="a:b") == ("InvalidAMIName.Malformed", 400)
    ec2.terminate_instances(InstanceIds=[instance])
    assert refused(ec2.create_image, InstanceId=instance, Name="two") == ("InvalidParameterValue", 400)


def test_snapshots_of_an_image_stay_until_it_is_deregistered(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    instance = run(ec2, group)
    image = ec2.create_image(InstanceId=instance, Name="one")["ImageId"]
    ec2.terminate_instances(InstanceIds=[instance])
    (snapshot,) = [each["Ebs"]["SnapshotId"] for each in seen_image(ec2, image)["BlockDeviceMappings"]]
    assert refused(ec2.delete_snapshot, SnapshotId=snapshot) == ("InvalidSnapshot.InUse", 400)
    ec2.deregister_image(ImageId=image)
    assert refused(ec2.describe_images, ImageIds=[image]) == ("InvalidAMIID.NotFound", 400)
    assert kinds(endpoint) == ["snapshot"], "which only its own deletion ends"
    ec2.delete_snapshot(SnapshotId=snapshot)
    assert kinds(endpoint) == []
    public = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    assert refused(ec2.deregister_image, ImageId=public) == ("AuthFailure", 403)


def test_an_image_goes_with_those_snapshots_that_no_other_needs(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    instance = run(ec2, group)
    image = ec2.create_image(InstanceId=instance, Name="one")["ImageId"]
    (mapping,) = seen_image(ec2, image)["BlockDeviceMappings"]
    snapshot = mapping["Ebs"]["SnapshotId"]
    disk = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot}}
    other = ec2.register_image(
        Name="two",
        Architecture="x86_64",
        VirtualizationType="hvm",
        EnaSupport=True,
        RootDeviceName="/dev/sda1",
        BlockDeviceMappings=[disk],
    )["ImageId"]
    ec2.terminate_instances(InstanceIds=[instance])
    gone = ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    assert gone["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": "skipped"}]
    made = ec2.run_instances(**{**PLAIN, "ImageId": other})["Instances"][0]["InstanceId"]
    ec2.terminate_instances(InstanceIds=[made])
    gone = ec2.deregister_image(ImageId=other, DeleteAssociatedSnapshots=True)
    assert gone["DeleteSnapshotResults"] == [{"SnapshotId": snapshot, "ReturnCode": "success"}]
    assert kinds(endpoint) == []


REGISTERED = {"Architecture": "x86_64", "VirtualizationType": "hvm", "EnaSupport": True}


@pytest.mark.parametrize(
    ("left_out", "code"),
    [
        ("Architecture", "InvalidParameterValue"),
        ("VirtualizationType", "InvalidParameterCombination"),
        ("EnaSupport", "InvalidParameterCombination"),
    ],
)
def test_an_image_with_the_defaults_of_old_does_not_launch(ec2: Any, left_out: str, code: str) -> None:
    snapshot = snapshot_of(ec2, make(ec2, Size=8))
    disk = {"DeviceName": "/dev/sda1", "Ebs": {"SnapshotId": snapshot}}
    given = {name: value for name, value in REGISTERED.items() if name != left_out}
    image = ec2.register_image(Name="old", **given, BlockDeviceMappings=[disk])["ImageId"]
    assert refused(ec2.run_instances, **{**PLAIN, "ImageId": image}) == (code, 400)


def test_an_image_without_a_root_snapshot_is_refused(ec2: Any) -> None:
    data = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 8}}
    bare = refused(ec2.register_image, Name="bare", **REGISTERED, BlockDeviceMappings=[data])
    assert bare == ("InvalidBlockDeviceMapping", 400)


def test_a_copy_of_an_image_in_another_region_is_its_own(ec2: Any, group: str, endpoint: Endpoint) -> None:
    instance = run(ec2, group)
    image = ec2.create_image(InstanceId=instance, Name="one")["ImageId"]
    ec2.create_tags(Resources=[image], Tags=[{"Key": "of", "Value": "mine"}])
    west = client(endpoint, region="us-west-2")
    asked = {"SourceRegion": "us-east-1", "SourceImageId": image, "Name": "two", "ClientToken": "once"}
    copied = west.copy_image(**asked, CopyImageTags=True)["ImageId"]
    assert west.copy_image(**asked, CopyImageTags=True)["ImageId"] == copied
    west.get_waiter("image_available").wait(ImageIds=[copied], WaiterConfig=SOON)
    ec2.deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    seen = seen_image(west, copied)
    assert seen["Tags"] == [{"Key": "of", "Value": "mine"}]
    assert west.run_instances(**{**PLAIN, "ImageId": copied})["Instances"][0]["ImageId"] == copied
    public = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    sealed = west.copy_image(SourceRegion="us-east-1", SourceImageId=public, Name="sealed", Encrypted=True)[
        "ImageId"
    ]
    assert [each["Ebs"]["Encrypted"] for each in seen_image(west, sealed)["BlockDeviceMappings"]] == [True]


def test_a_launch_makes_disks_of_snapshots(ec2: Any) -> None:
    snapshot = snapshot_of(ec2, make(ec2, Size=20, Encrypted=True))

    def with_disk(device: str, **ebs: Any) -> dict[str, Any]:
        disk = {"DeviceName": device, "Ebs": {"SnapshotId": snapshot, **ebs}}
        return {**PLAIN, "BlockDeviceMappings": [disk]}

    made = ec2.run_instances(**with_disk("/dev/sdf"))["Instances"][0]["InstanceId"]
    disks = {
        each["DeviceName"]: each["Ebs"]["VolumeId"] for each in shown(ec2, made)[0]["BlockDeviceMappings"]
    }
    seen = volume_of(ec2, disks["/dev/sdf"])
    assert (seen["SnapshotId"], seen["Size"], seen["Encrypted"]) == (snapshot, 20, True)
    small = refused(ec2.run_instances, **with_disk("/dev/sdf", VolumeSize=10))
    assert small == ("InvalidBlockDeviceMapping", 400)
    root = refused(ec2.run_instances, **with_disk("/dev/sda1", VolumeSize=100))
    assert root == ("InvalidBlockDeviceMapping", 400)


def test_gpucloud_makes_no_snapshot_or_image_without_tags(ec2: Any, group: str, endpoint: Endpoint) -> None:
    instance = run(ec2, group)
    (volume,) = [each["Ebs"]["VolumeId"] for each in shown(ec2, instance)[0]["BlockDeviceMappings"]]
    endpoint.client.review(Review.ALL)
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    of_snapshot, of_image = ({"ResourceType": kind, "Tags": tags} for kind in ("snapshot", "image"))
    assert refused(ec2.create_snapshot, VolumeId=volume) == ("UnauthorizedOperation", 403)
    half = {"InstanceId": instance, "Name": "one", "TagSpecifications": [of_image]}
    assert refused(ec2.create_image, **half) == ("UnauthorizedOperation", 403)
    ec2.create_image(**{**half, "TagSpecifications": [of_image, of_snapshot]})
    rows = [each for each in endpoint.client.status()["billing"] if each["kind"] == "snapshot"]
    assert [each["box"] for each in rows] == ["b"]
