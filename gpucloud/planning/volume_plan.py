"""The plan of a volume: where it is made, what it costs, and for how long it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from gpucloud.clouds.abilities import Volumes
from gpucloud.clouds.cloud import Cloud
from gpucloud.costs.resource_prices import DISK, listed_prices, most_per_hour
from gpucloud.errors import NoOfferError, UsageError
from gpucloud.journal.facts import Ceiling, Place, Price
from gpucloud.journal.records import Snapshot
from gpucloud.market.search import search
from gpucloud.planning.access import CloudAccess
from gpucloud.planning.permitted import permitted
from gpucloud.planning.plan import Candidate
from gpucloud.planning.planner import candidates_of
from gpucloud.runtime.context import Context
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.billing import Billing
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Money

KEEP = timedelta(days=30)
"""How long a volume is kept after its last use by default."""
LEAST_KEEP = timedelta(hours=1)
HOURS_PER_DAY = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """A volume before it is made.

    Attributes:
        name: its name.
        place: where it is made.
        size_gib: its size.
        keep: how long it is kept after its last use.
        listed: the list prices of its region, as of a box.
        ceiling: what it costs per hour; budgets count it until it is made.
        snapshot: what it is filled from; ``None`` for a blank volume.
    """

    name: str
    place: Place
    size_gib: int
    keep: timedelta
    listed: Mapping[str, Price]
    ceiling: Ceiling
    snapshot: Snapshot | None = None

    def per_day(self, billing: Billing) -> Money | None:
        """What it costs per day; ``None`` if its price is unknown."""
        price = self.listed.get(DISK)
        if price is None:
            return None
        gib_months = billing.disk_gib(self.size_gib) * HOURS_PER_DAY / HOURS_PER_MONTH
        return Money(amount=round(price.amount * gib_months, 6), currency=price.currency)


def plan_volume(
    context: Context,
    market: Market,
    near: Spec,
    *,
    name: str,
    size_gib: int,
    keep: timedelta,
    snapshot: Snapshot | None = None,
) -> VolumePlan:
    """Plans a volume in the place of the cheapest machine that matches a spec, so that one can use it.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: the offers and the prices of disks.
        near: its GPU, if any, and its clouds, regions and zones.
        name: the name of the volume.
        size_gib: its size.
        keep: how long it is kept after its last use.
        snapshot: what it is filled from; ``None`` for a blank volume.

    Raises:
        UsageError: it is kept too briefly, or its cloud does not sell that size.
        NoOfferError: no machine matches.
        PolicyError: the policy forbids every machine that matches.
        CloudError: no cloud can be used.
    """
    check_keep(keep)
    machine = _cheapest(context, market, near)
    return volume_beside(context, market, machine, name=name, size_gib=size_gib, keep=keep, snapshot=snapshot)


def volume_sizes_gib(cloud: Cloud) -> tuple[int, int]:
    """The least and the largest size of a volume.

    Raises:
        UsageError: this cloud holds no volumes.
    """
    volumes = cloud.ability(Volumes)
    if volumes is None:
        raise UsageError(f"{cloud.name} holds no volumes", hint="choose another --cloud")
    return volumes.volume_sizes_gib


def volume_beside(
    context: Context,
    market: Market,
    machine: Candidate,
    *,
    name: str,
    size_gib: int,
    keep: timedelta,
    snapshot: Snapshot | None = None,
) -> VolumePlan:
    """The plan of a volume in the place of a machine; the other arguments are as in :func:`plan_volume`.

    Raises:
        UsageError: its cloud does not sell that size.
        CloudError: its cloud cannot be used.
    """
    place = _place(context, machine)
    least, most = volume_sizes_gib(context.clouds.usable(place.cloud))
    if not least <= size_gib <= most:
        raise UsageError(
            f"--size: {size_gib} GiB is not possible; a volume on {place.cloud} has {least} to {most} GiB"
        )
    listed = listed_prices(market, place.cloud, place.region, size_gib, None)
    billed_gib = market.billing_of(place.cloud).disk_gib(size_gib)
    return VolumePlan(
        name=name,
        place=place,
        size_gib=size_gib,
        keep=keep,
        listed=listed,
        ceiling=most_per_hour(market, place.cloud, listed.get(DISK), billed_gib),
        snapshot=snapshot,
    )


def check_keep(keep: timedelta) -> None:
    """Refuses to keep something for so short a time that it would be deleted before it is used.

    Raises:
        UsageError: says the least time.
    """
    if keep < LEAST_KEEP:
        raise UsageError("--keep: the least time is 1h", hint="use a larger --keep")


def _cheapest(context: Context, market: Market, near: Spec) -> Candidate:
    """The cheapest machine that matches, of the clouds that can be used."""
    found = candidates_of(search(market, near.demand(), context.clock().date()).offers)
    zoned = {each.cloud for each in found if each.zone}
    # A cloud whose machines are in zones makes disks in zones alone.
    wanted = [each for each in found if each.zone or each.cloud not in zoned]
    if not wanted:
        raise NoOfferError("no offer that matches can be launched", hint="see why: gpucloud offers --why")
    wanted, _ = permitted(context.journal.rules(), market, wanted)
    access = CloudAccess(context, to_buy=True)
    while True:
        left = [each for each in wanted if each.cloud not in access.left_out]
        if not left:
            raise access.nobody()
        access.ask([left[0].cloud])
        if left[0].cloud in access.usable:
            return left[0]


def _place(context: Context, candidate: Candidate) -> Place:
    account = context.tasks.run(context.clouds.usable(candidate.cloud).account)
    return Place(cloud=candidate.cloud, account=account, region=candidate.region, zone=candidate.zone or None)
