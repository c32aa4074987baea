"""Makes the plan of a launch: the market's offers, today's prices from the clouds, held capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import NoReturn

from gpucloud.clouds.abilities import Preflight, Prices, Reservations
from gpucloud.clouds.cloud import Cloud
from gpucloud.costs.resource_prices import price_at
from gpucloud.errors import (
    CloudError,
    GpucloudError,
    NoOfferError,
    PriceError,
    UsageError,
)
from gpucloud.journal.policy import NO_RULES, Rules
from gpucloud.market.search import search
from gpucloud.planning.access import CloudAccess, answer_of
from gpucloud.planning.avoidance import NOTHING_AVOIDED, Avoided
from gpucloud.planning.boot_images import DEFAULT_IMAGE, possible
from gpucloud.planning.data_source import DataSource, priced
from gpucloud.planning.egress import CheckpointTransfer
from gpucloud.planning.limits import within_limits
from gpucloud.planning.own_image import OwnImage, image_id
from gpucloud.planning.permitted import permitted
from gpucloud.planning.plan import (
    CHEAPEST,
    DEAREST,
    Candidate,
    Key,
    Plan,
    attempts,
    capped,
    cheapest,
    into_held,
    of_each,
    rank,
    requote,
    split_dear,
    under,
    worth_quoting,
)
from gpucloud.planning.quota import Place, QuotaCache, Shortfall, refusal
from gpucloud.planning.spread import interleaved
from gpucloud.planning.vgpus import refused_vgpu, without_vgpus
from gpucloud.policy.rules import allowed_purchases, forbidden, removed_text
from gpucloud.rendering.texts import counted
from gpucloud.resources import HeldCapacity, Quote
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Call
from gpucloud.spec.model import Spec
from gpucloud_pricing import Market, format_money
from gpucloud_pricing.demand import BucketPlace, Demand, VolumePlace
from gpucloud_pricing.purchases import Purchase
from gpucloud_pricing.values import Offer

MOVES_SHOWN = 3
"""How many prices that differ from the market's data to show one by one."""


POLICY = "by policy"
"""What is left out by the policy, in a plan."""

Priced = tuple[str, str, Purchase, str]
"""The key of a price: cloud, region, way of paying, instance type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The request to plan for: the market's demand, and the conditions that are not part of the market.

    ``demand`` has no price limit of its own: ``max_price_usd`` is compared with today's prices. ``to_buy``
    means that the plan is bought at once, for which this machine's clock must be right. ``avoided`` are
    places to leave out as long as others match. ``carried`` is a checkpoint to restore, which counts in the
    order. ``data`` are the data sets of the spec. ``own`` is the snapshot of a box that ``image`` names, if
    it names one. ``rules`` are those of the policy.
    """

    demand: Demand
    purchases: tuple[Purchase, ...]
    max_price_usd: Decimal | None
    nodes: int
    spec: Spec
    image: str = DEFAULT_IMAGE
    own: OwnImage | None = None
    accept_snapshot_price: bool = False
    to_buy: bool = False
    avoided: Avoided = NOTHING_AVOIDED
    carried: CheckpointTransfer | None = None
    data: tuple[DataSource, ...] = ()
    rules: Rules = NO_RULES


def make_plan(context: Context, market: Market, request: PlanRequest) -> Plan:
    """The plan as of now.

    Raises:
        NoOfferError: nothing matches, or no capacity is held for ``reserved``.
        PolicyError: offers match, but the policy forbids every one.
        PriceError: offers match, but every one costs more than the limit.
        UsageError: only stale prices are known and no cloud answers; or the image cannot work; or the plan is
            to be bought, and this machine's clock is wrong.
        CloudError: no cloud can be used, with the error of the first one; or no quota suffices.
    """
    wanted = candidates_of(search(market, request.demand, context.clock().date()).offers)
    if not wanted:
        raise NoOfferError("no offer that matches can be launched", hint="see why: gpucloud offers --why")
    request = replace(request, purchases=allowed_purchases(request.rules, request.purchases))
    wanted, removed = permitted(request.rules, market, wanted, request.purchases)
    if request.carried is not None:
        wanted = request.carried.ordered(market, wanted)
    driven, vgpus = without_vgpus(wanted, request.image)
    if not driven:
        raise refused_vgpu(market, request.demand, context.clock().date(), wanted[0])
    fitting, unfit = within_limits(
        context.clouds,
        possible(driven, request.image),
        request.spec,
        request.data,
        image=image_id(request.spec, request.own),
        owner=context.owner,
        now=context.clock(),
    )
    inquiry = PlanInquiry(context, market, request, fitting)
    context.tell("quote", "asking the clouds for today's prices")
    tried = inquiry.attempts()
    _tell_moves(context, wanted, tried)
    if request.carried is not None and (passed_over := request.carried.passed_over(market, tried)):
        context.tell("plan", passed_over)
    removed["max_price"] = inquiry.above_policy
    endings = {name: context.clouds[name].provider.ending for name in sorted({a.cloud for a in tried})}
    return Plan(
        created_at=context.clock(),
        spec=request.spec.document(),
        attempts=tried,
        left_out={
            **inquiry.access.left_out,
            **_too_small(inquiry.short.values()),
            **unfit,
            **vgpus,
            **_too_dear_to_try(inquiry.dear),
            **({POLICY: "; ".join(texts)} if (texts := removed_text(request.rules, removed)) else {}),
        },
        endings=endings,
        remarks=inquiry.access.said_of(endings),
        data=priced(market, request.data, (tried[0].cloud, tried[0].region), request.spec.machines),
    )


class PlanInquiry:
    """The calls to the clouds for a plan: identity, held capacity, prices, quotas.

    Each answer may move other offers up, for which the clouds are then asked as well, until nothing changes.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: for exchange rates.
        request: the request to plan for.
        wanted: the market's offers.
    """

    def __init__(
        self, context: Context, market: Market, request: PlanRequest, wanted: Sequence[Candidate]
    ) -> None:
        self._context = context
        self._market = market
        self._request = request
        self._wanted = wanted
        self._quotas = QuotaCache(context)
        self._quotes: list[Quote] = []
        self._asked: set[Priced] = set()
        self._read: set[tuple[str, str]] = set()
        self._held: list[HeldCapacity] | None = None
        self.access = CloudAccess(context, to_buy=request.to_buy)
        self.short: dict[Key, Shortfall] = {}
        self.above_policy = 0
        """How many candidates cost more than the policy allows."""
        self.dear: list[Candidate] = []
        """The candidates that cost too much to be tried without a limit."""

    def attempts(self) -> tuple[Candidate, ...]:
        """The attempts, in order.

        Raises:
            GpucloudError: there is none; see :func:`make_plan`.
        """
        if Purchase.RESERVED in self._request.purchases:  # held capacity may be anywhere
            self.access.ask(candidate.cloud for candidate in self._wanted)
        while True:
            ranked, hopes = self._choices()
            if self._ask([*self._first(hopes), *of_each(hopes)] or ranked[:1]):
                continue
            tried = self._tried(ranked)
            self._read_ahead(tried)
            exceeded = self._quotas.shortfalls(self._held_against_quotas(tried), self._request.nodes)
            if not exceeded:
                break
            self.short.update(exceeded)  # without those, others move up
        most = self._request.rules.max_price
        self.above_policy = sum(most is not None and each.price_usd > most for each in ranked)
        return tried or self._refuse(ranked)

    def _first(self, ranked: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """The first of ranked candidates: by price, or place by place for boxes that are spread."""
        spread = self._request.spec.spread
        return cheapest(ranked) if spread is None else tuple(interleaved(ranked, spread)[:CHEAPEST])

    def _tried(self, ranked: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """The attempts of ranked candidates; notes which are too dear to be one."""
        trusted, self.dear = list(self._trusted(ranked)), []
        if self._request.spec.spread is not None:
            return self._first(trusted)
        if self._request.max_price_usd is None:
            trusted, self.dear = split_dear(trusted)
        return attempts(trusted)

    def _held_against_quotas(self, tried: Sequence[Candidate]) -> list[Candidate]:
        """The cheapest attempts; of the others, those where a quota was too small already."""
        small = {(cloud, region, purchase) for cloud, region, _, _, purchase in self.short}
        further = (c for c in tried[CHEAPEST:] if (c.cloud, c.region, str(c.purchase)) in small)
        return [*tried[:CHEAPEST], *further]

    def _read_ahead(self, tried: Sequence[Candidate]) -> None:
        """Starts the first reads of a launch in the first attempt's cloud, while other calls run."""
        where = [(each.cloud, each.region) for each in tried[:1] if self._request.to_buy]
        for cloud, region in set(where) - self._read:
            self._context.tasks.start(partial(_read_ahead, self._context.clouds[cloud], region))
        self._read.update(where)

    def _choices(self) -> tuple[list[Candidate], list[Candidate]]:
        """The candidates that can be bought, and those that may be worth asking for; both in order.

        Nothing is bought without asking its cloud, and an old price is no reason not to ask.
        """
        candidates = [each for each in self._wanted if each.cloud not in self.access.left_out]
        if not candidates:
            raise self.access.nobody()
        if self._held is None:
            wanted = Purchase.RESERVED in self._request.purchases
            self._held = _held(self._context, candidates) if wanted else []
        market = self._market
        today = self._request.avoided.without(
            requote(candidates, self._quotes, usd=market.usd, plausible=market.is_plausible)
        )
        bought = [each for each in today if each.purchase in self._request.purchases]
        held = into_held(today, self._held, nodes=self._request.nodes)
        ranked = [each for each in rank(bought + held) if each.key not in self.short]
        if not self._asked:
            return ranked, worth_quoting(bought)
        limits = (self._request.max_price_usd, self._request.rules.max_price)
        return ranked, under(worth_quoting(ranked), min(filter(None, limits), default=None))

    def _trusted(self, ranked: Iterable[Candidate]) -> Iterator[Candidate]:
        """The candidates that may be bought at their known prices, each with its ceiling."""
        for each in ranked:
            if self._request.accept_snapshot_price or not each.stale:
                allowed = self._capped(each)
                if allowed.price_usd <= allowed.ceiling_usd:
                    yield allowed

    def _capped(self, candidate: Candidate) -> Candidate:
        limit, on_demand = self._request.max_price_usd, None
        if limit is None and candidate.purchase.kind.price_moves:
            on_demand = self._on_demand_usd(candidate)
        found = capped(candidate, max_price_usd=limit, on_demand_usd=on_demand)
        most = self._request.rules.max_price
        return found if most is None else replace(found, ceiling_usd=min(found.ceiling_usd, most))

    def _on_demand_usd(self, candidate: Candidate) -> Decimal | None:
        """The on-demand price of the same type and region: today's, otherwise that of the market's data."""
        place = (candidate.cloud, candidate.region, candidate.instance_type, Purchase.ON_DEMAND)
        for quote in reversed(self._quotes):
            if (quote.cloud, quote.region, quote.instance_type, quote.purchase) == place:
                return self._market.usd(quote.price_per_hour, quote.currency)
        listed = price_at(
            self._market, (candidate.cloud, candidate.region, ""), candidate.instance_type, Purchase.ON_DEMAND
        )
        return None if listed is None else self._market.usd(listed.amount, listed.currency)

    def _ask(self, ahead: Sequence[Candidate]) -> bool:
        """Asks the clouds for what is unknown about these; True if that may have changed anything.

        Prices and identities are asked for at the same time.
        """
        new = [each for each in _priced(ahead) if each not in self._asked]
        asked = _begin_quotes(self._context, new)
        refused = self.access.ask(candidate.cloud for candidate in ahead)
        usable = {place: call for place, call in asked.items() if place[0] in self.access.usable}
        self._quotes += _quotes(self._context, usable.values())
        self._asked.update(each for each in new if each[:3] in usable)
        return refused or any(each[0] in self.access.usable for each in new)

    def _refuse(self, ranked: Sequence[Candidate]) -> NoReturn:
        """Raises the error that explains why there is no attempt."""
        if self.short:
            raise refusal(next(iter(self.short.values())))
        if not ranked:
            raise NoOfferError(
                "the account holds no capacity that matches this spec",
                hint="reserve capacity at the cloud first, or allow --on-demand",
            )
        affordable = [each for each in map(self._capped, ranked) if each.price_usd <= each.ceiling_usd]
        if not affordable:
            raise self._too_dear(ranked[0])
        cheapest = affordable[0]
        raise UsageError(
            f"the price of {cheapest.place} is of {cheapest.as_of}; {cheapest.cloud} returned none today",
            hint="accept this price: --accept-snapshot-price",
        )

    def _too_dear(self, cheapest: Candidate) -> GpucloudError:
        rules, limit = self._request.rules, self._request.max_price_usd
        if rules.max_price is not None and (limit is None or rules.max_price < limit):
            return forbidden(
                rules, "max_price", f"every offer that matches; the cheapest is {_costing(cheapest)}"
            )
        return _too_dear(self._capped(cheapest))


def _too_small(short: Iterable[Shortfall]) -> dict[str, str]:
    """The quotas that excluded candidates, each once."""
    return {f"{each.quota.cloud} {each.quota.region}": each.text for each in short}


def _too_dear_to_try(dear: Iterable[Candidate]) -> dict[str, str]:
    """The offers that only a limit of the user brings in, by way of paying."""
    by_way: dict[Purchase, list[Candidate]] = {}
    for candidate in dear:
        by_way.setdefault(candidate.purchase, []).append(candidate)
    return {
        f"{counted(len(found), 'offer')} {purchase.replace('_', '-')}": (
            f"more than {DEAREST} times the price of the cheapest, from {format_money(found[0].price_usd)}; "
            "--max-price sets another limit"
        )
        for purchase, found in by_way.items()
    }


def candidates_of(offers: Iterable[Offer]) -> list[Candidate]:
    """The offers that can be launched, in their order."""
    return [candidate for offer in offers if (candidate := _candidate(offer)) is not None]


def _candidate(offer: Offer) -> Candidate | None:
    if offer.price is None or offer.price_usd is None or offer.as_of is None:
        return None
    if not offer.paid_as.launchable:
        return None
    return Candidate(
        cloud=offer.cloud,
        region=offer.region,
        zone=offer.zone or "",
        instance_type=offer.instance_type,
        purchase=Purchase(offer.purchase),
        gpu_model=offer.gpu_model,
        gpu_count=offer.gpu_count,
        gpu_memory_gib=offer.gpu_memory_gib,
        vcpus=offer.vcpus,
        memory_gib=offer.memory_gib,
        interconnect=offer.interconnect,
        rdma=offer.rdma,
        arch=offer.arch,
        price=offer.price.amount,
        currency=offer.price.currency,
        price_usd=offer.price_usd,
        ceiling_usd=offer.price_usd,
        as_of=offer.as_of,
        source=offer.source or "",
        flags=offer.flags,
        local_ssd_gib=offer.kind.local_ssd_gib or Decimal(0),
    )


def _too_dear(cheapest: Candidate) -> PriceError:
    error = PriceError(
        f"every offer costs more than {cheapest.ceiling_usd:f} USD per hour; the cheapest is"
        f" {_costing(cheapest)}",
        hint=f"raise --max-price to {cheapest.price_usd.normalize():f}, or allow other ways of paying",
    )
    error.cloud = cheapest.cloud
    return error


def _costing(candidate: Candidate) -> str:
    """A candidate with its price, for people."""
    usd = candidate.price_usd.normalize()
    return f"{candidate.place} at {usd:f} USD ({candidate.source}, {candidate.as_of})"


def _tell_moves(context: Context, snapshot: Iterable[Candidate], today: Iterable[Candidate]) -> None:
    """Reports how today's prices differ from the market's data."""
    then = {candidate.key: candidate for candidate in snapshot}
    moved = [c for c in today if c.key in then and c.price != then[c.key].price]
    for c in moved[:MOVES_SHOWN]:
        was = then[c.key]
        context.tell("quote", f"{c.place}: {c.price} {c.currency} per hour today, {was.price} on {was.as_of}")
    if len(moved) > MOVES_SHOWN:
        context.tell("quote", f"{len(moved) - MOVES_SHOWN} more prices changed: gpucloud plan shows them")


def _priced(candidates: Iterable[Candidate]) -> list[Priced]:
    """The price keys of these; none for held capacity, which is not bought again."""
    return list(
        dict.fromkeys(
            (c.cloud, c.region, c.purchase, c.instance_type)
            for c in candidates
            if not c.purchase.kind.paid_already
        )
    )


def _begin_quotes(context: Context, wanted: Iterable[Priced]) -> dict[Place, Call]:
    """Starts to ask the usable clouds for today's prices, all at the same time; :func:`_quotes` waits.

    The age of each counts from the moment of the call, by our clock.
    """
    asked_at = context.clock()
    types: dict[Place, list[str]] = {}
    for cloud, region, purchase, instance_type in wanted:
        types.setdefault((cloud, region, purchase), []).append(instance_type)

    def ask(place: Place, names: Sequence[str]) -> list[Quote]:
        cloud, region, purchase = place
        quotes = quotes_of(context.clouds.usable(cloud), region, names, purchase)
        return [replace(quote, as_of=asked_at) for quote in quotes]

    return {
        place: context.tasks.start(partial(ask, place, names))
        for place, names in types.items()
        if not context.is_unresponsive(place[0])
    }


def quotes_of(cloud: Cloud, region: str, names: Sequence[str], purchase: Purchase) -> Sequence[Quote]:
    """Today's prices of instance types in a region; empty if the cloud has no such call."""
    what = f"ask today's prices in {region}"
    return cloud.ask(Prices, what, lambda prices: prices.quotes(region, names, purchase), lacking=())


def _quotes(context: Context, asked: Iterable[Call]) -> list[Quote]:
    """Today's prices of the clouds. A cloud that does not answer is no failure."""
    return [quote for call in asked for quote in answer_of(context, call)]


def _held(context: Context, candidates: Iterable[Candidate]) -> list[HeldCapacity]:
    """Asks the clouds for held capacity: in every place, not only in those with low prices."""
    types: dict[tuple[str, str], set[str]] = {}
    for candidate in candidates:
        types.setdefault((candidate.cloud, candidate.region), set()).add(candidate.instance_type)
    calls = [
        context.tasks.start(partial(_reserved, context.clouds[cloud], region, sorted(names)))
        for (cloud, region), names in types.items()
    ]
    return [hold for call in calls for hold in answer_of(context, call)]


def _reserved(cloud: Cloud, region: str, names: Sequence[str]) -> Sequence[HeldCapacity]:
    what = f"ask for held capacity in {region}"
    return cloud.ask(Reservations, what, lambda held: held.held(region, names), lacking=())


def _read_ahead(cloud: Cloud, region: str) -> None:
    """Reads in advance what a launch in a region needs; a failure is raised where it is needed."""
    what = "read what a launch needs"
    with suppress(CloudError):
        cloud.ask(Preflight, what, lambda preflight: preflight.read_ahead(region), lacking=None, budget_s=0.0)


def plan_request(
    spec: Spec,
    *,
    accept_snapshot_price: bool,
    to_buy: bool,
    volumes: tuple[tuple[VolumePlace, ...], ...] = (),
    near: BucketPlace | None = None,
    avoided: Avoided = NOTHING_AVOIDED,
    carried: CheckpointTransfer | None = None,
    data: tuple[DataSource, ...] = (),
    own: OwnImage | None = None,
    rules: Rules = NO_RULES,
) -> PlanRequest:
    """The request of a spec.

    ``volumes`` are the places of its volumes, ``near`` is that of its bucket, ``data`` are its data sets, and
    ``own`` is the snapshot of a box that it boots from, ``rules`` are those of the policy.

    Held capacity has no price of its own, so it is searched for among the on-demand offers.
    """
    ways = sorted((purchase.kind for purchase in spec.purchase), key=lambda way: way.paid_already)
    listed = tuple(dict.fromkeys(way.listed_as for way in ways))
    demand = replace(spec.demand(), purchases=listed, max_price_usd=None, volumes=volumes, near=near)
    return PlanRequest(
        demand=own.narrowed(demand) if own else demand,
        purchases=spec.purchase,
        max_price_usd=spec.max_price,
        nodes=spec.nodes,
        spec=spec,
        image=spec.image or DEFAULT_IMAGE,
        own=own,
        accept_snapshot_price=accept_snapshot_price,
        to_buy=to_buy,
        avoided=avoided,
        carried=carried,
        data=data,
        rules=rules,
    )
