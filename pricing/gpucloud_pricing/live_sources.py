"""The sources of refreshed prices and commitments."""

from __future__ import annotations

from gpucloud_pricing.values import Source

PRICE_PAGES = {
    "AWS": "https://aws.amazon.com/ec2/pricing/",
    "Azure": "https://azure.microsoft.com/pricing/details/virtual-machines/linux/",
    "Alibaba Cloud": "https://www.alibabacloud.com/product/ecs-pricing-list/en",
}
"""The vendors' price pages for people. UNVERIFIED: known, not opened from here."""


def _source(id_: str, whose: str, call: str, licence: str, url: str = "") -> Source:
    return Source(
        id=id_,
        repository=whose,
        path=call,
        commit="",
        date="",
        licence=licence,
        note="asked from here",
        live=True,
        url=url,
    )


RATES = _source(
    "ecb-reference-rates",
    "European Central Bank",
    "euro foreign exchange reference rates, cross rate",
    "public reference rates",
    "https://www.ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates/html/index.en.html",
)
"""The source of refreshed exchange rates."""

PRICE_SOURCES = tuple(
    _source(id_, whose, call, "public prices", PRICE_PAGES[whose])
    for id_, whose, call in (
        ("aws-price-list", "AWS", "pricing:GetProducts"),
        ("aws-spot-price-history", "AWS", "ec2:DescribeSpotPriceHistory"),
        ("aws-savings-plans", "AWS", "savingsplans:DescribeSavingsPlansOfferingRates"),
        ("aws-capacity-blocks", "AWS", "ec2:DescribeCapacityBlockOfferings"),
        ("aws-spot-advisor-live", "AWS", "the Spot Instance Advisor's file"),
        ("azure-retail-prices", "Azure", "Retail Prices API"),
        ("alibaba-price", "Alibaba Cloud", "ecs:DescribePrice"),
        ("alibaba-spot-price-history", "Alibaba Cloud", "ecs:DescribeSpotPriceHistory"),
        ("alibaba-spot-advice", "Alibaba Cloud", "ecs:DescribeSpotAdvice"),
    )
)
"""The sources of refreshed prices and tariffs."""
LIVE_SOURCES = (*PRICE_SOURCES, RATES)
"""The sources of a refresh."""

ACCOUNT_SOURCES = tuple(
    _source(id_, whose, call, "your account")
    for id_, whose, call in (
        ("aws-reserved-instances", "AWS", "ec2:DescribeReservedInstances"),
        ("aws-capacity-reservations", "AWS", "ec2:DescribeCapacityReservations"),
        ("aws-own-savings-plans", "AWS", "savingsplans:DescribeSavingsPlans"),
        ("azure-reservations", "Azure", "Microsoft.Capacity/reservations"),
        ("alibaba-reserved-instances", "Alibaba Cloud", "ecs:DescribeReservedInstances"),
    )
)
"""The sources of an account's commitments."""
