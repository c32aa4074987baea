"""The fields of ``gpucloud.cost/v1``: compared costs for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gpucloud.costs.against import IncomparableError, difference
from gpucloud.costs.comparison import verdict_of
from gpucloud_pricing import Market, Offer
from gpucloud_pricing.estimate import PERIODS, Estimate, hourly
from gpucloud_pricing.payment import Share, Stretch, Way, cheapest_by_hours, month_of
from gpucloud_pricing.terms import Usage, usage_document
from gpucloud_pricing.values import number, usd_document

if TYPE_CHECKING:
    from gpucloud.costs.comparison import Comparison
    from gpucloud.costs.documents import (
        AgainstDocument,
        CostDocument,
        OptionDocument,
        PlaceDocument,
        RunningDocument,
        ShareDocument,
        StretchDocument,
        WayDocument,
    )


def comparison_document(comparison: Comparison, before: Comparison | None, *, explain: bool) -> CostDocument:
    """The fields of the document; see :meth:`Comparison.document`."""
    capital, verdict = comparison.cost_of_capital, verdict_of(comparison)
    return {
        "usage": {
            **usage_document(comparison.usage),
            "hours_assumed": comparison.assumed,
            "cost_of_capital": None if capital is None else float(capital),
            "tokens": comparison.tokens.document() if comparison.tokens else None,
            "unmeasured": dict(comparison.unmeasured),
        },
        "verdict": verdict.document() if verdict else None,
        "options": [
            _option_document(comparison, estimate, explain=explain) for estimate in comparison.estimates
        ],
        "cheapest_by_hours": [
            {
                **_place_document(found[0].offer),
                "stretches": [_stretch_document(stretch) for stretch in cheapest_by_hours(found)],
            }
            for found in comparison.lasting()
        ],
        "mixes": [
            {
                **_place_document(shares[0].way.offer),
                "month": usd_document(round(month_of(shares), 2)),
                "for_hours": None if comparison.assumed else _hours(comparison, shares[0].way.offer),
                "shares": [_share_document(share) for share in shares],
            }
            for shares in comparison.mixes()
        ],
        "against": _against_document(comparison, before) if before else None,
        "rates": [rate.document() for rate in comparison.market.rates_of(comparison.offers)],
    }


def _option_document(comparison: Comparison, estimate: Estimate, *, explain: bool) -> OptionDocument:
    """One way of paying."""
    from gpucloud_pricing.work import figure_of

    option = cast("OptionDocument", estimate.document())
    usage = comparison.usage
    if comparison.tokens is not None:
        epoch, million = comparison.per_epoch(estimate), comparison.per_million_tokens(estimate)
        option["per_epoch"] = None if epoch is None else usd_document(epoch)
        option["per_million_tokens"] = None if million is None else usd_document(million)
    if usage.nodes > 1 and estimate.expected_total is not None:
        option["expected_per_node"] = usd_document(round(estimate.expected_total / usage.nodes, 4))
    if comparison.credit:
        left = comparison.after_credit(estimate)
        option["after_credit"] = None if left is None else usd_document(round(left, 4))
    if comparison.cost_of_capital is not None:
        worth = comparison.present_value(estimate)
        option["present_value"] = None if worth is None else usd_document(round(worth, 4))
    if comparison.measure is not None:
        unit_cost = comparison.unit_cost(estimate)
        basis = figure_of(estimate.offer.kind, comparison.measure)
        option["unit_cost"] = {
            "measure": comparison.measure,
            "usd_per_hour": None if unit_cost is None else usd_document(unit_cost),
            "source": basis.source if basis else None,
            "doubt": basis.doubt if basis else None,
        }
    if comparison.assumed:
        option["running"] = _running_document(comparison.market, estimate.offer, usage)
    if explain:
        option["figures"] = [figure.document() for figure in comparison.figures(estimate)]
    return option


def _against_document(comparison: Comparison, before: Comparison) -> AgainstDocument:
    """The difference to another spec; ``null`` with the reason if it would not be one of equal parts."""
    document: AgainstDocument = {
        "before": None,
        "after": None,
        "difference": None,
        "without": [],
        "best_before": before.best.document() if before.best else None,
        "best_after": comparison.best.document() if comparison.best else None,
    }
    try:
        found = difference(before, comparison)
    except IncomparableError as error:
        return {**document, "unknown": {"difference": str(error)}}
    return {
        **document,
        "before": usd_document(round(found.before, 4)),
        "after": usd_document(round(found.after, 4)),
        "difference": usd_document(round(found.after - found.before, 4)),
        "without": list(found.without),
    }


def _hours(comparison: Comparison, offer: Offer) -> int | float | None:
    """The hours of work on an offer; ``None`` if unknown."""
    hours = comparison.hours_on(offer)
    return None if hours is None else number(round(hours, 4))


def _place_document(offer: Offer) -> PlaceDocument:
    return {"cloud": offer.cloud, "region": offer.region, "instance_type": offer.instance_type}


def _way_document(way: Way) -> WayDocument:
    return {"purchase": way.offer.purchase, "terms": way.offer.terms or None}


def _stretch_document(stretch: Stretch) -> StretchDocument:
    return {
        "from_hours": float(round(stretch.start, 1)),
        "to_hours": float(round(stretch.end, 1)),
        **_way_document(stretch.way),
    }


def _share_document(share: Share) -> ShareDocument:
    return {
        "machines": share.layer.machines,
        "hours_per_month": float(round(share.layer.hours, 1)),
        **_way_document(share.way),
        "month": usd_document(round(share.cost, 2)),
    }


def _running_document(market: Market, offer: Offer, usage: Usage) -> RunningDocument:
    """The cost of a running box per hour, day and month, without boot and egress."""
    per_hour, _ = hourly(market, offer, usage)
    hour, day, month = (
        None if per_hour is None else usd_document(round(per_hour * PERIODS[name], 4))
        for name in ("hour", "day", "month")
    )
    return {"hour": hour, "day": day, "month": month}
