"""The GPU market of three clouds: a vocabulary, offers, matching, estimates. Needs the standard library only.

from datetime import date
from gpucloud_pricing import Demand, Market, parse_requirements

market = Market.load()
for offer in market.search(Demand(gpus=parse_requirements("A100:8")), today=date.today(), limit=5):
    print(offer.cloud, offer.region, offer.instance_type, offer.price)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpucloud_pricing.billing import Billing
    from gpucloud_pricing.demand import Demand
    from gpucloud_pricing.explanation import Explanation, Reason, Refusal, Relaxation
    from gpucloud_pricing.gpu_models import MODELS, GpuModel
    from gpucloud_pricing.gpus import (
        BadGpuError,
        GpuRequirement,
        format_count,
        format_requirement,
        parse_requirements,
    )
    from gpucloud_pricing.market import Market
    from gpucloud_pricing.places import BadPlaceError
    from gpucloud_pricing.purchases import COMMITMENTS, PURCHASES
    from gpucloud_pricing.tariffs import Tariff, TariffTable
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
        format_money,
    )

_MODULES = {
    "gpucloud_pricing.billing": "Billing",
    "gpucloud_pricing.demand": "Demand",
    "gpucloud_pricing.explanation": "Explanation Reason Refusal Relaxation",
    "gpucloud_pricing.gpu_models": "MODELS GpuModel",
    "gpucloud_pricing.gpus": "BadGpuError GpuRequirement format_count format_requirement parse_requirements",
    "gpucloud_pricing.market": "Market",
    "gpucloud_pricing.places": "BadPlaceError",
    "gpucloud_pricing.purchases": "COMMITMENTS PURCHASES",
    "gpucloud_pricing.tariffs": "Tariff TariffTable",
    "gpucloud_pricing.values": "Commitment InstanceType Interruption Money Note Offer Price Rate Region"
    " Source format_money",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "COMMITMENTS",
    "MODELS",
    "PURCHASES",
    "BadGpuError",
    "BadPlaceError",
    "Billing",
    "Commitment",
    "Demand",
    "Explanation",
    "GpuModel",
    "GpuRequirement",
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
    "TariffTable",
    "format_count",
    "format_money",
    "format_requirement",
    "parse_requirements",
]


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first asked for: a module of this package alone loads no other."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
