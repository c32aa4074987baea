"""Lists each kind of resource page by page, and reads Alibaba Cloud's answers as gpucloud's values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gpucloud.resources import BadTags, Machine, Ref, Resource, ResourceKind, State, Tags
from gpucloud_alibaba.clients import Clients, has_more, listed, send
from gpucloud_alibaba.descriptions import tags_in
from gpucloud_alibaba.errors import named
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase

CLOUD = "alibaba"
PAGE_SIZE = 100
NUMBERED_PAGE_SIZE = 50  # the most of the VPC API, and of deployment sets

RECYCLING = "Recycling"
"""The lock reason of a spot instance that is being interrupted."""

_INSTANCE_STATES = {
    "Pending": State.PENDING,
    "Starting": State.PENDING,
    "Running": State.RUNNING,
    "Stopping": State.STOPPING,
    "Stopped": State.STOPPED,
}
_STATES = {
    "Creating": State.PENDING,
    "Pending": State.PENDING,
    "progressing": State.PENDING,
    "Deleting": State.STOPPING,
    "failed": State.STOPPED,
    "Waiting": State.PENDING,
    "UnAvailable": State.STOPPED,
    "CreateFailed": State.STOPPED,
}
"""The states of all other resources; a resource in any other state exists."""
_OF_IMAGES = "Creating,Waiting,Available,UnAvailable,CreateFailed,Deprecated"
"""All states of images: those that are not named are not shown. Source: SDK 7.11.8, DescribeImages."""


# --- Alibaba Cloud's answers as gpucloud's values


def ref_of(account: str, region: str, kind: ResourceKind, resource_id: str) -> Ref:
    """The reference of a resource of this cloud."""
    return Ref(cloud=CLOUD, account=account, region=region, kind=kind, id=resource_id)


def moment(text: str | None) -> datetime | None:
    """A time in the form of the APIs (to the minute or the second, UTC)."""
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def machine_of(instance: Any, *, account: str, region: str) -> Machine:
    """An instance as gpucloud's value. Its disks are found by their own tags only.

    Args:
        instance: an element of ``Instances``.
        account: its account.
        region: its region.
    """
    locks = instance.operation_locks.lock_reason if instance.operation_locks else None
    recycling = any(lock.lock_reason == RECYCLING for lock in listed(locks))
    nics = instance.network_interfaces.network_interface if instance.network_interfaces else None
    public = instance.public_ip_address.ip_address if instance.public_ip_address else None
    elastic = instance.eip_address.ip_address if instance.eip_address else None
    inside = instance.vpc_attributes.private_ip_address if instance.vpc_attributes else None
    private = inside.ip_address if inside else None
    return Machine(
        ref=ref_of(account, region, ResourceKind.INSTANCE, named(instance.instance_id)),
        state=_INSTANCE_STATES.get(instance.status, State.PENDING),
        tags=_tags(instance.tags),
        created_at=moment(instance.creation_time),
        zone=named(instance.zone_id),
        instance_type=named(instance.instance_type),
        purchase=_purchase(instance),
        name=instance.instance_name or "",
        public_ip=(public or [None])[0] or elastic or None,
        private_ip=(private or [None])[0] or None,
        reason=RECYCLING if recycling else None,
        preempted=recycling,
        billed=instance.stopped_mode != "StopCharging",
        parts=tuple(
            ref_of(account, region, ResourceKind.NIC, named(nic.network_interface_id))
            for nic in listed(nics)
            if nic.type != "Secondary"  # without tags; it goes with its instance
        ),
    )


def _purchase(instance: Any) -> Purchase:
    if instance.spot_strategy and instance.spot_strategy != "NoSpot":
        return Purchase.SPOT
    pool = instance.ecs_capacity_reservation_attr
    return Purchase.RESERVED if pool and pool.capacity_reservation_id else Purchase.ON_DEMAND


def _tags(shown: Any) -> Tags | BadTags | None:
    """The five tags from the ``Tags`` of an ECS resource."""
    pairs = listed(shown.tag) if shown else []
    return Tags.parse({pair.tag_key: pair.tag_value or "" for pair in pairs})


def _vpc_tags(item: Mapping[str, Any]) -> Tags | BadTags | None:
    """The five tags of a resource of the VPC API."""
    pairs = item.get("Tags", {}).get("Tag", [])
    return Tags.parse({pair["Key"]: pair.get("Value", "") for pair in pairs})


# --- listing each kind


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """The filter of a list: by tags, or by one id. A tag without a value matches any value."""

    tags: Mapping[str, str | None]
    id: str | None = None

    @property
    def ids(self) -> str | None:
        """The id for parameters with a list in JSON."""
        return json.dumps([self.id]) if self.id else None

    def ecs_tags(self, kind: Callable[..., Any]) -> Any:
        """The tags for a typed request."""
        return [kind(key=key, value=value) for key, value in self.tags.items()] or None

    def vpc_tags(self) -> list[dict[str, str]] | None:
        """The tags for the VPC API."""
        return [
            {"Key": key, **({"Value": value} if value else {})} for key, value in self.tags.items()
        ] or None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionAccess:
    """A region, and the account and clients to read it with."""

    clients: Clients
    account: str
    region: str

    def ref(self, kind: ResourceKind, resource_id: str) -> Ref:
        """The reference of a resource of this place."""
        return ref_of(self.account, self.region, kind, resource_id)


Page = tuple[Iterable[Resource], str | None]
"""Some resources, and the token of the next page."""

Look = Callable[[RegionAccess, ListFilter, "str | None"], Page]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EcsShelf:
    """A kind that ECS holds, which pages by tokens.

    ``listing`` is the action without ``Describe``; ``members`` is where an answer holds the items; ``one`` is
    the field of a request for one id, and ``read`` what an item is.
    """

    listing: str
    members: tuple[str, str]
    one: Callable[[ListFilter], Mapping[str, Any]]
    read: Callable[[RegionAccess, Any], Resource]

    def __call__(self, place: RegionAccess, asked: ListFilter, token: str | None) -> Page:
        action, models = f"Describe{self.listing}", ecs_models()
        request = getattr(models, f"{action}Request")(
            region_id=place.region,
            tag=asked.ecs_tags(getattr(models, f"{action}RequestTag")),
            max_results=PAGE_SIZE,
            next_token=token,
            **self.one(asked),
        )
        body = send(place.clients.ecs(place.region), request).body
        outer, inner = self.members
        return [
            self.read(place, item) for item in listed(getattr(getattr(body, outer), inner))
        ], body.next_token


def _instance(place: RegionAccess, item: Any) -> Machine:
    return machine_of(item, account=place.account, region=place.region)


def _disk(place: RegionAccess, item: Any) -> Resource:
    disk = _resource(place, item, ResourceKind.DISK, item.disk_id, item.status)
    return replace(disk, size_gib=item.size, zone=item.zone_id or "", attached_to=item.instance_id or "")


def _snapshot(place: RegionAccess, item: Any) -> Resource:
    snapshot = _resource(place, item, ResourceKind.SNAPSHOT, item.snapshot_id, item.status)
    return replace(snapshot, size_gib=int(item.source_disk_size) if item.source_disk_size else None)


def _nic(place: RegionAccess, item: Any) -> Resource:
    return _resource(place, item, ResourceKind.NIC, item.network_interface_id, item.status)


def _group(place: RegionAccess, item: Any) -> Resource:
    return _resource(place, item, ResourceKind.GROUP, item.security_group_id)


def _resource(
    place: RegionAccess, item: Any, kind: ResourceKind, resource_id: str, status: str = ""
) -> Resource:
    return Resource(
        ref=place.ref(kind, named(resource_id)),
        state=_STATES.get(status, State.RUNNING),
        tags=_tags(item.tags),
        created_at=moment(item.creation_time),
    )


_INSTANCES = _EcsShelf(
    listing="Instances",
    members=("instances", "instance"),
    one=lambda asked: {"instance_ids": asked.ids},
    read=_instance,
)
_DISKS = _EcsShelf(
    listing="Disks", members=("disks", "disk"), one=lambda asked: {"disk_ids": asked.ids}, read=_disk
)
_SNAPSHOTS = _EcsShelf(
    listing="Snapshots",
    members=("snapshots", "snapshot"),
    one=lambda asked: {"snapshot_ids": asked.ids},
    read=_snapshot,
)
_NICS = _EcsShelf(
    listing="NetworkInterfaces",
    members=("network_interface_sets", "network_interface_set"),
    one=lambda asked: {"network_interface_id": [asked.id] if asked.id else None},
    read=_nic,
)
_GROUPS = _EcsShelf(
    listing="SecurityGroups",
    members=("security_groups", "security_group"),
    one=lambda asked: {"security_group_ids": asked.ids},
    read=_group,
)


def _images(place: RegionAccess, asked: ListFilter, token: str | None) -> Page:
    """The account's own images, which ECS pages by numbers."""
    models, page = ecs_models(), int(token or 1)
    request = models.DescribeImagesRequest(
        region_id=place.region,
        image_owner_alias="self",
        image_id=asked.id,
        status=_OF_IMAGES,
        tag=asked.ecs_tags(models.DescribeImagesRequestTag),
        page_number=page,
        page_size=PAGE_SIZE,
    )
    body = send(place.clients.ecs(place.region), request).body
    items = listed(body.images.image)
    shown = [_resource(place, item, ResourceKind.IMAGE, item.image_id, item.status) for item in items]
    return shown, str(page + 1) if has_more(len(items), page, PAGE_SIZE, body.total_count) else None


def _deployment_sets(place: RegionAccess, asked: ListFilter, token: str | None) -> Page:
    """The deployment sets that gpucloud made, which ECS cannot be asked for; or one, whoever made it."""
    models, page = ecs_models(), int(token or 1)
    request = models.DescribeDeploymentSetsRequest(
        region_id=place.region, deployment_set_ids=asked.ids, page_number=page, page_size=NUMBERED_PAGE_SIZE
    )
    body = send(place.clients.ecs(place.region), request).body
    items = listed(body.deployment_sets.deployment_set)
    shown = [
        Resource(
            ref=place.ref(ResourceKind.PLACEMENT_GROUP, named(item.deployment_set_id)),
            state=State.RUNNING,
            tags=tags_in(item.deployment_set_description),
            created_at=moment(item.creation_time),
        )
        for item in items
    ]
    more = has_more(len(items), page, NUMBERED_PAGE_SIZE, body.total_count)
    ours = [each for each in shown if asked.id or each.tags is not None]
    return ours, str(page + 1) if more else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _VpcListing:
    """A kind of the VPC API, whose pages have numbers.

    ``members`` is the path of the items in an answer; ``id`` is the parameter and the item's member of an id.
    """

    kind: ResourceKind
    action: str
    members: tuple[str, str]
    id: str
    created: str = "CreationTime"

    def __call__(self, place: RegionAccess, asked: ListFilter, token: str | None) -> Page:
        page = int(token or 1)
        wanted = {"Tag": asked.vpc_tags(), self.id: asked.id}
        body = place.clients.vpc(
            place.region, self.action, {**wanted, "PageNumber": page, "PageSize": NUMBERED_PAGE_SIZE}
        )
        outer, inner = self.members
        rows = body[outer][inner]
        shown = [
            Resource(
                ref=place.ref(self.kind, named(item[self.id])),
                state=_STATES.get(item.get("Status", ""), State.RUNNING),
                tags=_vpc_tags(item),
                created_at=moment(item.get(self.created)),
            )
            for item in rows
        ]
        more = has_more(len(rows), page, NUMBERED_PAGE_SIZE, body.get("TotalCount"))
        return shown, str(page + 1) if more else None


_ADDRESSES = _VpcListing(
    kind=ResourceKind.ADDRESS,
    action="DescribeEipAddresses",
    members=("EipAddresses", "EipAddress"),
    id="AllocationId",
    created="AllocationTime",
)
_SWITCHES = _VpcListing(
    kind=ResourceKind.NETWORK, action="DescribeVSwitches", members=("VSwitches", "VSwitch"), id="VSwitchId"
)
_NETWORKS = _VpcListing(kind=ResourceKind.NETWORK, action="DescribeVpcs", members=("Vpcs", "Vpc"), id="VpcId")

SHELVES: Sequence[tuple[ResourceKind, str, Look]] = (
    (ResourceKind.INSTANCE, "", _INSTANCES),
    (ResourceKind.ADDRESS, "", _ADDRESSES),
    (ResourceKind.NIC, "", _NICS),
    (ResourceKind.DISK, "", _DISKS),
    (ResourceKind.SNAPSHOT, "", _SNAPSHOTS),
    (ResourceKind.IMAGE, "", _images),
    (ResourceKind.PLACEMENT_GROUP, "", _deployment_sets),
    (ResourceKind.GROUP, "", _GROUPS),
    (ResourceKind.NETWORK, "vsw-", _SWITCHES),
    (ResourceKind.NETWORK, "vpc-", _NETWORKS),
)
"""Kind, the prefix of its ids if a kind has two resource types, and its list function."""
