"""The rules of a demand: ``(demand, offer) -> reason | None``. An offer without a reason matches.

Rules about a type alone take any value with a type's attributes, so that a search applies them once per type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Protocol, TypeVar

from gpucloud_pricing.demand import ANY_RDMA, INTERCONNECTS, NO_RDMA, Demand
from gpucloud_pricing.gpu_models import BY_NAME
from gpucloud_pricing.gpus import GpuRequirement, format_count, format_requirement
from gpucloud_pricing.places import admits, admits_type, names_specially, opt_in_head, region_names
from gpucloud_pricing.purchases import KINDS, Purchase
from gpucloud_pricing.values import InstanceType, Note, Offer, Region

T = TypeVar("T")
MOVING_STALE_DAYS = 30
LIST_STALE_DAYS = 3 * 365
STALE = "stale"
"""The flag of a price that is too old to rely on: of spot after 30 days, of lists after three years."""
HIDDEN = frozenset({"retired", "confidential", "no_public_on_demand"})
NEEDS_GRID = "needs_grid"
"""The flag of a type, mostly of vGPUs, where only NVIDIA's GRID driver works."""
FLAGGED = frozenset({"no_new_capacity", "not_in_api_dump", "announced_size", NEEDS_GRID})
IMPLAUSIBLE = "implausible"
"""The flag of a price that is far from all known prices of its GPU, or out of line with its region."""
BELOW_REGION = "below_region"
"""The flag of a spot price under half of the median of its region's zones."""
ABOVE_ON_DEMAND = "above_on_demand"
"""The flag of a spot price above the on-demand price of its region."""
PRICE_FLAGS = frozenset({STALE, IMPLAUSIBLE, BELOW_REGION, ABOVE_ON_DEMAND})
"""The flags of a price, not of a type: a price that the cloud quotes today replaces them."""
_TOLERANCE = Decimal("0.000002")  # the data writes 1/6 as 0.166667


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferPlace:
    """The place of an offer; ``names`` are those that a demand's ``regions`` may match."""

    region: Region
    zone: str | None
    names: frozenset[str]


def place_of(region: Region, zone: str | None) -> OfferPlace:
    """A place; a group of Local Zones can be requested like a region."""
    names = region_names(region)
    if zone is not None and opt_in_head(zone, region) is not None:
        names |= {zone}
    return OfferPlace(region=region, zone=zone, names=names)


class HasGpus(Protocol):
    """The attributes of GPUs: their model, count, and the memory of each."""

    @property
    def gpu_model(self) -> str:
        """A name of the vocabulary."""
        ...

    @property
    def gpu_count(self) -> Decimal:
        """The number of GPUs; a share is below 1."""
        ...

    @property
    def gpu_memory_gib(self) -> Decimal:
        """The memory of one whole GPU."""
        ...


class _Hardware(HasGpus, Protocol):
    """The attributes for rules about a type."""

    @property
    def name(self) -> str: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def memory_gib(self) -> Decimal: ...
    @property
    def interconnect(self) -> str: ...
    @property
    def rdma(self) -> str: ...
    @property
    def arch(self) -> str: ...


def gpu(demand: Demand, box: _Hardware) -> str | None:
    """One of the alternatives must match; without any, whole GPUs, or the share of a type named in full."""
    if demand.gpus:
        if any(grants(requirement, box) for requirement in demand.gpus):
            return None
        return f"has {describe_gpus(box)}, wanted {' or '.join(map(format_requirement, demand.gpus))}"
    if box.gpu_count >= 1 or box.name.lower() in map(str.lower, demand.instance_types):
        return None
    return f"has {describe_gpus(box)}; a share must be asked for"


def instance_type(demand: Demand, box: _Hardware) -> str | None:
    """The types of the demand."""
    if not demand.instance_types or admits_type(demand.instance_types, box.name):
        return None
    return f"{box.name} is not among {_list(demand.instance_types)}"


def gpu_memory(demand: Demand, box: _Hardware) -> str | None:
    """Memory of each GPU, or of the share."""
    least, has = demand.gpu_memory_gib, box.gpu_memory_gib * min(box.gpu_count, Decimal(1))
    return None if least is None or has >= least else f"{_short(has)} GiB on each GPU, wanted {least}"


def total_gpu_memory(demand: Demand, box: _Hardware) -> str | None:
    """Memory of all GPUs of the instance."""
    least, has = demand.total_gpu_memory_gib, box.gpu_memory_gib * box.gpu_count
    return (
        None if least is None or has >= least else f"{_short(has)} GiB of GPU memory in all, wanted {least}"
    )


def cpus(demand: Demand, box: _Hardware) -> str | None:
    """Number of vCPUs."""
    return (
        None
        if demand.cpus is None or box.vcpus >= demand.cpus
        else f"{box.vcpus} vCPUs, wanted {demand.cpus}"
    )


def memory(demand: Demand, box: _Hardware) -> str | None:
    """Main memory."""
    least = demand.memory_gib
    return (
        None
        if least is None or box.memory_gib >= least
        else f"{_short(box.memory_gib)} GiB of memory, wanted {least}"
    )


def arch(demand: Demand, box: _Hardware) -> str | None:
    """Processor architecture."""
    return None if box.arch == demand.arch else f"{box.arch}, wanted {demand.arch}"


def interconnect(demand: Demand, box: _Hardware) -> str | None:
    """The least interconnect between the GPUs."""
    if demand.interconnect is None:
        return None
    enough = INTERCONNECTS.index(box.interconnect) >= INTERCONNECTS.index(demand.interconnect)
    return None if enough else f"GPUs joined by {box.interconnect}, wanted {demand.interconnect}"


def rdma(demand: Demand, box: _Hardware) -> str | None:
    """The network between boxes; the kinds have no order."""
    if demand.rdma in {None, NO_RDMA, box.rdma} or (demand.rdma == ANY_RDMA and box.rdma != NO_RDMA):
        return None
    return f"RDMA is {box.rdma}, wanted {demand.rdma}"


TYPE_RULES: dict[str, Callable[[Demand, _Hardware], str | None]] = {
    "gpu": gpu,
    "instance_type": instance_type,
    "gpu_memory": gpu_memory,
    "total_gpu_memory": total_gpu_memory,
    "cpus": cpus,
    "memory": memory,
    "arch": arch,
    "interconnect": interconnect,
    "rdma": rdma,
}


def cloud(demand: Demand, place: OfferPlace) -> str | None:
    """The clouds of the demand."""
    if not demand.clouds:
        return None
    name = place.region.cloud
    return None if admits(demand.clouds, frozenset({name})) else f"{name} is not among {_list(demand.clouds)}"


def region(demand: Demand, place: OfferPlace) -> str | None:
    """The regions of the demand."""
    if not demand.regions or admits(demand.regions, place.names):
        return None
    return f"{place.region.name} is not among {_list(demand.regions)}"


def residency(demand: Demand, place: OfferPlace) -> str | None:
    """The regions in which anything may be."""
    if admits(demand.residency, place.names):
        return None
    return f"{place.region.name} is outside of {_list(demand.residency)}, the residency"


def zone(demand: Demand, place: OfferPlace) -> str | None:
    """The zones of the demand."""
    if not demand.zones:
        return None
    if admits(demand.zones, frozenset({place.zone} if place.zone else ())):
        return None
    return f"{place.zone or 'an unknown zone'} is not among {_list(demand.zones)}"


def near(demand: Demand, place: OfferPlace) -> str | None:
    """The region of the bucket of the demand."""
    bucket = demand.near
    if bucket is None or (place.region.cloud, place.region.name) == (bucket.cloud, bucket.region):
        return None
    return f"not near {bucket.url}, which is in {bucket.cloud} {bucket.region}"


def volume(demand: Demand, place: OfferPlace) -> str | None:
    """The places of the disks of the demand."""
    here = (place.region.cloud, place.region.name, place.zone)
    for group in demand.volumes:
        if here not in {(each.cloud, each.region, each.zone) for each in group}:
            return f"volume {' and '.join(map(str, group))}"
    return None


def image(demand: Demand, place: OfferPlace) -> str | None:
    """The place of the image of the demand."""
    wanted = demand.image
    if wanted is None or (wanted.cloud, wanted.region) == (place.region.cloud, place.region.name):
        return None
    return f"image {wanted.name} is in {wanted.cloud} {wanted.region}"


def partition(demand: Demand, place: OfferPlace) -> str | None:
    """Partitions with accounts of their own must be named (GovCloud, the China regions of AWS)."""
    head = place.region.partition
    if not head or names_specially(demand.regions, place.region.name, head):
        return None
    return f"{place.region.name} needs an account of its partition; name the region to include it"


def opt_in_zone(demand: Demand, place: OfferPlace) -> str | None:
    """Local and Wavelength Zones must be named."""
    head = opt_in_head(place.zone, place.region) if place.zone else None
    if head is None or names_specially(demand.zones + demand.regions, str(place.zone), head):
        return None
    return f"{place.zone} is a zone to opt in to; name it to include it"


PLACE_RULES: dict[str, Callable[[Demand, OfferPlace], str | None]] = {
    "cloud": cloud,
    "region": region,
    "residency": residency,
    "zone": zone,
    "near": near,
    "volume": volume,
    "image": image,
    "partition": partition,
    "opt_in_zone": opt_in_zone,
}


def asked_of(
    table: Mapping[str, Callable[[Demand, T], str | None]], demand: Demand
) -> list[Callable[[Demand, T], str | None]]:
    """The rules of a table that a demand may fail: a search need not look at the others."""
    vacuous = {
        "instance_type": not demand.instance_types,
        "gpu_memory": demand.gpu_memory_gib is None,
        "total_gpu_memory": demand.total_gpu_memory_gib is None,
        "cpus": demand.cpus is None,
        "memory": demand.memory_gib is None,
        "interconnect": demand.interconnect is None,
        "rdma": demand.rdma in {None, NO_RDMA},
        "cloud": not demand.clouds,
        "region": not demand.regions,
        "residency": not demand.residency,
        "zone": not demand.zones,
        "near": demand.near is None,
        "volume": not demand.volumes,
        "image": demand.image is None,
    }
    return [rule for name, rule in table.items() if not vacuous.get(name)]


def purchase(demand: Demand, offer: Offer) -> str | None:
    """The ways of paying of the demand."""
    if offer.purchase in demand.purchases:
        return None
    return f"paid as {offer.purchase}, wanted {_list(demand.purchases)}"


def max_price(demand: Demand, offer: Offer) -> str | None:
    """The limit per hour and box. An offer without a known price is refused."""
    if demand.max_price_usd is None:
        return None
    if offer.price_usd is None:
        return f"its price is not known, wanted at most {demand.max_price_usd} USD per hour"
    if offer.price_usd <= demand.max_price_usd:
        return None
    return f"{offer.price_usd:.4f} USD per hour, wanted at most {demand.max_price_usd}"


def max_age(demand: Demand, offer: Offer, today: date) -> str | None:
    """The age of the quote."""
    if demand.max_age is None:
        return None
    if offer.as_of is None:
        return "its price is not known"
    if today - offer.as_of <= demand.max_age:
        return None
    return f"quoted {(today - offer.as_of).days} days ago, wanted at most {demand.max_age.days}"


def status(demand: Demand, kind: InstanceType, purchase: str, today: date) -> str | None:
    """Types that are not available: retired, confidential, or not sold on demand."""
    if demand.include_hidden:
        return None
    for note in hiding(kind, purchase, today) if kind.notes else ():
        return f"{note.status}: {note.note}"
    return None


def hiding(kind: InstanceType, purchase: str, today: date) -> list[Note]:
    """The notes for which a type is hidden on this day."""
    return [
        note
        for note in kind.notes
        if note.status in HIDDEN
        and (note.status != "no_public_on_demand" or purchase == Purchase.ON_DEMAND)
        and (note.effective is None or note.effective <= today)
    ]


def flags(kind: InstanceType, purchase: str, as_of: date | None, today: date) -> tuple[str, ...]:
    """The warnings for a buyer: the type's status, and an old quote."""
    found: list[str] = []
    if kind.notes:
        found += [note.status for note in kind.notes if note.status in FLAGGED]
        found += [note.status for note in hiding(kind, purchase, today)]
    most_days = MOVING_STALE_DAYS if KINDS[purchase].price_moves else LIST_STALE_DAYS
    if as_of is not None and (today - as_of).days > most_days:
        found.append(STALE)
    return tuple(found)


def caution(flags: tuple[str, ...]) -> int:
    """The first key of the order of choice: 0 without flags, 2 for an implausible price, otherwise 1."""
    return 0 if not flags else 2 if IMPLAUSIBLE in flags else 1


def describe_gpus(box: HasGpus) -> str:
    """The GPUs of a box in few words: ``8 × A100 40GB``."""
    return f"{format_count(box.gpu_count)} × {box.gpu_model} {_short(box.gpu_memory_gib)}GB"


def grants(requirement: GpuRequirement, box: HasGpus) -> bool:
    """Whether a box has the GPUs of one alternative."""
    if requirement.model is not None and requirement.model != box.gpu_model:
        return False
    if requirement.min_memory_gib is not None and box.gpu_memory_gib < requirement.min_memory_gib:
        return False
    if requirement.max_memory_gib is not None and box.gpu_memory_gib > requirement.max_memory_gib:
        return False
    low, high = requirement.min_count, requirement.max_count
    if requirement.mig is not None:
        per_card = BY_NAME[box.gpu_model].mig.get(int(box.gpu_memory_gib), {}).get(requirement.mig)
        if per_card is None:
            return False
        low, high = Decimal(math.ceil(low / per_card)), Decimal(math.ceil(high / per_card))
    return low - _TOLERANCE <= box.gpu_count <= high + _TOLERANCE


def slices(requirement: GpuRequirement, box: HasGpus) -> tuple[int, ...]:
    """The number of MIG slices on each GPU of a matching box: as many as requested, the first GPUs full.
    Empty for a requirement for whole GPUs.
    """
    if requirement.mig is None:
        return ()
    per_card = BY_NAME[box.gpu_model].mig[int(box.gpu_memory_gib)][requirement.mig]
    left = min(int(requirement.max_count), per_card * int(box.gpu_count))
    counts: list[int] = []
    while left > 0:
        counts.append(min(left, per_card))
        left -= counts[-1]
    return tuple(counts)


def _short(value: Decimal) -> str:
    return f"{value.normalize():f}" if value == round(value, 2) else f"{value:.2f}"


def _list(words: tuple[str, ...]) -> str:
    return ", ".join(words)
