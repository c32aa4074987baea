"""The regions, and which sizes each of them offers where."""

from __future__ import annotations

from typing import Any

from gpucloud_sandbox.azure.subscription import CLOUD, Subscription
from gpucloud_sandbox.azure.wire import AzureError


def known_locations(subscription: Subscription) -> list[str]:
    """The names of the regions."""
    return sorted(subscription.world.market.catalog(CLOUD).zones)


def check_location(subscription: Subscription, name: Any) -> str:
    """A region's name in one word.

    Raises:
        AzureError: there is none, or no such region.
    """
    if not name:
        raise AzureError("LocationRequired", "The location property is required for this definition.")
    location = str(name).replace(" ", "").lower()
    if location not in known_locations(subscription):
        text = f"The provided location '{name}' is not available for this resource type."
        raise AzureError("LocationNotAvailableForResourceType", text)
    return location


def offered(subscription: Subscription, location: str, size: str) -> frozenset[str] | None:
    """The zones in which a region offers a size; ``None`` where it does not. Some regions have no zones."""
    catalog = subscription.world.market.catalog(CLOUD)
    zones = catalog.offered.get((location, size))
    sold = any((location, "", size, way) in catalog.prices for way in ("on_demand", "spot"))
    if zones is None and not sold:
        return None
    return zones or frozenset(catalog.zones.get(location, ()))


def sizes_in(subscription: Subscription, location: str) -> list[str]:
    """The sizes that a region offers."""
    types = subscription.world.market.catalog(CLOUD).types
    return [name for name in types if offered(subscription, location, name) is not None]
