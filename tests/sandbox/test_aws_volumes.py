"""EBS volumes in the sandbox, as boto3 sees them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import TAGS, shown
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_life import run
from tests.sandbox.test_aws_power import PLAIN, kinds

SOON = {"Delay": 1, "MaxAttempts": 5}


@pytest.fixture
def ec2(ec2: Any, endpoint: Endpoint) -> Any:
    """A client whose requests no reviewer examines unless they are gpucloud's own."""
    endpoint.client.review(Review.OWN)
    return ec2


def zones(ec2: Any) -> list[str]:
    return [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]


def make(ec2: Any, **members: Any) -> str:
    asked = {"AvailabilityZone": zones(ec2)[0], "Size": 100, "VolumeType": "gp3", **members}
    volume: str = ec2.create_volume(**asked)["VolumeId"]
    return volume


def volume_of(ec2: Any, id_: str) -> dict[str, Any]:
    (volume,) = ec2.describe_volumes(VolumeIds=[id_])["Volumes"]
    return dict(volume)


def in_zone_of(ec2: Any, instance: str) -> str:
    return str(shown(ec2, instance)[0]["Placement"]["AvailabilityZone"])


def price(endpoint: Endpoint, id_: str) -> Decimal:
    """What a resource costs per hour now."""
    (row,) = [each for each in endpoint.client.status()["billing"] if each["id"] == id_]
    return Decimal(row["price"]["amount"])


def test_a_volume_is_billed_from_its_creation_to_its_deletion(ec2: Any, endpoint: Endpoint) -> None:
    made = ec2.create_volume(AvailabilityZone=zones(ec2)[0], Size=100, VolumeType="gp3", Encrypted=True)
    assert (made["State"], made["Encrypted"]) == ("creating", True)
    id_ = made["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[id_], WaiterConfig=SOON)
    assert kinds(endpoint) == ["disk"]
    seen = volume_of(ec2, id_)
    assert (seen["Size"], seen["Iops"], seen["Throughput"], seen["Attachments"]) == (100, 3000, 125, [])
    paged = refused(ec2.describe_volumes, VolumeIds=[id_], MaxResults=5)
    assert paged == ("InvalidParameterCombination", 400)
    ec2.delete_volume(VolumeId=id_)
    assert kinds(endpoint) == []
    ec2.get_waiter("volume_deleted").wait(VolumeIds=[id_], WaiterConfig=SOON)
    assert refused(ec2.delete_volume, VolumeId=id_) == ("InvalidVolume.NotFound", 400)


def test_each_state_is_seen_before_the_next(ec2: Any, group: str, endpoint: Endpoint) -> None:
    instance = run(ec2, group)
    endpoint.client.pace(transition_s=3600)
    id_ = make(ec2, AvailabilityZone=in_zone_of(ec2, instance))
    place = {"VolumeId": id_, "InstanceId": instance, "Device": "/dev/sdf"}

    def state() -> tuple[str, list[str]]:
        seen = volume_of(ec2, id_)
        return seen["State"], [each["State"] for each in seen["Attachments"]]

    assert state() == ("creating", [])
    assert refused(ec2.attach_volume, **place) == ("IncorrectState", 400)
    endpoint.client.clock(advance_s=3600)
    assert state() == ("available", [])
    assert ec2.attach_volume(**place)["State"] == "attaching"
    assert state() == ("in-use", ["attaching"])
    endpoint.client.clock(advance_s=3600)
    assert state() == ("in-use", ["attached"])
    assert ec2.detach_volume(VolumeId=id_)["State"] == "detaching"
    assert state() == ("in-use", ["detaching"])
    endpoint.client.clock(advance_s=3600)
    assert state() == ("available", [])
    ec2.delete_volume(VolumeId=id_)
    assert state() == ("deleting", [])


def test_an_attached_volume_outlives_its_instance(ec2: Any, group: str, endpoint: Endpoint) -> None:
    instance = run(ec2, group)
    id_ = make(ec2, AvailabilityZone=in_zone_of(ec2, instance))
    ec2.attach_volume(VolumeId=id_, InstanceId=instance, Device="/dev/sdf")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[id_], WaiterConfig=SOON)
    mappings = {each["DeviceName"]: each["Ebs"] for each in shown(ec2, instance)[0]["BlockDeviceMappings"]}
    assert (mappings["/dev/sdf"]["VolumeId"], mappings["/dev/sdf"]["Status"]) == (id_, "attached")
    filters = [
        {"Name": "attachment.instance-id", "Values": [instance]},
        {"Name": "attachment.device", "Values": ["/dev/sdf"]},
        {"Name": "attachment.delete-on-termination", "Values": ["false"]},
    ]
    assert [each["VolumeId"] for each in ec2.describe_volumes(Filters=filters)["Volumes"]] == [id_]
    assert refused(ec2.delete_volume, VolumeId=id_) == ("VolumeInUse", 400)
    ec2.terminate_instances(InstanceIds=[instance])
    assert kinds(endpoint) == ["disk"]
    assert volume_of(ec2, id_)["State"] == "available"


def test_an_attached_volume_ends_with_its_instance_where_that_is_set(
    ec2: Any, group: str, endpoint: Endpoint
) -> None:
    instance = run(ec2, group)
    id_ = make(ec2, AvailabilityZone=in_zone_of(ec2, instance))
    ec2.attach_volume(VolumeId=id_, InstanceId=instance, Device="/dev/sdf")
    ends = {"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": True}}
    ec2.modify_instance_attribute(InstanceId=instance, BlockDeviceMappings=[ends])
    ec2.terminate_instances(InstanceIds=[instance])
    assert kinds(endpoint) == []
    assert refused(ec2.describe_volumes, VolumeIds=[id_]) == ("InvalidVolume.NotFound", 400)


def test_where_a_volume_cannot_be_attached(ec2: Any, group: str) -> None:
    instance = run(ec2, group)
    zone = in_zone_of(ec2, instance)
    other = next(each for each in zones(ec2) if each != zone)
    id_, far = make(ec2, AvailabilityZone=zone), make(ec2, AvailabilityZone=other)

    def refusal(volume: str, device: str = "/dev/sdf", to: str = instance) -> tuple[str, int]:
        return refused(ec2.attach_volume, VolumeId=volume, InstanceId=to, Device=device)

    assert refusal(far) == ("InvalidVolume.ZoneMismatch", 400)
    assert refusal("vol-00000000000000000") == ("InvalidVolume.NotFound", 400)
    assert refusal("snap-1") == ("InvalidParameterValue", 400)
    assert refusal(id_, to="i-00000000000000000") == ("InvalidInstanceID.NotFound", 400)
    assert refusal(id_, "/dev/sdk1") == ("InvalidParameterValue", 400)
    assert refusal(id_, "/dev/sda1") == ("InvalidParameterValue", 400), "the root disk is there"
    ec2.attach_volume(VolumeId=id_, InstanceId=instance, Device="/dev/sdf")
    assert refusal(id_, "/dev/sdg") == ("VolumeInUse", 400)
    ec2.terminate_instances(InstanceIds=[instance])
    assert refusal(id_) == ("IncorrectState", 400)


def test_an_instance_takes_as_many_volumes_as_its_type(ec2: Any) -> None:
    (type_,) = ec2.describe_instance_types(InstanceTypes=[PLAIN["InstanceType"]])["InstanceTypes"]
    most = type_["EbsInfo"]["MaximumEbsAttachments"]
    devices = [f"/dev/sd{letter}" for letter in "bcdefghijklmnopqrstuvwxyz"] + ["/dev/xvdba", "/dev/xvdbb"]
    disks = [{"DeviceName": device, "Ebs": {"VolumeSize": 1}} for device in devices[: most - 1]]
    made = ec2.run_instances(**PLAIN, BlockDeviceMappings=disks)["Instances"][0]["InstanceId"]
    assert len(shown(ec2, made)[0]["BlockDeviceMappings"]) == most
    one_more = {"VolumeId": make(ec2, AvailabilityZone=in_zone_of(ec2, made)), "InstanceId": made}
    assert refused(ec2.attach_volume, **one_more, Device="/dev/xvdbc") == ("AttachmentLimitExceeded", 400)


def test_a_root_volume_is_detached_only_while_its_instance_is_stopped(ec2: Any, group: str) -> None:
    instance = run(ec2, group)
    (root,) = [each["Ebs"]["VolumeId"] for each in shown(ec2, instance)[0]["BlockDeviceMappings"]]
    assert refused(ec2.detach_volume, VolumeId=root) == ("IncorrectState", 400)
    wrong = {"VolumeId": root, "InstanceId": "i-00000000000000000"}
    assert refused(ec2.detach_volume, **wrong) == ("InvalidAttachment.NotFound", 400)
    ec2.stop_instances(InstanceIds=[instance])
    ec2.detach_volume(VolumeId=root, InstanceId=instance, Device="/dev/sda1")
    assert refused(ec2.detach_volume, VolumeId=root) == ("IncorrectState", 400)
    assert refused(ec2.start_instances, InstanceIds=[instance]) == ("InvalidParameterValue", 400)
    ec2.attach_volume(VolumeId=root, InstanceId=instance, Device="/dev/sda1")
    ec2.start_instances(InstanceIds=[instance])
    assert shown(ec2, instance)[0]["State"]["Name"] == "running"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"Size": None}, "MissingParameter"),
    ({"Size": 65537}, "InvalidParameterValue"),
    ({"AvailabilityZone": None}, "MissingParameter"),
    ({"AvailabilityZone": "us-east-1z"}, "InvalidZone.NotFound"),
    ({"AvailabilityZoneId": "use1-az1"}, "InvalidParameterCombination"),
    ({"VolumeType": "gp9"}, "UnknownVolumeType"),
    ({"VolumeType": "gp2", "Throughput": 500}, "InvalidParameterCombination"),
    ({"VolumeType": "io2"}, "MissingParameter"),
    ({"VolumeType": "io1", "Iops": 6000}, "InvalidParameterValue"),
    ({"VolumeType": "st1", "Size": 100}, "InvalidParameterValue"),
    ({"Iops": 80001}, "InvalidParameterValue"),
    ({"Throughput": 800}, "InvalidParameterValue"),
    ({"ClientToken": "x" * 65}, "InvalidParameterValue"),
    ({"TagSpecifications": [{"ResourceType": "snapshot", "Tags": []}]}, "InvalidParameterValue"),
]


@pytest.mark.parametrize(("changes", "code"), WRONG, ids=str)
def test_what_is_no_volume_is_refused(
    ec2: Any, endpoint: Endpoint, changes: dict[str, Any], code: str
) -> None:
    asked = {"AvailabilityZone": zones(ec2)[0], "Size": 100, "VolumeType": "gp3", **changes}
    given = {name: value for name, value in asked.items() if value is not None}
    assert refused(ec2.create_volume, **given) == (code, 400)
    assert kinds(endpoint) == []


def test_the_same_token_gives_the_same_volume(ec2: Any, endpoint: Endpoint) -> None:
    asked = {"AvailabilityZone": zones(ec2)[0], "Size": 10, "ClientToken": "once"}
    first = ec2.create_volume(**asked)["VolumeId"]
    assert ec2.create_volume(**asked)["VolumeId"] == first
    assert kinds(endpoint) == ["disk"]
    other = refused(ec2.create_volume, **{**asked, "Size": 11})
    assert other == ("IdempotentParameterMismatch", 400)
    ec2.delete_volume(VolumeId=first)
    assert refused(ec2.create_volume, **asked) == ("IdempotentParameterMismatch", 400)


@pytest.mark.parametrize(
    ("members", "usd_per_month"),
    [
        ({"VolumeType": "gp3"}, "8.00"),
        ({"VolumeType": "gp3", "Iops": 4000, "Throughput": 1000}, "48.00"),
        ({"VolumeType": "gp2"}, "10.00"),
        ({"VolumeType": "io2", "Iops": 1000}, "77.50"),
    ],
    ids=str,
)
def test_a_faster_volume_costs_more(
    ec2: Any, endpoint: Endpoint, members: dict[str, Any], usd_per_month: str
) -> None:
    month = price(endpoint, make(ec2, **members)) * 730
    assert month.quantize(Decimal("0.01")) == Decimal(usd_per_month)


def test_a_volume_grows_while_it_is_in_use(ec2: Any, group: str, endpoint: Endpoint) -> None:
    instance = run(ec2, group)
    (root,) = [each["Ebs"]["VolumeId"] for each in shown(ec2, instance)[0]["BlockDeviceMappings"]]
    never = refused(ec2.describe_volumes_modifications, VolumeIds=[root])
    assert never == ("InvalidVolumeModification.NotFound", 400)
    before = price(endpoint, root)
    endpoint.client.pace(transition_s=3600)
    told = ec2.modify_volume(VolumeId=root, Size=200)["VolumeModification"]
    assert (told["ModificationState"], told["OriginalSize"], told["TargetSize"]) == ("modifying", 100, 200)
    assert volume_of(ec2, root)["Size"] == 100
    assert price(endpoint, root) == before * 2
    assert refused(ec2.modify_volume, VolumeId=root, Size=300) == ("IncorrectModificationState", 400)
    endpoint.client.clock(advance_s=3600)
    assert volume_of(ec2, root)["Size"] == 200
    (seen,) = ec2.describe_volumes_modifications(VolumeIds=[root])["VolumesModifications"]
    assert (seen["ModificationState"], seen["Progress"]) == ("optimizing", 50)
    endpoint.client.clock(advance_s=3600)
    (seen,) = ec2.describe_volumes_modifications(VolumeIds=[root])["VolumesModifications"]
    assert (seen["ModificationState"], seen["Progress"]) == ("completed", 100)


def test_a_volume_is_modified_four_times_a_day(ec2: Any, endpoint: Endpoint) -> None:
    id_ = make(ec2)
    for size in (101, 102, 103, 104):
        ec2.modify_volume(VolumeId=id_, Size=size)
    assert refused(ec2.modify_volume, VolumeId=id_, Size=105) == ("VolumeModificationRateExceeded", 400)
    endpoint.client.clock(advance_s=24 * 3600)
    ec2.modify_volume(VolumeId=id_, Size=105)
    assert volume_of(ec2, id_)["Size"] == 105


def test_a_change_of_type_takes_that_types_speed(ec2: Any) -> None:
    id_ = make(ec2, VolumeType="gp3", Iops=4000, Throughput=500)
    ec2.modify_volume(VolumeId=id_, Size=120)
    assert (volume_of(ec2, id_)["Iops"], volume_of(ec2, id_)["Throughput"]) == (4000, 500)
    ec2.modify_volume(VolumeId=id_, VolumeType="io2")
    seen = volume_of(ec2, id_)
    assert (seen["VolumeType"], seen["Iops"], seen.get("Throughput")) == ("io2", 3000, None)
    ec2.modify_volume(VolumeId=id_, VolumeType="gp2")
    assert volume_of(ec2, id_)["Iops"] == 360
    assert refused(ec2.modify_volume, VolumeId=id_, Iops=4000) == ("InvalidParameterCombination", 400)
    assert refused(ec2.modify_volume, VolumeId=id_, Size=119) == ("InvalidParameterValue", 400)
    assert refused(ec2.modify_volume, VolumeId=id_) == ("InvalidParameterValue", 400)


def test_gpucloud_makes_no_volume_without_tags_or_encryption(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.review(Review.ALL)
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    asked = {
        "AvailabilityZone": zones(ec2)[0],
        "Size": 10,
        "Encrypted": True,
        "TagSpecifications": [{"ResourceType": "volume", "Tags": tags}],
    }
    for missing in ("Encrypted", "TagSpecifications"):
        less = {name: value for name, value in asked.items() if name != missing}
        assert refused(ec2.create_volume, **less) == ("UnauthorizedOperation", 403)
    ec2.create_volume(**asked)
    assert [each["box"] for each in endpoint.client.status()["billing"]] == ["b"]
