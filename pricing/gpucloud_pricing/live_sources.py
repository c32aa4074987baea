"""The sources of refreshed prices and commitments."""

from __future__ import annotations

from gpucloud_pricing.values import Source


def _source(id_: str, whose: str, call: str, licence: str = "public prices") -> Source:
    return Source(
        id=id_,
        repository=whose,
        path=call,
        commit="",
        date="",
        licence=licence,
        note="asked from here",
        live=True,
    )


LIVE_SOURCES = (
    _source("aws-price-list", "AWS", "pricing:GetProducts"),
    _source("aws-spot-price-history", "AWS", "ec2:DescribeSpotPriceHistory"),
    _source("aws-savings-plans", "AWS", "savingsplans:DescribeSavingsPlansOfferingRates"),
    _source("aws-capacity-blocks", "AWS", "ec2:DescribeCapacityBlockOfferings"),
    _source("aws-spot-advisor-live", "AWS", "the Spot Instance Advisor's file"),
    _source("azure-retail-prices", "Azure", "Retail Prices API"),
    _source("alibaba-price", "Alibaba Cloud", "ecs:DescribePrice"),
    _source("alibaba-spot-price-history", "Alibaba Cloud", "ecs:DescribeSpotPriceHistory"),
    _source("alibaba-spot-advice", "Alibaba Cloud", "ecs:DescribeSpotAdvice"),
)
"""The sources of a price refresh."""

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
