"""Reads one resource by id, or all with gpucloud's tags, in their present state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpucloud.clouds.kit import Prefetch, in_threads, together
from gpucloud.errors import ErrorClass, UsageError
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
from gpucloud_azure.checkup import may
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import MalformedAnswerError, classify, reading
from gpucloud_azure.ids import TYPES, canonical, kind_of, name_of, parts_of
from gpucloud_azure.ids import api as api_of
from gpucloud_azure.json_paths import Json, at, list_at, moment, plain, text_at
from gpucloud_pricing.purchases import Purchase

CLOUD = "azure"
TOKEN_TAG = f"{TAG_PREFIX}token"
REQUEST_TAG = f"{TAG_PREFIX}request"

_POWER = {
    "starting": State.PENDING,
    "creating": State.PENDING,
    "running": State.RUNNING,
    "stopping": State.STOPPING,
    "deallocating": State.STOPPING,
    "stopped": State.STOPPED,
    "deallocated": State.STOPPED,
}
_NOT_BILLED = {"deallocating", "deallocated"}
"""A machine that is stopped but not deallocated is still billed (azure-compute-docs, states-billing.md)."""
_WITH_ADDRESS = {State.RUNNING, State.STOPPED}
"""A static address stays, and is billed, while its machine is deallocated."""
_SIZES = {
    ResourceKind.DISK: ("properties", "diskSizeGB"),
    ResourceKind.SNAPSHOT: ("properties", "diskSizeGB"),
    ResourceKind.IMAGE: ("properties", "storageProfile", "osDiskImage", "sizeInGB"),
}
"""Where the sizes in GiB are; lists do not show them."""
_PROVISIONING = {"creating": State.PENDING, "deleting": State.STOPPING}


# --- Azure's answers as gpucloud's values


def tags_in(tags: Mapping[str, str] | None) -> Tags | BadTags | None:
    """gpucloud's five tags of a resource."""
    return Tags.parse(_by_lower_name(tags))


def _by_lower_name(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Tags by their names in lower case: Azure compares the names without regard to case."""
    return {name.lower(): str(value) for name, value in (tags or {}).items()}


@reading("a resource")
def resource_of(resource: Json, account: str) -> Resource | None:
    """A resource as gpucloud's value; ``None`` for a type that gpucloud neither creates nor deletes."""
    kind = kind_of(str(resource.get("type") or ""))
    if kind is None:
        return None
    provisioning = text_at(resource, "provisioningState") or text_at(
        resource, "properties", "provisioningState"
    )
    failed = kind is ResourceKind.IMAGE and provisioning.lower() == "failed"
    return Resource(
        ref=Ref(
            cloud=CLOUD,
            account=account,
            region=region_in(resource),
            kind=kind,
            id=canonical(str(resource["id"])),
        ),
        state=State.STOPPED if failed else _PROVISIONING.get(provisioning.lower(), State.RUNNING),
        tags=tags_in(resource.get("tags")),
        created_at=moment(resource.get("createdTime") or at(resource, "properties", "timeCreated")),
        size_gib=at(resource, *_SIZES[kind]) if kind in _SIZES else None,
        zone=next(iter(resource.get("zones") or ()), "") if kind is ResourceKind.DISK else "",
        attached_to=canonical(text_at(resource, "managedBy")) if resource.get("managedBy") else "",
    )


def region_in(resource: Json) -> str:
    """A resource's region by its id; some answers have the display name (``East US``)."""
    return text_at(resource, "location").replace(" ", "").lower()


def _statuses(vm: Json) -> Mapping[str, Json]:
    """A machine's statuses by the first word of their codes: ``PowerState/running``."""
    found: dict[str, Json] = {}
    for status in list_at(vm, "properties", "instanceView", "statuses"):
        code = text_at(status, "code").lower()
        head = code.split("/", 1)[0]
        if head not in found or "/failed" in code:
            found[head] = status
    return found


def is_deallocated(vm: Json) -> bool:
    """Whether a machine, read with its instance view, is deallocated."""
    return text_at(_statuses(vm).get("powerstate", {}), "code").lower() == "powerstate/deallocated"


def failure_of(vm: Json) -> tuple[str, str] | None:
    """Azure's code and message of a machine that was never provisioned; ``None`` for any other machine.

    A machine whose guest was late to report (``OSProvisioningTimedOut``) runs all the same, and is billed.
    """
    if text_at(vm, "properties", "provisioningState").lower() != "failed":
        return None
    statuses = _statuses(vm)
    if text_at(statuses, "powerstate", "code").lower().endswith(("/running", "/starting")):
        return None
    words = text_at(statuses, "provisioningstate", "code").split("/")
    code = words[2] if len(words) > 2 else "ProvisioningFailed"
    return code, text_at(statuses, "provisioningstate", "message")


def _state(vm: Json) -> State:
    if text_at(vm, "properties", "provisioningState").lower() == "deleting":
        return State.STOPPING
    return _POWER.get(_power(vm), State.PENDING)


def _power(vm: Json) -> str:
    return text_at(_statuses(vm), "powerstate", "code").lower().rpartition("/")[2]


def _evicted(vm: Json) -> bool:
    """Whether a Spot machine that still exists was evicted.

    An eviction deletes a machine with that eviction policy: a deallocated one was stopped by a user or a
    timer (azure-compute-docs, spot-vms.md).
    """
    policy = text_at(vm, "properties", "evictionPolicy").lower()
    return _purchase(vm) is Purchase.SPOT and policy != "delete" and _power(vm) in _NOT_BILLED


@reading("a virtual machine")
def machine_of(vm: Json, account: str, *, failed: State) -> Machine:
    """A virtual machine as gpucloud's value, without its addresses.

    Args:
        vm: Azure's JSON, with its instance view for a state other than pending.
        account: the subscription.
        failed: the state of a machine that was never provisioned: gone for a launch; existing for a clean-up,
            as it still holds its disk and interface.
    """
    region = region_in(vm)

    def ref(kind: ResourceKind, resource_id: str) -> Ref:
        return Ref(cloud=CLOUD, account=account, region=region, kind=kind, id=canonical(resource_id))

    disk_id = text_at(vm, "properties", "storageProfile", "osDisk", "managedDisk", "id")
    listed = list_at(vm, "properties", "networkProfile", "networkInterfaces")
    nics = [text_at(nic, "id") for nic in listed if text_at(nic, "id")]
    parts = [ref(ResourceKind.DISK, disk_id)] if disk_id else []
    parts += [ref(ResourceKind.NIC, nic) for nic in nics]
    parts += [ref(ResourceKind.ADDRESS, address_of(nic)) for nic in nics]
    failure = failure_of(vm)
    return Machine(
        ref=ref(ResourceKind.INSTANCE, str(vm["id"])),
        state=failed if failure else _state(vm),
        tags=tags_in(vm.get("tags")),
        created_at=moment(at(vm, "properties", "timeCreated")),
        zone=next(iter(vm.get("zones") or ()), ""),
        instance_type=str(vm["properties"]["hardwareProfile"]["vmSize"]),
        purchase=_purchase(vm),
        name=text_at(vm, "tags", "Name"),
        reason=failure[0] if failure else None,
        preempted=_evicted(vm),
        billed=not failure and _power(vm) not in _NOT_BILLED,
        # Only the deallocation at its deadline and an eviction stop it from outside.
        ended_itself=failure is None and _state(vm) is State.STOPPED and not _evicted(vm),
        parts=tuple(parts),
    )


def address_of(nic_id: str) -> str:
    """The id of the address that :mod:`gpucloud_azure.network` creates for an interface."""
    parts = parts_of(nic_id)
    if parts is None:
        raise MalformedAnswerError(f"{nic_id!r} is no id of an interface")
    return replace(
        parts, type=TYPES[ResourceKind.ADDRESS].type, name=f"{parts.name.removesuffix('-nic')}-ip"
    ).canonical()


def _purchase(vm: Json) -> Purchase:
    if text_at(vm, "properties", "priority").lower() == "spot":
        return Purchase.SPOT
    held = at(vm, "properties", "capacityReservation", "capacityReservationGroup")
    return Purchase.RESERVED if held else Purchase.ON_DEMAND


# --- one resource


@reading("a virtual machine")
def show(clients: Clients, ref_id: str) -> Json:
    """One virtual machine with its instance view, as JSON."""
    group, name = name_of(ref_id)
    answer: Any = clients.compute().virtual_machines.get(group, name, expand="instanceView")
    return plain(answer)


@reading("a resource")
def get(ref: Ref, clients: Clients, addresses: InterfaceAddresses) -> Resource:
    """One resource by its id.

    Raises:
        UsageError: Azure has no such kind, or the id is not valid.
    """
    if ref.kind not in TYPES:
        raise UsageError(f"Azure has no resources of kind {ref.kind}")
    if ref.kind is ResourceKind.INSTANCE:
        machine = machine_of(show(clients, ref.id), ref.account, failed=State.GONE)
        return _with_end(addresses.on(machine, clients), clients)
    if ref.kind is ResourceKind.RESOURCE_GROUP:
        resource = plain(clients.resources().resource_groups.get(name_of(ref.id)[1]))
    else:
        resource = plain(clients.resources().resources.get_by_id(ref.id, api_version=api_of(ref.kind)))
    thing = resource_of({**resource, "type": TYPES[ref.kind].type, "id": ref.id}, ref.account)
    assert thing is not None  # noqa: S101  (its kind is known)
    return thing


def _with_end(machine: Machine, clients: Clients) -> Machine:
    """A machine whose compute is not billed, with the time since when, if its disk tells that.

    A disk's ``lastOwnershipUpdateTime`` is when its machine was last deallocated or started, or the disk
    attached or detached (reference of azure-mgmt-compute, ``Disk``; .NET reference of
    ``ManagedDisk.LastOwnershipUpdateOn``, read 2026-11-23).
    """
    disk = next((part.id for part in machine.parts if part.kind is ResourceKind.DISK), None)
    if machine.billed or machine.state is not State.STOPPED or disk is None:
        return machine
    try:
        shown = plain(clients.resources().resources.get_by_id(disk, api_version=api_of(ResourceKind.DISK)))
    except Exception as error:
        if classify(error) is None:
            raise
        return machine  # the time may not be read, or the disk is gone: the end is known all the same
    return replace(machine, ended_at=moment(at(shown, "properties", "lastOwnershipUpdateTime")))


class InterfaceAddresses:
    """The addresses of interfaces, which never change: read once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, str | None]] = {}

    def learn(self, nic_id: str, *, private: str | None, public: str | None) -> None:
        """Stores the addresses of an answer."""
        if private and public:
            self._known[nic_id.lower()] = (private, public)

    def on(self, machine: Machine, clients: Clients) -> Machine:
        """A machine with its addresses, once it has them."""
        nic = next((part.id for part in machine.parts if part.kind is ResourceKind.NIC), None)
        if nic is None or machine.state not in {State.PENDING, *_WITH_ADDRESS}:
            return machine
        if nic.lower() not in self._known and machine.state in _WITH_ADDRESS:
            private, public = together(lambda: _private(clients, nic), lambda: _public(clients, nic))
            self.learn(nic, private=private, public=public)
            return replace(machine, private_ip=private, public_ip=public)
        private, public = self._known.get(nic.lower(), (None, None))
        return replace(machine, private_ip=private, public_ip=public)


def private_in(nic: Json) -> str | None:
    """The private address in an interface's JSON."""
    configurations = list_at(nic, "properties", "ipConfigurations")
    found = [text_at(each, "properties", "privateIPAddress") for each in configurations]
    return next(filter(None, found), None)


def public_in(address: Json) -> str | None:
    """The address in a public address's JSON."""
    return text_at(address, "properties", "ipAddress") or None


def _private(clients: Clients, nic: str) -> str | None:
    answer = clients.resources().resources.get_by_id(nic, api_version=api_of(ResourceKind.NIC))
    return private_in(plain(answer))


def _public(clients: Clients, nic: str) -> str | None:
    answer = clients.resources().resources.get_by_id(
        address_of(nic), api_version=api_of(ResourceKind.ADDRESS)
    )
    return public_in(plain(answer))


# --- all resources


def filter_for(search: Search) -> str | None:
    """The condition for Resource Manager: machines alone, or none.

    Never a tag: a list that is filtered by tag comes without the resources' tags (docstring of
    ``ResourcesOperations.list``, azure-mgmt-resource; azure-rest-api-specs#3819, #10051).
    """
    only_machines = search.machines_only or search.token is not None
    return f"resourceType eq '{TYPES[ResourceKind.INSTANCE].type}'" if only_machines else None


def _is_candidate(listed: Json, search: Search) -> bool:
    """Whether a resource in a list carries the tags of a search; all others belong to somebody else."""
    tags = _by_lower_name(at(listed, "tags"))
    if search.token is not None and tags.get(TOKEN_TAG) != search.token:
        return False
    marked = any(f"{TAG_PREFIX}{name}" in tags for name in MARKS)
    return marked and search.admits(Tags.parse(tags))


def _matches(thing: Resource, search: Search) -> bool:
    """Whether a resource in its present state matches all conditions of a search."""
    return (
        search.admits(thing.tags)
        and (search.regions is None or thing.ref.region in search.regions)
        and (thing.ref.kind is ResourceKind.INSTANCE or not search.machines_only)
    )


def find(search: Search, clients: Clients, regions: Callable[[], Sequence[str]]) -> SearchResult:
    """All matching resources, by one list of the whole subscription.

    Resource Manager's lists omit resources that the caller may not read, so an empty list is conclusive only
    with the permission to read resource groups everywhere.

    Args:
        search: the resources to search for.
        clients: the clients.
        regions: returns all regions, which are reported as unread if nothing could be read.
    """
    if search.regions == ():
        return SearchResult(resources=())
    account = clients.subscription()
    try:
        allowed = Prefetch(lambda: may(clients, "Microsoft.Resources/subscriptions/resourceGroups/read"))
        things = [thing for thing in _read(search, clients, account) if _matches(thing, search)]
        if not things and not allowed.result():
            return _unread(search, regions, "the list is empty, and these credentials may not read it all")
        return SearchResult(resources=tuple(things))
    except Exception as error:
        verdict = classify(error)
        if verdict is None or verdict.error_class is not ErrorClass.AUTH:
            raise
        return _unread(search, regions, f"{verdict.code}: {verdict.message}")


def _unread(search: Search, regions: Callable[[], Sequence[str]], error: str) -> SearchResult:
    missing = search.regions if search.regions is not None else regions()
    return SearchResult(
        resources=(),
        unread=tuple(UnreadableRegion(cloud=CLOUD, region=name, error=error) for name in missing),
    )


@reading("a list of resources")
def _read(search: Search, clients: Clients, account: str) -> list[Resource]:
    condition = filter_for(search)

    def groups() -> list[Any]:
        if condition is not None:
            return []
        type_ = {"type": TYPES[ResourceKind.RESOURCE_GROUP].type}
        return [{**plain(each), **type_} for each in clients.resources().resource_groups.list()]

    def resources() -> list[Any]:
        listed = clients.resources().resources.list(
            filter=condition, expand="createdTime,changedTime,provisioningState"
        )
        return [plain(each) for each in listed]

    def look(thing: Resource) -> Resource | None:
        """The present state of a machine; lists have neither its state nor its size."""
        if thing.ref.kind is not ResourceKind.INSTANCE:
            return thing
        try:
            return machine_of(show(clients, thing.ref.id), account, failed=State.STOPPED)
        except Exception as error:
            verdict = classify(error)
            if verdict is not None and verdict.error_class is ErrorClass.NOT_FOUND:
                return None  # deleted since it was listed
            raise

    listed = [item for items in together(resources, groups) for item in items if _is_candidate(item, search)]
    seen = [thing for item in listed if (thing := resource_of(item, account)) is not None]
    return [thing for thing in in_threads(look, seen) if thing is not None]
