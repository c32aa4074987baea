"""Reservations of the tenant. The sandbox's control grants them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpucloud_sandbox.azure import permissions
from gpucloud_sandbox.azure.places import offered
from gpucloud_sandbox.azure.subscription import Subscription
from gpucloud_sandbox.clock import end_of
from gpucloud_sandbox.database import Document

PATH = ("providers", "microsoft.capacity", "reservations")
_KIND = "reserved"
_READ = "Microsoft.Capacity/reservationOrders/reservations/read"


def grant(subscription: Subscription, values: Mapping[str, Any]) -> str:
    """Gives the tenant a reservation, and its id.

    Args:
        subscription: the tenant's only one.
        values: ``region``, ``instance_type``, ``until`` (the last day), ``count``, and ``scope`` (an id of a
            subscription or a resource group) for what it is for alone.

    Raises:
        ValueError: the region does not have the size.
    """
    region, size = values["region"], values["instance_type"]
    if offered(subscription, region, size) is None:
        raise ValueError(f"{region} has no {size}")
    order, name, end = subscription.new_uuid(), subscription.new_uuid(), end_of(values["until"])
    scope = values.get("scope")
    subscription.keep(
        _KIND,
        name,
        {
            "id": f"/providers/Microsoft.Capacity/reservationOrders/{order}/reservations/{name}",
            "name": name,
            "type": "Microsoft.Capacity/reservations",
            "kind": "Microsoft.Compute",
            "location": region,
            "sku": {"name": size},
            "properties": {
                "reservedResourceType": "VirtualMachines",
                "instanceFlexibility": "Off",
                "displayName": f"VM_RI_{name[:8]}",
                "quantity": int(values.get("count", 1)),
                "appliedScopeType": "Single" if scope else "Shared",
                "appliedScopes": [scope] if scope else None,
                "effectiveDateTime": subscription.moment,
                "expiryDate": end.date().isoformat(),
                "expiryDateTime": end.isoformat(),
                "term": "P1Y",
            },
        },
    )
    return name


def seen(subscription: Subscription) -> list[Document]:
    """The reservations, as Microsoft.Capacity lists them: none for who may not read them."""
    if subscription.principal is not None or not permissions.allows(subscription, _READ):
        return []
    return [_shown(each, subscription.now) for each in subscription.all(_KIND).values()]


def _shown(document: Document, now: datetime) -> Document:
    properties = document["properties"]
    over = datetime.fromisoformat(properties["expiryDateTime"]) <= now
    state = "Expired" if over else "Succeeded"
    told = {"provisioningState": state, "displayProvisioningState": state}
    return {**document, "properties": {**properties, **told}}
