"""Interfaces and addresses that a machine's or a scale set's PUT describes instead of naming them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpucloud_sandbox.azure.network import make_address, make_nic
from gpucloud_sandbox.azure.subscription import ADDRESS, NIC, Subscription, part, tail
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

Naming = Callable[[str, str, str], str]
"""Returns an id: of what is above, of which type, with which name."""
API_VERSIONS = {"2020-11-01", "2022-11-01"}
"""Source: azure-mgmt-compute 39.0.0, NetworkApiVersion."""


def make_all(
    subscription: Subscription, machine_id: str, location: str, zones: Sequence[str], profile: Json
) -> list[Document]:
    """Makes the interfaces of a machine, with their addresses, beside it.

    Args:
        subscription: the subscription.
        machine_id: the machine.
        location: its region.
        zones: its zones, which its addresses share.
        profile: its ``networkProfile``.
    """
    if profile.get("networkApiVersion") not in API_VERSIONS:
        text = "networkApiVersion must be specified when networkInterfaceConfigurations are."
        raise AzureError("InvalidParameter", text)
    head = machine_id.rpartition("/providers/")[0]

    def beside(_above: str, kind: str, name: str) -> str:
        return f"{head}/providers/{kind}/{name}-{subscription.world.token(8)}"

    place: Json = {"id": machine_id, "location": location, "zones": list(zones)}
    return [_make(subscription, place, each, beside) for each in profile["networkInterfaceConfigurations"]]


def join(
    subscription: Subscription,
    nics: Sequence[Document],
    machine_id: str,
    primary: Sequence[bool],
    reserved_until: str | None = None,
) -> None:
    """A machine has interfaces from now on; one that failed, until ``reserved_until``."""
    for nic, first in zip(nics, primary, strict=True):
        properties = {**nic["properties"], "virtualMachine": {"id": machine_id}, "primary": first}
        taken = {"_machine": machine_id, "_reserved_until": reserved_until}
        subscription.put(NIC, {**nic, **taken, "properties": properties})


def make_within(subscription: Subscription, machine: Document, profile: Json) -> list[Document]:
    """Makes the interfaces of an instance of a scale set, with their addresses, inside it: they go with it.

    Args:
        subscription: the subscription.
        machine: the instance; what is made has its tags, where it has none of its own.
        profile: the ``networkProfile`` of the scale set.
    """

    def inside(above: str, kind: str, name: str) -> str:
        return f"{above}/{tail(kind)}/{name}"

    return [
        _make(subscription, machine, _of_instance(each, machine.get("tags") or {}), inside)
        for each in profile["networkInterfaceConfigurations"]
    ]


def _of_instance(described: Json, tags: Json) -> Json:
    """An interface as a machine's PUT would describe it: an instance's address is static and goes with it."""
    wanted = part(described, "properties")
    configurations: list[Json] = []
    for each in wanted.get("ipConfigurations") or ():
        properties = part(each, "properties")
        address = part(properties, "publicIPAddressConfiguration")
        if address:
            kept = {**part(address, "properties"), "deleteOption": "Delete"}
            kept["publicIPAllocationMethod"] = "Static"
            address = {**address, "tags": address.get("tags") or tags, "properties": kept}
            properties["publicIPAddressConfiguration"] = address
        configurations.append({**each, "properties": properties})
    return {
        **described,
        "tags": described.get("tags") or tags,
        "properties": {**wanted, "ipConfigurations": configurations},
    }


def _make(subscription: Subscription, machine: Document, described: Json, id_of: Naming) -> Document:
    wanted = part(described, "properties")
    nic_id = id_of(machine["id"], NIC, described["name"])
    configurations: list[Json] = []
    for each in wanted.get("ipConfigurations") or ():
        properties = part(each, "properties")
        address = properties.pop("publicIPAddressConfiguration", None)
        if address is not None:
            id_ = id_of(f"{nic_id}/ipConfigurations/{each['name']}", ADDRESS, address["name"])
            made = _make_address(subscription, machine, address, id_)
            option = part(address, "properties").get("deleteOption", "Detach")
            properties["publicIPAddress"] = {"id": made["id"], "properties": {"deleteOption": option}}
        configurations.append({"name": each["name"], "properties": properties})
    kept = ("networkSecurityGroup", "enableAcceleratedNetworking")
    properties = {
        "ipConfigurations": configurations,
        **{name: wanted[name] for name in kept if name in wanted},
    }
    nic = _document(subscription, machine, NIC, described, id_=nic_id, properties=properties)
    make_nic(subscription, nic, nic)
    return subscription.put(NIC, nic)


def _make_address(subscription: Subscription, machine: Document, described: Json, id_: str) -> Document:
    properties = part(described, "properties")
    kept = {
        "publicIPAllocationMethod": properties.get("publicIPAllocationMethod", "Dynamic"),
        "publicIPAddressVersion": properties.get("publicIPAddressVersion", "IPv4"),
    }
    address = _document(subscription, machine, ADDRESS, described, id_=id_, properties=kept)
    address["sku"] = part(described, "sku")
    if machine.get("zones"):
        address["zones"] = machine["zones"]
    make_address(subscription, address, address)
    return subscription.put(ADDRESS, address)


def _document(
    subscription: Subscription,
    machine: Document,
    kind: str,
    described: Json,
    *,
    id_: str,
    properties: dict[str, Any],
) -> Document:
    """A new resource, in the place of its machine."""
    return {
        "id": id_,
        "name": tail(id_),
        "type": kind,
        "location": machine["location"],
        "tags": described.get("tags") or {},
        "properties": {
            **properties,
            "provisioningState": "Succeeded",
            "resourceGuid": subscription.new_uuid(),
        },
        "etag": f'W/"{subscription.new_uuid()}"',
        "_created": subscription.moment,
    }
