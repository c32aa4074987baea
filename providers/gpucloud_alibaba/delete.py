"""Deletes one resource of any kind."""

from __future__ import annotations

from collections.abc import Callable

from gpucloud.clouds.kit import gone_is_fine
from gpucloud.clouds.provider import DeletionGraph
from gpucloud.errors import UsageError
from gpucloud.resources import Ref, ResourceKind
from gpucloud_alibaba.clients import Clients
from gpucloud_alibaba.errors import classify
from gpucloud_alibaba.models import ecs_models


def _instance(clients: Clients, ref: Ref) -> None:
    models = ecs_models()

    clients.ecs(ref.region).delete_instances(
        models.DeleteInstancesRequest(region_id=ref.region, instance_id=[ref.id], force=True)
    )


def _disk(clients: Clients, ref: Ref) -> None:
    models = ecs_models()

    clients.ecs(ref.region).delete_disk(models.DeleteDiskRequest(disk_id=ref.id))


def _snapshot(clients: Clients, ref: Ref) -> None:
    # By force also one that a disk was made of: the disk needs it no longer.
    clients.ecs(ref.region).delete_snapshot(
        ecs_models().DeleteSnapshotRequest(snapshot_id=ref.id, force=True)
    )


def _image(clients: Clients, ref: Ref) -> None:
    # By force also one that instances boot from: they need it no longer.
    clients.ecs(ref.region).delete_image(
        ecs_models().DeleteImageRequest(region_id=ref.region, image_id=ref.id, force=True)
    )


def _nic(clients: Clients, ref: Ref) -> None:
    models = ecs_models()

    clients.ecs(ref.region).delete_network_interface(
        models.DeleteNetworkInterfaceRequest(region_id=ref.region, network_interface_id=ref.id)
    )


def _group(clients: Clients, ref: Ref) -> None:
    models = ecs_models()

    clients.ecs(ref.region).delete_security_group(
        models.DeleteSecurityGroupRequest(region_id=ref.region, security_group_id=ref.id)
    )


def _placement_group(clients: Clients, ref: Ref) -> None:
    clients.ecs(ref.region).delete_deployment_set(
        ecs_models().DeleteDeploymentSetRequest(region_id=ref.region, deployment_set_id=ref.id)
    )


def _address(clients: Clients, ref: Ref) -> None:
    clients.vpc(ref.region, "ReleaseEipAddress", {"AllocationId": ref.id})


def _network(clients: Clients, ref: Ref) -> None:
    if ref.id.startswith("vsw-"):
        clients.vpc(ref.region, "DeleteVSwitch", {"VSwitchId": ref.id})
    else:
        clients.vpc(ref.region, "DeleteVpc", {"VpcId": ref.id})


_CALLS: dict[ResourceKind, Callable[[Clients, Ref], None]] = {
    ResourceKind.INSTANCE: _instance,
    ResourceKind.ADDRESS: _address,
    ResourceKind.NIC: _nic,
    ResourceKind.DISK: _disk,
    ResourceKind.SNAPSHOT: _snapshot,
    ResourceKind.IMAGE: _image,
    ResourceKind.PLACEMENT_GROUP: _placement_group,
    ResourceKind.GROUP: _group,
    ResourceKind.NETWORK: _network,
}


GRAPH = DeletionGraph(
    held_by={
        ResourceKind.INSTANCE: (),
        ResourceKind.ADDRESS: (ResourceKind.INSTANCE,),
        ResourceKind.NIC: (ResourceKind.INSTANCE, ResourceKind.ADDRESS),
        ResourceKind.DISK: (ResourceKind.INSTANCE,),
        ResourceKind.IMAGE: (),
        ResourceKind.SNAPSHOT: (ResourceKind.IMAGE,),
        ResourceKind.PLACEMENT_GROUP: (ResourceKind.INSTANCE,),
        ResourceKind.GROUP: (ResourceKind.INSTANCE, ResourceKind.NIC),
        ResourceKind.NETWORK: (ResourceKind.INSTANCE, ResourceKind.NIC, ResourceKind.NETWORK),
    },
    takes_along={ResourceKind.INSTANCE: (ResourceKind.DISK, ResourceKind.NIC)},
)
"""An instance depends on its address, interface, disk, group and switch; a switch on its network. An image
holds its snapshot, which stays when it is deleted."""


def delete(ref: Ref, clients: Clients) -> None:
    """Requests the deletion of one resource; success if it no longer exists.

    Args:
        ref: the resource.
        clients: the SDK's.

    Raises:
        UsageError: Alibaba Cloud has no such kind.
    """
    call = _CALLS.get(ref.kind)
    if call is None:
        raise UsageError(f"Alibaba Cloud has no resources of kind {ref.kind}")
    with gone_is_fine(classify):
        call(clients, ref)
