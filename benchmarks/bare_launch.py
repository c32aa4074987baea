"""The baseline of ``launch``: one lean script that makes the same calls in a row, then waits for ssh.

``python bare_launch.py REGION ZONE_ID TYPE OWNER ELSEWHERE...``: the environment points boto3 at the sandbox,
``SSH_PROXY`` is ssh's way into it. ``ELSEWHERE`` are the other regions whose price a launch asks for. Prints
the instance's id. Nothing is retried, journalled or checked; ssh pins the host key as gpucloud does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import boto3

USER_DATA = """#cloud-config
ssh_keys:
  ed25519_private: |
    {private}
  ed25519_public: {public}
users:
- name: bare
  sudo: ALL=(ALL) NOPASSWD:ALL
  ssh_authorized_keys: ['{key}']
"""
ALIAS = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"


def launch(region: str, zone: str, instance_type: str, owner: str, *elsewhere: str) -> None:
    """Prices, group, instance, address, ssh, ``nvidia-smi``."""
    box = uuid.uuid4().hex
    tags: Any = [
        {"Key": f"gpucloud:{k}", "Value": v} for k, v in {"owner": owner, "box": box, "op": box}.items()
    ]
    tags += [{"Key": "gpucloud:run", "Value": ""}, {"Key": "gpucloud:expires", "Value": "none"}]
    session: Any = boto3.Session(region_name=region)
    session.client("sts").get_caller_identity()
    pricing = session.client("pricing")
    for where in (region, *elsewhere):
        fields = {"instanceType": instance_type, "regionCode": where, "operatingSystem": "Linux"}
        filters = [{"Type": "TERM_MATCH", "Field": k, "Value": v} for k, v in fields.items()]
        pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)
    with urllib.request.urlopen(os.environ["GPUCLOUD_AWS_ECHO_URL"]) as answer:  # noqa: S310
        address = answer.read().decode().strip()
    ec2 = session.client("ec2")
    found = ec2.describe_subnets(Filters=[{"Name": "availability-zone-id", "Values": [zone]}])
    subnet = found["Subnets"][0]
    spec = [{"ResourceType": "security-group", "Tags": tags}]
    group = ec2.create_security_group(
        GroupName=box, Description="bare", VpcId=subnet["VpcId"], TagSpecifications=spec
    )["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": f"{address}/32"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])
    with tempfile.TemporaryDirectory() as folder:
        keys = {name: Path(folder, name) for name in ("user", "host")}
        for path in keys.values():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        public = {name: path.with_suffix(".pub").read_text().strip() for name, path in keys.items()}
        private = keys["host"].read_text().strip().replace("\n", "\n    ")
        made = ec2.run_instances(
            MinCount=1,
            MaxCount=1,
            InstanceType=instance_type,
            ClientToken=box,
            ImageId=f"resolve:ssm:{ALIAS}",
            UserData=USER_DATA.format(private=private, public=public["host"], key=public["user"]),
            InstanceInitiatedShutdownBehavior="terminate",
            BlockDeviceMappings=[
                {
                    "DeviceName": "/dev/sda1",
                    "Ebs": {
                        "VolumeSize": 100,
                        "VolumeType": "gp3",
                        "Encrypted": True,
                        "DeleteOnTermination": True,
                    },
                }
            ],
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
        known = Path(folder, "known_hosts")
        known.write_text(f"box {public['host']}\n")
        options = {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": known,
            "HostKeyAlias": "box",
            "IdentityFile": keys["user"],
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ProxyCommand": os.environ["SSH_PROXY"],
        }
        argv = ["ssh", "-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())]
        argv += [f"bare@{host}", "nvidia-smi", "-L"]
        while subprocess.run(argv, capture_output=True, check=False).returncode:
            pass
    print(made)


if __name__ == "__main__":
    launch(*sys.argv[1:])
