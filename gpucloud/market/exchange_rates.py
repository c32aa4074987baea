"""Asks for the exchange rate of USD and CNY, in the European Central Bank's reference rates of the day.

The file is public and needs no account. It has the price of a euro in each currency, so the rate between two
others is a cross rate. Source of its form: ecb.europa.eu, "Euro foreign exchange reference rates".
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucloud.clouds.fetch import fetched, is_trusted
from gpucloud.clouds.profile import Profile
from gpucloud_pricing import Market, Rate

if TYPE_CHECKING:
    from gpucloud.runtime.context import Context
    from gpucloud_pricing.history import PriceHistory

URL = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"
VARIABLE = "GPUCLOUD_EXCHANGE_RATES_URL"
"""Names another address; ``off`` for no call."""
SOURCE = "ecb-reference-rates"
TIMEOUT_S = 10
MOST_BYTES = 64 << 10
FACTOR = 2
"""A rate that differs from the known one by more than this factor is not believed."""
_DIGITS = Decimal("0.0001")
_DAY = re.compile(r"<Cube\s+time=['\"](\d{4}-\d\d-\d\d)['\"]")
_PRICE = re.compile(r"<Cube\s+currency=['\"]([A-Z]{3})['\"]\s+rate=['\"](\d{1,9}(?:\.\d{1,9})?)['\"]")


def refresh_rates(context: Context, market: Market, history: PriceHistory, profile: Profile) -> Rate | None:
    """Asks for the rate and stores it; a failure is told and changes nothing.

    Args:
        context: progress of this call.
        market: has the rate that is known so far.
        history: stores the new one.
        profile: the way to the internet, and perhaps another address.

    Returns:
        The rate; ``None`` if it was not asked for, or without a valid answer.
    """
    url = profile.get(VARIABLE) or URL
    if url == "off":
        return None
    try:
        rate = read_rate(_text(url, profile), context.clock().date(), market.rate("CNY"))
    except (OSError, ValueError) as error:
        context.warn(
            "prices",
            f"the exchange rate of USD and CNY stays as it was: {url}: {error}",
            f"without this call: {VARIABLE}=off",
        )
        return None
    history.keep_rates([rate])
    return rate


def read_rate(text: str, today: date, known: Rate | None) -> Rate:
    """The rate from USD to CNY in the ECB's file.

    Args:
        text: the file.
        today: the date; a later day in the file is an error.
        known: the rate so far, to tell a damaged file.

    Raises:
        ValueError: the file has no believable rate.
    """
    day = _DAY.search(text)
    prices = {currency: Decimal(price) for currency, price in _PRICE.findall(text)}
    if day is None or not prices.get("USD") or not prices.get("CNY"):
        raise ValueError("the answer has no day with prices of a euro in USD and CNY")
    rate = (prices["CNY"] / prices["USD"]).quantize(_DIGITS)
    as_of = date.fromisoformat(day[1])
    if as_of > today:
        raise ValueError(f"the answer is of {as_of}, which is after today")
    if known is not None and not known.rate / FACTOR <= rate <= known.rate * FACTOR:
        raise ValueError(f"{rate} CNY for 1 USD is far from the known {known.rate}")
    return Rate(base="USD", quote="CNY", rate=rate, as_of=as_of, source=SOURCE)


def _text(url: str, profile: Profile) -> str:
    """The file's text.

    Raises:
        OSError: there is no answer.
        ValueError: the answer is too long, or the address is not trusted.
    """
    if not is_trusted(url):
        raise ValueError(f"{VARIABLE} is neither an address with TLS nor on this machine")
    return fetched(url, profile, most_bytes=MOST_BYTES, timeout_s=TIMEOUT_S).decode("utf-8", "replace")
