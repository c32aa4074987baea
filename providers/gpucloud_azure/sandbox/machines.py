"""Virtual machines: made, looked at, switched off, evicted, deleted, and what goes with them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.clock import stamp
from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox import boxes
from gpucloud_azure.sandbox.network import RESERVED_S, end_nic
from gpucloud_azure.sandbox.order import Order, read_order
from gpucloud_azure.sandbox.subscription import (
    CLOUD,
    DISK,
    MACHINE,
    NIC,
    Subscription,
    canonical,
    part,
    shown,
    tail,
)
from gpucloud_azure.sandbox.wire import AzureError, Json

CREATING, SUCCEEDED, FAILED, DELETING = "Creating", "Succeeded", "Failed", "Deleting"
_POWER = {
    "starting": "VM starting",
    "running": "VM running",
    "stopped": "VM stopped",
    "deallocated": "VM deallocated",
}


# --- making


def put(subscription: Subscription, id_: str, body: Json) -> Document:
    """PUT of a machine that does not exist: it is accepted, and may fail later."""
    order = read_order(subscription, id_, body)
    failure = _shortage(subscription, order)
    properties = part(body, "properties")
    storage = part(properties, "storageProfile")
    disk_name = part(storage, "osDisk").get("name") or f"{tail(id_)}_disk1"
    disk_id = f"{id_.rpartition('/providers/')[0]}/providers/{DISK}/{disk_name}"
    storage["osDisk"] = {**part(storage, "osDisk"), "name": disk_name}
    if failure is None:
        managed = {**part(storage["osDisk"], "managedDisk"), "id": disk_id}
        storage["osDisk"] |= {"managedDisk": managed, "diskSizeGB": order.disk_gib}
    guest = {name: value for name, value in part(properties, "osProfile").items() if name != "customData"}
    guest |= {"secrets": [], "allowExtensionOperations": True, "requireGuestProvisionSignal": True}
    vm_id = subscription.new_uuid()
    document: Document = {
        **{name: value for name, value in body.items() if name in {"location", "zones", "tags", "identity"}},
        "id": id_,
        "name": tail(id_),
        "type": MACHINE,
        "properties": {
            **properties,
            "storageProfile": {**storage, "dataDisks": []},
            "osProfile": guest,
            "provisioningState": CREATING,
            "vmId": vm_id,
            "timeCreated": subscription.moment,
        },
        "_box": vm_id,
        "_power": "starting",
        "_purchase": order.purchase,
        "_reservation": canonical(order.reservation["id"]) if order.reservation else "",
        "_user_data": order.user_data,
        "_driver": order.image.driver,
        "_size": order.type.name,
        "_price": str(order.price.amount),
        "_currency": order.price.currency,
        "_zone": order.zone,
        "_failure": list(failure) if failure else None,
        "_failed": failure is not None,
        "_done_at": subscription.later(subscription.transition_s),
        "_gone_at": None,
        "_evicted_at": None,
        "_visible_at": subscription.later(subscription.world.dials.pace.lag_s),
        "_disk": disk_id if failure is None else "",
    }
    for nic in order.nics:
        subscription.put(
            NIC,
            {
                **nic,
                "_machine": id_,
                "properties": {**nic["properties"], "virtualMachine": {"id": id_}, "primary": True},
            },
        )
    subscription.put(MACHINE, document)
    if failure is None:
        _make_disk(subscription, document, order)
        _bill(subscription, document)
        boxes.boot(subscription, document)
    return document


def _shortage(subscription: Subscription, order: Order) -> tuple[str, str] | None:
    """The code and words with which the machine will fail, where there is none of its size."""
    if order.reservation is not None:
        return None
    market = subscription.world.market
    limit = market.limit(CLOUD, order.location, order.zone, order.type.name, order.purchase)
    taken = sum(
        (each["location"], each["_zone"], each["_size"], each["_purchase"])
        == (order.location, order.zone, order.type.name, order.purchase)
        and not each["_failed"]
        for each in subscription.all(MACHINE).values()
    )
    if limit is None or taken < limit:
        return None
    code = {
        (False, False): "AllocationFailed",
        (True, False): "ZonalAllocationFailed",
        (False, True): "OverconstrainedAllocationRequest",
        (True, True): "OverconstrainedZonalAllocationRequest",
    }[bool(order.zone), order.purchase == "spot"]
    text = (
        "Allocation failed. We do not have sufficient capacity for the requested VM size in this "
        f"{'zone' if order.zone else 'region'}. Read more about improving likelihood of allocation success."
    )
    return code, text


def _make_disk(subscription: Subscription, machine: Document, order: Order) -> None:
    storage = part(machine, "properties", "storageProfile", "osDisk")
    disk: Document = {
        "id": machine["_disk"],
        "name": tail(machine["_disk"]),
        "type": DISK,
        "location": machine["location"],
        "managedBy": machine["id"],
        "sku": {
            "name": part(storage, "managedDisk").get("storageAccountType", "Standard_LRS"),
            "tier": "Premium",
        },
        **({"zones": machine["zones"]} if machine.get("zones") else {}),
        "tags": machine.get("tags") or {},
        "properties": {
            "osType": "Linux",
            "diskSizeGB": order.disk_gib,
            "diskState": "Attached",
            "provisioningState": SUCCEEDED,
            "timeCreated": subscription.moment,
            "creationData": {"createOption": "FromImage"},
            "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
        },
    }
    subscription.put(DISK, disk)
    price = subscription.world.market.disk_price(CLOUD, disk["location"], order.disk_gib)
    subscription.born("disk", disk, price.amount, price.currency)


def _bill(subscription: Subscription, machine: Document) -> None:
    subscription.born(
        "instance", machine, Decimal(machine["_price"]), machine["_currency"], zone=machine["_zone"] or None
    )


# --- looking


def show(machine: Document, *, view: bool) -> Document:
    """A machine as Azure answers it; its instance view only for who asks."""
    answer = shown(machine)
    if view:
        answer["properties"] = {**answer["properties"], "instanceView": instance_view(machine)}
    return answer


def instance_view(machine: Document) -> Document:
    """What a machine is doing."""
    provisioning = machine["properties"]["provisioningState"]
    status: Document = {
        "code": f"ProvisioningState/{provisioning.lower()}",
        "level": "Info",
        "displayStatus": f"Provisioning {provisioning.lower()}",
        "time": machine["properties"]["timeCreated"],
    }
    if provisioning == FAILED:
        code, text = machine["_failure"]
        status |= {"code": f"ProvisioningState/failed/{code}", "level": "Error", "message": text}
        return {"statuses": [status]}
    if provisioning == CREATING:
        return {"statuses": [status]}
    power = machine["_power"]
    words = {"code": f"PowerState/{power}", "level": "Info", "displayStatus": _POWER[power]}
    return {"computerName": machine["properties"]["osProfile"]["computerName"], "statuses": [status, words]}


def find(subscription: Subscription, id_: str) -> Document:
    """A machine by id.

    Raises:
        AzureError: there is none.
    """
    machine = subscription.find(MACHINE, id_)
    if machine is None:
        group = id_.split("/")[4]
        text = f"The Resource '{MACHINE}/{tail(id_)}' under resource group '{group}' was not found."
        raise AzureError("ResourceNotFound", text, 404)
    return machine


def nics_of(subscription: Subscription, machine: Document) -> list[tuple[Document, bool]]:
    """A machine's interfaces, and whether each goes with it."""
    found: list[tuple[Document, bool]] = []
    for each in part(machine, "properties", "networkProfile").get("networkInterfaces") or ():
        nic = subscription.find(NIC, each["id"])
        if nic is not None:
            found.append((nic, part(each, "properties").get("deleteOption") == "Delete"))
    return found


# --- switching off


def deallocate(subscription: Subscription, machine: Document, reason: str) -> None:
    """A machine gives its place back: only disk and address are billed on."""
    if machine["_power"] == "deallocated" or machine["_failed"]:
        return
    subscription.put(MACHINE, {**machine, "_power": "deallocated"})
    subscription.died(machine, reason)
    boxes.end(subscription, machine)


def stop(subscription: Subscription, machine: Document) -> None:
    """A machine is switched off, by itself or by its user: it keeps its place, and is billed on."""
    if machine["_power"] in {"running", "starting"} and not machine["_failed"]:
        subscription.put(MACHINE, {**machine, "_power": "stopped"})
        boxes.end(subscription, machine)


def start(subscription: Subscription, machine: Document) -> None:
    """A machine is switched on again."""
    if machine["_power"] == "deallocated":
        _bill(subscription, machine)
    boxes.boot(subscription, subscription.put(MACHINE, {**machine, "_power": "running"}))


# --- ending


def evict(subscription: Subscription, machine: Document, at: datetime) -> None:
    """The cloud wants a Spot machine back."""
    subscription.put(MACHINE, {**machine, "_evicted_at": stamp(at)})
    subscription.world.boxes.notice_interruption(machine["_box"], at)


def delete(subscription: Subscription, machine: Document, reason: str) -> None:
    """Begins to delete a machine: it is no longer billed from here on. Twice does nothing."""
    if machine["_gone_at"] is not None:
        return
    properties = {**machine["properties"], "provisioningState": DELETING}
    gone_at = subscription.later(subscription.transition_s)
    subscription.put(MACHINE, {**machine, "properties": properties, "_gone_at": gone_at})
    subscription.died(machine, reason)
    boxes.end(subscription, machine)


def _finish(subscription: Subscription, machine: Document) -> None:
    """What goes with a machine goes; what stays is free for others, an interface after a while."""
    subscription.drop(MACHINE, machine["id"])
    disk = subscription.find(DISK, machine["_disk"]) if machine["_disk"] else None
    if disk is not None:
        if part(machine, "properties", "storageProfile", "osDisk").get("deleteOption") == "Delete":
            end_disk(subscription, disk, "deleted with its machine")
        else:
            free = {name: value for name, value in disk.items() if name != "managedBy"}
            subscription.put(DISK, {**free, "properties": {**disk["properties"], "diskState": "Unattached"}})
    for nic, goes in nics_of(subscription, machine):
        if goes:
            end_nic(subscription, nic)
        else:
            properties = {
                name: value for name, value in nic["properties"].items() if name != "virtualMachine"
            }
            until = subscription.later(RESERVED_S)
            subscription.put(
                NIC, {**nic, "properties": properties, "_machine": None, "_reserved_until": until}
            )


def end_disk(subscription: Subscription, disk: Document, reason: str) -> None:
    """A disk goes."""
    subscription.died(disk, reason)
    subscription.drop(DISK, disk["id"])


def delete_disk(subscription: Subscription, disk: Document) -> None:
    """DELETE of a disk."""
    if disk.get("managedBy") and subscription.find(MACHINE, disk["managedBy"]) is not None:
        text = f"Disk {disk['name']} is attached to VM {disk['managedBy']}."
        raise AzureError("OperationNotAllowed", text, 409)
    end_disk(subscription, disk, "deleted")


def settle(subscription: Subscription) -> None:
    """Does what is due: machines come to be or fail, are evicted, and go."""
    now = subscription.stamp
    for machine in list(subscription.all(MACHINE).values()):
        state = machine["properties"]["provisioningState"]
        if state == CREATING and machine["_done_at"] <= now:
            ended: dict[str, Any] = {"provisioningState": FAILED if machine["_failed"] else SUCCEEDED}
            power = machine["_power"] if machine["_power"] != "starting" else "running"
            properties = {**machine["properties"], **ended}
            machine = subscription.put(MACHINE, {**machine, "properties": properties, "_power": power})  # noqa: PLW2901
        if machine["_evicted_at"] and machine["_evicted_at"] <= now:
            delete(subscription, machine, "evicted")
            machine = find(subscription, machine["id"])  # noqa: PLW2901
        if machine["_gone_at"] is not None and machine["_gone_at"] <= now:
            _finish(subscription, machine)


def by_box(subscription: Subscription, box: str) -> Document | None:
    """The machine of a box."""
    return next((each for each in subscription.all(MACHINE).values() if each["_box"] == box), None)
