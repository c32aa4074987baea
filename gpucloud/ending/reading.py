"""Reads the machines of boxes, by id or many by one search, and the type that their cloud says they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from gpucloud.costs.resource_prices import compute_price
from gpucloud.errors import GpucloudError
from gpucloud.journal.facts import BoughtOffer, Facts, Gpu, Price
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box, Holding
from gpucloud.planning.lifetime import agreed_usd
from gpucloud.resources import Machine, Ref, Resource, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud.runtime.tasks import Call
from gpucloud_pricing import Market, format_money

MANY = 8
"""The machines of a region for which one search is asked instead of one call each."""

Place = tuple[str, str]
"""A cloud and a region."""


@dataclass(frozen=True, slots=True)
class MachineReads:
    """The machines of boxes, being read.

    A search only tells which machines there are: one that it lacks is read by its id.
    """

    boxes: Sequence[Box]
    _searches: Mapping[Place, Call]
    _calls: dict[Ref, Call] = field(default_factory=dict[Ref, Call])
    _listed: dict[Ref, Resource] = field(default_factory=dict[Ref, Resource])
    _unread: dict[Place, GpucloudError] = field(default_factory=dict[Place, GpucloudError])

    def wait_for_searches(self, context: Context, timeout_s: float) -> None:
        """Waits for the searches; starts to read what they lack."""
        for place, search in self._searches.items():
            troubles: list[GpucloudError] = []
            with isolated(troubles, f"{place[0]} {place[1]}"):
                self._listed.update(context.tasks.wait(search, timeout_s))
            if troubles:
                self._unread[place] = troubles[0]
        for box in self.boxes:
            for ref in _living(box):
                if ref not in self._listed and _place(ref) not in self._unread:
                    self.read_alone(context, ref)

    def read_alone(self, context: Context, ref: Ref) -> None:
        """Starts to read a machine by its id, unless that was done."""
        if ref not in self._calls:
            self._calls[ref] = context.tasks.start(partial(_get, context, ref))

    def nodes_of(self, context: Context, box: Box, timeout_s: float) -> list[Resource | None]:
        """The machines of a box by node; ``None`` for one that is gone.

        Raises:
            GpucloudError: one could not be read.
        """
        return [
            None if node.state is State.GONE else self._answer(context, box.machine(number), timeout_s)
            for number, node in enumerate(box.nodes)
        ]

    def _answer(self, context: Context, ref: Ref, timeout_s: float) -> Resource | None:
        if ref in self._listed:
            return self._listed[ref]
        if _place(ref) in self._unread:
            raise self._unread[_place(ref)]
        found: Resource | None = context.tasks.wait(self._calls[ref], timeout_s)
        return found


def begin_reading(context: Context, holdings: Iterable[Holding]) -> tuple[MachineReads, list[GpucloudError]]:
    """Starts to read the machines of boxes, all at the same time.

    Returns:
        The reading, and one error per box that could not be asked about.
    """
    troubles: list[GpucloudError] = []
    asked: list[Box] = []
    by_place: defaultdict[Place, list[Ref]] = defaultdict(list)
    for holding in holdings:
        if isinstance(holding, Box) and holding.state not in OVER and holding.nodes:
            with isolated(troubles, holding.name):
                for ref in _living(holding):
                    by_place[_place(ref)].append(ref)
                asked.append(holding)
    searches = {
        place: context.tasks.start(partial(_search, context, place))
        for place, refs in by_place.items()
        if len(refs) >= MANY
    }
    reading = MachineReads(asked, searches)
    for place in by_place.keys() - searches.keys():
        for ref in by_place[place]:
            reading.read_alone(context, ref)
    return reading, troubles


def _living(box: Box) -> list[Ref]:
    return [box.machine(number) for number, node in enumerate(box.nodes) if node.state is not State.GONE]


def _place(ref: Ref) -> Place:
    return ref.cloud, ref.region


# A cloud is opened in the thread: its SDK takes long to import, and clouds load at the same time.


def _get(context: Context, ref: Ref) -> Resource | None:
    return context.clouds.usable(ref.cloud).get(ref)


def _search(context: Context, place: Place) -> dict[Ref, Resource]:
    """The machines of the owner in a region; none for a cloud whose lists lack what a box needs.

    Raises:
        GpucloudError: the region could not be read.
    """
    cloud = context.clouds.usable(place[0])
    if not cloud.traits.lists_machines:
        return {}
    found = cloud.find(replace(context.search(), regions=(place[1],), machines_only=True))
    if found.unread:
        raise GpucloudError(f"{' '.join(place)} could not be read: {found.unread[0].error}")
    return {each.ref: each for each in found.resources}


def offer_of(market: Market, machine: Machine) -> BoughtOffer:
    """The offer of a machine, as far as the market knows its type."""
    kind = market.types.get((machine.ref.cloud, machine.instance_type))
    return BoughtOffer(
        instance_type=machine.instance_type,
        purchase=machine.purchase,
        interconnect=kind.interconnect if kind else None,
        gpu=Gpu(model=kind.gpu_model, count=kind.gpu_count, memory_gib=kind.gpu_memory_gib) if kind else None,
    )


def price_now(market: Market, machine: Machine) -> Price | None:
    """The list price of a machine per hour; ``None`` if it is unknown."""
    price = compute_price(market, machine)
    if price is None:
        return None
    return Price(amount=price.amount, currency=price.currency, as_of=price.as_of, source=price.source)


def follow_type(context: Context, box: Box, resources: Sequence[Resource | None]) -> Facts:
    """What changes for a box if its machines are of another type than it has; warns of it.

    Of machines of several types, the dearest counts for all.
    """
    if box.offer is None or context.market is None:
        return Facts()
    others = [each for each in resources if _is_other(box.offer, each)]
    machines = [each for each in others if isinstance(each, Machine)]
    if not machines:
        return Facts()
    market = context.market()
    machine = max(machines, key=lambda each: _usd(market, price_now(market, each)))
    seen, price = offer_of(market, machine), price_now(market, machine)
    context.warn(
        "look",
        f"{box.name} is a {machine.instance_type} now, not a {box.offer.instance_type}: {_costing(price)}",
        _hint(box, _usd(market, price), agreed_usd(box, market)),
    )
    offer = replace(box.offer, instance_type=seen.instance_type, gpu=seen.gpu, interconnect=seen.interconnect)
    return Facts(offer=offer, price=price)


def _is_other(offer: BoughtOffer, seen: Resource | None) -> bool:
    return (
        isinstance(seen, Machine)
        and seen.state is not State.GONE
        and seen.instance_type.casefold() != offer.instance_type.casefold()
    )


def _usd(market: Market, price: Price | None) -> Decimal:
    return (price and market.usd(price.amount, price.currency)) or Decimal(0)


def _costing(price: Price | None) -> str:
    if price is None:
        return "its price is unknown"
    return f"it costs {format_money(price.amount, price.currency)} per hour while it runs"


def _hint(box: Box, usd: Decimal, agreed: Decimal | None) -> str:
    """What to do about it; more than was agreed is never started, and nothing that runs is ended for it."""
    if agreed is not None and usd > agreed:
        return (
            f"that is above the {format_money(agreed)} that were agreed: gpucloud stop {box.name},"
            f" or gpucloud down {box.name}"
        )
    return f"to change it back, use the cloud's console; or delete it: gpucloud down {box.name}"
