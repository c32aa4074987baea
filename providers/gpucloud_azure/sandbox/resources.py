"""PUT, GET, DELETE and lists of resources and their groups: what is the same for every type."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping

from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox import access, machines, network, operations, schedules, validate
from gpucloud_azure.sandbox.catalog import check_location
from gpucloud_azure.sandbox.order import reservation_left
from gpucloud_azure.sandbox.subscription import (
    ADDRESS,
    BY_NAME,
    DISK,
    FIREWALL,
    GROUP,
    MACHINE,
    NETWORK,
    NIC,
    RESERVATIONS,
    SCHEDULE,
    SUBSCRIPTION,
    Subscription,
    canonical,
    part,
    shown,
    tags_of,
    tail,
)
from gpucloud_azure.sandbox.wire import Answer, AzureError, Json

Make = Callable[[Subscription, Document, Json], None]
End = Callable[[Subscription, Document], None]

MAKES: Mapping[str, Make] = {
    NETWORK: network.make_network,
    FIREWALL: network.make_firewall,
    ADDRESS: network.make_address,
    NIC: network.make_nic,
    SCHEDULE: schedules.make_daily,
}
ENDS: Mapping[str, End] = {
    NETWORK: network.delete_network,
    FIREWALL: network.delete_firewall,
    ADDRESS: network.delete_address,
    NIC: network.delete_nic,
    DISK: machines.delete_disk,
    SCHEDULE: lambda subscription, schedule: subscription.drop(SCHEDULE, schedule["id"]),
}
_NAME = re.compile(r"[\w.()-]{1,90}", re.ASCII)


def check_tags(body: Json) -> None:
    """Refuses tags that Azure does not take."""
    tags: Mapping[str, str] = body.get("tags") or {}
    if len(tags) > 50:
        raise AzureError("InvalidTags", "A resource has at most 50 tags.")
    if len({key.lower() for key in tags}) < len(tags):
        raise AzureError("InvalidTags", "Two tags differ by their case only.")
    for key, value in tags.items():
        if not 0 < len(key) <= 512 or set(key) & set("<>%&\\?/") or len(str(value)) > 256:
            raise AzureError("InvalidTagNameCharacters", f"The tag '{key}' is not valid.")


# --- resource groups


def put_group(subscription: Subscription, name: str, body: Json) -> Answer:
    """PUT of a resource group."""
    validate.check(GROUP, body)
    check_tags(body)
    location = check_location(subscription, body.get("location"))
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise AzureError("InvalidResourceGroup", f"The provided resource group name '{name}' is not valid.")
    id_ = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}"
    old = subscription.find(GROUP, id_)
    if old is not None and old["location"] != location:
        text = f"Invalid resource group location '{location}': it already exists in '{old['location']}'."
        raise AzureError("InvalidResourceGroupLocation", text, 409)
    if old is not None and old["_gone_at"]:
        text = f"The resource group '{name}' is in deprovisioning state."
        raise AzureError("ResourceGroupBeingDeleted", text, 409)
    group = subscription.put(
        GROUP,
        {
            "id": old["id"] if old else id_,
            "name": old["name"] if old else name,
            "type": GROUP,
            "location": location,
            "tags": body.get("tags") or {},
            "properties": {"provisioningState": "Succeeded"},
            "_gone_at": None,
            "_created": old["_created"] if old else subscription.moment,
        },
    )
    return Answer(status=200 if old else 201, body=shown(group))


def group_of(subscription: Subscription, name: str) -> Document:
    """A resource group by name.

    Raises:
        AzureError: there is none.
    """
    group = subscription.find(GROUP, f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}")
    if group is None:
        raise AzureError("ResourceGroupNotFound", f"Resource group '{name}' could not be found.", 404)
    return group


def delete_group(subscription: Subscription, name: str, origin: str) -> Answer:
    """DELETE of a resource group: everything in it goes too."""
    group = group_of(subscription, name)
    if group["_gone_at"] is None:
        for kind, each in subscription.within(group["id"]):
            if kind == MACHINE:
                machines.delete(subscription, each, "deleted with its resource group")
        gone_at = subscription.later(subscription.transition_s)
        properties = {"provisioningState": "Deleting"}
        subscription.put(GROUP, {**group, "_gone_at": gone_at, "properties": properties})
    url = f"{origin}/subscriptions/{SUBSCRIPTION}/operationresults/{group['name']}?api-version=2025-04-01"
    headers = {"Location": url, **({"Retry-After": "1"} if subscription.transition_s else {})}
    return Answer(status=202, headers=headers)


def group_result(subscription: Subscription, name: str, origin: str) -> Answer:
    """How the deletion of a resource group stands."""
    group = subscription.find(GROUP, f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}")
    if group is None:
        return Answer(status=200)
    url = f"{origin}/subscriptions/{SUBSCRIPTION}/operationresults/{name}?api-version=2025-04-01"
    return Answer(status=202, headers={"Location": url, "Retry-After": "1"})


# --- resources


def put(
    subscription: Subscription, kind: str, id_: str, body: Json, origin: str, *, only_new: bool
) -> Answer:
    """PUT of a resource.

    Args:
        subscription: the subscription.
        kind: its type.
        id_: as the caller writes it.
        body: what is wanted.
        origin: of the addresses in the answer.
        only_new: refuse what exists (``If-None-Match: *``).
    """
    group = group_of(subscription, id_.split("/")[4])
    if group["_gone_at"]:
        text = f"The resource group '{group['name']}' is in deprovisioning state."
        raise AzureError("ResourceGroupBeingDeleted", text, 409)
    if not _NAME.fullmatch(tail(id_)):
        raise AzureError("InvalidResourceName", f"The resource name '{tail(id_)}' is not valid.")
    validate.check(kind, body)
    check_tags(body)
    body = {**copy.deepcopy(body), "location": check_location(subscription, body.get("location"))}
    old = subscription.find(kind, id_)
    if old is not None and only_new:
        raise AzureError("PreconditionFailed", f"The resource {id_} exists already.", 412)
    if old is not None and old["location"] != body["location"]:
        text = f"The resource '{tail(id_)}' already exists in location '{old['location']}'."
        raise AzureError("InvalidResourceLocation", text, 409)
    if kind == MACHINE:
        return _put_machine(subscription, old, id_, body, origin)
    make = MAKES.get(kind)
    if make is None:
        raise AzureError("UnsupportedOperation", f"The gpucloud sandbox makes no {kind}.")
    document: Document = {
        **{name: value for name, value in body.items() if name not in {"name", "type", "etag"}},
        "id": old["id"] if old else id_,
        "name": tail(old["id"] if old else id_),
        "type": kind,
        "properties": {**(body.get("properties") or {}), "provisioningState": "Succeeded"},
        "_created": old["_created"] if old else subscription.moment,
    }
    make(subscription, document, document)
    subscription.put(kind, document)
    return Answer(status=200 if old else 201, body=shown(document))


def _put_machine(
    subscription: Subscription, old: Document | None, id_: str, body: Json, origin: str
) -> Answer:
    if old is not None:
        if old["_size"] != part(body, "properties", "hardwareProfile").get("vmSize"):
            raise AzureError("PropertyChangeNotAllowed", "Changing property 'vmSize' is not allowed.", 409)
        return Answer(body=machines.show(old, view=False))
    machine = machines.put(subscription, id_, body)
    headers = operations.begin(subscription, origin, target=id_, ends="made", location=machine["location"])
    return Answer(status=201, body=machines.show(machine, view=False), headers=headers)


def get(subscription: Subscription, kind: str, id_: str, *, view: bool) -> Answer:
    """GET of a resource."""
    group_of(subscription, id_.split("/")[4])
    document = subscription.find(kind, id_)
    if document is None or _hides(subscription, document):
        raise _not_found(kind, id_)
    if kind == MACHINE:
        return Answer(body=machines.show(document, view=view))
    return Answer(body=shown(document))


def _not_found(kind: str, id_: str) -> AzureError:
    text = f"The Resource '{kind}/{tail(id_)}' under resource group '{id_.split('/')[4]}' was not found."
    return AzureError("ResourceNotFound", text, 404)


def _hides(subscription: Subscription, document: Document) -> bool:
    """Whether a read does not see a machine yet."""
    return bool(document.get("_visible_at", "") > subscription.stamp)


def delete(subscription: Subscription, kind: str, id_: str, origin: str) -> Answer:
    """DELETE of a resource: what is not there is done."""
    group_of(subscription, id_.split("/")[4])
    document = subscription.find(kind, id_)
    if document is None:
        return Answer(status=204)
    if kind == MACHINE:
        machines.delete(subscription, document, "deleted by its user")
        headers = operations.begin(
            subscription, origin, target=id_, ends="gone", location=document["location"]
        )
        return Answer(status=202, headers=headers)
    end = ENDS.get(kind)
    if end is None:
        raise AzureError("UnsupportedOperation", f"The gpucloud sandbox ends no {kind}.")
    end(subscription, document)
    return Answer(status=200)


# --- lists

SHORT: tuple[str, ...] = ("id", "name", "type", "location", "tags", "sku", "zones")
"""What a list of all types shows of a resource."""


def tag_condition(text: str) -> Callable[[Document], bool]:
    """What a ``$filter`` on tags lets through.

    Raises:
        AzureError: it is another one.
    """
    if not text:
        return _anything
    match = re.fullmatch(r"tagName eq '((?:[^']|'')*)'(?: and tagValue eq '((?:[^']|'')*)')?", text)
    if match is None:
        kind = re.fullmatch(r"resourceType eq '([^']*)'", text)
        if kind is None:
            raise AzureError(
                "InvalidFilterInQueryString", f"Invalid $filter '{text}' specified in the query string."
            )
        return lambda document: document["type"].lower() == kind[1].lower()
    name, value = match[1].replace("''", "'"), match[2]

    def fits(document: Document) -> bool:
        tags = tags_of(document)
        wanted = None if value is None else value.replace("''", "'")
        return name.lower() in tags and wanted in {None, tags[name.lower()]}

    return fits


def _anything(document: Document) -> bool:
    return True


def list_groups(subscription: Subscription, query: Mapping[str, str]) -> list[Document]:
    """The resource groups; none for who may not read them."""
    if not access.allows(subscription, "Microsoft.Resources/subscriptions/resourceGroups/read"):
        return []
    fits = tag_condition(query.get("$filter", ""))
    return [shown(group) for group in subscription.all(GROUP).values() if fits(group)]


def list_resources(subscription: Subscription, query: Mapping[str, str], group: str | None) -> list[Document]:
    """Resources of all types, in short; only those that the caller may read."""
    fits = tag_condition(query.get("$filter", ""))
    wanted = set(query.get("$expand", "").split(","))
    head = f"{canonical(group_of(subscription, group)['id'])}/" if group else ""
    found: list[Document] = []
    for kind, each in subscription.everything():
        if not canonical(each["id"]).startswith(head) or not fits(each) or _hides(subscription, each):
            continue
        if not access.allows(subscription, f"{kind}/read"):
            continue
        entry: Document = {name: value for name, value in each.items() if name in SHORT}
        if "createdTime" in wanted:
            entry["createdTime"] = each.get("_created") or each["properties"].get(
                "timeCreated", subscription.moment
            )
        if "provisioningState" in wanted:
            entry["provisioningState"] = each["properties"].get("provisioningState", "Succeeded")
        found.append(entry)
    return found


def list_of(
    subscription: Subscription, kind: str, group: str | None, query: Mapping[str, str]
) -> list[Document]:
    """The resources of one type, in a group or in the subscription."""
    head = f"{canonical(group_of(subscription, group)['id'])}/" if group else ""
    view = query.get("statusOnly") == "true" or query.get("$expand") == "instanceView"
    return [
        machines.show(each, view=view) if kind == MACHINE else shown(each)
        for each in subscription.all(kind).values()
        if canonical(each["id"]).startswith(head) and not _hides(subscription, each)
    ]


def kind_named(namespace: str, name: str) -> str:
    """A type by its names.

    Raises:
        AzureError: Azure, or the sandbox, has no such type.
    """
    kind = BY_NAME.get(f"{namespace}/{name}".lower())
    if kind is None:
        text = f"The resource type '{name}' could not be found in the namespace '{namespace}' (sandbox)."
        raise AzureError("InvalidResourceType", text, 404)
    return kind


# --- capacity that is held


def reservations(subscription: Subscription, group: Document) -> list[Document]:
    """The one reservation of a capacity reservation group."""
    left = reservation_left(subscription, group)
    taken = [
        {"id": each["id"]}
        for each in subscription.all(MACHINE).values()
        if each["_reservation"] == canonical(group["id"])
    ]
    return [
        {
            "id": f"{group['id']}/capacityReservations/held",
            "name": "held",
            "type": f"{RESERVATIONS}/capacityReservations",
            "location": group["location"],
            **({"zones": group["zones"]} if group.get("zones") else {}),
            "sku": {"name": group["_size"], "capacity": group["_count"]},
            "properties": {
                "provisioningState": "Succeeded",
                "instanceView": {
                    "utilizationInfo": {
                        "currentCapacity": left + len(taken),
                        "virtualMachinesAllocated": taken,
                    }
                },
            },
        }
    ]


def settle(subscription: Subscription) -> None:
    """Does what is due, in the order of its causes."""
    schedules.settle(subscription)
    machines.settle(subscription)
    for group in list(subscription.all(GROUP).values()):
        if group["_gone_at"] is None or group["_gone_at"] > subscription.stamp:
            continue
        left = subscription.within(group["id"])
        if any(kind == MACHINE for kind, _ in left):
            continue
        for kind, each in left:
            if kind == NIC:
                network.end_nic(subscription, each)
        for kind, each in subscription.within(group["id"]):
            if kind == ADDRESS:
                network.end_address(subscription, each, "deleted with its resource group")
            elif kind == DISK:
                machines.end_disk(subscription, each, "deleted with its resource group")
            else:
                subscription.drop(kind, each["id"])
        subscription.drop(GROUP, group["id"])
