"""Capacity that is held: groups of one reservation each, which only the sandbox's own control makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.azure.subscription import (
    MACHINE,
    RESERVATIONS,
    SUBSCRIPTION,
    Subscription,
    canonical,
)
from gpucloud_sandbox.database import Document

HELD = "held"


def grant(subscription: Subscription, values: Mapping[str, Any]) -> str:
    """Grants a reservation (``region``, ``zone``, ``instance_type``, ``count``); returns its group's id."""
    zone = values.get("zone") or ""
    name = f"held-{subscription.world.token(8)}"
    id_ = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/reserved/providers/{RESERVATIONS}/{name}"
    subscription.put(
        RESERVATIONS,
        {
            "id": id_,
            "name": name,
            "type": RESERVATIONS,
            "location": values["region"],
            **({"zones": [zone]} if zone else {}),
            "tags": {},
            "properties": {"capacityReservations": [{"id": f"{id_}/capacityReservations/{HELD}"}]},
            "_size": values["instance_type"],
            "_count": int(values.get("count", 1)),
            "_created": subscription.moment,
        },
    )
    return id_


def left(subscription: Subscription, group: Document) -> int:
    """How much of a reservation is free."""
    count: int = group["_count"]
    return max(0, count - len(_taken(subscription, group)))


def _taken(subscription: Subscription, group: Document) -> list[Document]:
    return [
        each
        for each in subscription.all(MACHINE).values()
        if each["_reservation"] == canonical(group["id"]) and not each["_failed"]
    ]


def listed(subscription: Subscription, group: Document) -> list[Document]:
    """The one reservation of a group."""
    usage = {
        "currentCapacity": group["_count"],
        "virtualMachinesAllocated": [{"id": each["id"]} for each in _taken(subscription, group)],
    }
    return [
        {
            "id": f"{group['id']}/capacityReservations/{HELD}",
            "name": HELD,
            "type": f"{RESERVATIONS}/capacityReservations",
            "location": group["location"],
            **({"zones": group["zones"]} if group.get("zones") else {}),
            "sku": {"name": group["_size"], "capacity": group["_count"]},
            "properties": {
                "provisioningState": "Succeeded",
                "instanceView": {"utilizationInfo": usage},
            },
        }
    ]
