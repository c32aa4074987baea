"""The history of prices, as stored by refreshes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import NoOfferError
from gpucloud.market.catalog import check_places
from gpucloud.resources import rfc3339
from gpucloud.spec.model import Spec
from gpucloud_pricing import Demand, InstanceType, Market, Price
from gpucloud_pricing.history import Change, PriceHistory, Span
from gpucloud_pricing.places import admits, region_names
from gpucloud_pricing.purchases import LAUNCHABLE

if TYPE_CHECKING:
    from gpucloud.market.documents import PriceDiffDocument, PriceHistoryDocument, SpanDocument

Series = tuple[str, str, str, str, str, str]
"""The key of a price: cloud, region, zone, type, way of paying, terms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTrends:
    """The prices since a moment: the cheapest now first, each with its spans, oldest first.

    ``known`` is the number of prices in force, of which ``series`` has the cheapest.
    """

    since: datetime
    series: Mapping[Series, Sequence[Span]]
    known: int

    def document(self) -> PriceHistoryDocument:
        """The fields of ``gpucloud.prices-history/v1``."""
        return {
            "since": rfc3339(self.since),
            "known": self.known,
            "series": [
                {
                    **spans[-1].price.subject(),
                    "spans": [_span_document(span) for span in self.within(spans)],
                }
                for spans in self.series.values()
            ],
        }

    def within(self, spans: Sequence[Span]) -> list[Span]:
        """The spans that end after the moment."""
        return [span for span in spans if span.ended is None or span.ended >= self.since]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChanges:
    """The prices that differ between two moments: new and ended ones first, then the largest changes.

    ``compared`` is the number of prices that were in force at one of the moments.
    """

    before: datetime
    after: datetime
    changes: Sequence[Change]
    compared: int

    def document(self) -> PriceDiffDocument:
        """The fields of ``gpucloud.prices-diff/v1``."""
        return {
            "from": rfc3339(self.before),
            "to": rfc3339(self.after),
            "changes": [change.document() for change in self.changes],
        }


def price_trends(
    market: Market, history: PriceHistory, demand: Demand, *, since: datetime | None = None, limit: int
) -> PriceTrends:
    """The history of the prices that are cheapest now.

    Args:
        market: the types and regions.
        history: the stored prices.
        demand: the offers.
        since: the start; ``None`` for the whole history.
        limit: at most this many prices.

    Raises:
        NoOfferError: the history has no such price yet.
    """
    in_force = history.spans(
        _kinds(market, demand),
        purchases=demand.purchases,
        regions=_regions(market, demand),
        current=True,
    )
    if not in_force:
        raise NoOfferError(
            "no refresh has stored such a price yet", hint="refresh now: gpucloud prices refresh"
        )
    in_force.sort(key=lambda span: market.usd(span.price.amount, span.price.currency) or Decimal("Infinity"))
    found: dict[Series, list[Span]] = {}
    for span in in_force[:limit]:
        price = span.price
        kind = market.types[price.cloud, price.instance_type]
        spans = history.spans((kind,), purchases=(price.purchase,), regions=(price.region,))
        found[series_of(price)] = [each for each in spans if series_of(each.price) == series_of(price)]
    first = min(spans[0].since for spans in found.values())
    return PriceTrends(since=first if since is None else max(first, since), series=found, known=len(in_force))


def spans_in_force(market: Market, history: PriceHistory, demand: Demand) -> dict[Series, list[Span]]:
    """The history of every spot and on-demand price of some offers, oldest span first.

    Args:
        market: the types and regions.
        history: the stored prices.
        demand: the offers.
    """
    found: dict[Series, list[Span]] = {}
    for span in history.spans(_kinds(market, demand), purchases=LAUNCHABLE, regions=_regions(market, demand)):
        found.setdefault(series_of(span.price), []).append(span)
    return found


def price_changes(
    market: Market,
    history: PriceHistory,
    spec: Spec,
    *,
    before: datetime,
    after: datetime,
) -> PriceChanges:
    """The prices that differ between two moments.

    Args:
        market: the types and regions.
        history: the stored prices.
        spec: the offers; all GPUs and ways of paying, if it has none.
        before: the earlier moment.
        after: the later one.
    """
    demand = spec.demand()
    purchases = demand.purchases if "purchase" in spec.given else None
    kinds, regions = _kinds(market, demand), _regions(market, demand)
    then, later = (
        {
            series_of(span.price): span.price
            for span in history.spans(kinds, purchases=purchases, regions=regions, at=moment)
        }
        for moment in (before, after)
    )
    series = sorted(then.keys() | later.keys())
    changes = [
        Change(before=then.get(each), after=later.get(each))
        for each in series
        if _amounts(then.get(each)) != _amounts(later.get(each))
    ]
    changes.sort(key=lambda change: change.share, reverse=True)
    return PriceChanges(before=before, after=after, changes=changes, compared=len(series))


def series_of(price: Price) -> Series:
    """The key of a price."""
    where = (price.cloud, price.region, price.zone or "", price.instance_type)
    return (*where, price.purchase, price.terms)


def _kinds(market: Market, demand: Demand) -> list[InstanceType]:
    check_places(market, demand)
    return [kind for kind in market.types_named(demand) if admits(demand.clouds, frozenset({kind.cloud}))]


def _regions(market: Market, demand: Demand) -> list[str] | None:
    if not demand.regions:
        return None
    return sorted(
        {region.name for region in market.regions.values() if admits(demand.regions, region_names(region))}
    )


def _amounts(price: Price | None) -> tuple[Decimal, Decimal] | None:
    return None if price is None else (price.amount, price.upfront)


def _span_document(span: Span) -> SpanDocument:
    return {
        "amount": span.price.money.document(),
        "since": rfc3339(span.since),
        "seen": rfc3339(span.seen),
        "ended": rfc3339(span.ended) if span.ended else None,
    }
