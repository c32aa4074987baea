"""The GPU market of three clouds: a vocabulary, offers, matching, estimates. Needs the standard library only.

from datetime import date
from gpucloud_pricing import Demand, Market, parse_wishes

market = Market.load()
for offer in market.search(Demand(gpus=parse_wishes("A100:8")), today=date.today(), limit=5):
    print(offer.cloud, offer.region, offer.instance_type, offer.price)
"""

from gpucloud_pricing.billing import Billing
from gpucloud_pricing.demand import COMMITMENTS, PURCHASES, Demand
from gpucloud_pricing.explanation import Explanation, Reason, Refusal, Relaxation
from gpucloud_pricing.gpu_models import MODELS, GpuModel
from gpucloud_pricing.gpus import BadWishError, GpuWish, format_count, format_wish, parse_wishes
from gpucloud_pricing.market import Market
from gpucloud_pricing.places import BadPlaceError
from gpucloud_pricing.values import (
    Commitment,
    InstanceType,
    Interruption,
    Money,
    Note,
    Offer,
    Price,
    Rate,
    Region,
    Source,
    Tariff,
)

__all__ = [
    "COMMITMENTS",
    "MODELS",
    "PURCHASES",
    "BadPlaceError",
    "BadWishError",
    "Billing",
    "Commitment",
    "Demand",
    "Explanation",
    "GpuModel",
    "GpuWish",
    "InstanceType",
    "Interruption",
    "Market",
    "Money",
    "Note",
    "Offer",
    "Price",
    "Rate",
    "Reason",
    "Refusal",
    "Region",
    "Relaxation",
    "Source",
    "Tariff",
    "format_count",
    "format_wish",
    "parse_wishes",
]
