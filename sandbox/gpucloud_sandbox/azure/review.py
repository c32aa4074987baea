"""Requests that Azure would accept and a careful reviewer would not: the sandbox refuses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Any

from gpucloud_sandbox.addresses import are_the_world
from gpucloud_sandbox.azure.subscription import part, tags_of
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.review import reviewer

TAGS = tuple(f"gpucloud:{name}" for name in ("owner", "box", "op", "run", "expires"))
PURCHASES = ("microsoft.capacity/", "microsoft.billingbenefits/", "microsoft.compute/capacityreservation")
"""What commits to pay. gpucloud must not be able to send it."""
WORLD = frozenset({"*", "any", "internet"})
"""The words for all addresses; Azure reads them without case.

Source: https://learn.microsoft.com/azure/virtual-network/service-tags-overview
"""


def refusal(what: str) -> AzureError:
    """The sandbox's own no, in the form of Azure's."""
    return AzureError("RequestDisallowedByPolicy", f"Refused by the gpucloud sandbox: {what}", 403)


@reviewer
def review_action(method: str, path: str) -> None:
    """Refuses every purchase."""
    bought = any(f"/providers/{each}" in path.lower() for each in PURCHASES)
    if method in {"PUT", "PATCH", "POST", "DELETE"} and bought:
        raise refusal(f"{method} {path} commits to pay")


@reviewer
def review_tags(body: Json, what: str) -> None:
    """Refuses a resource without an owner's tag."""
    tags = tags_of(body)
    missing = [tag for tag in TAGS if tag not in tags]
    if missing:
        raise refusal(f"{what} lacks the tags {', '.join(missing)}")


def sources_of(rule: Mapping[str, Any]) -> list[str]:
    """From where a rule is about: addresses, networks, and words."""
    single, several = rule.get("sourceAddressPrefix"), rule.get("sourceAddressPrefixes")
    return [source for source in (single, *(several or ())) if source]


def is_block(source: str) -> bool:
    """Whether a source is an address or a network, not a word."""
    try:
        ip_network(source, strict=False)
    except ValueError:  # a word
        return False
    return True


@reviewer
def review_ingress(rules: Iterable[Mapping[str, Any]]) -> None:
    """Refuses a group that lets in the world, on whatever ports.

    Args:
        rules: the properties of its rules, with enumerations as Azure writes them.
    """
    sources = [
        source
        for rule in rules
        if rule["access"] == "Allow" and rule["direction"] == "Inbound"
        for source in sources_of(rule)
    ]
    if are_the_world(filter(is_block, sources)) or any(source.lower() in WORLD for source in sources):
        raise refusal(f"ingress from {', '.join(sources)} lets in the world")


@reviewer
def review_machine(body: Json) -> None:
    """Refuses a machine that takes passwords, is untagged, or leaves something behind."""
    review_tags(body, "the virtual machine")
    _review_profile(part(body, "properties"))
    if part(body, "properties", "storageProfile", "osDisk").get("deleteOption") != "Delete":
        raise refusal("the disk stays when the machine is deleted: its deleteOption is not Delete")
    profile = part(body, "properties", "networkProfile")
    named: list[Json] = profile.get("networkInterfaces") or []
    for nic in named + (profile.get("networkInterfaceConfigurations") or []):
        if part(nic, "properties").get("deleteOption") != "Delete":
            raise refusal("an interface stays when the machine is deleted: its deleteOption is not Delete")


@reviewer
def review_scale_set(body: Json) -> None:
    """Refuses a scale set whose machines take passwords, are untagged, or leave something behind."""
    review_tags(body, "the scale set")
    _review_profile(part(body, "properties", "virtualMachineProfile"))


def _review_profile(profile: Json) -> None:
    if part(profile, "osProfile", "linuxConfiguration").get("disablePasswordAuthentication") is not True:
        raise refusal("the machine takes passwords")
    if profile.get("priority") == "Spot" and profile.get("evictionPolicy") != "Delete":
        raise refusal("an evicted machine goes on billing its disk: evictionPolicy is not Delete")


@reviewer
def review_nic(body: Json) -> None:
    """Refuses an interface whose address outlives it, or that no firewall guards."""
    review_tags(body, "the network interface")
    if not part(body, "properties", "networkSecurityGroup").get("id"):
        raise refusal("the interface has no network security group")
    for each in part(body, "properties").get("ipConfigurations") or ():
        address = part(each, "properties", "publicIPAddress")
        if address and part(address, "properties").get("deleteOption") != "Delete":
            raise refusal("an address stays when its interface is deleted: its deleteOption is not Delete")
