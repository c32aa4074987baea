"""Images of instances: an AMI, and the snapshot of the root volume that it holds.

Sources: EC2 API reference, CreateImage (which has no client token; the name of an image is unique in its
account and region), DescribeImages and DeregisterImage (which leaves the snapshots); EC2 User Guide, "Create
an Amazon EBS-backed AMI", read 2026-11-25.
"""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpucloud.clouds.abilities import Images
from gpucloud.clouds.provider import PartialCreateError, Record
from gpucloud.resources import TAG_PREFIX, Request, Resource, ResourceKind, SnapshotOrder
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import NotVisibleError, code_of, reading
from gpucloud_aws.find import resource_of

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

IN_USE = "InvalidAMIName.Duplicate"


class AwsImages(Images):
    """Images of instances."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:  # noqa: ARG002
        """The create call as plain JSON: the root volume alone is copied, the instance is not restarted."""
        self._account.refuse_foreign(order.of)
        tags = {"Name": order.name, **order.tags.as_dict()}
        tagged = [{"Key": key, "Value": value} for key, value in tags.items()]
        shown = self._account.clients.ec2(order.region).describe_instances(InstanceIds=[order.of.id])
        with reading("DescribeInstances"):
            instance = shown["Reservations"][0]["Instances"][0]
            devices = [each["DeviceName"] for each in instance["BlockDeviceMappings"]]
            others = sorted(set(devices) - {instance["RootDeviceName"]})
        call = {
            "InstanceId": order.of.id,
            "Name": order.name,
            "Description": order.name,
            "NoReboot": True,
            "BlockDeviceMappings": [{"DeviceName": device, "NoDevice": ""} for device in others],
            "TagSpecifications": [{"ResourceType": kind, "Tags": tagged} for kind in ("image", "snapshot")],
        }
        return {"account": order.account, "region": order.region, "op": order.tags.op, "create_image": call}

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """Creates the image, unless an earlier try of this call has done so: that is found by its tags.

        AWS refuses a second image of the same name, also one of a call that was delivered twice.

        Raises:
            PartialCreateError: the image, or its snapshot, is not shown yet.
        """
        ec2 = self._account.clients.ec2_once(request["region"])
        made = _made(request, ec2)
        if not made:
            try:
                ec2.create_image(**request["create_image"])
            except Exception as error:
                if code_of(error) != IN_USE:
                    raise
            made = _made(request, ec2)
        if {each.ref.kind for each in made} != {ResourceKind.IMAGE, ResourceKind.SNAPSHOT}:
            name = request["create_image"]["Name"]
            text = f"AWS does not show image {name} and its snapshot yet"
            raise PartialCreateError from NotVisibleError(text)
        return made


def _made(request: Request, ec2: EC2Client) -> list[Resource]:
    """The image of this call, and its snapshot."""
    ours: Any = [{"Name": f"tag:{TAG_PREFIX}op", "Values": [request["op"]]}]
    images = ec2.describe_images(Owners=["self"], Filters=ours)
    snapshots = ec2.describe_snapshots(OwnerIds=["self"], Filters=ours)
    with reading("CreateImage"):
        return [
            *(_resource(request, ResourceKind.IMAGE, item) for item in images["Images"]),
            *(_resource(request, ResourceKind.SNAPSHOT, item) for item in snapshots["Snapshots"]),
        ]


def _resource(request: Request, kind: ResourceKind, item: Any) -> Resource:
    return resource_of(
        kind, item, account=request["account"], region=request["region"], zone_id=lambda name: name
    )
