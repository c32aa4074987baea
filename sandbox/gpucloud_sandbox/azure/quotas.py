"""How much the subscription may rent in a region: vCPUs of each family, of all, and of Spot."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpucloud_sandbox.azure.subscription import CLOUD, MACHINE, Subscription
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.database import Document

DEFAULT = 20000
REGIONAL, SPOT = "cores", "lowPriorityCores"
_WORDS = {REGIONAL: "Total Regional Cores", SPOT: "LowPriorityCores"}


def family_of(size: str) -> str:
    """The quota family of a size, in the manner of Azure's: ``standardNCasT4v3Family``.

    Azure's own names follow no rule (``standardNCADSA100v4Family``, ``Standard NCASv3_T4 Family``).
    """
    name = size.removeprefix("Standard_")
    head, _, rest = name.partition("_")
    return f"standard{re.sub(r'[0-9]+', '', head, count=1)}{rest.replace('_', '')}Family"


def used(subscription: Subscription, region: str, name: str) -> int:
    """The vCPUs that count against a quota now. Deallocated machines count on (facts of Azure)."""
    types = subscription.world.market.catalog(CLOUD).types
    total = 0
    for machine in subscription.all(MACHINE).values():
        size = machine["_size"]
        if (
            machine["location"] != region
            or machine["_failed"]
            or name not in names_for(size, machine["_purchase"])
        ):
            continue
        total += types[size].vcpus
    return total


def names_for(size: str, purchase: str) -> tuple[str, ...]:
    """The quotas that a machine counts against."""
    return {"spot": (SPOT,), "reserved": ()}.get(purchase, (family_of(size), REGIONAL))


def limit_of(subscription: Subscription, region: str, name: str) -> int:
    """A quota's limit."""
    kept = subscription.all("quota").get(f"{region} {name}".lower())
    return kept["limit"] if kept else DEFAULT


def set_limit(subscription: Subscription, region: str, name: str, limit: int) -> None:
    """Sets a quota's limit."""
    subscription.keep("quota", f"{region} {name}".lower(), {"limit": limit})


def check(
    subscription: Subscription, region: str, size: str, purchase: str, *, but: str = "", count: int = 1
) -> None:
    """Refuses what is more than the subscription may rent.

    Args:
        subscription: the subscription.
        region: where.
        size: of the machine.
        purchase: how it is paid.
        but: the size that the machine has so far.
        count: how many machines.
    """
    types = subscription.world.market.catalog(CLOUD).types
    for name in names_for(size, purchase):
        given_up = types[but].vcpus if but and name in names_for(but, purchase) else 0
        vcpus = types[size].vcpus * count - given_up
        limit, taken = limit_of(subscription, region, name), used(subscription, region, name)
        if taken + vcpus > limit:
            words = _WORDS.get(name, f"{name} Cores")
            text = (
                f"Operation could not be completed as it results in exceeding approved {words} quota. "
                f"Additional details - Deployment Model: Resource Manager, Location: {region}, "
                f"Current Limit: {limit}, Current Usage: {taken}, Additional Required: {vcpus}, "
                f"(Minimum) New Limit Required: {taken + vcpus}. Setup Alerts when Quota reaches "
                "threshold. Learn more at https://aka.ms/quotamonitoringalerting . Submit a request for "
                "Quota increase at https://aka.ms/ProdportalCRP/ by specifying parameters listed in the "
                "'Details' section for deployment to succeed. Please read more about quota limits at "
                "https://docs.microsoft.com/en-us/azure/azure-supportability/per-vm-quota-requests"
            )
            raise AzureError("OperationNotAllowed", text, 409)


def usages(subscription: Subscription, region: str, sizes: Iterable[str]) -> list[Document]:
    """The list of usages of a region."""
    names = [REGIONAL, SPOT, *sorted({family_of(size) for size in sizes})]
    return [
        {
            "unit": "Count",
            "currentValue": used(subscription, region, name),
            "limit": limit_of(subscription, region, name),
            "name": {"value": name, "localizedValue": _WORDS.get(name, name)},
        }
        for name in names
    ]
