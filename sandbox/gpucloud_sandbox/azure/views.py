"""What Azure adds to the answer for a resource: its own rules, who uses it, how far it has come."""

from __future__ import annotations

from collections.abc import Iterator

from gpucloud_sandbox.azure import availability, snapshots
from gpucloud_sandbox.azure.subscription import (
    ADDRESS,
    AVAILABILITY,
    FIREWALL,
    NETWORK,
    NIC,
    SNAPSHOT,
    Subscription,
    canonical,
    part,
    shown,
)
from gpucloud_sandbox.database import Document

_DEFAULT_RULES = (
    ("AllowVnetInBound", ("Allow", "Inbound", 65000, "VirtualNetwork", "VirtualNetwork")),
    ("AllowAzureLoadBalancerInBound", ("Allow", "Inbound", 65001, "AzureLoadBalancer", "*")),
    ("DenyAllInBound", ("Deny", "Inbound", 65500, "*", "*")),
    ("AllowVnetOutBound", ("Allow", "Outbound", 65000, "VirtualNetwork", "VirtualNetwork")),
    ("AllowInternetOutBound", ("Allow", "Outbound", 65001, "*", "Internet")),
    ("DenyAllOutBound", ("Deny", "Outbound", 65500, "*", "*")),
)
"""Name; access, direction, priority, source, destination.

Source: https://learn.microsoft.com/azure/virtual-network/network-security-groups-overview
"""
_CHOICES = ("access", "direction", "priority", "sourceAddressPrefix", "destinationAddressPrefix")


def seen(subscription: Subscription, document: Document) -> Document:
    """A resource as Azure answers it."""
    answer = shown(document)
    more: Document = {}
    if document["type"] == ADDRESS:
        users = [id_ for id_, properties in _configurations(subscription) if _uses(properties, document)]
        more = {"ipConfiguration": {"id": users[0]}} if users else {}
    elif document["type"] == FIREWALL:
        rules = [_default_rule(document, name, choices) for name, choices in _DEFAULT_RULES]
        more = {"defaultSecurityRules": rules, **_guarded(subscription, document)}
    elif document["type"] == NETWORK:
        more = {"subnets": [_with_users(subscription, each) for each in _subnets(document)]}
    elif document["type"] == SNAPSHOT:
        more = {"completionPercent": snapshots.progress(subscription, document)}
    elif document["type"] == AVAILABILITY:
        more = {
            "virtualMachines": [
                {"id": each["id"]} for each in availability.members_of(subscription, document)
            ]
        }
    return {**answer, "properties": {**answer["properties"], **more}}


def _configurations(subscription: Subscription) -> Iterator[tuple[str, Document]]:
    for nic in subscription.all(NIC).values():
        for each in part(nic, "properties").get("ipConfigurations") or ():
            yield each["id"], part(each, "properties")


def _uses(configuration: Document, address: Document) -> bool:
    used = part(configuration, "publicIPAddress").get("id", "")
    return bool(used) and canonical(used) == canonical(address["id"])


def _subnets(network: Document) -> list[Document]:
    return list(part(network, "properties").get("subnets") or ())


def _with_users(subscription: Subscription, subnet: Document) -> Document:
    users = [
        {"id": id_}
        for id_, properties in _configurations(subscription)
        if str(part(properties, "subnet").get("id", "")).lower() == subnet["id"].lower()
    ]
    return {
        **subnet,
        "properties": {**subnet["properties"], **({"ipConfigurations": users} if users else {})},
    }


def _default_rule(firewall: Document, name: str, choices: tuple[object, ...]) -> Document:
    return {
        "id": f"{firewall['id']}/defaultSecurityRules/{name}",
        "name": name,
        "type": f"{FIREWALL}/defaultSecurityRules",
        "etag": firewall["etag"],
        "properties": {
            "provisioningState": "Succeeded",
            "protocol": "*",
            "sourcePortRange": "*",
            "destinationPortRange": "*",
            **dict(zip(_CHOICES, choices, strict=True)),
        },
    }


def _guarded(subscription: Subscription, firewall: Document) -> Document:
    def guards(each: Document) -> bool:
        used = part(each, "properties", "networkSecurityGroup").get("id", "")
        return bool(used) and canonical(used) == canonical(firewall["id"])

    subnets = [each for network in subscription.all(NETWORK).values() for each in _subnets(network)]
    guarded = {
        "networkInterfaces": [{"id": each["id"]} for each in subscription.all(NIC).values() if guards(each)],
        "subnets": [{"id": each["id"]} for each in subnets if guards(each)],
    }
    return {name: ids for name, ids in guarded.items() if ids}
