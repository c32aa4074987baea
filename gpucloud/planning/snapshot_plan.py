"""The plans of snapshots: of a volume or a stopped box, and of a volume that is made of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from gpucloud.costs.resource_prices import SNAPSHOT, billed_copy, listed_snapshot_price, most_per_hour
from gpucloud.errors import UsageError
from gpucloud.journal.facts import Ceiling, Place, Price
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Snapshot, Volume
from gpucloud.planning.volume_plan import HOURS_PER_DAY, check_keep
from gpucloud.resources import ResourceKind
from gpucloud.spec.file import load_spec
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market
from gpucloud_pricing.places import opt_in_head
from gpucloud_pricing.purchases import HOURS_PER_MONTH
from gpucloud_pricing.values import Money
from gpucloud_templates.software import is_own


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """A snapshot before it is made.

    Attributes:
        name: its name.
        source: the volume or box that it is made of.
        place: where it is kept: a region, without a zone.
        size_gib: the size of the disk, which is the most that it can hold.
        keep: how long it is kept.
        listed: the list price of snapshots in its region.
        ceiling: the most that it costs per hour; budgets count it until it is made.
        billed: the kind of resource that is billed for it.
        arch: the architecture of the machines that can boot it; empty for a volume.
    """

    name: str
    source: Volume | Box
    place: Place
    size_gib: int
    keep: timedelta
    listed: Mapping[str, Price]
    ceiling: Ceiling
    billed: ResourceKind
    arch: str = ""

    @property
    def most_per_day(self) -> Money | None:
        """The most that it costs per day: a cloud bills what is written; ``None`` if its price is unknown."""
        price = self.listed.get(SNAPSHOT)
        if price is None:
            return None
        amount = price.amount * self.size_gib * HOURS_PER_DAY / HOURS_PER_MONTH
        return Money(amount=round(amount, 6), currency=price.currency)


def plan_snapshot(market: Market, source: Holding, *, name: str, keep: timedelta) -> SnapshotPlan:
    """Plans a snapshot of a volume or of the root disk of a stopped box, in its region.

    Raises:
        UsageError: the name is not possible, the source cannot be copied, or it is kept too briefly.
    """
    load_spec(None, {"name": name})  # its names are those of all holdings
    check_keep(keep)
    kind = None
    if isinstance(source, Box):
        if not is_own(name):
            raise UsageError(f"{name!r} names a recipe of --image", hint="choose another name")
        _refuse_uncopyable(source)
        kind = market.types.get((source.cloud, source.offer.instance_type)) if source.offer else None
    elif not isinstance(source, Volume):
        raise UsageError(f"--of: {source.name!r} is a {source.kind}", hint="name a volume, or a stopped box")
    elif source.state is not BoxState.READY:
        raise _cannot(source, f"its state is {source.state}")
    place, size = source.place, source.disk_gib
    if place is None or size is None:
        raise _cannot(source, "its size is unknown")
    listed = listed_snapshot_price(market, place.cloud, place.region, source.currency)
    return SnapshotPlan(
        name=name,
        source=source,
        place=replace(place, zone=None),
        size_gib=size,
        keep=keep,
        listed=listed,
        ceiling=most_per_hour(market, place.cloud, listed.get(SNAPSHOT), size),
        billed=billed_copy(market, place.cloud, bootable=isinstance(source, Box)),
        arch=kind.arch if kind else "",
    )


def _refuse_uncopyable(box: Box) -> None:
    """Refuses a box whose root disk cannot be copied as it is.

    Raises:
        UsageError: says why.
    """
    if len(box.nodes) > 1:
        raise _cannot(box, f"it has {len(box.nodes)} nodes")
    if box.state is BoxState.READY:
        raise _cannot(box, "it runs", f"stop it before: gpucloud stop {box.name}")
    if box.state is not BoxState.STOPPED:
        raise _cannot(box, f"its state is {box.state}")


def _cannot(source: Volume | Box, reason: str, hint: str | None = None) -> UsageError:
    """The error for a volume or a box that cannot be copied."""
    listed = "gpucloud list" if isinstance(source, Box) else "gpucloud volume list"
    return UsageError(
        f"{source.kind} {source.name!r} cannot be copied: {reason}", hint=hint or f"list them: {listed}"
    )


def spec_near(market: Market, snapshot: Snapshot, *, name: str, gpu: str | None, zone: str | None) -> Spec:
    """The places in which a volume can be filled from a snapshot: those of its region.

    Args:
        market: the regions and their zones.
        snapshot: the snapshot.
        name: the name of the volume.
        gpu: a GPU that is to be near; ``None`` for any.
        zone: the zone; ``None`` for that of the volume of which the snapshot was made, or, with a GPU, any.

    Raises:
        UsageError: the snapshot is not there, or the zone is not in its region.
    """
    place = snapshot.place
    if snapshot.state is not BoxState.READY or place is None:
        raise UsageError(
            f"snapshot {snapshot.name!r} cannot be restored: its state is {snapshot.state}",
            hint="list them: gpucloud snapshot list",
        )
    if snapshot.bootable:
        raise UsageError(
            f"snapshot {snapshot.name!r} is of a box, and makes no volume",
            hint=f"boot a box from it: gpucloud launch --image {snapshot.name}",
        )
    region = market.regions.get((place.cloud, place.region))
    if zone and region and zone not in region.zones:
        raise UsageError(
            f"--zone: {zone} is not in {place.cloud} {place.region}, where the snapshot is",
            hint=f"zones: {', '.join(each for each in region.zones if not opt_in_head(each, region))}",
        )
    known = None if gpu else snapshot.of_zone
    where = {"zones": [zone or known]} if zone or known else {}
    places = {"clouds": [place.cloud], "regions": [place.region], **where}
    return load_spec(None, {"name": name, "gpu": gpu, **places})


def size_of(snapshot: Snapshot, size_gib: int | None) -> int:
    """The size of a volume that is filled from a snapshot: by default, that of the one it was made of.

    Raises:
        UsageError: it is smaller, or unknown.
    """
    least = snapshot.disk_gib
    if least is None:
        raise UsageError(f"the size of snapshot {snapshot.name!r} is unknown", hint="gpucloud recover")
    if size_gib is not None and size_gib < least:
        raise UsageError(f"--size: a volume of snapshot {snapshot.name!r} has at least {least} GiB")
    return size_gib or least
