"""boto3 as people write it by hand: resources, collections, paginators and waiters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.shell import Shell

CLIENT = "boto3"
REGION = "us-east-1"
SOON = {"Delay": 1, "MaxAttempts": 30}


@pytest.fixture
def session(foreign: Shell, monkeypatch: pytest.MonkeyPatch) -> boto3.Session:
    """A session with nothing but the variables of the sandbox."""
    for name, value in foreign.endpoint.exports({}).items():
        monkeypatch.setenv(name, value)
    return boto3.Session()


@pytest.fixture
def ec2(session: boto3.Session) -> Any:
    """EC2's resources."""
    return session.resource("ec2")


def launch(ec2: Any, **members: Any) -> list[Any]:
    """Instances with the least that the cloud asks for."""
    images = ec2.images.filter(Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])
    newest = max(images, key=lambda image: str(image.creation_date))
    least: Mapping[str, Any] = {"MinCount": 1, "MaxCount": 1, "InstanceType": "g4dn.xlarge"}
    return list(ec2.create_instances(ImageId=newest.id, **{**least, **members}))


def test_smoke_an_instance_from_its_creation_to_its_end(foreign: Shell, ec2: Any) -> None:
    [vpc] = ec2.vpcs.filter(Filters=[{"Name": "is-default", "Values": ["true"]}])
    subnet = next(iter(vpc.subnets.all()))
    group = ec2.create_security_group(GroupName="boto3", Description="fidelity", VpcId=vpc.id)
    group.authorize_ingress(CidrIp="0.0.0.0/0", IpProtocol="tcp", FromPort=22, ToPort=22)
    key = ec2.create_key_pair(KeyName="boto3")
    assert "PRIVATE KEY" in key.key_material

    [instance] = launch(ec2, KeyName="boto3", SubnetId=subnet.id, SecurityGroupIds=[group.id])
    instance.wait_until_exists()
    instance.wait_until_running()
    instance.reload()
    assert (instance.state["Name"], instance.key_name) == ("running", "boto3")
    assert [each["GroupName"] for each in instance.security_groups] == ["boto3"]
    assert instance.subnet == subnet
    assert [each.id for each in ec2.instances.filter(Filters=[{"Name": "key-name", "Values": ["boto3"]}])]

    instance.create_tags(Tags=[{"Key": "purpose", "Value": "fidelity"}])
    found = ec2.instances.filter(Filters=[{"Name": "tag:purpose", "Values": ["fidelity"]}])
    assert [each.id for each in found] == [instance.id]
    [disk] = instance.volumes.all()
    assert (disk.state, disk.attachments[0]["DeleteOnTermination"]) == ("in-use", True)
    [interface] = instance.network_interfaces
    assert interface.private_ip_address == instance.private_ip_address

    ec2.instances.filter(InstanceIds=[instance.id]).terminate()
    instance.wait_until_terminated()
    group.delete()
    key.delete()
    assert foreign.sandbox.status()["billing"] == []


def test_waiters_and_pages_of_the_client(foreign: Shell, ec2: Any) -> None:
    started = launch(ec2, MinCount=6, MaxCount=6)
    ids = [each.id for each in started]
    client = ec2.meta.client
    client.get_waiter("instance_running").wait(InstanceIds=ids, WaiterConfig=SOON)
    client.get_waiter("instance_status_ok").wait(InstanceIds=ids, WaiterConfig=SOON)
    pages = list(client.get_paginator("describe_instance_status").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(page["InstanceStatuses"]) for page in pages] == [5, 1]
    limited = client.get_paginator("describe_instance_types").paginate(PaginationConfig={"MaxItems": 7})
    assert len(limited.build_full_result()["InstanceTypes"]) == 7

    client.terminate_instances(InstanceIds=ids)
    client.get_waiter("instance_terminated").wait(InstanceIds=ids, WaiterConfig=SOON)
    assert foreign.sandbox.status()["billing"] == []


def test_what_is_not_there_is_not_found(ec2: Any) -> None:
    with pytest.raises(ClientError) as missing:
        ec2.Instance("i-00000000000000000").load()
    assert missing.value.response["Error"]["Code"] == "InvalidInstanceID.NotFound"


def test_an_instance_is_stopped_and_started(foreign: Shell, ec2: Any) -> None:
    [instance] = launch(ec2)
    instance.wait_until_running()
    instance.stop()
    instance.wait_until_stopped()
    assert [entry["kind"] for entry in foreign.sandbox.status()["billing"]] == ["disk"]
    instance.start()
    instance.wait_until_running()
    instance.reboot()

    instance.modify_attribute(DisableApiTermination={"Value": True})
    with pytest.raises(ClientError, match="OperationNotPermitted"):
        instance.terminate()
    instance.modify_attribute(DisableApiTermination={"Value": False})
    instance.terminate()
    instance.wait_until_terminated()
    assert foreign.sandbox.status()["billing"] == []


def test_a_volume_is_made_attached_and_deleted(foreign: Shell, ec2: Any) -> None:
    [instance] = launch(ec2)
    instance.wait_until_running()
    instance.reload()
    zone = instance.placement["AvailabilityZone"]
    volume = ec2.create_volume(AvailabilityZone=zone, Size=10, VolumeType="gp3")
    ec2.meta.client.get_waiter("volume_available").wait(VolumeIds=[volume.id], WaiterConfig=SOON)
    volume.attach_to_instance(InstanceId=instance.id, Device="/dev/sdf")
    ec2.meta.client.get_waiter("volume_in_use").wait(VolumeIds=[volume.id], WaiterConfig=SOON)
    assert len(list(instance.volumes.all())) == 2
    instance.terminate()
    instance.wait_until_terminated()
    ec2.meta.client.get_waiter("volume_available").wait(VolumeIds=[volume.id], WaiterConfig=SOON)
    volume.delete()
    ec2.meta.client.get_waiter("volume_deleted").wait(VolumeIds=[volume.id], WaiterConfig=SOON)
    assert foreign.sandbox.status()["billing"] == []
