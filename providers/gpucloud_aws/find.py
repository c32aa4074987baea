"""Reads one resource by id, or all with gpucloud's tags, in their present state."""

# The stubs call every member of an answer optional; a missing id is caught as a malformed answer.
# pyright: reportTypedDictNotRequiredAccess=false

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

from gpucloud.errors import UsageError
from gpucloud.resources import (
    MARKS,
    TAG_PREFIX,
    BadTags,
    Machine,
    Ref,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    State,
    Tags,
    UnreadableRegion,
)
from gpucloud_aws.errors import GoneError, classify, reading
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import InstanceTypeDef, TagTypeDef

CLOUD = "aws"
THREADS = 48
_ID_FILTER = "image-id"
PAGE_SIZE = 500
PAGES = 1000  # more is not an account, it is a broken or hostile endpoint

_INSTANCE_STATES = {
    "pending": State.PENDING,
    "running": State.RUNNING,
    "stopping": State.STOPPING,
    "stopped": State.STOPPED,
    "shutting-down": State.STOPPING,
    "terminated": State.GONE,
}
_PREEMPTED = {"Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"}
_BY_GUEST = "Client.InstanceInitiatedShutdown"
_AMAZON = "amazon"
"""The owner of an address that is none of the account's own (``InstanceNetworkInterfaceAssociation``)."""
_TRANSITION_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")
"""The time in ``StateTransitionReason``: ``User initiated (2026-01-05 12:00:00 GMT)``."""
_VOLUME_STATES = {"creating": State.PENDING, "deleting": State.STOPPING, "deleted": State.GONE}
_SNAPSHOT_STATES = {"pending": State.PENDING, "completed": State.RUNNING, "error": State.STOPPED}
_IMAGE_STATES = {
    "pending": State.PENDING,
    "transient": State.PENDING,
    "available": State.RUNNING,
    "deregistered": State.GONE,
    "invalid": State.STOPPED,
    "failed": State.STOPPED,
    "error": State.STOPPED,
    "disabled": State.STOPPED,
}
"""What has failed, or boots nothing, is there all the same. Source: EC2 API reference, ``ImageState``."""
_PLACEMENT_STATES = {"pending": State.PENDING, "deleting": State.STOPPING, "deleted": State.GONE}
_SPOT_STATES = {
    "open": State.PENDING,
    "active": State.RUNNING,
    "disabled": State.STOPPED,
    "closed": State.GONE,
    "cancelled": State.GONE,
    "failed": State.GONE,
}


# --- AWS's answers as gpucloud's values


def tags_in(tags: Iterable[TagTypeDef]) -> Tags | BadTags | None:
    """The five tags out of AWS's list of keys and values."""
    return Tags.parse({tag.get("Key", ""): tag.get("Value", "") for tag in tags})


def machine_of(
    instance: InstanceTypeDef, *, account: str, region: str, zone_id: Callable[[str], str]
) -> Machine:
    """An instance as gpucloud's value.

    Args:
        instance: an element of ``Instances``.
        account: its account.
        region: its region.
        zone_id: returns the AZ id of an AZ name; called only if the answer has no id.
    """

    def ref(kind: ResourceKind, resource_id: str) -> Ref:
        return Ref(cloud=CLOUD, account=account, region=region, kind=kind, id=resource_id)

    placement = instance.get("Placement", {})
    state = _INSTANCE_STATES.get(instance.get("State", {}).get("Name", "pending"), State.PENDING)
    ended = state not in {State.PENDING, State.RUNNING}
    reason = instance.get("StateReason", {}).get("Code") if ended else None
    parts = [
        ref(ResourceKind.DISK, mapping["Ebs"]["VolumeId"])
        for mapping in instance.get("BlockDeviceMappings", [])
        # A volume that outlives the instance is not its part: it would be deleted with the box.
        if mapping.get("Ebs", {}).get("VolumeId") and mapping["Ebs"].get("DeleteOnTermination", True)
    ]
    parts += [
        ref(ResourceKind.NIC, nic["NetworkInterfaceId"])
        for nic in instance.get("NetworkInterfaces", [])
        if nic.get("NetworkInterfaceId")
    ]
    if instance.get("SpotInstanceRequestId"):
        parts.append(ref(ResourceKind.SPOT_REQUEST, instance["SpotInstanceRequestId"]))
    return Machine(
        ref=ref(ResourceKind.INSTANCE, instance["InstanceId"]),
        state=state,
        tags=tags_in(instance.get("Tags", [])),
        created_at=_utc(instance.get("LaunchTime")),
        zone=placement.get("AvailabilityZoneId") or zone_id(placement.get("AvailabilityZone", "")),
        instance_type=instance["InstanceType"],
        purchase=_purchase(instance),
        name=next((tag.get("Value", "") for tag in instance.get("Tags", []) if tag.get("Key") == "Name"), ""),
        public_ip=instance.get("PublicIpAddress") or None,
        private_ip=instance.get("PrivateIpAddress") or None,
        reason=reason,
        preempted=reason in _PREEMPTED,
        billed=not ended,  # from "stopping" on it is not (EC2 User Guide, "Instance lifecycle")
        ended_at=_transition_time(instance) if ended else None,
        ended_itself=reason == _BY_GUEST,
        address_apart=any(
            nic.get("Association", {}).get("IpOwnerId", _AMAZON) != _AMAZON
            for nic in instance.get("NetworkInterfaces", [])
        ),
        parts=tuple(parts),
    )


def _transition_time(instance: InstanceTypeDef) -> datetime | None:
    """The end of the second that an instance ended in: the second begins before a short-lived one started."""
    found = _TRANSITION_TIME.search(instance.get("StateTransitionReason", ""))
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) + timedelta(seconds=1) if found else None


def _utc(moment: datetime | None) -> datetime | None:
    return moment.astimezone(UTC) if moment else None


def _purchase(instance: InstanceTypeDef) -> Purchase:
    lifecycle = instance.get("InstanceLifecycle")
    if lifecycle == "spot":
        return Purchase.SPOT
    target = instance.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if lifecycle == "capacity-block" or target:
        return Purchase.RESERVED
    return Purchase.ON_DEMAND


@dataclass(frozen=True, slots=True)
class _Listing:
    """How to list one kind of resource and read the answer."""

    operation: str
    items: Callable[[Any], Iterable[Any]]  # of an answer
    ids: str  # the parameter that takes ids; empty for a filter, the image's
    id: str  # the item's member that holds its id
    tags: str = "Tags"
    states: Mapping[str, State] | None = None
    created: str = ""
    only: tuple[tuple[str, tuple[str, ...]], ...] = ()  # filters of a search besides the tags
    whose: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])  # of every call
    size: str = ""


def _instances(answer: Any) -> Iterator[Any]:
    for reservation in answer["Reservations"]:
        yield from reservation["Instances"]


_SHELVES: dict[ResourceKind, _Listing] = {
    ResourceKind.SPOT_REQUEST: _Listing(
        "describe_spot_instance_requests",
        lambda answer: answer["SpotInstanceRequests"],
        "SpotInstanceRequestIds",
        "SpotInstanceRequestId",
        states=_SPOT_STATES,
        created="CreateTime",
        only=(("state", ("open", "active", "disabled")),),
    ),
    ResourceKind.INSTANCE: _Listing("describe_instances", _instances, "InstanceIds", "InstanceId"),
    ResourceKind.ADDRESS: _Listing(
        "describe_addresses", lambda answer: answer["Addresses"], "AllocationIds", "AllocationId"
    ),
    ResourceKind.NIC: _Listing(
        "describe_network_interfaces",
        lambda answer: answer["NetworkInterfaces"],
        "NetworkInterfaceIds",
        "NetworkInterfaceId",
        tags="TagSet",
    ),
    ResourceKind.DISK: _Listing(
        "describe_volumes",
        lambda answer: answer["Volumes"],
        "VolumeIds",
        "VolumeId",
        states=_VOLUME_STATES,
        created="CreateTime",
        size="Size",
    ),
    ResourceKind.SNAPSHOT: _Listing(
        "describe_snapshots",
        lambda answer: answer["Snapshots"],
        "SnapshotIds",
        "SnapshotId",
        states=_SNAPSHOT_STATES,
        created="StartTime",
        whose={"OwnerIds": ["self"]},  # everybody's public ones are listed otherwise
        size="VolumeSize",
    ),
    ResourceKind.IMAGE: _Listing(
        "describe_images",
        lambda answer: answer["Images"],
        "",  # an id that is unknown would be an error of the request, as in a launch
        "ImageId",
        states=_IMAGE_STATES,
        whose={"Owners": ["self"]},
    ),
    ResourceKind.GROUP: _Listing(
        "describe_security_groups", lambda answer: answer["SecurityGroups"], "GroupIds", "GroupId"
    ),
    ResourceKind.PLACEMENT_GROUP: _Listing(
        "describe_placement_groups",
        lambda answer: answer["PlacementGroups"],
        "GroupIds",
        "GroupId",
        states=_PLACEMENT_STATES,
    ),
}


def resource_of(
    kind: ResourceKind, item: Any, *, account: str, region: str, zone_id: Callable[[str], str]
) -> Resource:
    """An item of an answer as gpucloud's value; the arguments are those of :func:`machine_of`."""
    if kind is ResourceKind.INSTANCE:
        return machine_of(item, account=account, region=region, zone_id=zone_id)
    shelf = _SHELVES[kind]
    state = State.RUNNING
    if shelf.states is not None:
        state = shelf.states.get(item.get("State", ""), State.RUNNING)
    is_disk = kind is ResourceKind.DISK
    zone = item.get("AvailabilityZoneId") or zone_id(item.get("AvailabilityZone", "")) if is_disk else ""
    return Resource(
        ref=Ref(cloud=CLOUD, account=account, region=region, kind=kind, id=item[shelf.id]),
        state=state,
        tags=tags_in(item.get(shelf.tags, [])),
        created_at=_utc(item.get(shelf.created)),
        size_gib=item.get(shelf.size),
        zone=zone,
        attached_to=next((each.get("InstanceId", "") for each in item.get("Attachments", []) if is_disk), ""),
    )


# --- one resource


def get(ref: Ref, ec2: EC2Client, zone_id: Callable[[str], str]) -> Resource:
    """One resource by its id.

    Raises:
        GoneError: AWS returns nothing for the id. (Usually it returns an error of its own.)
        UsageError: AWS has no such kind.
    """
    shelf = _SHELVES.get(ref.kind)
    if shelf is None:
        raise UsageError(f"AWS has no resources of kind {ref.kind}")
    asked = {shelf.ids: [ref.id]} if shelf.ids else {"Filters": [{"Name": _ID_FILTER, "Values": [ref.id]}]}
    answer = getattr(ec2, shelf.operation)(**asked, **shelf.whose)
    with reading(shelf.operation):
        for item in shelf.items(answer):
            if item[shelf.id] == ref.id:
                found = resource_of(ref.kind, item, account=ref.account, region=ref.region, zone_id=zone_id)
                return _with_end(found, ec2) if isinstance(found, Machine) else found
    raise GoneError(f"AWS shows no {ref.kind} {ref.id} in {ref.region}")


def _with_end(machine: Machine, ec2: EC2Client) -> Machine:
    """An instance that is not billed any more, with the time since when, as far as AWS reports one.

    ``StateTransitionReason`` has a time only for what a user's call ended. The status of a spot request was
    last updated when its instance ended: the end has status codes of its own (EC2 API reference,
    ``SpotInstanceStatus.updateTime``; EC2 User Guide, "State changes for a Spot request"; read 2026-11-23).
    The console output of any other instance is posted shortly after a start, stop, reboot or termination, and
    stays for at least an hour (EC2 API reference, ``GetConsoleOutput`` and its ``timestamp``, read
    2026-11-23). UNVERIFIED: that the timestamp of a terminated instance's output is that of its last post.
    """
    if machine.billed or machine.ended_at is not None:
        return machine
    request = next((part.id for part in machine.parts if part.kind is ResourceKind.SPOT_REQUEST), None)
    try:
        if request is not None:
            answer = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=[request])
            told = answer["SpotInstanceRequests"][0].get("Status", {}).get("UpdateTime")
        else:
            told = ec2.get_console_output(InstanceId=machine.ref.id).get("Timestamp")
    except Exception as error:
        if classify(error) is None:
            raise
        return machine  # the time of its end is forgotten or may not be read: its end is known all the same
    return replace(machine, ended_at=_utc(told))


# --- all resources


def filters_for(search: Search, kind: ResourceKind) -> list[dict[str, Any]]:
    """EC2's filters for a search."""
    asked = {f"tag:{TAG_PREFIX}{name}": value for name, value in search.asked.items()}
    filters: list[dict[str, Any]] = [{"Name": name, "Values": [value]} for name, value in asked.items()]
    if search.token:
        filters.append({"Name": "client-token", "Values": [search.token]})
    if not filters:
        filters.append({"Name": "tag-key", "Values": [f"{TAG_PREFIX}{name}" for name in MARKS]})
    return filters + [{"Name": name, "Values": list(values)} for name, values in _SHELVES[kind].only]


def _read(kind: ResourceKind, ec2: EC2Client, filters: list[dict[str, Any]]) -> Iterator[Any]:
    shelf = _SHELVES[kind]
    client: Any = ec2
    if not client.can_paginate(shelf.operation):
        yield from shelf.items(getattr(client, shelf.operation)(Filters=filters, **shelf.whose))
        return
    pages = client.get_paginator(shelf.operation).paginate(
        Filters=filters, PaginationConfig={"PageSize": PAGE_SIZE}, **shelf.whose
    )
    for number, page in enumerate(pages):
        if number == PAGES:
            raise _endless(shelf.operation)
        yield from shelf.items(page)


def _endless(operation: str) -> Exception:
    from botocore.exceptions import PaginationError

    return PaginationError(message=f"{operation} gave {PAGES} pages and still more")


def find(
    search: Search,
    regions: Sequence[str],
    account: Callable[[], str],
    ec2: Callable[[str], EC2Client],
    zone_id: Callable[[str], Callable[[str], str]],
) -> SearchResult:
    """All matching resources in these regions.

    An empty answer is proof on AWS: a caller without permission gets an error. Terminated instances are
    listed for about an hour. With a token, only instances are searched: other resources do not have it.

    Args:
        search: the resources to search for.
        regions: the regions.
        account: returns the account of the credentials; called once something was read.
        ec2: returns the client of a region.
        zone_id: returns, for a region, the function from AZ names to AZ ids.
    """
    from multiprocessing.pool import ThreadPool  # its threads are daemons: they never hold up an exit

    kinds = (ResourceKind.INSTANCE,) if search.token or search.machines_only else tuple(_SHELVES)

    def look(where: tuple[str, ResourceKind]) -> list[Resource] | UnreadableRegion:
        region, kind = where
        try:
            with reading(_SHELVES[kind].operation):
                resources = [
                    resource_of(kind, item, account=account(), region=region, zone_id=zone_id(region))
                    for item in _read(kind, ec2(region), filters_for(search, kind))
                ]
            # EC2's filters take * and ? as wildcards; their results are compared exactly.
            return [resource for resource in resources if search.admits(resource.tags)]
        except Exception as error:
            verdict = classify(error)
            if verdict is None:
                raise
            return UnreadableRegion(cloud=CLOUD, region=region, error=f"{verdict.code}: {verdict.message}")

    questions = list(product(regions, kinds))
    if not questions:
        return SearchResult(resources=())
    with ThreadPool(min(THREADS, len(questions))) as pool:
        seen = pool.map(look, questions, chunksize=1)
    account()  # raises where it could not be read: no region answers for that
    unread = {answer.region: answer for answer in seen if isinstance(answer, UnreadableRegion)}
    return SearchResult(
        resources=tuple(resource for answer in seen if isinstance(answer, list) for resource in answer),
        unread=tuple(unread.values()),
    )
