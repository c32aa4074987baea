"""What of an answer can be used: each thing once, and only what the market knows the hardware of."""

from __future__ import annotations

from collections.abc import Iterable

from gpucloud_pricing.history import SetAside
from gpucloud_pricing.market import Market
from gpucloud_pricing.values import Price


def validate_prices(market: Market, prices: Iterable[Price]) -> tuple[list[Price], list[SetAside]]:
    """Prices that can be kept, and what is set aside.

    Of several prices for one thing the highest counts: what is paid may be less than was said, never more.

    Args:
        market: whose types, regions and rates count.
        prices: an answer.
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
