"""Validates the prices of an answer: each offer once, and only types whose hardware is in the market."""

from __future__ import annotations

from collections.abc import Iterable

from gpucloud_pricing.history import SetAside
from gpucloud_pricing.market import Market
from gpucloud_pricing.values import Price


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
            aside.append(_set_aside("a second, lower price for the same thing", low))
    return list(kept.values()), aside


def _refusal(market: Market, price: Price) -> str | None:
    if (price.cloud, price.instance_type) not in market.types:
        return "a type whose hardware is not known"
    if (price.cloud, price.region) not in market.regions:
        return "a region that is not known"
    if market.usd(price.amount, price.currency) is None:
        return f"no reference rate from {price.currency} to USD"
    return None


def _set_aside(reason: str, price: Price) -> SetAside:
    where = price.zone or price.region
    what = f"{price.instance_type} {price.purchase} {where} {price.amount:f} {price.currency}"
    return SetAside(reason=reason, row=f"{what} {price.terms}".rstrip())
