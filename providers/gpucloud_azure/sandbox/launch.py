"""PUT of a virtual machine: it is accepted, and comes to be or fails later."""

from __future__ import annotations

import json

from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox import boxes, instances
from gpucloud_azure.sandbox.entra import TENANT
from gpucloud_azure.sandbox.network import RESERVED_S
from gpucloud_azure.sandbox.order import Order, read_order
from gpucloud_azure.sandbox.review import review_tags
from gpucloud_azure.sandbox.stock import shortage
from gpucloud_azure.sandbox.subscription import (
    CLOUD,
    DISK,
    MACHINE,
    NIC,
    Subscription,
    canonical,
    part,
    tail,
)
from gpucloud_azure.sandbox.wire import AzureError, Json

BILLED_GIB = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32767)
"""A disk is billed as the next of these sizes. Source: Azure PSRule, Azure.VM.DiskSizeAlignment."""
_FIXED = (
    ("hardwareProfile", "vmSize"),
    ("storageProfile", "imageReference"),
    ("osProfile", "adminUsername"),
    ("osProfile", "computerName"),
    ("priority",),
    ("evictionPolicy",),
)
"""What a machine keeps for life. A size can be changed on the real one; gpucloud never does that."""


def put(subscription: Subscription, id_: str, body: Json) -> Document:
    """Makes a machine that does not exist."""
    order = read_order(subscription, id_, body)
    failure = None
    if order.reservation is None:
        failure = shortage(
            subscription,
            location=order.location,
            zone=order.zone,
            size=order.type.name,
            purchase=order.purchase,
        )
    properties = part(body, "properties")
    storage = part(properties, "storageProfile")
    disk_name = part(storage, "osDisk").get("name") or f"{tail(id_)}_disk1_{subscription.world.token(32)}"
    disk_id = f"{id_.rpartition('/providers/')[0]}/providers/{DISK}/{disk_name}"
    storage["osDisk"] = {**part(storage, "osDisk"), "name": disk_name, "osType": "Linux"}
    if failure is None:
        managed = {**part(storage["osDisk"], "managedDisk"), "id": disk_id}
        storage["osDisk"] |= {"managedDisk": managed, "diskSizeGB": order.disk_gib}
    guest = {name: value for name, value in part(properties, "osProfile").items() if name != "customData"}
    guest |= {"secrets": [], "allowExtensionOperations": True, "requireGuestProvisionSignal": True}
    vm_id = subscription.new_uuid()
    done_at = subscription.later(subscription.transition_s)
    document: Document = {
        **{name: value for name, value in body.items() if name in {"location", "zones", "tags"}},
        **_identity(subscription, body),
        "id": id_,
        "name": tail(id_),
        "type": MACHINE,
        "properties": {
            **properties,
            "storageProfile": {**storage, "dataDisks": []},
            "osProfile": guest,
            "networkProfile": _network_profile(order.nics, part(properties, "networkProfile")),
            "provisioningState": instances.CREATING,
            "vmId": vm_id,
            "timeCreated": subscription.moment,
        },
        "_box": vm_id,
        "_power": "starting",
        "_power_at": done_at,
        "_reason": "",
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
        "_done_at": done_at,
        "_gone_at": None,
        "_evicted_at": None,
        "_visible_at": subscription.later(subscription.world.dials.pace.lag_s),
        "_hidden_reads": subscription.world.dials.pace.lag_calls,
        "_disk": disk_id if failure is None else "",
    }
    reserved_until = None if failure is None else subscription.later(subscription.transition_s + RESERVED_S)
    for nic in order.nics:
        properties = {**nic["properties"], "virtualMachine": {"id": id_}, "primary": True}
        taken = {"_machine": id_, "_reserved_until": reserved_until}
        subscription.put(NIC, {**nic, **taken, "properties": properties})
    subscription.put(MACHINE, document)
    if failure is None:
        _make_disk(subscription, document, order)
        instances.bill(subscription, document)
        boxes.boot(subscription, document)
    return document


def _network_profile(nics: list[Document], profile: Json) -> Json:
    """Where interfaces were described, they are named from now on."""
    described: list[Json] = profile.get("networkInterfaceConfigurations") or []
    if not described:
        return profile
    options = [part(each, "properties") for each in described]
    return {
        "networkInterfaces": [
            {
                "id": nic["id"],
                "properties": {
                    "primary": each.get("primary", True),
                    "deleteOption": each.get("deleteOption", "Detach"),
                },
            }
            for nic, each in zip(nics, options, strict=True)
        ]
    }


def put_again(subscription: Subscription, machine: Document, body: Json) -> Document:
    """PUT of a machine that exists: its tags may change.

    Raises:
        AzureError: something that is fixed would change, or it is being deleted.
    """
    instances.check_not_ending(machine, "createOrUpdate")
    wanted = part(body, "properties")
    for path in _FIXED:
        *head, name = path
        asked = part(wanted, *head).get(name)
        if asked is not None and not _same(asked, part(machine["properties"], *head).get(name)):
            text = f"Changing property '{'.'.join(path)}' is not allowed."
            raise AzureError("PropertyChangeNotAllowed", text, 409)
    custom = part(wanted, "osProfile").get("customData")
    if custom is not None and custom != machine["_user_data"]:
        text = "Changing property 'osProfile.customData' is not allowed."
        raise AzureError("PropertyChangeNotAllowed", text, 409)
    tags = body.get("tags", machine.get("tags"))
    review_tags({"tags": tags}, "the virtual machine")
    return subscription.put(MACHINE, {**machine, "tags": tags})


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True).lower() == json.dumps(other, sort_keys=True).lower()


def _make_disk(subscription: Subscription, machine: Document, order: Order) -> None:
    storage = part(machine, "properties", "storageProfile", "osDisk")
    kind = part(storage, "managedDisk").get("storageAccountType", "Standard_LRS")
    disk: Document = {
        "id": machine["_disk"],
        "name": tail(machine["_disk"]),
        "type": DISK,
        "location": machine["location"],
        "managedBy": machine["id"],
        "sku": {"name": kind, "tier": kind.partition("_")[0].removesuffix("V2")},
        **({"zones": machine["zones"]} if machine.get("zones") else {}),
        "tags": machine.get("tags") or {},
        "properties": {
            "osType": "Linux",
            "diskSizeGB": order.disk_gib,
            "diskState": "Attached",
            "provisioningState": instances.SUCCEEDED,
            "timeCreated": subscription.moment,
            "creationData": {"createOption": "FromImage"},
            "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
        },
    }
    subscription.put(DISK, disk)
    billed = next(size for size in BILLED_GIB if size >= order.disk_gib)
    price = subscription.world.market.disk_price(CLOUD, disk["location"], billed)
    subscription.born("disk", disk, price.amount, price.currency)


def _identity(subscription: Subscription, body: Json) -> Document:
    """The identity that a machine is given; it lives and dies with it."""
    if part(body, "identity").get("type") != "SystemAssigned":
        return {}
    return {
        "identity": {
            "type": "SystemAssigned",
            "principalId": subscription.new_uuid(),
            "tenantId": TENANT,
        }
    }
