"""The costs of a spec in every way of paying, side by side, and which of them to start now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.costs.experience import with_experience
from gpucloud.costs.workload import Tokens, Workload
from gpucloud.errors import NoOfferError, PriceError, UsageError
from gpucloud.market.catalog import Catalog
from gpucloud.market.search import MEASURES, nothing_matches, work_order
from gpucloud.spec.model import Spec
from gpucloud_pricing import PURCHASES, Demand, Market, Offer
from gpucloud_pricing.estimate import Estimate, Place, compare, hourly, on_demand_prices, place_of, ways
from gpucloud_pricing.figures import Figure
from gpucloud_pricing.payment import (
    LoadLayer,
    Share,
    Way,
    cheapest_mix,
    month_of,
    way_of,
    ways_for,
)
from gpucloud_pricing.purchases import Billed, Purchase
from gpucloud_pricing.rules import STALE, caution
from gpucloud_pricing.terms import Usage, is_longer, known_total
from gpucloud_pricing.values import Experience, UnsuitableError, usd_document

if TYPE_CHECKING:
    from gpucloud.costs.documents import CostDocument, VerdictDocument
    from gpucloud.market.discounts import OwnConditions

CONDITIONS = "conditions.yaml"
"""The file of the user's own conditions, in the configuration folder."""

TOTAL = "total"
"""The order by expected total cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The costs of a spec in each way of paying.

    Attributes:
        market: the source of prices.
        usage: the usage of the boxes; ``assumed`` if no work was specified. With a computation, each estimate
            has hours of its own.
        estimates: the lowest expected cost first; lower bounds come after complete totals.
        layers: how many machines run for how long in a month; empty without a profile.
        credit: the credit at each cloud, in USD.
        measure: the unit of work to sort by, if any; see :mod:`gpucloud_pricing.work`.
        budget: the limit for the total cost, in USD, if the spec has one.
        uncounted: the account's savings plans whose rates are unknown, so that they do not count; for people.
        cost_of_capital: in a year, as a share: 0.08; ``None`` to compare payments as if all were due at once.
        tokens: the tokens that the boxes process, if the work was given so.
        unmeasured: why GPUs that match are not compared, by model: how long the work takes is not known.
        assumes_checkpoints: whether the checkpoints of ``usage`` are assumed.
    """

    market: Market
    usage: Usage
    assumed: bool
    estimates: Sequence[Estimate]
    layers: Sequence[LoadLayer]
    credit: Mapping[str, Decimal]
    measure: str | None = None
    budget: Decimal | None = None
    uncounted: Sequence[str] = ()
    cost_of_capital: Decimal | None = None
    tokens: Tokens | None = None
    unmeasured: Mapping[str, str] = field(default_factory=dict[str, str])
    assumes_checkpoints: bool = False

    def by_work(self) -> Comparison:
        """The same comparison, sorted by the cost per unit of work."""
        return self._sorted_by(self.unit_cost)

    def by_present_value(self) -> Comparison:
        """The same comparison, sorted by the expected cost as a payment at the start."""
        return self._sorted_by(self.cost_of)

    def _sorted_by(self, cost_of: Callable[[Estimate], Decimal | None]) -> Comparison:
        """The same comparison, sorted by a cost: unknown ones last, and lower bounds after what is known."""

        def key(estimate: Estimate) -> tuple[bool, int, int, Decimal]:
            cost = cost_of(estimate)
            return cost is None, estimate.rank, caution(estimate.offer.flags), cost or Decimal(0)

        return replace(self, estimates=sorted(self.estimates, key=key))

    def present_value(self, estimate: Estimate) -> Decimal | None:
        """The expected cost as a payment at the start, in USD; ``None`` without a cost of capital."""
        if self.cost_of_capital is None:
            return None
        from gpucloud_pricing.capital import present_value

        return present_value(estimate, self.cost_of_capital)

    def cost_of(self, estimate: Estimate) -> Decimal | None:
        """The cost by which ways of paying are compared: expected, as of the start if capital has a cost."""
        return estimate.expected_total if self.cost_of_capital is None else self.present_value(estimate)

    def unit_cost(self, estimate: Estimate) -> Decimal | None:
        """The expected cost of an hour per unit of the measure, in USD; ``None`` if unknown."""
        from gpucloud_pricing.work import amount_of

        amount = None if self.measure is None else amount_of(estimate.offer.kind, self.measure)
        if self.assumed:  # without hours the price per hour counts, not the cost of a whole term
            hour, _ = hourly(self.market, estimate.offer, self.usage)
        else:
            hours = self.hours_on(estimate.offer)
            hour = None if estimate.cost is None or hours is None else estimate.cost / hours
        return None if hour is None or amount is None else hour / (self.usage.nodes * amount)

    def hours_on(self, offer: Offer) -> Decimal | None:
        """The hours of work on an offer; ``None`` if unknown."""
        try:
            return self.usage.on(offer.kind).hours
        except UnsuitableError:
            return None

    def per_epoch(self, estimate: Estimate) -> Decimal | None:
        """The cost of one epoch, in USD; ``None`` if it is unknown, or the work is not given in tokens."""
        if self.tokens is None or estimate.cost is None:
            return None
        return estimate.cost / self.tokens.epochs

    def per_million_tokens(self, estimate: Estimate) -> Decimal | None:
        """The cost of a million tokens, in USD; ``None`` as for :meth:`per_epoch`."""
        if self.tokens is None or estimate.cost is None:
            return None
        return estimate.cost / self.tokens.millions

    def figures(self, estimate: Estimate) -> list[Figure]:
        """The figures of one way of paying and how they were computed, with the user's own conditions."""
        from gpucloud.costs.comparison_figures import comparison_figures

        return comparison_figures(self, estimate)

    def after_credit(self, estimate: Estimate) -> Decimal | None:
        """The expected total less the credit at its cloud; ``None`` without a credit."""
        owed = self.credit.get(estimate.offer.cloud)
        total = estimate.expected_total
        return None if owed is None or total is None else max(total - owed, Decimal(0))

    @property
    def offers(self) -> list[Offer]:
        """The offers that are compared."""
        return [estimate.offer for estimate in self.estimates]

    @property
    def best(self) -> Estimate | None:
        """The launchable estimate with the lowest expected cost; ``None`` if no such cost is known.

        One at a stale price only if there is no other, and one with an unknown part only if each has some.
        """

        def key(each: Estimate) -> tuple[int, int, Decimal]:
            return each.rank, caution(each.offer.flags), self.cost_of(each) or Decimal(0)

        return min(self.launchable, key=key, default=None)

    @property
    def launchable(self) -> list[Estimate]:
        """The estimates that can be launched, are not flagged but as stale, and have a known expected cost.

        A launch asks the cloud for today's price, so a stale one is no obstacle.
        """
        return [
            each
            for each in self.estimates
            if not each.offer.to_buy and not {*each.offer.flags} - {STALE} and each.expected_total is not None
        ]

    def lasting(self) -> list[list[Way]]:
        """The ways to pay for a machine that may run all the time, in each place that has several.

        Without spot, and without capacity that is paid for already.
        """
        places: dict[Place, list[Way]] = {}
        for offer in self.offers:
            way = way_of(offer)
            lasts = not offer.paid_as.interruptible and not offer.paid_as.paid_already
            if way is not None and lasts and not offer.flags:
                places.setdefault(place_of(offer), []).append(way)
        return [found for found in places.values() if len(found) > 1]

    def mixes(self) -> list[list[Share]]:
        """The cheapest mix in each place, the cheapest place first."""
        mixes = [cheapest_mix(found, self.layers) for found in self._for_the_need()] if self.layers else []
        return sorted(mixes, key=month_of)

    def _for_the_need(self) -> list[list[Way]]:
        """The ways of :meth:`lasting`, for the hours asked: a term that lasts longer is owed whole."""
        if self.assumed:
            return self.lasting()
        on_demand = on_demand_prices(self.market, self.offers)
        return [
            [each for way in found for each in ways_for(way.offer, hours, on_demand.get(place_of(way.offer)))]
            for found in self.lasting()
            if (hours := self.hours_on(found[0].offer)) is not None
        ]

    @property
    def over_budget(self) -> PriceError | None:
        """Why the budget does not hold; ``None`` if there is no budget, or an offer is within it."""
        from gpucloud.costs.against import over_budget

        return over_budget(self)

    def due(self, estimate: Estimate) -> Decimal | None:
        """The expected total, less the credit at its cloud if there is one; ``None`` if unknown."""
        left = self.after_credit(estimate)
        return estimate.expected_total if left is None else left

    def document(self, before: Comparison | None = None, *, explain: bool = False) -> CostDocument:
        """The fields of ``gpucloud.cost/v1``.

        Args:
            before: the cost of another spec, for the difference.
            explain: add how each figure was computed.
        """
        from gpucloud.costs.comparison_document import comparison_document

        return comparison_document(self, before, explain=explain)


def compare_ways(
    catalog: Catalog,
    spec: Spec,
    workload: Workload,
    today: date,
    *,
    own: OwnConditions | None = None,
    experience: Callable[[], Mapping[Place, Experience]] = dict,
    places: int = 1,
    by_zone: bool = False,
    measure: str | None = None,
    max_age: timedelta | None = None,
    include_hidden: bool = False,
    max_term: Decimal | None = None,
    cost_of_capital: Decimal | None = None,
) -> Comparison:
    """The costs of a spec in every way of paying that it allows; in all ways, if it has none.

    Args:
        catalog: the market.
        spec: the spec.
        workload: the work of its boxes.
        today: the date for the age of prices and the end of commitments.
        own: the user's discounts, credits and commitments.
        experience: returns the user's own history on spot; called only if spot is compared.
        places: how many places to compare per way of paying.
        by_zone: compare each zone of a place; by default, the cheapest one.
        measure: sort by the cost of this unit of work; see :mod:`gpucloud_pricing.work`.
        max_age: leave out older prices.
        include_hidden: include types that are retired or not sold publicly.
        max_term: leave out commitments for longer than these hours.
        cost_of_capital: in a year, as a share; sort by the value at the start.

    Raises:
        NoOfferError: no offer matches, or no price is known.
        PriceError: the matching offers cost more than the limit.
        UsageError: a place of the spec, or of a condition, does not exist.
    """
    demand = spec.demand(max_age=max_age, include_hidden=include_hidden)
    if "purchase" not in spec.given:
        demand = replace(demand, purchases=PURCHASES)
    usage, market = workload.usage(spec), catalog.market_for(demand)
    credit: dict[str, Decimal] = {}
    if own is not None:
        market, credit = own.apply(market, usage, today), own.credits_usd(market, today)
    found = _matching(market, demand, today, usage, max_term)
    if measure is not None:
        found.sort(key=lambda offer: work_order(offer, measure))
    elif usage.computation is not None:
        found.sort(key=lambda offer: _order_of_computation(market, offer, usage))
    unmeasured = _unmeasured(found, usage)
    chosen = ways(market, found, demand.purchases, usage, places, by_zone=by_zone)
    shown = {offer.gpu_model for offer in chosen}
    chosen += [next(o for o in found if o.gpu_model == model) for model in unmeasured if model not in shown]
    if any(offer.paid_as.interruptible for offer in chosen):
        chosen = with_experience(chosen, experience())
    estimates = compare(market, chosen, usage, on_demand_prices(market, chosen))
    if not any(estimate.total is not None for estimate in estimates):
        if unmeasured:
            raise NoOfferError(
                "; ".join(unmeasured.values()), hint="other GPUs, or --hours in place of --work"
            )
        raise NoOfferError("no price is known for what matches", hint="see it with `gpucloud offers`")
    comparison = Comparison(
        market=market,
        usage=usage,
        assumed=workload.assumed,
        estimates=estimates,
        layers=workload.layers(spec.machines),
        credit=credit,
        measure=measure,
        budget=spec.budget,
        uncounted=own.uncounted(market, chosen, usage, today) if own else (),
        cost_of_capital=cost_of_capital,
        tokens=workload.tokens,
        unmeasured=unmeasured,
        assumes_checkpoints=workload.assumes_checkpoints,
    )
    if measure is not None:
        return comparison.by_work()
    return comparison if cost_of_capital is None else comparison.by_present_value()


def _order_of_computation(market: Market, offer: Offer, usage: Usage) -> tuple[bool, int, Decimal]:
    """The total without interruptions, as a sort key: flagged offers late, unknown totals last."""
    try:
        usage = usage.on(offer.kind)
    except UnsuitableError:
        return True, 0, Decimal(0)
    return offer.price_usd is None, caution(offer.flags), known_total(market, offer, usage)


def _unmeasured(offers: Iterable[Offer], usage: Usage) -> dict[str, str]:
    """The GPUs on no machine of which the hours of work are known, with the reason, by model."""
    reasons: dict[str, str] = {}
    measured: set[str] = set()
    for kind in {offer.kind.name: offer.kind for offer in offers}.values() if usage.computation else ():
        try:
            usage.on(kind)
            measured.add(kind.gpu_model)
        except UnsuitableError as error:
            reasons[kind.gpu_model] = str(error)
    return {model: reasons[model] for model in sorted(reasons.keys() - measured)}


def _matching(
    market: Market, demand: Demand, today: date, usage: Usage, max_term: Decimal | None
) -> list[Offer]:
    """The offers that match, in the order of choice, without longer terms.

    Raises:
        NoOfferError: there are none.
        PriceError: they cost more than the limit.
    """
    found = market.search(demand, today)
    if not found:
        raise nothing_matches(market.explain(demand, today))
    fitting = [offer for offer in found if max_term is None or not is_longer(offer, usage, max_term)]
    if not fitting:
        raise NoOfferError("every offer that matches is a longer commitment", hint="a longer --max-term")
    return fitting


def measure_named(sort: str) -> str | None:
    """The unit of work of a sort order; ``None`` for :data:`TOTAL`, the total cost.

    Raises:
        UsageError: there is no such order.
    """
    if sort == TOTAL:
        return None
    orders = {str(each): measure for each, measure in MEASURES.items()}
    if sort not in orders:
        raise UsageError(f"--sort: {sort!r} is not a sort order; allowed: {', '.join((TOTAL, *orders))}")
    return orders[sort]


def own_conditions(catalog: Catalog, file: Path, *, named: bool) -> OwnConditions | None:
    """The user's own conditions: those in a file, and the commitments that the clouds reported.

    Args:
        catalog: the source of the reported commitments.
        file: the file of the others.
        named: whether the user specified the file, so that it must exist.

    Returns:
        ``None`` if there are none.

    Raises:
        UsageError: the file cannot be read, or is not valid.
    """
    held = catalog.commitments()
    written = named or file.exists()
    if not written and not held:
        return None
    from gpucloud.market.discounts import OwnConditions

    return OwnConditions.load(file, held) if written else OwnConditions(held=held)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostVerdict:
    """What to start now, and what would cost less.

    Attributes:
        now: the cheapest that can start now and is not interrupted; the cheapest spot, if there is no other.
        cost: its cost, in USD: expected for the hours asked, otherwise per hour. Without unknown parts.
        spot: the cheapest spot, if it is expected to cost less than ``now``.
        saving: how much less, in USD.
        commitment: the shortest commitment in the place of ``now`` that pays; of several, the one that pays
            from the fewest hours a month.
    """

    now: Estimate
    cost: Decimal
    spot: Estimate | None
    saving: Decimal | None
    commitment: Estimate | None

    def document(self) -> VerdictDocument:
        """``verdict`` of ``gpucloud.cost/v1``."""
        spot, commitment = self.spot, self.commitment
        return {
            "now": self.now.document(),
            "cost": usd_document(round(self.cost, 4)),
            "spot": spot.document() if spot else None,
            "saving": None if self.saving is None else usd_document(round(self.saving, 4)),
            "commitment": commitment.document() if commitment else None,
        }


def verdict_of(comparison: Comparison) -> CostVerdict | None:
    """The answer of a comparison; ``None`` if nothing that can be launched has a known cost."""
    steady = _cheapest(each for each in comparison.launchable if not each.offer.paid_as.interruptible)
    spot = _cheapest(each for each in comparison.launchable if each.offer.paid_as.interruptible)
    now = steady or spot
    cost = None if now is None else _cost(comparison, now)
    if now is None or cost is None:
        return None
    saving = None if spot is None or spot is now else _saving(comparison, now, spot)
    return CostVerdict(
        now=now,
        cost=cost,
        spot=spot if saving else None,
        saving=saving,
        commitment=_commitment(comparison, now),
    )


def worth_showing(comparison: Comparison, places: int, *, all_terms: bool) -> list[Estimate]:
    """The estimates by cloud, the cloud with the best first: the best places of each way of paying.

    Args:
        comparison: the comparison.
        places: the number of places for each cloud and way of paying.
        all_terms: with commitments that do not pay (:func:`pays`).
    """
    shown: dict[str, list[Estimate]] = {}
    counts: dict[tuple[str, str, str], int] = {}
    for estimate in comparison.estimates:
        offer = estimate.offer
        way = (offer.cloud, offer.purchase, offer.terms)
        counts[way] = counts.get(way, 0) + 1
        if counts[way] <= places and (all_terms or not offer.to_buy or pays(comparison, estimate)):
            shown.setdefault(offer.cloud, []).append(estimate)
    return [estimate for of_cloud in shown.values() for estimate in of_cloud]


def pays(comparison: Comparison, commitment: Estimate) -> bool:
    """Whether a commitment costs less than on-demand in its place: for the hours asked, or for a month."""
    if comparison.assumed:
        return commitment.break_even_hours is not None
    by_the_hour = _cheapest(
        each
        for each in comparison.estimates
        if each.offer.purchase == Purchase.ON_DEMAND and place_of(each.offer) == place_of(commitment.offer)
    )
    cost = commitment.expected_total
    steady = None if by_the_hour is None else by_the_hour.expected_total
    return cost is not None and steady is not None and cost < steady


def _cheapest(estimates: Iterable[Estimate]) -> Estimate | None:
    """The lowest expected cost; one that lacks parts or has a flag only if there is no other."""

    def key(each: Estimate) -> tuple[int, int, Decimal]:
        return each.rank, caution(each.offer.flags), each.expected_total or Decimal(0)

    return min((each for each in estimates if each.expected_total is not None), key=key, default=None)


def _cost(comparison: Comparison, estimate: Estimate) -> Decimal | None:
    """The expected cost for the hours asked; without hours, the cost per hour."""
    if not comparison.assumed:
        return estimate.expected_total
    return hourly(comparison.market, estimate.offer, comparison.usage)[0]


def _saving(comparison: Comparison, now: Estimate, spot: Estimate) -> Decimal | None:
    """What spot saves; ``None`` if it does not, or if the two lack different parts."""
    was, less = (_cost(comparison, each) for each in (now, spot))
    if was is None or less is None or now.missing != spot.missing:
        return None
    return was - less if was > less else None


def _commitment(comparison: Comparison, now: Estimate) -> Estimate | None:
    """The shortest commitment that pays in the place of an estimate."""
    paying = [
        (each.offer.paid_as.term_hours, each.break_even_hours, each)
        for each in comparison.estimates
        if each.offer.paid_as.billed is Billed.IN_TERMS
        and each.break_even_hours is not None
        and place_of(each.offer) == place_of(now.offer)
    ]
    return min(paying, key=lambda each: each[:2], default=(None, None, None))[2]
