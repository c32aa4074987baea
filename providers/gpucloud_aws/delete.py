"""Deletes one resource of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpucloud.clouds.kit import gone_is_fine
from gpucloud.clouds.provider import DeletionGraph
from gpucloud.errors import UsageError
from gpucloud.resources import Ref, ResourceKind
from gpucloud_aws.cluster import delete_placement_group
from gpucloud_aws.errors import classify

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

_CALLS: dict[ResourceKind, Callable[[EC2Client, str], Any]] = {
    ResourceKind.SPOT_REQUEST: lambda ec2, id_: ec2.cancel_spot_instance_requests(
        SpotInstanceRequestIds=[id_]
    ),
    ResourceKind.INSTANCE: lambda ec2, id_: ec2.terminate_instances(InstanceIds=[id_]),
    ResourceKind.ADDRESS: lambda ec2, id_: ec2.release_address(AllocationId=id_),
    ResourceKind.NIC: lambda ec2, id_: ec2.delete_network_interface(NetworkInterfaceId=id_),
    ResourceKind.DISK: lambda ec2, id_: ec2.delete_volume(VolumeId=id_),
    ResourceKind.SNAPSHOT: lambda ec2, id_: ec2.delete_snapshot(SnapshotId=id_),
    ResourceKind.IMAGE: lambda ec2, id_: ec2.deregister_image(ImageId=id_),
    ResourceKind.GROUP: lambda ec2, id_: ec2.delete_security_group(GroupId=id_),
    ResourceKind.PLACEMENT_GROUP: lambda ec2, id_: delete_placement_group(id_, ec2),
}


GRAPH = DeletionGraph(
    held_by={
        ResourceKind.SCHEDULE: (ResourceKind.INSTANCE,),
        ResourceKind.SPOT_REQUEST: (),
        ResourceKind.INSTANCE: (ResourceKind.SPOT_REQUEST,),
        ResourceKind.ADDRESS: (ResourceKind.INSTANCE,),
        ResourceKind.NIC: (ResourceKind.INSTANCE, ResourceKind.ADDRESS),
        ResourceKind.DISK: (ResourceKind.INSTANCE,),
        ResourceKind.IMAGE: (),
        ResourceKind.SNAPSHOT: (ResourceKind.IMAGE,),
        ResourceKind.GROUP: (ResourceKind.INSTANCE, ResourceKind.NIC),
        ResourceKind.PLACEMENT_GROUP: (ResourceKind.INSTANCE,),
    },
    takes_along={ResourceKind.INSTANCE: (ResourceKind.DISK, ResourceKind.NIC)},
)
"""A spot request may start an instance; an instance depends on its address, interface, disk and groups; an
image holds its snapshot, which stays when it is deregistered. The schedule goes last: it ends an instance
that could not be deleted."""


def delete(ref: Ref, ec2: EC2Client) -> None:
    """Requests the deletion of one resource; success if it no longer exists.

    Args:
        ref: the resource.
        ec2: a client that sends once.

    Raises:
        UsageError: AWS has no such kind.
    """
    call = _CALLS.get(ref.kind)
    if call is None:
        raise UsageError(f"AWS has no resources of kind {ref.kind}")
    with gone_is_fine(classify):
        call(ec2, ref.id)
