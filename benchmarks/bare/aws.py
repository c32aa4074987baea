"""A launch on AWS with boto3 alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import boto3

from benchmarks.bare.box import BareBox

ALIAS = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
DISK = {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}


def launch(box: BareBox) -> None:
    """Prices, group, instance, address, ssh, ``nvidia-smi``."""
    offer = box.offer
    tags: Any = [{"Key": key, "Value": value} for key, value in box.tags.items()]
    session: Any = boto3.Session(region_name=offer["region"])
    session.client("sts").get_caller_identity()
    pricing = session.client("pricing")
    for where in offer["regions"]:
        fields = {"instanceType": offer["instance_type"], "regionCode": where, "operatingSystem": "Linux"}
        filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in fields.items()]
        pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    caller = box.caller()
    ec2 = session.client("ec2")
    found = ec2.describe_subnets(Filters=[{"Name": "availability-zone-id", "Values": [offer["zone"]]}])
    subnet = found["Subnets"][0]
    spec = [{"ResourceType": "security-group", "Tags": tags}]
    group = ec2.create_security_group(
        GroupName=box.id, Description="bare", VpcId=subnet["VpcId"], TagSpecifications=spec
    )["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": caller}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    made = ec2.run_instances(
        MinCount=1,
        MaxCount=1,
        InstanceType=offer["instance_type"],
        ClientToken=box.id,
        ImageId=f"resolve:ssm:{ALIAS}",
        UserData=box.user_data(),
        InstanceInitiatedShutdownBehavior="terminate",
        BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": DISK}],
        NetworkInterfaces=[
            {
                "DeviceIndex": 0,
                "SubnetId": subnet["SubnetId"],
                "Groups": [group],
                "AssociatePublicIpAddress": True,
                "DeleteOnTermination": True,
            }
        ],
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        TagSpecifications=[
            {"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume", "network-interface")
        ],
    )["Instances"][0]["InstanceId"]
    host = None
    while host is None:
        seen = ec2.describe_instances(InstanceIds=[made])["Reservations"][0]["Instances"][0]
        host = seen.get("PublicIpAddress")
    box.wait_for_gpus(host)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        launch(BareBox(Path(folder)))
