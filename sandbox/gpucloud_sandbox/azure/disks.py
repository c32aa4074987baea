"""Managed disks: created, attached, detached, deleted; each is billed for as long as it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpucloud_sandbox.azure import snapshots
from gpucloud_sandbox.azure.images import Image
from gpucloud_sandbox.azure.members import not_emulated
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.subscription import (
    CLOUD,
    DISK,
    MACHINE,
    Subscription,
    canonical,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

BILLED_GIB = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32767)
"""A disk is billed as the next of these sizes. Source: Azure PSRule, Azure.VM.DiskSizeAlignment."""
OWNED_SINCE = "lastOwnershipUpdateTime"
"""When a disk was last attached or detached, or its machine deallocated or started (API reference, Disks)."""
SKU = {"name": "Premium_LRS", "tier": "Premium"}
LUNS = 64
_FIXED = ("creationData.createOption", "creationData.sourceResourceId")


def make_disk(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of a disk; it is billed at once, and by its new size when it grows."""
    review_tags(body, "the disk")
    properties = document["properties"]
    option = part(properties, "creationData").get("createOption")
    if not option:
        raise AzureError("InvalidParameter", "Required parameter 'creationData' is missing (null).")
    old = subscription.find(DISK, document["id"])
    if old is not None:
        snapshots.check_unchanged(old, document, _FIXED)
        properties["creationData"] = old["properties"]["creationData"]
        properties.setdefault("diskSizeGB", old["properties"]["diskSizeGB"])
    elif option == "Copy":
        _take_from(document, snapshots.source_of(subscription, document))
    gib = int(properties.get("diskSizeGB") or 0)
    if not 0 < gib <= BILLED_GIB[-1]:
        text = f"The value of parameter diskSizeGB is invalid: {gib} is not between 1 and {BILLED_GIB[-1]}."
        raise AzureError("InvalidParameter", text)
    if old is not None and gib < old["properties"]["diskSizeGB"]:
        raise AzureError("ResizeDiskError", f"The disk {document['name']} cannot become smaller.", 409)
    if old is not None and (old.get("zones") or []) != (document.get("zones") or []):
        raise AzureError("PropertyChangeNotAllowed", "Changing property 'zones' is not allowed.", 409)
    kept: Document = old["properties"] if old else _new(subscription)
    document["sku"] = SKU
    document["properties"] = {**kept, **properties}
    if old is None and option == "Copy":
        source = snapshots.source_of(subscription, document)
        document["_driver"] = source.get("_driver", "")
        snapshots.copy_files(subscription, source, document["properties"]["uniqueId"])
    if old and old.get("managedBy"):
        document["managedBy"] = old["managedBy"]
    if old is None or gib > old["properties"]["diskSizeGB"]:
        if old:
            subscription.end_billing(old, "grows")
        _bill(subscription, document)


def _take_from(document: Document, source: Document) -> None:
    """A disk is at least as large as what it is copied from, and boots what that boots."""
    properties, gib = document["properties"], source["properties"]["diskSizeGB"]
    if properties.setdefault("diskSizeGB", gib) < gib:
        text = f"The disk size {properties['diskSizeGB']} GB is smaller than that of its source: {gib} GB."
        raise AzureError("ResizeDiskError", text)  # UNVERIFIED: code
    properties.update(snapshots.of_system(source))
    properties["creationData"] |= {"sourceUniqueId": source["properties"]["uniqueId"]}


def _new(subscription: Subscription) -> Document:
    return {
        "diskState": "Unattached",
        "timeCreated": subscription.moment,
        "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
        "uniqueId": subscription.new_uuid(),
    }


def _bill(subscription: Subscription, disk: Document) -> None:
    billed = next(size for size in BILLED_GIB if size >= disk["properties"]["diskSizeGB"])
    price = subscription.world.market.disk_price(CLOUD, disk["location"], billed)
    subscription.begin_billing("disk", disk, price.amount, price.currency)


def create_root(subscription: Subscription, machine: Document, id_: str, gib: int, image: Image) -> None:
    """Creates the OS disk of a machine, which boots what its image boots, and has its files."""
    security = part(machine, "properties", "securityProfile").get("securityType")
    disk = create_for(
        subscription,
        machine,
        id_,
        gib,
        "FromImage",
        osType="Linux",
        hyperVGeneration=f"V{image.generation}",
        supportedCapabilities={"architecture": image.architecture},
        **({"securityProfile": {"securityType": security}} if security == "TrustedLaunch" else {}),
    )
    subscription.put(DISK, {**disk, "_driver": image.driver})
    if image.files:
        subscription.world.boxes.copy(image.files, disk["properties"]["uniqueId"])


def create_for(
    subscription: Subscription, machine: Document, id_: str, gib: int, option: str, **properties: Any
) -> Document:
    """Creates a disk that comes with a machine, in its place and with its tags."""
    disk: Document = {
        "id": id_,
        "name": tail(id_),
        "type": DISK,
        "location": machine["location"],
        "managedBy": machine["id"],
        "sku": SKU,
        **({"zones": machine["zones"]} if machine.get("zones") else {}),
        "tags": machine.get("tags") or {},
        "properties": {
            **_new(subscription),
            **properties,
            "diskSizeGB": gib,
            "diskState": "Attached",
            OWNED_SINCE: subscription.moment,
            "provisioningState": "Succeeded",
            "creationData": {"createOption": option},
        },
        "_created": subscription.moment,
    }
    subscription.put(DISK, disk)
    _bill(subscription, disk)
    return disk


def check_data_disks(subscription: Subscription, machine: Json, wanted: Sequence[Json]) -> None:
    """Passes data disks that a machine can have.

    Args:
        subscription: the subscription.
        machine: its id, region and zones.
        wanted: its ``dataDisks``.

    Raises:
        AzureError: Azure would refuse one.
    """
    luns = [each.get("lun") for each in wanted]
    if len(set(luns)) < len(luns) or not all(isinstance(lun, int) and 0 <= lun < LUNS for lun in luns):
        raise AzureError("InvalidParameter", "Each data disk needs a lun of its own between 0 and 63.")
    for each in wanted:
        option, id_ = each.get("createOption"), part(each, "managedDisk").get("id")
        if option == "Empty" and not id_:
            if not 0 < int(each.get("diskSizeGB") or 0) <= BILLED_GIB[-1]:
                raise AzureError("InvalidParameter", "An empty data disk needs a diskSizeGB up to 32767.")
            continue
        disk = subscription.find(DISK, id_) if id_ else None
        if disk is None:
            text = f"The entity was not found: disk {id_} of lun {each['lun']}."
            raise AzureError("NotFound", text, 404)
        _check_same(each, disk)
        holder = disk.get("managedBy")
        if holder and canonical(holder) != canonical(machine["id"]):
            text = f"Disk {disk['id']} cannot be attached as it is already attached to VM {holder}."
            raise AzureError("ConflictingUserInput", text, 409)
        if disk["location"] != machine["location"] or (disk.get("zones") or []) != (
            machine.get("zones") or []
        ):
            text = f"Disk {disk['name']} cannot be attached: it is in another region or zone than the VM."
            raise AzureError("BadRequest", text)


def _check_same(wanted: Json, disk: Document) -> None:
    """Passes a disk that is attached as it is: Azure might rename or enlarge it."""
    for name, has in (("name", disk["name"]), ("diskSizeGB", disk["properties"]["diskSizeGB"])):
        if wanted.get(name, has) != has:
            path = "properties.storageProfile.dataDisks"
            raise not_emulated(f"PUT {MACHINE}: {path}.{name}={wanted[name]} of an attached disk")


def set_data_disks(subscription: Subscription, machine: Document, wanted: Sequence[Json]) -> list[Json]:
    """Attaches, creates and detaches until a machine has the wanted data disks; returns them as shown."""
    shown: list[Json] = []
    for each in wanted:
        managed = part(each, "managedDisk")
        if managed.get("id"):
            disk = subscription.all(DISK)[canonical(managed["id"])]
            attached = {**disk["properties"], "diskState": "Attached", OWNED_SINCE: subscription.moment}
            disk = subscription.put(DISK, {**disk, "managedBy": machine["id"], "properties": attached})
            device = f"/dev/disk/azure/scsi1/lun{each['lun']}"
            subscription.world.boxes.plug(machine["_box"], device, disk["properties"]["uniqueId"])
        else:
            name = each.get("name") or f"{machine['name']}_disk_{subscription.world.token(32)}"
            id_ = f"{machine['id'].rpartition('/providers/')[0]}/providers/{DISK}/{name}"
            disk = create_for(subscription, machine, id_, int(each["diskSizeGB"]), "Empty")
        shown.append(
            {
                "lun": each["lun"],
                "name": disk["name"],
                "createOption": each["createOption"],
                "caching": "None",
                "deleteOption": each.get("deleteOption", "Detach"),
                "diskSizeGB": disk["properties"]["diskSizeGB"],
                "managedDisk": {"id": disk["id"], "storageAccountType": SKU["name"]},
            }
        )
    kept = {canonical(each["managedDisk"]["id"]) for each in shown}
    for each in data_disks(machine):
        had = subscription.find(DISK, each["managedDisk"]["id"])
        if had is not None and canonical(had["id"]) not in kept:
            detach(subscription, had)
    return shown


def data_disks(machine: Document) -> list[Json]:
    """A machine's data disks, as shown."""
    return list(part(machine, "properties", "storageProfile").get("dataDisks") or ())


def detach(subscription: Subscription, disk: Document) -> None:
    """A disk is free for other machines, and billed on."""
    holder = subscription.find(MACHINE, disk["managedBy"]) if disk.get("managedBy") else None
    if holder is not None:
        subscription.world.boxes.unplug(holder["_box"], disk["properties"]["uniqueId"])
    free = {name: value for name, value in disk.items() if name != "managedBy"}
    properties = {**disk["properties"], "diskState": "Unattached", OWNED_SINCE: subscription.moment}
    subscription.put(DISK, {**free, "properties": properties})


def note_power(subscription: Subscription, machine: Document) -> None:
    """A machine was deallocated or started: its disks show when."""
    ids = [machine["_disk"], *(each["managedDisk"]["id"] for each in data_disks(machine))]
    for disk in filter(None, (subscription.find(DISK, id_) for id_ in ids if id_)):
        properties = {**disk["properties"], OWNED_SINCE: subscription.moment}
        subscription.put(DISK, {**disk, "properties": properties})


def release(subscription: Subscription, machine: Document) -> None:
    """The disks of a machine that goes: each goes with it or is free, as it was asked for."""
    storage = part(machine, "properties", "storageProfile")
    ids = [(machine["_disk"], part(storage, "osDisk").get("deleteOption"))] if machine["_disk"] else []
    ids += [(each["managedDisk"]["id"], each["deleteOption"]) for each in data_disks(machine)]
    for id_, option in ids:
        disk = subscription.find(DISK, id_)
        if disk is None:
            continue
        if option == "Delete":
            end_disk(subscription, disk, "deleted with its machine")
        else:
            detach(subscription, disk)


def end_disk(subscription: Subscription, disk: Document, reason: str) -> None:
    """A disk goes."""
    subscription.end_billing(disk, reason)
    subscription.drop(DISK, disk["id"])
    subscription.world.boxes.wipe(disk["properties"]["uniqueId"])


def delete_disk(subscription: Subscription, disk: Document) -> None:
    """DELETE of a disk."""
    if disk.get("managedBy") and subscription.find(MACHINE, disk["managedBy"]) is not None:
        text = f"Disk {disk['name']} is attached to VM {disk['managedBy']}."
        raise AzureError("OperationNotAllowed", text, 409)
    end_disk(subscription, disk, "deleted")
