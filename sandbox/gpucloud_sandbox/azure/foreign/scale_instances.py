"""The instances of a Uniform scale set: each is a machine like any other, inside its set."""

from __future__ import annotations

from typing import Any

from gpucloud_sandbox.azure import boxes, disks, instances, interfaces, launch
from gpucloud_sandbox.azure.order import Model, check_one_network, primary_of
from gpucloud_sandbox.azure.subscription import (
    DISK,
    INSTANCE,
    MACHINE,
    Subscription,
    canonical,
    part,
)
from gpucloud_sandbox.azure.wire import Json
from gpucloud_sandbox.database import Document

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def instances_of(subscription: Subscription, scale_set: Document) -> list[Document]:
    """The instances of a set, oldest first; also those that go."""
    head = f"{canonical(scale_set['id'])}/"
    return [each for id_, each in list(subscription.all(MACHINE).items()) if id_.startswith(head)]


def staying(subscription: Subscription, scale_set: Document) -> list[Document]:
    """The instances that count: those that are not on their way out."""
    return [each for each in instances_of(subscription, scale_set) if each["_gone_at"] is None]


def computer_name(prefix: str, number: int) -> str:
    """The host name of an instance: the prefix and six digits to the base of 36.

    Source: azure-docs, "Understand instance IDs for Azure Virtual Machine Scale Set VMs".
    """
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return prefix + digits


def make(subscription: Subscription, scale_set: Document, model: Model, number: int) -> Document:
    """Makes an instance; where there is no place for it, it is there and fails.

    Args:
        subscription: the subscription.
        scale_set: its set.
        model: what it is to be.
        number: its instance id.
    """
    failure = launch.placing(subscription, model)
    machine = _document(
        subscription, scale_set, number, launch.internals(subscription, model, failure), model
    )
    subscription.put(MACHINE, machine)
    return machine if failure else _equip(subscription, scale_set, machine, model)


def make_surplus(subscription: Subscription, scale_set: Document, model: Model, number: int) -> None:
    """Makes an instance more than was asked for, which goes when the others are there.

    It is not billed and takes no quota. Source: azure-docs, "Design considerations for scale sets".
    """
    inside = launch.internals(subscription, model, None)
    inside |= {"_failed": True, "_gone_at": inside["_done_at"]}
    subscription.put(MACHINE, _document(subscription, scale_set, number, inside, model))


def _document(
    subscription: Subscription, scale_set: Document, number: int, inside: Document, model: Model
) -> Document:
    profile: Json = part(scale_set, "properties", "virtualMachineProfile")
    kept = {name: profile[name] for name in ("securityProfile", "diagnosticsProfile") if name in profile}
    name = f"{scale_set['name']}_{number}"
    guest = part(profile, "osProfile")
    prefix = guest.pop("computerNamePrefix")
    storage = part(profile, "storageProfile")
    return {
        **{name: scale_set[name] for name in ("location", "zones", "tags") if name in scale_set},
        "id": f"{scale_set['id']}/virtualMachines/{number}",
        "name": name,
        "type": INSTANCE,
        "instanceId": str(number),
        "sku": {"name": model.type.name, "tier": "Standard"},
        "properties": {
            **kept,
            "latestModelApplied": True,
            "modelDefinitionApplied": "VirtualMachineScaleSet",
            "hardwareProfile": {},
            "storageProfile": {
                **storage,
                "osDisk": {**storage["osDisk"], "deleteOption": "Delete"},
                "dataDisks": [],
            },
            "osProfile": {**guest, "computerName": computer_name(prefix, number)},
            "networkProfile": {"networkInterfaces": []},
            "networkProfileConfiguration": part(profile, "networkProfile"),
            "provisioningState": instances.CREATING,
            "vmId": inside["_box"],
            "timeCreated": subscription.moment,
        },
        **inside,
        "_group": scale_set["properties"]["uniqueId"],
    }


def _equip(subscription: Subscription, scale_set: Document, machine: Document, model: Model) -> Document:
    """Gives an instance that has a place its disk and its interfaces, and boots it."""
    name = f"{scale_set['name']}_{machine['name']}_OsDisk_1_{subscription.world.token(32)}"
    disk_id = f"{machine['id'].rpartition('/providers/')[0]}/providers/{DISK}/{name}"
    properties: Json = machine["properties"]
    described = properties["networkProfileConfiguration"]
    nics = interfaces.make_within(subscription, machine, described)
    check_one_network(nics)
    primary = primary_of(described)
    interfaces.join(subscription, nics, machine["id"], primary)
    managed = {"storageAccountType": disks.SKU["name"], "id": disk_id}
    disk: dict[str, Any] = {"name": name, "managedDisk": managed, "diskSizeGB": model.disk_gib}
    storage = properties["storageProfile"]
    storage = {**storage, "osDisk": {**storage["osDisk"], **disk}}
    named = [
        {"id": nic["id"], "properties": {"primary": first, "deleteOption": "Delete"}}
        for nic, first in zip(nics, primary, strict=True)
    ]
    properties = {**properties, "storageProfile": storage, "networkProfile": {"networkInterfaces": named}}
    made = subscription.put(MACHINE, {**machine, "properties": properties, "_disk": disk_id})
    disks.create_root(subscription, made, disk_id, model.disk_gib, model.image)
    instances.bill(subscription, made)
    boxes.boot(subscription, made)
    return made
