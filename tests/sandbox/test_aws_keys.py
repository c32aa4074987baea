"""Keys of KMS that encrypt volumes, snapshots and images in the sandbox, as boto3 sees them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from gpucloud_sandbox.client import Endpoint
from tests.sandbox.running import HollowBoxes, client, hollow_sandbox, shown
from tests.sandbox.test_aws_images import seen_image, seen_snapshot, snapshot_of
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_power import PLAIN, kinds
from tests.sandbox.test_aws_volumes import SOON, ec2, make, price, volume_of, zones

__all__ = ["ec2"]

WRONG = "alias/of-nobody"


@pytest.fixture
def kms(endpoint: Endpoint) -> Any:
    return client(endpoint, "kms")


@pytest.fixture
def key(kms: Any) -> Iterator[str]:
    """The ARN of a key with the alias ``alias/mine``."""
    made = kms.create_key()["KeyMetadata"]
    kms.create_alias(AliasName="alias/mine", TargetKeyId=made["KeyId"])
    yield str(made["Arn"])
    kms.delete_alias(AliasName="alias/mine")  # moto's state is that of the process


def test_a_key_is_billed_until_its_deletion_is_scheduled(kms: Any, key: str, endpoint: Endpoint) -> None:
    id_ = key.rpartition("/")[2]
    assert (price(endpoint, id_) * 730).quantize(Decimal("0.01")) == Decimal("1.00")
    kms.schedule_key_deletion(KeyId=id_, PendingWindowInDays=7)
    assert kinds(endpoint) == []
    kms.cancel_key_deletion(KeyId=id_)
    assert kinds(endpoint) == ["key"]


def test_a_key_is_found_by_its_arn_as_by_its_id(kms: Any, key: str, endpoint: Endpoint) -> None:
    for name in (key, key.rpartition("/")[2]):
        kms.disable_key(KeyId=name)
        assert kms.describe_key(KeyId=name)["KeyMetadata"]["KeyState"] == "Disabled"
        kms.enable_key(KeyId=name)
        assert kms.describe_key(KeyId=name)["KeyMetadata"]["KeyState"] == "Enabled"
        assert kms.schedule_key_deletion(KeyId=name, PendingWindowInDays=7)["KeyId"] == key
        assert kinds(endpoint) == []
        assert kms.cancel_key_deletion(KeyId=name)["KeyId"] == key
        assert kinds(endpoint) == ["key"]
    elsewhere = key.replace("us-east-1", "eu-west-1")
    for call in (kms.disable_key, kms.enable_key, kms.cancel_key_deletion, kms.list_grants):
        assert refused(call, KeyId=elsewhere) == ("NotFoundException", 400)


def test_a_volume_and_what_is_made_of_it_keep_their_key(ec2: Any, key: str) -> None:
    volume = make(ec2, Encrypted=True, KmsKeyId="alias/mine")
    assert volume_of(ec2, volume)["KmsKeyId"] == key
    snapshot = snapshot_of(ec2, volume)
    assert seen_snapshot(ec2, snapshot)["KmsKeyId"] == key
    again = ec2.create_volume(SnapshotId=snapshot, AvailabilityZone=zones(ec2)[0])
    assert again["KmsKeyId"] == key
    disk = {"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True, "KmsKeyId": key}}
    made = ec2.run_instances(**PLAIN, BlockDeviceMappings=[disk])["Instances"][0]["InstanceId"]
    (root,) = [each["Ebs"]["VolumeId"] for each in shown(ec2, made)[0]["BlockDeviceMappings"]]
    assert volume_of(ec2, root)["KmsKeyId"] == key
    bare = {"AvailabilityZone": zones(ec2)[0], "Size": 10, "KmsKeyId": key}
    assert refused(ec2.create_volume, **bare) == ("InvalidParameterDependency", 400)


def test_what_names_a_wrong_key_fails_later(ec2: Any, kms: Any, key: str, endpoint: Endpoint) -> None:
    for wrong in (WRONG, key.replace("us-east-1", "us-west-2"), key):
        if wrong == key:
            kms.disable_key(KeyId=key.rpartition("/")[2])
        volume = ec2.create_volume(AvailabilityZone=zones(ec2)[0], Size=10, Encrypted=True, KmsKeyId=wrong)
        assert volume["State"] == "creating"
        gone = refused(ec2.describe_volumes, VolumeIds=[volume["VolumeId"]])
        assert gone == ("InvalidVolume.NotFound", 400)
    disk = {"DeviceName": "/dev/sda1", "Ebs": {"Encrypted": True, "KmsKeyId": WRONG}}
    made = ec2.run_instances(**PLAIN, BlockDeviceMappings=[disk])["Instances"][0]["InstanceId"]
    ec2.get_waiter("instance_terminated").wait(InstanceIds=[made], WaiterConfig=SOON)
    assert shown(ec2, made)[0]["StateReason"]["Code"] == "Client.InternalError"
    assert kinds(endpoint) == ["key"]


def test_a_copy_needs_a_key_of_its_own_region(ec2: Any, key: str, endpoint: Endpoint) -> None:
    snapshot = snapshot_of(ec2, make(ec2, Size=8, Encrypted=True, KmsKeyId=key))
    west = client(endpoint, region="us-west-2")
    asked = {"SourceRegion": "us-east-1", "SourceSnapshotId": snapshot}
    copied = west.copy_snapshot(**asked, Encrypted=True, KmsKeyId=key)["SnapshotId"]
    with pytest.raises(WaiterError):
        west.get_waiter("snapshot_completed").wait(SnapshotIds=[copied], WaiterConfig=SOON)
    assert seen_snapshot(west, copied)["StateMessage"] == "Given key ID is not accessible"
    assert kinds(endpoint) == ["disk", "key", "snapshot"]
    other = client(endpoint, "kms", region="us-west-2").create_key()["KeyMetadata"]["Arn"]
    copied = west.copy_snapshot(**asked, Encrypted=True, KmsKeyId=other)["SnapshotId"]
    seen = seen_snapshot(west, copied)
    assert (seen["State"], seen["KmsKeyId"]) == ("completed", other)
    public = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    image = {"SourceRegion": "us-east-1", "SourceImageId": public, "Name": "one", "Encrypted": True}
    assert seen_image(west, west.copy_image(**image, KmsKeyId=WRONG)["ImageId"])["State"] == "failed"


def test_a_key_and_its_bill_end_when_the_sandbox_stops(tmp_path: Path) -> None:
    with hollow_sandbox(tmp_path, HollowBoxes()) as before:
        client(before, "kms").create_key()
        assert kinds(before) == ["key"]
    with hollow_sandbox(tmp_path, HollowBoxes()) as after:
        assert kinds(after) == []
