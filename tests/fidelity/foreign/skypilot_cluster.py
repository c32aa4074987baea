"""SkyPilot's AWS provisioner as a library: ``up``, ``query`` and ``down`` of a cluster. No API server runs.

It runs in the environment of the foreign clients, and prints what the provisioner returned.
"""

import json
import sys
from typing import Any

import boto3
from sky.provision import aws, common
from sky.utils import status_lib

REGION = "us-east-1"
CLUSTER = "fidelity"
PROVIDER: dict[str, Any] = {
    "region": REGION,
    "availability_zone": f"{REGION}a,{REGION}b",
    "use_internal_ips": False,
    "security_group": {"GroupName": "sky-fidelity"},
}
INSTANCE_PROFILE = "skypilot-v1"


def up() -> object:
    """Starts a cluster of one machine as ``sky launch`` does."""
    node = {
        "ImageId": _newest_image(),
        "InstanceType": "g4dn.xlarge",
        "IamInstanceProfile": {"Arn": _instance_profile()},
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True}}
        ],
    }
    config = common.ProvisionConfig(
        provider_config=PROVIDER,
        authentication_config={},
        docker_config={},
        node_config=node,
        count=1,
        tags={"purpose": "fidelity"},
        resume_stopped_nodes=True,
        ports_to_open_on_launch=None,
    )
    config = aws.bootstrap_instances(REGION, CLUSTER, config)
    record = aws.run_instances(REGION, CLUSTER, CLUSTER, config)
    aws.wait_instances(REGION, CLUSTER, state=status_lib.ClusterStatus.UP)
    cluster = aws.get_cluster_info(REGION, CLUSTER, PROVIDER)
    return {"created": record.created_instance_ids, "head": cluster.head_instance_id}


def query() -> object:
    """The states of its machines."""
    states = aws.query_instances(CLUSTER, CLUSTER, PROVIDER)
    return {instance: status.value for instance, (status, _reason) in states.items()}


def down() -> object:
    """Ends the cluster."""
    aws.terminate_instances(CLUSTER, PROVIDER)
    return aws.cleanup_ports(CLUSTER, [], PROVIDER)


def _newest_image() -> str:
    images = boto3.client("ec2", REGION).describe_images(
        Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}]
    )["Images"]
    return str(max(images, key=lambda image: image["CreationDate"])["ImageId"])


def _instance_profile() -> str:
    """The profile that SkyPilot would make by itself, after which it sleeps for half a minute."""
    iam = boto3.client("iam")
    iam.create_role(RoleName=INSTANCE_PROFILE, AssumeRolePolicyDocument='{"Statement": []}')
    iam.create_instance_profile(InstanceProfileName=INSTANCE_PROFILE)
    iam.add_role_to_instance_profile(InstanceProfileName=INSTANCE_PROFILE, RoleName=INSTANCE_PROFILE)
    return str(iam.get_instance_profile(InstanceProfileName=INSTANCE_PROFILE)["InstanceProfile"]["Arn"])


if __name__ == "__main__":
    print(json.dumps({"up": up, "query": query, "down": down}[sys.argv[1]]()))
