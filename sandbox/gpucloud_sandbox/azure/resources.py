"""PUT, PATCH, GET and DELETE of resources: what is the same for every type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpucloud_sandbox.azure import (
    availability,
    disks,
    galleries,
    groups,
    image_versions,
    instances,
    launch,
    members,
    network,
    operations,
    permissions,
    preconditions,
    schedules,
    snapshots,
    storage,
    validation,
    views,
)
from gpucloud_sandbox.azure.foreign import scale_sets
from gpucloud_sandbox.azure.groups import being_deleted, check_tags, group_of
from gpucloud_sandbox.azure.lists import hides
from gpucloud_sandbox.azure.places import check_location
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.subscription import (
    ACCOUNT,
    ADDRESS,
    AVAILABILITY,
    DEFINITION,
    DISK,
    FIREWALL,
    GALLERY,
    MACHINE,
    NETWORK,
    NIC,
    SCALE_SET,
    SCHEDULE,
    SNAPSHOT,
    VERSION,
    Subscription,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import Answer, AzureError, HiddenError, Json
from gpucloud_sandbox.database import Document

Make = Callable[[Subscription, Document, Json], None]
End = Callable[[Subscription, Document], None]

MAKES: Mapping[str, Make] = {
    NETWORK: network.make_network,
    FIREWALL: network.make_firewall,
    ADDRESS: network.make_address,
    NIC: network.make_nic,
    DISK: disks.make_disk,
    SNAPSHOT: snapshots.make_snapshot,
    GALLERY: galleries.make_gallery,
    DEFINITION: galleries.make_definition,
    VERSION: image_versions.make_version,
    AVAILABILITY: availability.make_set,
    ACCOUNT: storage.make_account,
    SCHEDULE: schedules.make_daily,
}
ENDS: Mapping[str, End] = {
    NETWORK: network.delete_network,
    FIREWALL: network.delete_firewall,
    ADDRESS: network.delete_address,
    NIC: network.delete_nic,
    DISK: disks.delete_disk,
    SNAPSHOT: snapshots.delete_snapshot,
    GALLERY: galleries.delete_gallery,
    DEFINITION: galleries.delete_definition,
    VERSION: image_versions.delete_version,
    AVAILABILITY: availability.delete_set,
    ACCOUNT: storage.delete_account,
    SCHEDULE: lambda subscription, schedule: subscription.drop(SCHEDULE, schedule["id"]),
}
PUTS = {MACHINE, SCALE_SET, *MAKES}
"""The types that can be created."""
BILLED = {MACHINE, SCALE_SET, DISK, SNAPSHOT, VERSION, ADDRESS, NIC, ACCOUNT}
"""What must always say whose it is; an interface because the clean-up needs it."""
AT_ONCE = {SCHEDULE, AVAILABILITY, ACCOUNT}
"""What is made and deleted in one call, without an operation that is waited for."""
MADE = {DISK: 202, SNAPSHOT: 202, AVAILABILITY: 200, ACCOUNT: 200}
"""The status of what is new, other than 201: azure-mgmt-compute takes no other."""


def put(
    subscription: Subscription, kind: str, id_: str, body: Json, origin: str, *, headers: Mapping[str, str]
) -> Answer:
    """PUT of a resource.

    Args:
        subscription: the subscription.
        kind: its type.
        id_: as the caller writes it.
        body: what is wanted.
        origin: of the addresses in the answer.
        headers: of the request; its preconditions are in them.
    """
    group = group_of(subscription, id_.split("/")[4])
    if group["_gone_at"]:
        raise being_deleted(group["name"])
    if not groups.NAME.fullmatch(tail(id_)):
        raise AzureError("InvalidResourceName", f"The resource name '{tail(id_)}' is not valid.")
    old = subscription.find(kind, id_)
    body = validation.read(f"PUT {kind}", body, again=old is not None)
    check_tags(body)
    body["location"] = check_location(subscription, body.get("location"))
    preconditions.check(headers, old, id_)
    galleries.check_parent(subscription, kind, id_)
    if old is not None and old["location"] != body["location"]:
        text = (
            f"The resource '{tail(id_)}' already exists in location '{old['location']}' in resource group "
            f"'{group['name']}'. A resource with the same name cannot be created in location "
            f"'{body['location']}'. Please select a new resource name."
        )
        raise AzureError("InvalidResourceLocation", text, 409)
    permissions.check_linked(subscription, f"{kind}/write", id_, _linked(kind, id_, body))
    if kind == MACHINE:
        return _put_machine(subscription, old, id_, body, origin)
    if kind == SCALE_SET:
        return scale_sets.put(subscription, old, id_, body, origin)
    make = MAKES.get(kind)
    if make is None:
        raise members.not_emulated(f"PUT {kind}")
    document = _document(subscription, kind, id_, body, old)
    if kind == ACCOUNT:
        document["_origin"] = origin
    make(subscription, document, document)
    subscription.put(kind, document)
    more: dict[str, str] = {}
    if kind not in AT_ONCE:
        ends = "made" if kind == VERSION else "done"
        more = operations.begin(subscription, origin, document, ends, located=False)
    status = 200 if old else MADE.get(kind, 201)
    return Answer(status=status, body=views.seen(subscription, document), headers=more)


def _document(subscription: Subscription, kind: str, id_: str, body: Json, old: Document | None) -> Document:
    """A resource as it is wanted, with what every one has."""
    document: Document = {
        **{name: value for name, value in body.items() if name not in {"name", "type", "etag"}},
        "id": old["id"] if old else id_,
        "name": tail(old["id"] if old else id_),
        "type": kind,
        "properties": {**(body.get("properties") or {}), "provisioningState": "Succeeded"},
        "_created": old["_created"] if old else subscription.moment,
    }
    if kind.startswith("Microsoft.Network/"):
        document["etag"] = f'W/"{subscription.new_uuid()}"'
        guid = old["properties"]["resourceGuid"] if old else subscription.new_uuid()
        document["properties"]["resourceGuid"] = guid
    return document


def _put_machine(
    subscription: Subscription, old: Document | None, id_: str, body: Json, origin: str
) -> Answer:
    if old is None:
        machine = launch.put(subscription, id_, body)
    else:
        machine = launch.put_again(subscription, old, body)
    headers = operations.begin(subscription, origin, machine, "made", located=False)
    return Answer(status=200 if old else 201, body=instances.show(machine, view=False), headers=headers)


def _linked(kind: str, id_: str, body: Json) -> dict[str, str]:
    """What a PUT joins or makes besides, by the action that it needs."""
    properties = part(body, "properties")
    found: dict[str, str] = {}

    def joins(action: str, linked: str | None) -> None:
        if linked:
            found.setdefault(action, linked)

    if kind == NETWORK:
        for subnet in properties.get("subnets") or ():
            joins(f"{FIREWALL}/join/action", part(subnet, "properties", "networkSecurityGroup").get("id"))
    if kind == VERSION:  # shared-image-galleries.md, "RBAC Permissions required to create an ACG Image"
        source: str | None = part(properties, "storageProfile", "osDiskImage", "source").get("id")
        of = SNAPSHOT if f"/{SNAPSHOT}/".lower() in str(source).lower() else DISK
        joins(f"{of}/write", source)
    interfaces: list[Json] = [properties] if kind == NIC else []
    if kind == SCALE_SET:
        properties = part(properties, "virtualMachineProfile")
    if kind in {MACHINE, SCALE_SET}:
        found["Microsoft.Compute/disks/write"] = id_
        joins(f"{VERSION}/read", part(properties, "storageProfile", "imageReference").get("id"))
        held = part(properties, "capacityReservation", "capacityReservationGroup").get("id")
        joins("Microsoft.Compute/capacityReservationGroups/deploy/action", held)
        profile = part(properties, "networkProfile")
        for each in profile.get("networkInterfaces") or ():
            joins(f"{NIC}/join/action", each.get("id"))
        interfaces = [
            part(each, "properties") for each in profile.get("networkInterfaceConfigurations") or ()
        ]
    for interface in interfaces:
        joins(f"{FIREWALL}/join/action", part(interface, "networkSecurityGroup").get("id"))
        for each in interface.get("ipConfigurations") or ():
            joins(f"{NETWORK}/subnets/join/action", part(each, "properties", "subnet").get("id"))
            joins(f"{ADDRESS}/join/action", part(each, "properties", "publicIPAddress").get("id"))
    return found


def patch(
    subscription: Subscription, kind: str, id_: str, body: Json, origin: str, *, headers: Mapping[str, str]
) -> Answer:
    """PATCH of a resource: of a machine what can change, of others the tags."""
    document = _seen(subscription, kind, id_)
    preconditions.check(headers, document, id_)
    body = validation.read(f"PATCH {kind}", body)
    check_tags(body)
    if kind == MACHINE:
        machine = launch.put_again(subscription, document, body)
        more = operations.begin(subscription, origin, machine, "made", located=True)
        return Answer(body=instances.show(machine, view=False), headers=more)
    if kind == SCALE_SET:
        return scale_sets.change(subscription, document, body, origin, located=True)
    if kind in BILLED:
        review_tags(body, "what is billed")
    document = subscription.put(kind, {**document, "tags": body.get("tags", document.get("tags"))})
    return Answer(body=views.seen(subscription, document))


def get(subscription: Subscription, kind: str, id_: str, *, expand: str) -> Answer:
    """GET of a resource, with what ``expand`` names in lower case."""
    document, view = _seen(subscription, kind, id_), expand == "instanceview"
    if kind == MACHINE:
        return Answer(body=instances.show(document, view=view))
    if kind == SCALE_SET:
        return Answer(body=scale_sets.show(subscription, document))
    seen = views.seen(subscription, document)
    if kind == VERSION and expand == "replicationstatus":
        seen["properties"]["replicationStatus"] = image_versions.replication(document)
    return Answer(body=seen)


def _seen(subscription: Subscription, kind: str, id_: str) -> Document:
    group_of(subscription, id_.split("/")[4])
    document = subscription.find(kind, id_)
    if document is None or hides(subscription, document):
        text = (
            f"The Resource '{kind}/{tail(id_)}' under resource group '{id_.split('/')[4]}' was not found. "
            "For more details please go to https://aka.ms/ARMResourceNotFoundFix"
        )
        error = AzureError if document is None else HiddenError
        raise error("ResourceNotFound", text, 404)
    return document


def delete(subscription: Subscription, kind: str, id_: str, origin: str) -> Answer:
    """DELETE of a resource: what is not there is done."""
    group_of(subscription, id_.split("/")[4])
    document = subscription.find(kind, id_)
    if document is None:
        return Answer(status=204)
    if kind == MACHINE:
        instances.delete(subscription, document, "deleted by its user")
        headers = operations.begin(subscription, origin, document, "gone", located=True)
        return Answer(status=202, headers=headers)
    if kind == SCALE_SET:
        return scale_sets.delete(subscription, document, origin)
    end = ENDS.get(kind)
    if end is None:
        raise members.not_emulated(f"DELETE {kind}")
    end(subscription, document)
    if kind in AT_ONCE:
        return Answer(status=200)
    ends = "gone" if kind == VERSION else "done"
    return Answer(status=202, headers=operations.begin(subscription, origin, document, ends, located=True))


def settle(subscription: Subscription) -> None:
    """Advances all resources to the present, causes before effects."""
    schedules.settle(subscription)
    image_versions.settle(subscription)
    instances.settle(subscription)
    scale_sets.settle(subscription)
    groups.settle(subscription)
