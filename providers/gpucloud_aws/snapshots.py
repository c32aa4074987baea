"""Snapshots of EBS volumes.

Sources: EC2 API reference, CreateSnapshot (which has no client token) and DescribeSnapshots; EBS User Guide,
"Amazon EBS snapshots", read 2026-11-24. A snapshot can be read by its own account alone unless it is shared.
"""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucloud.clouds.abilities import Snapshots
from gpucloud.clouds.kit import gone_is_fine
from gpucloud.clouds.provider import Record
from gpucloud.resources import TAG_PREFIX, Request, Resource, ResourceKind, SnapshotOrder
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.errors import classify, reading
from gpucloud_aws.find import resource_of

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client


class AwsSnapshots(Snapshots):
    """Snapshots of EBS volumes."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:  # noqa: ARG002
        """The create call as plain JSON: a snapshot needs nothing beside itself."""
        self._account.refuse_foreign(order.of)
        tags = {"Name": order.name, **order.tags.as_dict()}
        call = {
            "VolumeId": order.of.id,
            "Description": order.name,
            "TagSpecifications": [
                {
                    "ResourceType": "snapshot",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        }
        return {
            "account": order.account,
            "region": order.region,
            "op": order.tags.op,
            "create_snapshot": call,
        }

    def create_snapshot(self, request: Request, /) -> Resource:
        """Creates the snapshot, unless an earlier try of this call has done so.

        AWS does not recognise a repeated call: what an earlier try made is found by its tags, and of several
        that calls have made that were delivered twice, the oldest is kept.
        """
        ec2 = self._account.clients.ec2_once(request["region"])
        made = _made(request, ec2)
        if not made:
            created = _resource(request, ec2.create_snapshot(**request["create_snapshot"]))
            made = _made(request, ec2) or [created]  # the list may lag behind
        first, *doubles = made
        for double in doubles:
            with gone_is_fine(classify):
                ec2.delete_snapshot(SnapshotId=double.ref.id)
        return first


def _made(request: Request, ec2: EC2Client) -> list[Resource]:
    """The snapshots of this call, the oldest first."""
    answer: Any = ec2.describe_snapshots(
        OwnerIds=["self"], Filters=[{"Name": f"tag:{TAG_PREFIX}op", "Values": [request["op"]]}]
    )
    with reading("DescribeSnapshots"):
        found = sorted(answer["Snapshots"], key=lambda each: (each["StartTime"], each["SnapshotId"]))
        return [_resource(request, each) for each in found]


def _resource(request: Request, item: Any) -> Resource:
    with reading("CreateSnapshot"):
        return resource_of(
            ResourceKind.SNAPSHOT,
            item,
            account=request["account"],
            region=request["region"],
            zone_id=lambda name: name,
        )
