"""Validates the prices and tariffs of an answer: each offer once, and only what the market knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from gpucloud_pricing.history import SetAside
from gpucloud_pricing.market import SANITY, Market
from gpucloud_pricing.purchases import SOLD
from gpucloud_pricing.tariff_history import ListKey, key_of
from gpucloud_pricing.tariffs import Tariff
from gpucloud_pricing.values import Price

LOWER = "a second, lower price for the same thing"
"""Why a price is set aside of which an answer has a higher one."""


def validate_prices(market: Market, prices: Iterable[Price]) -> tuple[list[Price], list[SetAside]]:
    """The valid prices, and the rows that are set aside.

    Of several prices for one offer the highest counts, so that the bill is never higher than the quote.

    Args:
        market: the known types, regions and rates.
        prices: the answer.
    """
    kept: dict[tuple[object, ...], Price] = {}
    aside: list[SetAside] = []
    for price in prices:
        key = (price.cloud, price.region, price.zone, price.instance_type, price.purchase, price.terms)
        if reason := _refusal(market, price):
            aside.append(_set_aside(reason, price))
        elif key not in kept:
            kept[key] = price
        elif kept[key].amount != price.amount:
            low, high = sorted((kept[key], price), key=lambda each: each.amount)
            kept[key] = high
            aside.append(_set_aside(LOWER, low))
    return list(kept.values()), aside


def _refusal(market: Market, price: Price) -> str | None:
    if (price.cloud, price.instance_type) not in market.types:
        return "a type whose hardware is not known"
    if (price.cloud, price.region) not in market.regions:
        return "a region that is not known"
    if price.purchase not in SOLD:
        return "a way of paying that is not known"
    if market.usd(price.amount, price.currency) is None:
        return f"no reference rate from {price.currency} to USD"
    return None


def _set_aside(reason: str, price: Price) -> SetAside:
    where = price.zone or price.region
    what = f"{price.instance_type} {price.purchase} {where} {price.amount:f} {price.currency}"
    return SetAside(reason=reason, row=f"{what} {price.terms}".rstrip())


def validate_tariffs(
    market: Market, lists: Iterable[Sequence[Tariff]]
) -> tuple[list[Sequence[Tariff]], list[SetAside]]:
    """The valid lists of tariffs, and those that are set aside: a list counts as a whole or not at all.

    Of several lists for one thing the dearest counts. A list whose first price differs by more than the
    factor :data:`gpucloud_pricing.market.SANITY` from the known one is not believed.

    Args:
        market: the known regions, rates and tariffs.
        lists: the answer, the steps of each list in order.
    """
    kept: dict[tuple[str, ListKey], Sequence[Tariff]] = {}
    aside: list[SetAside] = []
    for steps in lists:
        key = (steps[0].cloud, key_of(steps[0]))
        if reason := _tariff_refusal(market, steps):
            aside.append(_list_set_aside(reason, steps))
            continue
        low, high = sorted((kept.get(key, steps), steps), key=_first_price)
        kept[key] = high
        if _first_price(low) != _first_price(high):
            aside.append(_list_set_aside(LOWER, low))
    return list(kept.values()), aside


def _tariff_refusal(market: Market, steps: Sequence[Tariff]) -> str | None:
    first = steps[0]
    if (first.cloud, first.region) not in market.regions:
        return "a region that is not known"
    if market.usd(Decimal(1), first.currency) is None:
        return f"no reference rate from {first.currency} to USD"
    ends = [(step.tier_to, following.tier_from) for step, following in pairwise(steps)]
    is_open = steps[-1].tier_to is None or first.unit == "disk_month"
    if first.tier_from or not is_open or any(end != begin for end, begin in ends):
        return "steps with a gap"
    if any(step.amount < 0 or (not step.amount and step.tier_from) for step in steps) or not _first_price(
        steps
    ):
        return "no price that anybody pays"
    return _implausible(market, steps)


def _implausible(market: Market, steps: Sequence[Tariff]) -> str | None:
    """Why a list is not believed, by the list for the same thing that is known already."""
    first = steps[0]
    known = [
        tariff
        for tariff in market.tariffs.at(first.cloud, first.region, first.kind)
        if (tariff.to, tariff.terms, tariff.unit) == (first.to, first.terms, first.unit)
    ]
    told, usual = (_first_price_in_usd(market, each) for each in (_same_class(steps, known), known))
    if told and usual and not usual / SANITY <= told <= usual * SANITY:
        return f"more than {SANITY} times, or less than a {SANITY}th of, the known price"
    return None


def _same_class(steps: Sequence[Tariff], known: Sequence[Tariff]) -> Sequence[Tariff]:
    """The steps from where the known ones begin: classes of disks below those may be new."""
    if not known or steps[0].unit != "disk_month":
        return steps
    return [step for step in steps if step.tier_to and known[0].tier_to and step.tier_to >= known[0].tier_to]


def _first_price(steps: Sequence[Tariff]) -> Decimal:
    """The first price above 0; 0 without any."""
    return next((step.amount for step in steps if step.amount > 0), Decimal(0))


def _first_price_in_usd(market: Market, steps: Sequence[Tariff]) -> Decimal | None:
    return market.usd(_first_price(steps), steps[0].currency) if steps else None


def _list_set_aside(reason: str, steps: Sequence[Tariff]) -> SetAside:
    first = steps[0]
    where = f"{first.region} to {first.to}" if first.to else first.region
    amounts = ", ".join(f"{step.amount:f}" for step in steps)
    return SetAside(reason=reason, row=f"{first.kind} {where} {amounts} {first.currency}")
