"""Deletes one resource of any kind."""

from __future__ import annotations

from gpucloud.clouds.kit import gone_is_fine
from gpucloud.clouds.provider import DeletionGraph
from gpucloud.errors import UsageError
from gpucloud.resources import Ref, ResourceKind, Tags
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import classify
from gpucloud_azure.find import tags_in
from gpucloud_azure.ids import TYPES, api, name_of
from gpucloud_azure.json_paths import plain

_BILLED = (
    ResourceKind.INSTANCE,
    ResourceKind.NIC,
    ResourceKind.ADDRESS,
    ResourceKind.DISK,
    ResourceKind.SNAPSHOT,
    ResourceKind.IMAGE,
)
GRAPH = DeletionGraph(
    held_by={
        ResourceKind.SCHEDULE: (),
        ResourceKind.INSTANCE: (),
        ResourceKind.NIC: (ResourceKind.INSTANCE,),
        ResourceKind.ADDRESS: (ResourceKind.INSTANCE, ResourceKind.NIC),
        ResourceKind.DISK: (ResourceKind.INSTANCE,),
        ResourceKind.SNAPSHOT: (),
        ResourceKind.IMAGE: (),
        ResourceKind.RESOURCE_GROUP: (ResourceKind.SCHEDULE, *_BILLED),
        ResourceKind.PLACEMENT_GROUP: (ResourceKind.RESOURCE_GROUP, *_BILLED),
        ResourceKind.NETWORK: (ResourceKind.RESOURCE_GROUP, *_BILLED),
        ResourceKind.GROUP: (ResourceKind.RESOURCE_GROUP, *_BILLED),
    },
    takes_along={
        ResourceKind.INSTANCE: (ResourceKind.NIC, ResourceKind.ADDRESS, ResourceKind.DISK),
        ResourceKind.RESOURCE_GROUP: (
            ResourceKind.PLACEMENT_GROUP,
            ResourceKind.NETWORK,
            ResourceKind.GROUP,
        ),
    },
)
"""Billed resources one by one, after the resources that depend on them; then the resource group with the
rest: of an image, that is its gallery with the definition."""


def delete(ref: Ref, clients: Clients) -> None:
    """Requests the deletion of one resource; success if it no longer exists.

    Args:
        ref: the resource.
        clients: the clients.

    Raises:
        UsageError: Azure has no such kind, or the resource group with its content is not ours.
    """
    if ref.kind not in TYPES:
        raise UsageError(f"Azure has no resources of kind {ref.kind}")
    with gone_is_fine(classify):
        _delete(ref, clients)


def _delete(ref: Ref, clients: Clients) -> None:
    group, name = name_of(ref.id)
    if ref.kind is ResourceKind.RESOURCE_GROUP:
        groups = clients.resources().resource_groups
        if not isinstance(tags_in(plain(groups.get(group)).get("tags")), Tags):
            raise UsageError(f"resource group {group} does not carry gpucloud's tags, and is left alone")
        groups.begin_delete(group, polling=False)
    elif ref.kind is ResourceKind.INSTANCE:
        clients.compute().virtual_machines.begin_delete(group, name, force_deletion=True, polling=False)
    else:
        clients.resources().resources.begin_delete_by_id(ref.id, api_version=api(ref.kind), polling=False)
