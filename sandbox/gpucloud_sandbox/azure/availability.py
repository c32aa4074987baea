"""Availability sets: machines of one set are spread over fault domains and update domains.

Codes and words: "Understand common error messages when you manage virtual machines in Azure" (azure-docs),
except where marked.
"""

from __future__ import annotations

from gpucloud_sandbox.azure.quotas import family_of
from gpucloud_sandbox.azure.stock import NO_PLACE, Failure
from gpucloud_sandbox.azure.subscription import AVAILABILITY, MACHINE, Subscription, canonical, part, tail
from gpucloud_sandbox.azure.wire import AzureError, Json
from gpucloud_sandbox.database import Document

THREE_FAULT_DOMAINS = {
    *("brazilsouth", "canadacentral", "centralindia", "centralus", "eastus", "eastus2", "francecentral"),
    *("japaneast", "northcentralus", "northeurope", "southcentralus", "swedencentral", "westeurope"),
    *("westus", "westus2", "westus3"),
}
"""Regions with three fault domains; the others have two.

Source: max_fault_domain_count.json of Azure/sap-automation.
"""
MOST_UPDATE_DOMAINS = 20
MOST_MACHINES = 200
"""Of one set. Source: azure-docs, azure-subscription-service-limits.md."""
_DEFAULTS = {"platformFaultDomainCount": 2, "platformUpdateDomainCount": 5}
"""UNVERIFIED for fault domains."""


def make_set(subscription: Subscription, document: Document, body: Json) -> None:
    """The rules of an availability set."""
    old = subscription.find(AVAILABILITY, document["id"])
    properties = document["properties"]
    kept = {name: old["properties"][name] for name in _DEFAULTS} if old else _DEFAULTS
    counts = {name: properties.setdefault(name, default) for name, default in kept.items()}
    most = {
        "platformFaultDomainCount": 3 if document["location"] in THREE_FAULT_DOMAINS else 2,
        "platformUpdateDomainCount": MOST_UPDATE_DOMAINS,
    }
    for name, count in counts.items():
        if not 1 <= count <= most[name]:
            what = "fault" if "Fault" in name else "update"
            text = f"The specified {what} domain count {count} must fall in the range 1 to {most[name]}."
            raise AzureError("InvalidParameter", text)
        if old is not None and count != old["properties"][name]:
            text = f"Changing property '{name}' is not allowed."
            raise AzureError("PropertyChangeNotAllowed", text, 409)  # UNVERIFIED: code
    sku = part(body, "sku").get("name") or (old["sku"]["name"] if old else "Classic")
    if old is not None and (old["sku"]["name"], sku) == ("Aligned", "Classic"):
        text = "Changing availability set SKU from 'Aligned' to 'Classic' is not allowed."
        raise AzureError("OperationNotAllowed", text, 409)
    document["sku"] = {"name": sku}


def members_of(subscription: Subscription, set_: Document) -> list[Document]:
    """The machines in a set."""
    return [each for each in subscription.all(MACHINE).values() if _set_of(each) == canonical(set_["id"])]


def _set_of(machine: Json) -> str | None:
    id_ = part(machine, "properties", "availabilitySet").get("id")
    return canonical(id_) if id_ else None


def place(subscription: Subscription, machine_id: str, machine: Json) -> Json:
    """The domains that a new machine gets, as its instance view shows them; nothing outside a set.

    Args:
        subscription: the subscription.
        machine_id: the machine's id.
        machine: its body.

    Raises:
        AzureError: the set is not there, elsewhere, full or of unmanaged disks, or excludes such a machine.
    """
    id_ = part(machine, "properties", "availabilitySet").get("id")
    if id_ is None:
        return {}
    _check_alone(machine)
    set_ = subscription.find(AVAILABILITY, id_)
    beside = set_ is not None and _group(set_["id"]) == _group(machine_id)
    if set_ is None or not beside or set_["location"] != machine["location"]:
        raise AzureError("NotFound", f"The Availability Set {tail(id_)} cannot be found.", 404)
    if set_["sku"]["name"] != "Aligned":
        text = (
            "Addition of a VM with managed disks to non-managed Availability Set or addition of a VM with "
            "blob based disks to managed Availability Set is not supported. Please create an Availability "
            "Set with 'Aligned' SKU in order to add a VM with managed disks to it."
        )
        raise AzureError("BadRequest", text)
    theirs = [each["_domains"] for each in members_of(subscription, set_)]
    if len(theirs) >= MOST_MACHINES:
        text = f"The maximum number of VMs in an availability set is {MOST_MACHINES}."
        raise AzureError("OperationNotAllowed", text, 409)  # UNVERIFIED: code and words
    return {
        name: _emptiest([each[name] for each in theirs], set_["properties"][f"{name}Count"])
        for name in ("platformFaultDomain", "platformUpdateDomain")
    }


def _check_alone(machine: Json) -> None:
    """Passes a machine of a set that asks for nothing that a set excludes.

    Source: azure-compute-docs, error-codes-spot.md and capacity-reservation-overview.md.
    """
    properties = part(machine, "properties")
    if properties.get("priority") == "Spot":
        raise AzureError(
            "AzureSpotVMNotSupportedInAvailabilitySet",
            "Azure Spot Virtual Machine is not supported in Availability Set.",
            409,  # UNVERIFIED: status
        )
    if properties.get("capacityReservation"):
        text = "A virtual machine in an Availability Set cannot use a capacity reservation group."
        raise AzureError("BadRequest", text)  # UNVERIFIED: code and words
    if machine.get("zones"):
        text = (
            "Virtual Machine cannot be created because both Availability Zone and Availability Set were "
            "specified. Deploying an Availability Set to an Availability Zone isn't supported."
        )
        raise AzureError("BadRequest", text)  # UNVERIFIED: code; words terraform-provider-azurerm#2246


def pinned(subscription: Subscription, machine: Json, size: str) -> Failure | None:
    """Why a set's hardware does not take a machine; ``None`` where it does, and outside a set.

    The first machine of a set pins the cluster of hardware that all others must be on. Source: azure-docs,
    allocation-failure.md ("Allocation scenarios that are pinned"). Which sizes share a cluster is not
    documented: here those of one quota family do.
    """
    id_ = part(machine, "properties", "availabilitySet").get("id")
    set_ = subscription.find(AVAILABILITY, id_) if id_ else None
    placed = [
        each
        for each in (members_of(subscription, set_) if set_ else ())
        if not each["_failed"] and each["_power"] != "deallocated"
    ]
    return NO_PLACE if any(family_of(each["_size"]) != family_of(size) for each in placed) else None


def _group(id_: str) -> str:
    return id_.split("/")[4].lower()


def _emptiest(taken: list[int], count: int) -> int:
    """The first of so many domains that has the fewest machines."""
    return min(range(count), key=taken.count)


def delete_set(subscription: Subscription, set_: Document) -> None:
    """DELETE of an availability set."""
    if members_of(subscription, set_):
        text = (
            f"Availability Set '{set_['name']}' cannot be deleted. Before deleting an Availability Set "
            "please ensure that it does not contain any VM."
        )
        raise AzureError("OperationNotAllowed", text, 409)
    subscription.drop(AVAILABILITY, set_["id"])
