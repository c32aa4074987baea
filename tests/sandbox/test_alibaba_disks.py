"""Disks, snapshots and images of the emulated Alibaba Cloud, and what goes on being billed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.alibaba_lab import TAG, ZONE, Alibaba

DISK: dict[str, Any] = {
    "ZoneId": ZONE,
    "DiskCategory": "cloud_essd",
    "Size": 100,
    "Encrypted": True,
    "Tag": TAG,
}


def make_disk(alibaba: Alibaba, **changes: Any) -> str:
    id_: str = alibaba.ask("CreateDisk", **{**DISK, **changes})["DiskId"]
    return id_


def disk(alibaba: Alibaba, id_: str) -> dict[str, Any]:
    [found] = [each for each in alibaba.ask("DescribeDisks")["Disks"]["Disk"] if each["DiskId"] == id_]
    return dict(found)


def price(alibaba: Alibaba, id_: str) -> float:
    [entry] = [each for each in alibaba.sandbox.status()["billing"] if each["id"] == id_]
    return float(entry["price"]["amount"])


# --- disks


def test_data_disks_of_a_launch_are_billed_and_end_as_asked(alibaba: Alibaba) -> None:
    data = {"Category": "cloud_essd", "Size": 200, "Encrypted": True}
    id_ = alibaba.launch(DataDisk=[data, {**data, "DeleteWithInstance": False, "DiskName": "kept"}])
    assert alibaba.billed() == ["address", "disk", "disk", "disk", "instance"]
    shown = alibaba.ask("DescribeDisks", InstanceId=id_)["Disks"]["Disk"]
    assert [each["Device"] for each in shown] == ["/dev/xvda", "/dev/xvdb", "/dev/xvdc"]
    alibaba.ask("DeleteInstance", InstanceId=id_, Force=True)
    assert alibaba.billed() == ["disk"]
    [kept] = alibaba.ask("DescribeDisks")["Disks"]["Disk"]
    assert (kept["DiskName"], kept["Status"], kept["InstanceId"]) == ("kept", "Available", "")
    alibaba.ask("DeleteDisk", DiskId=kept["DiskId"])
    assert alibaba.billed() == []


def test_a_disk_is_made_attached_detached_and_deleted(alibaba: Alibaba) -> None:
    instance, made = alibaba.launch(), make_disk(alibaba, ClientToken="t")
    assert make_disk(alibaba, ClientToken="t") == made
    about = {"InstanceId": instance, "DiskId": made}
    alibaba.ask("AttachDisk", **about)
    shown = disk(alibaba, made)
    assert (shown["Status"], shown["InstanceId"], shown["Device"]) == ("In_use", instance, "/dev/xvdb")
    assert alibaba.refused("AttachDisk", **about) == ("IncorrectDiskStatus", 403)
    assert alibaba.refused("DeleteDisk", DiskId=made) == ("IncorrectDiskStatus", 403)
    [attached] = alibaba.ask("DescribeDisks", InstanceId=instance, DiskType="data")["Disks"]["Disk"]
    assert attached["DiskId"] == made
    alibaba.ask("DetachDisk", **about)
    assert alibaba.refused("DetachDisk", **about) == ("IncorrectDiskStatus", 403)
    alibaba.ask("AttachDisk", **about)
    alibaba.ask("DeleteInstance", InstanceId=instance, Force=True)
    assert disk(alibaba, made)["Status"] == "Available", "kept unless asked otherwise"
    alibaba.ask("DeleteDisk", DiskId=made)
    assert alibaba.billed() == []


def test_a_disk_stays_in_its_zone_and_a_system_disk_in_its_instance(alibaba: Alibaba) -> None:
    instance = alibaba.launch()
    elsewhere = make_disk(alibaba, ZoneId="us-east-1b")
    about = {"InstanceId": instance, "DiskId": elsewhere}
    assert alibaba.refused("AttachDisk", **about) == ("ResourcesNotInSameZone", 403)
    [system] = alibaba.ask("DescribeDisks", InstanceId=instance)["Disks"]["Disk"]
    about["DiskId"] = system["DiskId"]
    assert alibaba.refused("DetachDisk", **about) == ("DiskNotPortable", 403)


def test_a_larger_disk_costs_more_and_none_becomes_smaller(alibaba: Alibaba) -> None:
    made = make_disk(alibaba)
    before = price(alibaba, made)
    assert alibaba.refused("ResizeDisk", DiskId=made, NewSize=100) == ("InvalidDiskSize.TooSmall", 403)
    alibaba.ask("ResizeDisk", DiskId=made, NewSize=300)
    assert disk(alibaba, made)["Size"] == 300
    assert price(alibaba, made) == pytest.approx(3 * before, rel=1e-4)
    assert alibaba.billed() == ["disk"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ZoneId": None}, "MissingParameter"),
        ({"ZoneId": "us-east-1z"}, "InvalidZoneId.NotFound"),
        ({"Size": None}, "InvalidDataDiskSize.ValueNotSupported"),
        ({"DiskCategory": None}, "InvalidDataDiskCategory.ValueNotSupported"),
        ({"SnapshotId": "s-0"}, "InvalidSnapshotId.NotFound"),
        ({"Encrypted": None}, "Forbidden.RAM"),
        ({"Tag": None}, "Forbidden.RAM"),
    ],
)
def test_disks_that_the_cloud_or_a_reviewer_refuses_are_refused(
    alibaba: Alibaba, changes: dict[str, Any], code: str
) -> None:
    assert alibaba.refused("CreateDisk", **{**DISK, **changes})[0] == code
    assert alibaba.billed() == []


# --- snapshots


def test_a_snapshot_is_billed_until_it_is_deleted_and_makes_disks(alibaba: Alibaba) -> None:
    instance = alibaba.launch()
    [system] = alibaba.ask("DescribeDisks", InstanceId=instance)["Disks"]["Disk"]
    asked: dict[str, Any] = {"DiskId": system["DiskId"], "Tag": TAG}
    alibaba.sandbox.pace(transition_s=60)
    made = alibaba.ask("CreateSnapshot", **asked)["SnapshotId"]
    assert alibaba.refused("CreateSnapshot", **asked) == ("IncorrectDiskStatus.CreatingSnapshot", 403)
    assert alibaba.refused("CreateDisk", **DISK, SnapshotId=made) == ("InvalidSnapshotId.NotReady", 403)
    alibaba.sandbox.clock(advance_s=61)
    [shown] = alibaba.ask("DescribeSnapshots", InstanceId=instance)["Snapshots"]["Snapshot"]
    assert (shown["SnapshotId"], shown["Status"], shown["Encrypted"]) == (made, "accomplished", True)
    copy = make_disk(alibaba, SnapshotId=made, Size=40)
    assert disk(alibaba, copy)["Size"] == 100, "as large as the snapshot"
    alibaba.ask("DeleteInstance", InstanceId=instance, Force=True)
    assert alibaba.billed() == ["disk", "snapshot"]
    assert alibaba.refused("DeleteSnapshot", SnapshotId=made) == ("SnapshotCreatedDisk", 403)
    alibaba.ask("DeleteSnapshot", SnapshotId=made, Force=True)
    alibaba.ask("DeleteDisk", DiskId=copy)
    assert alibaba.billed() == []


def test_a_snapshot_ends_with_its_days_and_a_disk_that_nobody_used_has_none(alibaba: Alibaba) -> None:
    unused = alibaba.refused("CreateSnapshot", DiskId=make_disk(alibaba), Tag=TAG)
    assert unused == ("IncorrectDiskStatus.NeverAttached", 403)
    [system] = alibaba.ask("DescribeDisks", InstanceId=alibaba.launch())["Disks"]["Disk"]
    alibaba.ask("CreateSnapshot", DiskId=system["DiskId"], Tag=TAG, RetentionDays=1)
    assert "snapshot" in alibaba.billed()
    alibaba.sandbox.clock(advance_s=25 * 3600)
    assert alibaba.ask("DescribeSnapshots")["Snapshots"]["Snapshot"] == []
    assert "snapshot" not in alibaba.billed()


# --- images


def test_an_image_of_an_instance_launches_another_and_holds_its_snapshots(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    instance = alibaba.launch(network)
    named: dict[str, Any] = {"InstanceId": instance, "ImageName": "mine", "Tag": TAG}
    image = alibaba.ask("CreateImage", **named)["ImageId"]
    assert alibaba.refused("CreateImage", **named)[0] == "InvalidImageName.Duplicated"
    [shown] = alibaba.ask("DescribeImages", ImageOwnerAlias="self")["Images"]["Image"]
    assert (shown["ImageId"], shown["ImageName"], shown["Size"]) == (image, "mine", 100)
    small = {"Category": "cloud_essd", "Size": "40", "Encrypted": True}
    refused = alibaba.refused("RunInstances", **alibaba.order(network, ImageId=image, SystemDisk=small))
    assert refused[0] == "InvalidSystemDiskSize.LessThanImageSize"
    second = alibaba.launch(network, ImageId=image)
    [snapshot] = alibaba.ask("DescribeSnapshots")["Snapshots"]["Snapshot"]
    held = {"SnapshotId": snapshot["SnapshotId"]}
    assert alibaba.refused("DeleteSnapshot", **held, Force=True) == ("SnapshotCreatedImage", 403)
    assert alibaba.refused("DeleteImage", ImageId=image)[1] == 403
    alibaba.ask("DeleteInstances", InstanceId=[instance, second], Force=True)
    alibaba.ask("DeleteImage", ImageId=image)
    assert alibaba.billed() == ["snapshot"], "an image leaves its snapshots"
    alibaba.ask("DeleteSnapshot", **held)
    assert alibaba.billed() == []


def test_an_image_is_not_there_before_its_snapshots(alibaba: Alibaba) -> None:
    network = alibaba.make_network()
    instance = alibaba.launch(network)
    alibaba.sandbox.pace(transition_s=60)
    image = alibaba.ask("CreateImage", InstanceId=instance, Tag=TAG)["ImageId"]
    order = alibaba.order(network, ImageId=image)
    assert alibaba.refused("RunInstances", **order) == ("IncorrectImageStatus", 403)
    assert alibaba.ask("DescribeImages", ImageId=image)["TotalCount"] == 0
    assert alibaba.ask("DescribeImages", ImageId=image, Status="Creating")["TotalCount"] == 1


def test_an_image_of_a_snapshot_waits_for_it_and_says_whether_tokens_are_taken(
    alibaba: Alibaba,
) -> None:
    """Where nothing is said, instances of it cannot require them."""
    network = alibaba.make_network()
    instance = alibaba.launch(network)
    [system] = alibaba.ask("DescribeDisks", InstanceId=instance, DiskType="system")["Disks"]["Disk"]
    alibaba.sandbox.pace(transition_s=60)
    taken = alibaba.ask("CreateSnapshot", DiskId=system["DiskId"], Tag=TAG)["SnapshotId"]
    asked: dict[str, Any] = {"SnapshotId": taken, "Tag": TAG}
    assert alibaba.refused("CreateImage", **asked) == ("InvalidSnapshotId.NotReady", 403)
    alibaba.sandbox.clock(advance_s=61)
    old = alibaba.ask("CreateImage", **asked)["ImageId"]
    asked |= {"Features": {"ImdsSupport": "v2"}, "ClientToken": "t"}
    new = alibaba.ask("CreateImage", **asked)["ImageId"]
    assert alibaba.ask("CreateImage", **asked)["ImageId"] == new
    refused = alibaba.refused("RunInstances", **alibaba.order(network, ImageId=old, HttpTokens="required"))
    assert refused[0] == "InvalidHttpTokens.NotSupported"
    assert alibaba.launch(network, ImageId=new, HttpTokens="required")
