"""Interfaces and addresses that a machine's PUT describes instead of naming them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_azure.sandbox.network import make_address, make_nic
from gpucloud_azure.sandbox.subscription import ADDRESS, NIC, Subscription, part
from gpucloud_azure.sandbox.wire import AzureError, Json

API_VERSIONS = {"2020-11-01", "2022-11-01"}
"""Source: azure-mgmt-compute 39.0.0, NetworkApiVersion."""


def make_all(
    subscription: Subscription, machine_id: str, location: str, zones: Sequence[str], profile: Json
) -> list[Document]:
    """Makes the interfaces of a machine, with their addresses.

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
    return [
        _make(subscription, head, location, zones, each) for each in profile["networkInterfaceConfigurations"]
    ]


def _make(
    subscription: Subscription, head: str, location: str, zones: Sequence[str], described: Json
) -> Document:
    wanted = part(described, "properties")
    configurations: list[Json] = []
    for each in wanted.get("ipConfigurations") or ():
        properties = part(each, "properties")
        address = properties.pop("publicIPAddressConfiguration", None)
        if address is not None:
            made = _make_address(subscription, head, location, zones, address)
            option = part(address, "properties").get("deleteOption", "Detach")
            properties["publicIPAddress"] = {"id": made["id"], "properties": {"deleteOption": option}}
        configurations.append({"name": each["name"], "properties": properties})
    kept = ("networkSecurityGroup", "enableAcceleratedNetworking")
    properties = {
        "ipConfigurations": configurations,
        **{name: wanted[name] for name in kept if name in wanted},
    }
    nic = _document(subscription, head, NIC, described, location=location, properties=properties)
    make_nic(subscription, nic, nic)
    return subscription.put(NIC, nic)


def _make_address(
    subscription: Subscription, head: str, location: str, zones: Sequence[str], described: Json
) -> Document:
    properties = part(described, "properties")
    kept = {
        "publicIPAllocationMethod": properties.get("publicIPAllocationMethod", "Dynamic"),
        "publicIPAddressVersion": properties.get("publicIPAddressVersion", "IPv4"),
    }
    address = _document(subscription, head, ADDRESS, described, location=location, properties=kept)
    address["sku"] = part(described, "sku")
    if zones:
        address["zones"] = list(zones)
    make_address(subscription, address, address)
    return subscription.put(ADDRESS, address)


def _document(
    subscription: Subscription,
    head: str,
    kind: str,
    described: Json,
    *,
    location: str,
    properties: dict[str, Any],
) -> Document:
    """A new resource; its name is the described one's and eight digits, so that it is unique."""
    name = f"{described['name']}-{subscription.world.token(8)}"
    return {
        "id": f"{head}/providers/{kind}/{name}",
        "name": name,
        "type": kind,
        "location": location,
        "tags": described.get("tags") or {},
        "properties": {
            **properties,
            "provisioningState": "Succeeded",
            "resourceGuid": subscription.new_uuid(),
        },
        "etag": f'W/"{subscription.new_uuid()}"',
        "_created": subscription.moment,
    }
