"""Launches of others' making, stopping and starting, and the attributes of instances, as boto3 sees them."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint
from gpucloud_sandbox.review import Review
from tests.sandbox.running import IMAGE, SPOT, HollowBoxes, client, shown, subnet_in
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_life import run

PLAIN = {"ImageId": IMAGE, "InstanceType": "g4dn.xlarge", "MinCount": 1, "MaxCount": 1}


def kinds(endpoint: Endpoint) -> list[str]:
    """What is billed."""
    return sorted(entry["kind"] for entry in endpoint.client.status()["billing"])


def test_a_bare_launch_gets_ec2s_own_defaults(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.review(Review.OWN)
    made = ec2.run_instances(**PLAIN)["Instances"][0]["InstanceId"]
    (seen,) = shown(ec2, made)
    assert seen["MetadataOptions"]["HttpTokens"] == "optional"
    assert [each["GroupName"] for each in seen["SecurityGroups"]] == ["default"]
    (disk,) = ec2.describe_volumes()["Volumes"]
    assert (disk["Size"], disk["Encrypted"], disk["Attachments"][0]["DeleteOnTermination"]) == (
        75,
        False,
        True,
    )
    assert kinds(endpoint) == ["address", "disk", "instance"]
    ec2.terminate_instances(InstanceIds=[made])
    assert kinds(endpoint) == []


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"KeyName": "none"}, "InvalidKeyPair.NotFound"),
    ({"IamInstanceProfile": {"Name": "none"}}, "InvalidParameterValue"),
    ({"SubnetId": "subnet-00000000000000000"}, "InvalidSubnetID.NotFound"),
    ({"SecurityGroups": ["none"]}, "InvalidGroup.NotFound"),
    ({"SecurityGroupIds": ["sg-00000000000000000"]}, "InvalidGroup.NotFound"),
    ({"PrivateIpAddress": "10.0.0.5"}, "InvalidParameterValue"),
    ({"PrivateIpAddress": "172.31.0.5", "MaxCount": 2}, "InvalidParameterCombination"),
    ({"disk": {"VolumeSize": 100, "VolumeType": "gp3", "Iops": 100_000}}, "InvalidParameterValue"),
    ({"disk": {"VolumeSize": 100, "VolumeType": "gp3", "Throughput": 1000}}, "InvalidParameterValue"),
    ({"disk": {"VolumeSize": 100, "VolumeType": "gp2", "Iops": 3000}}, "InvalidParameterCombination"),
    ({"disk": {"VolumeSize": 100, "VolumeType": "io2"}}, "MissingParameter"),
    ({"device": "/dev/sda99"}, "InvalidBlockDeviceMapping"),
    ({"interfaces": [{}, {}, {}, {}]}, "AttachmentLimitExceeded"),
    ({"interfaces": [{"InterfaceType": "efa"}]}, "InvalidParameterCombination"),
    ({"interfaces": [{}, {"NetworkCardIndex": 1, "DeviceIndex": 0}]}, "InvalidParameterValue"),
]


@pytest.mark.parametrize(("changes", "code"), WRONG, ids=str)
def test_references_and_limits_are_checked(
    ec2: Any, endpoint: Endpoint, changes: dict[str, Any], code: str
) -> None:
    endpoint.client.review(Review.OWN)
    disk, device = changes.pop("disk", {}), changes.pop("device", "/dev/sdf" if "disk" in changes else None)
    interfaces = [{"DeviceIndex": index, **each} for index, each in enumerate(changes.pop("interfaces", ()))]
    parameters = {**PLAIN, **changes}
    if disk or device:
        parameters["BlockDeviceMappings"] = [
            {"DeviceName": device or "/dev/sdf", "Ebs": disk or {"VolumeSize": 8}}
        ]
    if interfaces:
        parameters["NetworkInterfaces"] = interfaces
    assert refused(ec2.run_instances, **parameters) == (code, 400)
    assert kinds(endpoint) == []


def test_key_pair_profile_and_address_that_exist_are_taken(ec2: Any, endpoint: Endpoint) -> None:
    endpoint.client.review(Review.OWN)
    ec2.create_key_pair(KeyName="of-a-launch")
    iam = client(endpoint, "iam")
    profile = iam.create_instance_profile(InstanceProfileName="of-a-launch")["InstanceProfile"]
    subnet = subnet_in(ec2, "use1-az1")
    (block,) = [each["CidrBlock"] for each in ec2.describe_subnets(SubnetIds=[subnet])["Subnets"]]
    address = block.replace(".0/20", ".77")
    asked = {
        **PLAIN,
        "KeyName": "of-a-launch",
        "IamInstanceProfile": {"Name": "of-a-launch"},
        "SubnetId": subnet,
        "PrivateIpAddress": address,
    }
    made = ec2.run_instances(**asked)["Instances"][0]
    assert (made["KeyName"], made["IamInstanceProfile"]["Arn"]) == ("of-a-launch", profile["Arn"])
    assert made["PrivateIpAddress"] == address
    assert refused(ec2.run_instances, **asked) == ("InvalidIPAddress.InUse", 400)
    ec2.delete_key_pair(KeyName="of-a-launch")  # moto's state is that of the process


def test_a_stopped_instance_is_billed_for_its_disks_alone(
    ec2: Any, group: str, endpoint: Endpoint, boxes: HollowBoxes
) -> None:
    made = run(ec2, group)
    before = shown(ec2, made)[0]["PublicIpAddress"]
    (change,) = ec2.stop_instances(InstanceIds=[made])["StoppingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "stopping")
    (seen,) = shown(ec2, made)
    assert (seen["State"]["Name"], seen.get("PublicIpAddress")) == ("stopped", None)
    assert kinds(endpoint) == ["disk"]
    assert boxes.stopped.wait(5)
    assert not boxes.ended.is_set(), "which would erase its disk"
    endpoint.client.stock(count=0)
    assert refused(ec2.start_instances, InstanceIds=[made]) == ("InsufficientInstanceCapacity", 500)
    endpoint.client.stock(count=1)
    ec2.start_instances(InstanceIds=[made])
    (seen,) = shown(ec2, made)
    assert seen["State"]["Name"] == "running"
    assert seen["PublicIpAddress"] != before
    assert kinds(endpoint) == ["address", "disk", "instance"]
    ec2.stop_instances(InstanceIds=[made])
    ec2.terminate_instances(InstanceIds=[made])
    assert kinds(endpoint) == []


def test_one_time_spot_instances_and_protected_ones_do_not_stop(ec2: Any, group: str) -> None:
    spot = run(ec2, group, InstanceMarketOptions=SPOT)
    assert refused(ec2.stop_instances, InstanceIds=[spot]) == ("UnsupportedOperation", 400)
    protected = run(ec2, group, DisableApiStop=True)
    assert refused(ec2.stop_instances, InstanceIds=[protected]) == ("OperationNotPermitted", 400)
    ec2.modify_instance_attribute(InstanceId=protected, DisableApiStop={"Value": False})
    assert ec2.stop_instances(InstanceIds=[protected])["StoppingInstances"]
    assert refused(ec2.reboot_instances, InstanceIds=[protected]) == ("IncorrectInstanceState", 400)


def test_attributes_are_shown_and_changed(ec2: Any, group: str) -> None:
    made = run(ec2, group)

    def told(attribute: str) -> Any:
        answer = ec2.describe_instance_attribute(InstanceId=made, Attribute=attribute)
        return answer[attribute[0].upper() + attribute[1:]]

    assert told("userData") == {}
    assert told("instanceType") == {"Value": "g4dn.xlarge"}
    assert told("instanceInitiatedShutdownBehavior") == {"Value": "terminate"}
    ec2.modify_instance_attribute(InstanceId=made, InstanceInitiatedShutdownBehavior={"Value": "stop"})
    ec2.modify_instance_attribute(InstanceId=made, Attribute="disableApiTermination", Value="true")
    ec2.modify_instance_attribute(InstanceId=made, SourceDestCheck={"Value": False})
    assert told("instanceInitiatedShutdownBehavior") == {"Value": "stop"}
    assert refused(ec2.terminate_instances, InstanceIds=[made]) == ("OperationNotPermitted", 400)
    (interface,) = ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert interface["SourceDestCheck"] is False
    larger = {"InstanceId": made, "InstanceType": {"Value": "g4dn.2xlarge"}}
    assert refused(ec2.modify_instance_attribute, **larger) == ("IncorrectInstanceState", 400)
    ec2.stop_instances(InstanceIds=[made])
    ec2.modify_instance_attribute(**larger)
    ec2.start_instances(InstanceIds=[made])
    assert shown(ec2, made)[0]["InstanceType"] == "g4dn.2xlarge"
    ec2.monitor_instances(InstanceIds=[made])
    assert shown(ec2, made)[0]["Monitoring"] == {"State": "enabled"}


def test_an_elastic_address_is_billed_until_it_is_released(ec2: Any, group: str, endpoint: Endpoint) -> None:
    made = run(ec2, group)
    endpoint.client.review(Review.OWN)
    address = ec2.allocate_address(Domain="vpc")
    assert kinds(endpoint) == ["address", "address", "disk", "instance"]
    ec2.associate_address(InstanceId=made, AllocationId=address["AllocationId"])
    assert shown(ec2, made)[0]["PublicIpAddress"] == address["PublicIp"]
    assert kinds(endpoint) == ["address", "disk", "instance"], "its own address went"
    used = refused(ec2.release_address, AllocationId=address["AllocationId"])
    assert used == ("InvalidIPAddress.InUse", 400)
    ec2.stop_instances(InstanceIds=[made])
    ec2.start_instances(InstanceIds=[made])
    assert shown(ec2, made)[0]["PublicIpAddress"] == address["PublicIp"]
    ec2.terminate_instances(InstanceIds=[made])
    assert kinds(endpoint) == ["address"]
    (seen,) = ec2.describe_addresses(AllocationIds=[address["AllocationId"]])["Addresses"]
    assert "InstanceId" not in seen
    ec2.release_address(AllocationId=address["AllocationId"])
    assert kinds(endpoint) == []
    gone = refused(ec2.release_address, AllocationId=address["AllocationId"])
    assert gone == ("InvalidAllocationID.NotFound", 400)
