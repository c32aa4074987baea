"""dstack's AWS backend as a library: ``up`` and ``down ID`` of an instance, without its server.

It runs in the environment of the foreign clients, and prints what the backend returned.
"""

import json
import sys

import boto3
from dstack._internal.core.backends.aws.compute import AWSCompute
from dstack._internal.core.backends.aws.models import (
    AWSConfig,
    AWSDefaultCreds,
    AWSOSImage,
    AWSOSImageConfig,
)
from dstack._internal.core.models.backends.base import BackendType
from dstack._internal.core.models.instances import (
    Disk,
    Gpu,
    InstanceAvailability,
    InstanceConfiguration,
    InstanceOfferWithAvailability,
    InstanceType,
    Resources,
    SSHKey,
)

REGION = "us-east-1"


def up() -> object:
    """Starts a machine as ``dstack apply`` of a fleet does."""
    instance_type = InstanceType(
        name="g4dn.xlarge",
        resources=Resources(
            cpus=4,
            memory_mib=16384,
            gpus=[Gpu(name="T4", memory_mib=16384)],
            spot=False,
            disk=Disk(size_mib=102400),
        ),
    )
    offer = InstanceOfferWithAvailability(
        backend=BackendType.AWS,
        instance=instance_type,
        region=REGION,
        price=0.526,
        availability=InstanceAvailability.AVAILABLE,
    )
    configuration = InstanceConfiguration(
        project_name="fidelity",
        instance_name="fidelity-0",
        user="fidelity",
        ssh_keys=[SSHKey(public="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFidelity fidelity")],
    )
    compute = _compute()
    data = compute.create_instance(offer, configuration, None)
    compute.update_provisioning_data(data, "", "")
    return {"id": data.instance_id, "address": data.hostname, "zone": data.availability_zone}


def down(instance: str) -> object:
    """Ends a machine."""
    return _compute().terminate_instance(instance, REGION)


def _compute() -> AWSCompute:
    """The backend, with an image that the sandbox has: dstack's own ones are of its own account."""
    images = boto3.client("ec2", REGION).describe_images(
        Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}]
    )["Images"]
    newest = max(images, key=lambda image: image["CreationDate"])
    image = AWSOSImage(name=newest["Name"], owner=newest["OwnerId"], user="ubuntu")
    config = AWSConfig(
        regions=[REGION], creds=AWSDefaultCreds(), os_images=AWSOSImageConfig(cpu=image, nvidia=image)
    )
    return AWSCompute(config)


if __name__ == "__main__":
    print(json.dumps(down(sys.argv[2]) if sys.argv[1] == "down" else up()))
