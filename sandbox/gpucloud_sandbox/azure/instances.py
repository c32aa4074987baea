"""Virtual machines: looked at, switched off and on, evicted, deleted, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.azure import boxes, disks
from gpucloud_sandbox.azure.network import end_nic
from gpucloud_sandbox.azure.stock import Failure, shortage
from gpucloud_sandbox.azure.subscription import (
    MACHINE,
    NIC,
    Subscription,
    part,
    shown,
    tail,
)
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document

CREATING, SUCCEEDED, FAILED, DELETING = "Creating", "Succeeded", "Failed", "Deleting"
NEXT = {"starting": "running", "stopping": "stopped", "deallocating": "deallocated"}
"""What a machine's power comes to."""


def bill(subscription: Subscription, machine: Document) -> None:
    """A machine has a place from now on, and is billed for it."""
    subscription.begin_billing(
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
    words = {"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"}
    name = machine["properties"]["osProfile"]["computerName"]
    return {**machine["_domains"], "computerName": name, "statuses": [status, words]}


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


# --- switching off and on


def check_not_ending(machine: Document, operation: str) -> None:
    """Passes what is done to a machine that stays.

    Raises:
        AzureError: it is being deleted.
    """
    if machine["_gone_at"] is not None:
        text = (
            f"Operation '{operation}' is not allowed on VM '{machine['name']}' since the VM is marked for "
            "deletion. You can only retry the Delete operation (or wait for an ongoing one to complete)."
        )
        raise AzureError("OperationNotAllowed", text, 409)


def deallocate(subscription: Subscription, machine: Document, reason: str) -> None:
    """A machine begins to give its place back: then only disk and address are billed on."""
    if machine["_power"] not in {"deallocated", "deallocating"} and not machine["_failed"]:
        _switch(subscription, machine, "deallocating", reason)
        boxes.stop(subscription, machine)


def stop(subscription: Subscription, machine: Document) -> None:
    """A machine is switched off: it keeps its place, and is billed on."""
    if machine["_power"] in {"running", "starting"} and not machine["_failed"]:
        _switch(subscription, machine, "stopping", "")
        boxes.stop(subscription, machine)


def guest_stopped(subscription: Subscription, machine: Document) -> None:
    """A machine switched itself off: it keeps its place, and is billed on."""
    if machine["_power"] in {"running", "starting"} and not machine["_failed"]:
        subscription.put(MACHINE, {**machine, "_power": "stopped"})
        boxes.stop(subscription, machine)


def start(subscription: Subscription, machine: Document) -> Failure | None:
    """Starts a machine again; returns the error code and message if there is no capacity."""
    if machine["_failed"] or machine["_power"] in {"running", "starting"}:
        return None
    if machine["_power"] == "deallocated":
        failure = shortage(
            subscription,
            location=machine["location"],
            zone=machine["_zone"],
            size=machine["_size"],
            purchase=machine["_purchase"],
        )
        if failure is not None:
            return failure
        bill(subscription, machine)
        disks.note_power(subscription, machine)
    boxes.boot(subscription, _switch(subscription, machine, "starting", ""))
    return None


def restart(subscription: Subscription, machine: Document) -> None:
    """A machine that runs boots again from its disk."""
    if machine["_power"] in {"running", "starting"} and not machine["_failed"]:
        boxes.restart(subscription, machine)


SWITCHES: Mapping[str, Callable[[Subscription, Document], Failure | None]] = {
    "deallocate": lambda subscription, machine: deallocate(subscription, machine, "deallocated by its user"),
    "poweroff": stop,
    "start": start,
    "restart": restart,
}
"""What users can do with a machine's power, by the word in the address."""


def _switch(subscription: Subscription, machine: Document, power: str, reason: str) -> Document:
    done_at = subscription.later(subscription.transition_s)
    return subscription.put(MACHINE, {**machine, "_power": power, "_power_at": done_at, "_reason": reason})


# --- ending


def evict(subscription: Subscription, machine: Document, at: datetime) -> None:
    """The cloud wants a Spot machine back.

    Raises:
        AzureError: it is none.
    """
    if machine["_purchase"] != "spot":
        text = (
            f"Operation 'simulateEviction' is not allowed on VM '{machine['name']}' since it is not an Azure "
            "Spot VM."
        )
        raise AzureError("OperationNotAllowed", text, 409)
    subscription.put(MACHINE, {**machine, "_evicted_at": stamp(at)})
    subscription.world.boxes.notice_interruption(machine["_box"], at)


def _take_back(subscription: Subscription, machine: Document) -> Document:
    """An eviction: the machine goes, or gives its place back and keeps its disk, as it was asked for."""
    if machine["_eviction"] == "Delete":
        return delete(subscription, machine, "evicted", gone_at=machine["_evicted_at"])
    if machine["_power"] != "deallocated":
        subscription.end_billing(machine, "evicted")
        disks.note_power(subscription, machine)
    boxes.stop(subscription, machine)
    return subscription.put(MACHINE, {**machine, "_power": "deallocated", "_evicted_at": None})


def delete(
    subscription: Subscription, machine: Document, reason: str, *, gone_at: str | None = None
) -> Document:
    """Begins to delete a machine: it is no longer billed from here on. Twice does nothing.

    Args:
        subscription: the machine's.
        machine: what is deleted.
        reason: for the ledger.
        gone_at: when it is no longer shown; after the usual transition, where not given.
    """
    if machine["_gone_at"] is not None:
        return machine
    properties = {**machine["properties"], "provisioningState": DELETING}
    gone_at = gone_at or subscription.later(subscription.transition_s)
    subscription.end_billing(machine, reason)
    boxes.end(subscription, machine)
    return subscription.put(MACHINE, {**machine, "properties": properties, "_gone_at": gone_at})


def _finish(subscription: Subscription, machine: Document) -> None:
    """What goes with a machine goes; what stays is free for others."""
    subscription.drop(MACHINE, machine["id"])
    disks.release(subscription, machine)
    for nic, goes in nics_of(subscription, machine):
        if goes:
            end_nic(subscription, nic)
        else:
            properties = {
                name: value for name, value in nic["properties"].items() if name != "virtualMachine"
            }
            subscription.put(NIC, {**nic, "properties": properties, "_machine": None})


def settle(subscription: Subscription) -> None:
    """Advances machines to the present: made or failed, switched, evicted, deleted."""
    now = subscription.stamp
    for machine in list(subscription.all(MACHINE).values()):
        changes: dict[str, Any] = {}
        if machine["properties"]["provisioningState"] == CREATING and machine["_done_at"] <= now:
            state = FAILED if machine["_failed"] else SUCCEEDED
            changes["properties"] = {**machine["properties"], "provisioningState": state}
        if machine["_power"] in NEXT and machine["_power_at"] <= now:
            changes["_power"] = NEXT[machine["_power"]]
        settled = subscription.put(MACHINE, {**machine, **changes}) if changes else machine
        if changes.get("_power") == "deallocated":
            subscription.end_billing(settled, settled["_reason"])
            disks.note_power(subscription, settled)
        if settled["_evicted_at"] and settled["_evicted_at"] <= now:
            settled = _take_back(subscription, settled)
        if settled["_gone_at"] is not None and settled["_gone_at"] <= now:
            _finish(subscription, settled)


def by_box(subscription: Subscription, box: str) -> Document | None:
    """The machine of a box."""
    return next((each for each in subscription.all(MACHINE).values() if each["_box"] == box), None)
