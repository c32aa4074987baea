"""What a spec costs in every way of paying, side by side, before anything is bought."""

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
"""The user's own conditions, in the configuration folder."""

TOTAL = "total"
"""The order of what is expected to cost least in all."""

PERIODS = {"hour": Decimal(1), "day": Decimal(24), "month": HOURS_PER_MONTH}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a spec costs in each way of paying.

    Attributes:
        market: where prices are from.
        usage: what for; ``assumed`` where no hours were named.
        estimates: what is expected to cost least first.
        layers: which boxes run for how long in a month; empty where nothing was said of that.
        credit: what each cloud owes, in USD.
        measure: what work is measured in, where that was asked for; see :mod:`gpucloud_pricing.work`.
        budget: the most that all may cost, in USD, where the spec names it.
        uncounted: the account's savings plans that would count here if their rates were known, for people.
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
        """The same, what work costs least first."""

        def key(estimate: Estimate) -> tuple[bool, bool, Decimal]:
            cost = self.unit_cost(estimate)
            return cost is None, bool(estimate.offer.flags), cost or Decimal(0)

        return replace(self, estimates=sorted(self.estimates, key=key))

    def unit_cost(self, estimate: Estimate) -> Decimal | None:
        """What an hour of work is expected to cost per unit of the measure, in USD; ``None`` if unknown."""
        from gpucloud_pricing.work import amount_of

        amount = None if self.measure is None else amount_of(estimate.offer.kind, self.measure)
        if self.assumed:  # nobody said for how long: what runs is paid for, and no whole term
            hour, _ = hourly(self.market, estimate.offer, self.usage)
        else:
            total = estimate.expected_total if estimate.expected_total is not None else estimate.total
            hour = None if total is None else total / self.usage.hours
        return None if hour is None or amount is None else hour / (self.usage.nodes * amount)

    def figures(self, estimate: Estimate) -> list[Figure]:
        """What was computed for one way of paying, and how: also what goes by the asker's own conditions."""
        found = figures(self.market, estimate, self.usage)
        left = self.after_credit(estimate)
        if left is not None:
            from gpucloud.market.discounts import SOURCE

            owed = self.credit[estimate.offer.cloud]
            row = Row(what="credits", amount=owed, currency="USD", as_of=None, source=SOURCE)
            formula = "what credits leave of expected_total"
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
        """What is left to pay of an expected total, where its cloud owes something; else ``None``."""
        owed = self.credit.get(estimate.offer.cloud)
        total = estimate.expected_total
        return None if owed is None or total is None else max(total - owed, Decimal(0))

    @property
    def offers(self) -> list[Offer]:
        """What is compared."""
        return [estimate.offer for estimate in self.estimates]

    @property
    def best(self) -> Estimate | None:
        """What is expected to cost least of what can be launched; ``None`` where no such cost is known."""
        return min(self.launchable, key=lambda each: each.expected_total or Decimal(0), default=None)

    @property
    def launchable(self) -> list[Estimate]:
        """What can be launched, is not doubtful, and has a known expected cost."""
        return [
            each
            for each in self.estimates
            if not each.offer.to_buy and not each.offer.flags and each.expected_total is not None
        ]

    def lasting(self) -> list[list[Way]]:
        """The ways to pay for what may run all the time, in each place that has several.

        Spot is none, and what is paid for already is no choice any more.
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
        """Why the budget does not hold; ``None`` where there is none, or an offer keeps it."""
        if self.budget is None:
            return None
        best = self.best
        if best is None or best.expected_total is None:
            return PriceError("nothing that can be launched has a known cost to hold against the budget")
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
        """What the best way of another spec costs, what this one's costs, and the difference, in USD.

        ``None`` where one of the two is not known.
        """
        was, now = (None if each.best is None else each.best.expected_total for each in (before, self))
        return None if was is None or now is None else (was, now, now - was)

    def document(self, before: Comparison | None = None, *, explain: bool = False) -> dict[str, Any]:
        """The fields of ``gpucloud.cost/v1``.

        Args:
            before: another spec's cost, to show the difference to.
            explain: adds how each figure was computed.
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
    """What a spec costs in every way of paying that it allows; in all ways, where it names none.

    Args:
        catalog: the market.
        spec: what is wanted.
        workload: what for.
        today: against which prices are old and commitments end.
        own: the user's discounts, credits and commitments.
        places: how many places to compare per way of paying.
        measure: sorts by what this unit of work costs; see :mod:`gpucloud_pricing.work`.
        max_age: leaves out older prices.
        include_hidden: also types that are retired or not sold publicly.

    Raises:
        NoOfferError: nothing matches, or no price is known.
        PriceError: what matches costs more than the limit.
        UsageError: a place that the spec names, or a condition, does not exist.
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
    """The unit of work of an order; ``None`` for :data:`TOTAL`, which goes by all of the cost.

    Raises:
        UsageError: there is no such order.
    """
    if sort == TOTAL:
        return None
    orders = {str(each): measure for each, measure in MEASURES.items()}
    if sort not in orders:
        raise UsageError(f"--sort: {sort!r} is no order; allowed: {', '.join((TOTAL, *orders))}")
    return orders[sort]


def own_conditions(catalog: Catalog, file: Path, *, named: bool) -> OwnConditions | None:
    """The user's own conditions: those in a file, and the commitments that the clouds told.

    Args:
        catalog: what the clouds told.
        file: where the others are written down.
        named: whether the file was asked for by name, and so must exist.

    Returns:
        ``None`` where there are none.

    Raises:
        UsageError: the file cannot be read, or makes no sense.
    """
    held = catalog.commitments()
    written = named or file.exists()
    if not written and not held:
        return None
    from gpucloud.market.discounts import OwnConditions

    return OwnConditions.load(file, held) if written else OwnConditions(held=held)


def month_of(shares: Sequence[Share]) -> Decimal:
    """What a mix costs in a month."""
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
    """What a running box costs per hour, day and month, without boot and egress."""
    per_hour, _ = hourly(market, offer, usage)
    return {
        name: None if per_hour is None else {"amount": f"{round(per_hour * period, 4):f}", "currency": "USD"}
        for name, period in PERIODS.items()
    }
