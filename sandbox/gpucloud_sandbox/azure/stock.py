"""How many machines a place has left."""

from __future__ import annotations

from gpucloud_sandbox.azure.subscription import CLOUD, MACHINE, Subscription

Failure = tuple[str, str]
"""Azure's code and words."""


def _failure(code: str, where: str) -> Failure:
    text = (
        f"Allocation failed. We do not have sufficient capacity for the requested VM size in this {where}. "
        "Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance"
    )
    return code, text


NO_PLACE = _failure("AllocationFailed", "region")


def shortage(
    subscription: Subscription, *, location: str, zone: str, size: str, purchase: str
) -> Failure | None:
    """The code and words with which an allocation fails; ``None`` where there is a place."""
    limit = subscription.world.market.limit(CLOUD, location, zone, size, purchase)
    taken = sum(
        (each["location"], each["_zone"], each["_size"], each["_purchase"])
        == (location, zone, size, purchase)
        and not each["_failed"]
        and each["_power"] != "deallocated"
        for each in subscription.all(MACHINE).values()
    )
    if limit is None or taken < limit:
        return None
    code = {
        (False, False): "AllocationFailed",
        (True, False): "ZonalAllocationFailed",
        (False, True): "OverconstrainedAllocationRequest",
        (True, True): "OverconstrainedZonalAllocationRequest",
    }[bool(zone), purchase == "spot"]
    return _failure(code, "zone" if zone else "region")
