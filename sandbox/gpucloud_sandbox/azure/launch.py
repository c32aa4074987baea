"""PUT of a virtual machine: accepted at once, created or failed later."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpucloud_sandbox.azure import (
    availability,
    boxes,
    disks,
    instances,
    interfaces,
    nic_limits,
    order,
    quotas,
)
from gpucloud_sandbox.azure.entra import TENANT
from gpucloud_sandbox.azure.network import RESERVED_S
from gpucloud_sandbox.azure.review import review_tags
from gpucloud_sandbox.azure.stock import Failure, shortage
from gpucloud_sandbox.azure.subscription import (
    CLOUD,
    MACHINE,
    Subscription,
    canonical,
    part,
    tail,
)
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.supported import leaves

_CHANGEABLE = (
    "hardwareProfile.vmSize",
    "storageProfile.osDisk.deleteOption",
    "storageProfile.dataDisks",
    "networkProfile.networkInterfaces.properties.deleteOption",
    "diagnosticsProfile.bootDiagnostics.enabled",
)
"""What of a machine's properties a PUT or PATCH can change; the rest it keeps for life."""


def put(subscription: Subscription, id_: str, body: Json) -> Document:
    """Makes a machine that does not exist."""
    asked = order.read_order(subscription, id_, body)
    size = asked.model.type.name
    failure = placing(subscription, asked.model) or availability.pinned(subscription, body, size)
    properties = part(body, "properties")
    storage = part(properties, "storageProfile")
    wanted_disks: list[Json] = storage.pop("dataDisks", None) or []
    storage["osDisk"] = {
        "caching": "ReadWrite",
        "deleteOption": "Detach",
        **part(storage, "osDisk"),
        "name": tail(asked.disk_id),
        "osType": "Linux",
    }
    if failure is None:
        managed = {"storageAccountType": disks.SKU["name"], "id": asked.disk_id}
        storage["osDisk"] |= {"managedDisk": managed, "diskSizeGB": asked.model.disk_gib}
    spot = {"evictionPolicy": "Deallocate"} if asked.model.purchase == "spot" else {}
    guest = {name: value for name, value in part(properties, "osProfile").items() if name != "customData"}
    guest |= {"secrets": [], "allowExtensionOperations": True, "requireGuestProvisionSignal": True}
    inside = internals(subscription, asked.model, failure)
    document: Document = {
        **{name: value for name, value in body.items() if name in {"location", "zones", "tags"}},
        **_identity(subscription, body),
        "id": id_,
        "name": tail(id_),
        "type": MACHINE,
        "etag": '"1"',
        "properties": {
            **spot,
            **properties,
            "storageProfile": {**storage, "dataDisks": []},
            "osProfile": guest,
            "networkProfile": _network_profile(asked.nics, part(properties, "networkProfile")),
            "provisioningState": instances.CREATING,
            "vmId": inside["_box"],
            "timeCreated": subscription.moment,
        },
        **inside,
        "_disk": asked.disk_id if failure is None else "",
        "_domains": asked.domains,
    }
    reserved_until = None if failure is None else subscription.later(subscription.transition_s + RESERVED_S)
    primary = order.primary_of(part(part(body, "properties"), "networkProfile"))
    interfaces.join(subscription, asked.nics, id_, primary, reserved_until)
    subscription.put(MACHINE, document)
    if failure is None:
        gib = asked.model.disk_gib
        disks.create_root(subscription, document, asked.disk_id, gib, asked.model.image)
        document = _with_data_disks(subscription, document, wanted_disks)
        instances.bill(subscription, document)
        boxes.boot(subscription, document)
    return document


def placing(subscription: Subscription, model: order.Model) -> Failure | None:
    """The code and words with which a machine finds no place; what is reserved has one."""
    if model.reservation is not None:
        return None
    return shortage(
        subscription,
        location=model.location,
        zone=model.zone,
        size=model.type.name,
        purchase=model.purchase,
    )


def internals(subscription: Subscription, model: order.Model, failure: Failure | None) -> Document:
    """The sandbox's own members of a machine that comes to be, or fails."""
    pace = subscription.world.dials.pace
    done_at = subscription.later(subscription.transition_s)
    return {
        "_box": subscription.new_uuid(),
        "_power": "starting",
        "_power_at": done_at,
        "_reason": "",
        "_purchase": model.purchase,
        "_eviction": model.eviction,
        "_reservation": canonical(model.reservation["id"]) if model.reservation else "",
        "_user_data": model.user_data,
        "_driver": model.image.driver,
        "_size": model.type.name,
        "_price": str(model.price.amount),
        "_currency": model.price.currency,
        "_zone": model.zone,
        "_failure": list(failure) if failure else None,
        "_failed": failure is not None,
        "_done_at": done_at,
        "_gone_at": None,
        "_evicted_at": None,
        "_visible_at": subscription.later(pace.lag_s),
        "_hidden_reads": pace.lag_calls,
        "_disk": "",
        "_domains": {},
    }


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
                    "primary": first,
                    "deleteOption": each.get("deleteOption", "Detach"),
                },
            }
            for nic, each, first in zip(nics, options, order.primary_of(profile), strict=True)
        ]
    }


def put_again(subscription: Subscription, machine: Document, body: Json) -> Document:
    """PUT or PATCH of a machine that exists: its size, its data disks, its identity and its tags may change.

    Raises:
        AzureError: something that is fixed would change, or it is being deleted.
    """
    instances.check_not_ending(machine, "createOrUpdate")
    wanted = part(body, "properties")
    _check_fixed(machine, wanted)
    if "zones" in body and body["zones"] != (machine.get("zones") or []):
        raise fixed("zones")
    changed: Document = {**machine, "tags": body.get("tags", machine.get("tags"))}
    review_tags(changed, "the virtual machine")
    changed = _with_identity(subscription, changed, body)
    changed["properties"] = _with_options(changed["properties"], wanted)
    changed["etag"] = json.dumps(str(int(json.loads(machine["etag"])) + 1))  # a number in quotes
    size = part(wanted, "hardwareProfile").get("vmSize")
    if size is not None and size.lower() != machine["_size"].lower():
        changed = _resized(subscription, changed, size)
    asked: list[Json] | None = part(wanted, "storageProfile").get("dataDisks")
    if asked is not None:
        disks.check_data_disks(subscription, changed, asked)
        changed = _with_data_disks(subscription, changed, asked)
    return subscription.put(MACHINE, changed)


def _check_fixed(machine: Document, wanted: Json) -> None:
    custom = part(wanted, "osProfile").get("customData")
    if custom is not None and custom != machine["_user_data"]:
        raise fixed("osProfile.customData")
    for path in changed(machine["properties"], wanted):
        if path != "osProfile.customData" and not path.startswith(_CHANGEABLE):
            raise fixed(path)


def changed(known: Json, wanted: Json) -> Iterator[str]:
    """The members of what is wanted that have other values than what is known has."""
    had = {(path, _plain(value)) for path, value in leaves(known)}
    for path, value in leaves(wanted):
        if value not in (None, [], {}) and (path, _plain(value)) not in had:
            yield path


def _plain(value: object) -> str:
    return json.dumps(value).lower()


def fixed(path: str) -> AzureError:
    """What may not be changed."""
    text = f"Changing property '{path}' is not allowed."
    return AzureError("PropertyChangeNotAllowed", text, 409)


def _with_identity(subscription: Subscription, machine: Document, body: Json) -> Document:
    """A machine with the identity that is asked for; it keeps the one that it has."""
    kind = part(body, "identity").get("type")
    if kind == "SystemAssigned" and not machine.get("identity"):
        return {**machine, **_identity(subscription, body)}
    if kind == "None":
        return {name: value for name, value in machine.items() if name != "identity"}
    return machine


def _with_options(properties: Json, wanted: Json) -> Json:
    """Properties with other choices of what goes along with the machine, and of boot diagnostics."""
    storage = part(properties, "storageProfile")
    option = part(wanted, "storageProfile", "osDisk").get("deleteOption")
    if option:
        storage["osDisk"] = {**storage["osDisk"], "deleteOption": option}
    options = {
        canonical(each["id"]): part(each, "properties")
        for each in part(wanted, "networkProfile").get("networkInterfaces") or ()
    }
    profile = part(properties, "networkProfile")
    profile["networkInterfaces"] = [
        {**each, "properties": {**part(each, "properties"), **options.get(canonical(each["id"]), {})}}
        for each in profile["networkInterfaces"]
    ]
    diagnostics = (
        {"diagnosticsProfile": wanted["diagnosticsProfile"]} if "diagnosticsProfile" in wanted else {}
    )
    return {**properties, "storageProfile": storage, "networkProfile": profile, **diagnostics}


def _resized(subscription: Subscription, machine: Document, size: str) -> Document:
    """A machine of another size; one that runs is restarted by it.

    Raises:
        AzureError: the size is not there, or more than the quota, or there is no place.
    """
    if machine["_reservation"]:
        raise fixed("hardwareProfile.vmSize")
    location, purchase = machine["location"], machine["_purchase"]
    zones: list[str] = machine.get("zones") or []
    type_ = order.check_size(subscription, location, zones, size)
    price = subscription.world.market.price(CLOUD, location, "", type_.name, purchase)
    if price is None:
        raise AzureError("SkuNotAvailable", f"The size '{size}' is not available as {purchase}.", 409)
    nics = [nic["properties"] for nic, _ in instances.nics_of(subscription, machine)]
    nic_limits.check_count(f"virtual machine {machine['name']}", type_.name, len(nics))
    nic_limits.check_acceleration(nics, type_.name)
    quotas.check(subscription, location, type_.name, purchase, but=machine["_size"])
    placed = machine["_power"] != "deallocated"
    if placed:
        failure = shortage(
            subscription, location=location, zone=machine["_zone"], size=type_.name, purchase=purchase
        )
        if failure is not None:
            raise AzureError(*failure, 409)
        subscription.end_billing(machine, "changes its size")
    properties = {**machine["properties"], "hardwareProfile": {"vmSize": type_.name}}
    changed: Document = {
        **machine,
        "properties": properties,
        "_size": type_.name,
        "_price": str(price.amount),
        "_currency": price.currency,
    }
    if placed:
        instances.bill(subscription, changed)
        if changed["_power"] in {"running", "starting"}:
            boxes.restart(subscription, changed)
    return changed


def _with_data_disks(subscription: Subscription, machine: Document, wanted: list[Json]) -> Document:
    """A machine with the wanted data disks, stored."""
    shown = disks.set_data_disks(subscription, machine, wanted)
    storage = {**machine["properties"]["storageProfile"], "dataDisks": shown}
    properties = {**machine["properties"], "storageProfile": storage}
    return subscription.put(MACHINE, {**machine, "properties": properties})


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
