"""Makes the plan of a launch: the market's offers, today's prices from the clouds, what the account holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

from gpucloud.errors import CloudError, GpucloudError, NoOfferError, PriceError, UsageError
from gpucloud.model import Held, Purchase, Quote
from gpucloud.plan import MAX_ATTEMPTS, Candidate, Plan, attempts, into_held, rank, requote, under
from gpucloud.spec import Spec
from gpucloud.waiter import Call, TimedOutError
from gpucloud.world import World
from gpucloud_pricing import Market
from gpucloud_pricing.demand import Demand
from gpucloud_pricing.values import Offer

QUOTE_TIMEOUT_S = 60.0
TOP_REGIONS = 12
"""How many (cloud, region, way of paying) are asked for today's price: enough for every attempt of a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to plan for: the market's demand, and what the market knows nothing of.

    ``demand`` has no price limit of its own: ``max_price_usd`` is held against today's prices.
    """

    demand: Demand
    purchases: tuple[Purchase, ...]
    max_price_usd: Decimal | None
    nodes: int
    spec: Mapping[str, Any]
    accept_snapshot_price: bool = False


def make_plan(world: World, market: Market, wish: Wish) -> Plan:
    """The plan as of now.

    Raises:
        NoOfferError: nothing matches, or no capacity is held for ``reserved``.
        PriceError: offers match, but every one costs more than the limit.
        UsageError: only stale prices are known and the clouds cannot be asked.
        CloudError: no cloud can be used; the first one's own words.
    """
    offers = market.search(wish.demand, today=world.clock().date())
    wanted = [candidate for offer in offers if (candidate := _candidate(offer)) is not None]
    if not wanted:
        raise NoOfferError(
            "no offer matches this spec", hint="see what stands in the way: gpucloud offers --why"
        )
    world.tell("quote", "asking the clouds for today's prices")
    usable, left_out, refusals = _usable(world, wanted)
    candidates = [candidate for candidate in wanted if candidate.cloud in usable]
    if not candidates:
        raise _nobody(left_out, refusals)
    places = _places(candidates)
    quotes, held = _ask(world, places, candidates, reserved=Purchase.RESERVED in wish.purchases)
    today = requote(candidates, quotes, usd=market.usd)
    bought = [c for c in today if c.purchase in wish.purchases]
    bought += into_held(today, held, nodes=wish.nodes) if Purchase.RESERVED in wish.purchases else []
    if not bought:
        raise NoOfferError(
            "the account holds no capacity that matches this spec",
            hint="reserve it with the cloud first, or allow --on-demand",
        )
    affordable = under(rank(bought), wish.max_price_usd)
    if not affordable:
        raise _too_dear(rank(bought)[0], wish.max_price_usd)
    trusted = [c for c in affordable if wish.accept_snapshot_price or not c.stale]
    if not trusted:
        cheapest = affordable[0]
        raise UsageError(
            f"the price of {cheapest.place} is of {cheapest.as_of}, and {cheapest.cloud} gave none today",
            hint="accept it with --accept-snapshot-price",
        )
    tried = attempts(trusted)
    endings = {name: world.clouds[name].provider.ending for name in sorted({a.cloud for a in tried})}
    return Plan(created_at=world.clock(), spec=wish.spec, attempts=tried, left_out=left_out, endings=endings)


def _candidate(offer: Offer) -> Candidate | None:
    if offer.price is None or offer.price_usd is None or offer.as_of is None or offer.to_buy:
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
        arch=offer.arch,
        price=offer.price.amount,
        currency=offer.price.currency,
        price_usd=offer.price_usd,
        as_of=offer.as_of,
        source=offer.source or "",
        flags=offer.flags,
    )


def _usable(
    world: World, candidates: Iterable[Candidate]
) -> tuple[set[str], dict[str, str], list[CloudError]]:
    """Which of the candidates' clouds have a provider and credentials; the others, with the reason."""
    left_out: dict[str, str] = {}
    refusals: list[CloudError] = []
    asked: dict[str, Call] = {}
    for name in sorted({candidate.cloud for candidate in candidates}):
        try:
            asked[name] = world.waiter.start(world.clouds[name].account)
        except KeyError:
            left_out[name] = "gpucloud cannot launch there yet"
        except ImportError as error:
            left_out[name] = f"its SDK is not installed ({error}): pip install 'gpucloud[{name}]'"
    usable: set[str] = set()
    for name, call in asked.items():
        try:
            world.waiter.wait(call, QUOTE_TIMEOUT_S)
            usable.add(name)
        except CloudError as error:
            left_out[name] = error.message
            refusals.append(error)
        except (TimedOutError, ImportError) as error:
            left_out[name] = str(error)
    return usable, left_out, refusals


def _nobody(left_out: Mapping[str, str], refusals: Sequence[CloudError]) -> GpucloudError:
    if refusals:
        return refusals[0]
    reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
    return NoOfferError(
        f"no cloud that offers this can be used: {reasons}", hint="gpucloud --sandbox tries it here"
    )


def _too_dear(cheapest: Candidate, limit: Decimal | None) -> PriceError:
    error = PriceError(
        f"every offer costs more than {limit} USD per hour; the cheapest is {cheapest.place}"
        f" at {cheapest.price_usd.normalize():f} USD ({cheapest.source}, {cheapest.as_of})",
        hint=f"raise --max-price to {cheapest.price_usd.normalize():f}, or allow other ways of paying",
    )
    error.cloud = cheapest.cloud
    return error


def _places(candidates: Sequence[Candidate]) -> list[tuple[str, str, Purchase]]:
    """The first regions in the order of the market, enough for all attempts."""
    places: dict[tuple[str, str, Purchase], int] = {}
    for candidate in candidates:
        key = (candidate.cloud, candidate.region, candidate.purchase)
        if key not in places and (len(places) >= TOP_REGIONS and sum(places.values()) >= MAX_ATTEMPTS):
            break
        places[key] = places.get(key, 0) + 1
    return list(places)


def _ask(
    world: World,
    places: Iterable[tuple[str, str, Purchase]],
    candidates: Sequence[Candidate],
    *,
    reserved: bool,
) -> tuple[list[Quote], list[Held]]:
    """Asks the clouds for today's prices, and for held capacity, all at once. Silence is no failure."""
    quoting: list[Call] = []
    holding: list[Call] = []
    for cloud_name, region, purchase in places:
        cloud = world.clouds[cloud_name]
        types = sorted(
            {
                c.instance_type
                for c in candidates
                if (c.cloud, c.region, c.purchase) == (cloud_name, region, purchase)
            }
        )
        quoting.append(world.waiter.start(partial(cloud.quotes, region, types, purchase)))
    if reserved:
        # What is held may be anywhere, not only where it would be cheap to buy.
        everywhere: dict[tuple[str, str], set[str]] = {}
        for c in candidates:
            everywhere.setdefault((c.cloud, c.region), set()).add(c.instance_type)
        for (cloud_name, region), names in everywhere.items():
            held_there = partial(world.clouds[cloud_name].held, region, sorted(names))
            holding.append(world.waiter.start(held_there))
    quotes = [quote for call in quoting for quote in _answer(world, call)]
    held = [hold for call in holding for hold in _answer(world, call)]
    return quotes, held


def _answer(world: World, call: Call) -> Sequence[Any]:
    try:
        answer: Sequence[Any] = world.waiter.wait(call, QUOTE_TIMEOUT_S)
    except (CloudError, TimedOutError) as error:
        world.tell("quote", f"not answered: {error}")
        return ()
    return answer


def wish_for(spec: Spec, document: Mapping[str, Any], *, accept_snapshot_price: bool) -> Wish:
    """What a spec asks a launch to plan for.

    Held capacity is sold at no price of its own, so it is looked for among the on-demand offers.
    """
    wanted = [str(p) for p in spec.purchase if p is not Purchase.RESERVED]
    if Purchase.RESERVED in spec.purchase and str(Purchase.ON_DEMAND) not in wanted:
        wanted.append(str(Purchase.ON_DEMAND))
    return Wish(
        demand=replace(spec.demand(), purchases=tuple(wanted), max_price_usd=None),
        purchases=spec.purchase,
        max_price_usd=spec.max_price,
        nodes=spec.nodes,
        spec=document,
        accept_snapshot_price=accept_snapshot_price,
    )
