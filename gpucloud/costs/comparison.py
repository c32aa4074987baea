"""The costs of a spec in every way of paying, side by side, before anything is bought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucloud.costs.workload import Workload
from gpucloud.errors import NoOfferError, PriceError, UsageError
from gpucloud.market.catalog import Catalog
from gpucloud.market.search import MEASURES, nothing_matches, paid_text, work_order
from gpucloud.spec.model import Spec
from gpucloud_pricing import PURCHASES, Market, Offer
from gpucloud_pricing.demand import HOURS_PER_MONTH, OWNED
from gpucloud_pricing.estimate import (
    Estimate,
    Place,
    Usage,
    compare,
    hourly,
    on_demand_prices,
    place_of,
    usage_document,
    ways,
)
from gpucloud_pricing.figures import Figure, Row, figures
from gpucloud_pricing.payment import (
    Layer,
    Share,
    Stretch,
    Way,
    cheapest_by_hours,
    cheapest_mix,
    way_of,
)
from gpucloud_pricing.values import usd_document

if TYPE_CHECKING:
    from gpucloud.market.discounts import OwnConditions

CONDITIONS = "conditions.yaml"
"""The file of the user's own conditions, in the configuration folder."""

TOTAL = "total"
"""The order by expected total cost."""

PERIODS = {"hour": Decimal(1), "day": Decimal(24), "month": HOURS_PER_MONTH}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The costs of a spec in each way of paying.

    Attributes:
        market: the source of prices.
        usage: the usage of the boxes; ``assumed`` if no hours were specified.
        estimates: the lowest expected cost first.
        layers: how many boxes run for how long in a month; empty without a profile.
        credit: the credit at each cloud, in USD.
        measure: the unit of work to sort by, if any; see :mod:`gpucloud_pricing.work`.
        budget: the limit for the total cost, in USD, if the spec has one.
        uncounted: the account's savings plans whose rates are unknown, so that they do not count; for people.
    """

    market: Market
    usage: Usage
    assumed: bool
    estimates: Sequence[Estimate]
    layers: Sequence[Layer]
    credit: Mapping[str, Decimal]
    measure: str | None = None
    budget: Decimal | None = None
    uncounted: Sequence[str] = ()

    def by_work(self) -> Comparison:
        """The same comparison, sorted by the cost per unit of work."""

        def key(estimate: Estimate) -> tuple[bool, bool, Decimal]:
            cost = self.unit_cost(estimate)
            return cost is None, bool(estimate.offer.flags), cost or Decimal(0)

        return replace(self, estimates=sorted(self.estimates, key=key))

    def unit_cost(self, estimate: Estimate) -> Decimal | None:
        """The expected cost of an hour per unit of the measure, in USD; ``None`` if unknown."""
        from gpucloud_pricing.work import amount_of

        amount = None if self.measure is None else amount_of(estimate.offer.kind, self.measure)
        if self.assumed:  # without hours the price per hour counts, not the cost of a whole term
            hour, _ = hourly(self.market, estimate.offer, self.usage)
        else:
            total = estimate.expected_total if estimate.expected_total is not None else estimate.total
            hour = None if total is None else total / self.usage.hours
        return None if hour is None or amount is None else hour / (self.usage.nodes * amount)

    def figures(self, estimate: Estimate) -> list[Figure]:
        """The figures of one way of paying and how they were computed, with the user's own conditions."""
        found = figures(self.market, estimate, self.usage)
        left = self.after_credit(estimate)
        if left is not None:
            from gpucloud.market.discounts import SOURCE

            owed = self.credit[estimate.offer.cloud]
            row = Row(what="credits", amount=owed, currency="USD", as_of=None, source=SOURCE)
            formula = "expected_total less credits"
            found.append(Figure(part="after_credit", amount=left, formula=formula, rows=(row,)))
        return [*found, *self._unit_cost_figure(estimate)]

    def _unit_cost_figure(self, estimate: Estimate) -> Iterator[Figure]:
        from gpucloud_pricing.work import UNITS, amount_of, source_of

        cost, kind, usage = self.unit_cost(estimate), estimate.offer.kind, self.usage
        if self.measure is None or cost is None:
            return
        amount, unit = amount_of(kind, self.measure) or Decimal(0), UNITS[self.measure]
        row = Row(
            what=f"{kind.name}, {self.measure}",
            amount=amount,
            currency=unit,
            as_of=None,
            source=source_of(kind.gpu_model, self.measure) or "no source that can be relied on",
        )
        hour = "an hour of running" if self.assumed else f"expected_total / {usage.hours:f} h"
        formula = f"{hour} / ({usage.nodes} x {amount.normalize():f} {unit})"
        yield Figure(part="unit_cost", amount=cost, formula=formula, rows=(row,), unit="USD/h")

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
        """The launchable estimate with the lowest expected cost; ``None`` if no such cost is known."""
        return min(self.launchable, key=lambda each: each.expected_total or Decimal(0), default=None)

    @property
    def launchable(self) -> list[Estimate]:
        """The estimates that can be launched, are not flagged, and have a known expected cost."""
        return [
            each
            for each in self.estimates
            if not each.offer.to_buy and not each.offer.flags and each.expected_total is not None
        ]

    def lasting(self) -> list[list[Way]]:
        """The ways to pay for a machine that may run all the time, in each place that has several.

        Without spot, and without capacity that is paid for already.
        """
        places: dict[Place, list[Way]] = {}
        for offer in self.offers:
            way = way_of(offer)
            if way is not None and offer.purchase not in {"spot", OWNED} and not offer.flags:
                places.setdefault(place_of(offer), []).append(way)
        return [found for found in places.values() if len(found) > 1]

    def mixes(self) -> list[list[Share]]:
        """The cheapest mix in each place, the cheapest place first."""
        mixes = [cheapest_mix(found, self.layers) for found in self.lasting()] if self.layers else []
        return sorted(mixes, key=month_of)

    @property
    def over_budget(self) -> PriceError | None:
        """Why the budget does not hold; ``None`` if there is no budget, or an offer is within it."""
        if self.budget is None:
            return None
        best = self.best
        if best is None or best.expected_total is None:
            return PriceError("no offer that can be launched has a known cost to compare with the budget")
        where = f"{best.offer.cloud} {best.offer.region} {paid_text(best.offer)}"
        if best.expected_total > self.budget:
            return PriceError(
                f"the cheapest way is expected to cost {best.expected_total:.2f} USD ({where}), "
                f"the budget is {self.budget:f} USD",
                hint="fewer --hours, other ways to pay, or a larger --budget",
            )
        if any(each.complete and (each.expected_total or 0) <= self.budget for each in self.launchable):
            return None
        unknown = " and ".join(name for name in best.parts if name in best.unknown)
        return PriceError(
            f"the budget cannot be shown to hold: the price of {unknown} is not known ({where})"
        )

    def difference(self, before: Comparison) -> tuple[Decimal, Decimal, Decimal] | None:
        """The lowest cost of another spec, that of this one, and the difference, in USD.

        ``None`` if one of the two is unknown.
        """
        was, now = (None if each.best is None else each.best.expected_total for each in (before, self))
        return None if was is None or now is None else (was, now, now - was)

    def document(self, before: Comparison | None = None, *, explain: bool = False) -> dict[str, Any]:
        """The fields of ``gpucloud.cost/v1``.

        Args:
            before: the cost of another spec, for the difference.
            explain: add how each figure was computed.
        """
        return {
            "usage": {**usage_document(self.usage), "hours_assumed": self.assumed},
            "options": [self._option_document(estimate, explain=explain) for estimate in self.estimates],
            "cheapest_by_hours": [
                {
                    **_place_document(found[0].offer),
                    "stretches": [_stretch_document(stretch) for stretch in cheapest_by_hours(found)],
                }
                for found in self.lasting()
            ],
            "mixes": [
                {
                    **_place_document(shares[0].way.offer),
                    "month": usd_document(round(month_of(shares), 2)),
                    "shares": [_share_document(share) for share in shares],
                }
                for shares in self.mixes()
            ],
            "against": before and self._against_document(before),
            "rates": [rate.document() for rate in self.market.rates_of(self.offers)],
        }

    def _option_document(self, estimate: Estimate, *, explain: bool) -> dict[str, Any]:
        """One way of paying."""
        from gpucloud_pricing.work import source_of

        option, usage = estimate.document(), self.usage
        if usage.nodes > 1 and estimate.expected_total is not None:
            option["expected_per_node"] = usd_document(round(estimate.expected_total / usage.nodes, 4))
        if self.credit:
            left = self.after_credit(estimate)
            option["after_credit"] = None if left is None else usd_document(round(left, 4))
        if self.measure is not None:
            unit_cost = self.unit_cost(estimate)
            option["unit_cost"] = {
                "measure": self.measure,
                "usd_per_hour": None if unit_cost is None else usd_document(unit_cost),
                "source": source_of(estimate.offer.gpu_model, self.measure),
            }
        if self.assumed:
            option["running"] = _running_document(self.market, estimate.offer, usage)
        if explain:
            option["figures"] = [figure.document() for figure in self.figures(estimate)]
        return option

    def _against_document(self, before: Comparison) -> dict[str, Any]:
        """The difference to another spec."""
        names = ("before", "after", "difference")
        amounts = self.difference(before) or (None, None, None)
        return {
            **{
                name: None if amount is None else usd_document(round(amount, 4))
                for name, amount in zip(names, amounts, strict=True)
            },
            "best_before": before.best and before.best.document(),
            "best_after": self.best and self.best.document(),
        }


def compare_ways(
    catalog: Catalog,
    spec: Spec,
    workload: Workload,
    today: date,
    *,
    own: OwnConditions | None = None,
    places: int = 1,
    measure: str | None = None,
    max_age: timedelta | None = None,
    include_hidden: bool = False,
) -> Comparison:
    """The costs of a spec in every way of paying that it allows; in all ways, if it has none.

    Args:
        catalog: the market.
        spec: the spec.
        workload: the work of its boxes.
        today: the date for the age of prices and the end of commitments.
        own: the user's discounts, credits and commitments.
        places: how many places to compare per way of paying.
        measure: sort by the cost of this unit of work; see :mod:`gpucloud_pricing.work`.
        max_age: leave out older prices.
        include_hidden: include types that are retired or not sold publicly.

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
    found = market.search(demand, today)
    if not found:
        raise nothing_matches(market.explain(demand, today))
    if measure is not None:
        found.sort(key=lambda offer: work_order(offer, measure))
    chosen = ways(found, demand.purchases, places)
    estimates = compare(market, chosen, usage, on_demand_prices(market, chosen))
    if not any(estimate.total is not None for estimate in estimates):
        raise NoOfferError("no price is known for what matches", hint="see it with `gpucloud offers`")
    comparison = Comparison(
        market=market,
        usage=usage,
        assumed=workload.hours is None,
        estimates=estimates,
        layers=workload.layers(),
        credit=credit,
        measure=measure,
        budget=spec.budget,
        uncounted=own.uncounted(market, chosen, usage, today) if own else (),
    )
    return comparison if measure is None else comparison.by_work()


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


def month_of(shares: Sequence[Share]) -> Decimal:
    """The cost of a mix in a month."""
    return sum((share.cost for share in shares), Decimal(0))


def _place_document(offer: Offer) -> dict[str, str]:
    return {"cloud": offer.cloud, "region": offer.region, "instance_type": offer.instance_type}


def _way_document(way: Way) -> dict[str, Any]:
    return {"purchase": way.offer.purchase, "terms": way.offer.terms or None}


def _stretch_document(stretch: Stretch) -> dict[str, Any]:
    return {
        "from_hours": float(round(stretch.start, 1)),
        "to_hours": float(round(stretch.end, 1)),
        **_way_document(stretch.way),
    }


def _share_document(share: Share) -> dict[str, Any]:
    return {
        "machines": share.layer.machines,
        "hours_per_month": float(round(share.layer.hours, 1)),
        **_way_document(share.way),
        "month": usd_document(round(share.cost, 2)),
    }


def _running_document(market: Market, offer: Offer, usage: Usage) -> dict[str, Any]:
    """The cost of a running box per hour, day and month, without boot and egress."""
    per_hour, _ = hourly(market, offer, usage)
    return {
        name: None if per_hour is None else {"amount": f"{round(per_hour * period, 4):f}", "currency": "USD"}
        for name, period in PERIODS.items()
    }
