"""Watches prices: asks the clouds repeatedly for the cheapest offer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.errors import UsageError
from gpucloud.market.anomalies import PriceAnomaly, price_anomalies
from gpucloud.market.catalog import refreshed_by
from gpucloud.market.history import spans_in_force
from gpucloud.market.refresh import refresh, wanted_of
from gpucloud.resources import rfc3339
from gpucloud.runtime.context import Context
from gpucloud.spec.fields import format_end
from gpucloud.spec.model import Spec
from gpucloud_pricing import Demand, Market, Offer
from gpucloud_pricing.history import PriceHistory

if TYPE_CHECKING:
    from gpucloud.market.documents import PriceWatchDocument

LEAST = timedelta(minutes=1)
"""The least pause: prices change a few times a day at most."""
MOST_ANOMALIES = 20
"""How many are told at one look, the largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The prices of the clouds at one moment.

    Attributes:
        at: the moment.
        offer: the cheapest offer with a known price; ``None`` if there is none.
        below: whether it costs less than the limit.
        fell: whether it has fallen below the limit since the last look.
        failures: the number of inquiries that were not answered.
        anomalies: prices that are not as they should be, at most 20, and were not in an earlier look.
    """

    at: datetime
    offer: Offer | None
    below: bool
    fell: bool
    failures: int
    anomalies: Sequence[PriceAnomaly] = ()

    def document(self) -> PriceWatchDocument:
        """The fields of one line of ``gpucloud.prices-watch/v1``."""
        return {
            "at": rfc3339(self.at),
            "below": self.below,
            "offer": self.offer.document() if self.offer else None,
            "failures": self.failures,
            "anomalies": [each.document() for each in self.anomalies],
        }


def refuse_hasty(below: Decimal, every: timedelta) -> None:
    """Refuses a limit or a pause that is not valid.

    Raises:
        UsageError: the limit is not a price, or the pause is too short.
    """
    if not below.is_finite() or below <= 0:
        raise UsageError(f"--below: {below} is not a price; allowed: a number above 0")
    if every < LEAST:
        raise UsageError(f"--every: {format_end(every)} is not allowed; allowed: 1m or more")


def watch(
    context: Context,
    market: Market,
    history: PriceHistory,
    spec: Spec,
    *,
    below: Decimal,
    every: timedelta,
) -> Iterator[Look]:
    """Refreshes prices, yields the result, waits, and repeats until the caller stops iterating.

    Args:
        context: clouds, journal, clock and progress of this call.
        market: the shipped market.
        history: stores the answers.
        spec: the spec.
        below: the limit, in USD per hour and node.
        every: the pause between two refreshes.

    Raises:
        NoOfferError: no cloud that can be asked has such a GPU.
    """
    wanted, demand = wanted_of(market, spec, context.clouds.names(), tariffs=False), spec.demand()
    was_below, told = False, set[str]()
    while True:
        results = refresh(context, market, history, wanted, anew=True)
        best = _cheapest(market, history, demand, context.clock().date())
        odd = price_anomalies(market, spans_in_force(market, history, demand), context.clock())
        new = [each for each in odd if each.key not in told][:MOST_ANOMALIES]
        told |= {each.key for each in new}
        is_below = best is not None and (best.price_usd or below) < below
        yield Look(
            at=context.clock(),
            offer=best,
            below=is_below,
            fell=is_below and not was_below,
            failures=sum(len(result.failures) for result in results.values()),
            anomalies=new,
        )
        was_below = is_below
        context.tasks.pause(every.total_seconds())


def _cheapest(market: Market, history: PriceHistory, demand: Demand, today: date) -> Offer | None:
    found = refreshed_by(market, history).search(demand, today, limit=1)
    return next((offer for offer in found if offer.price_usd is not None), None)
