"""Charges in the format of FOCUS 1.2 (focus.finops.org), which FinOps tools read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

from gpucloud.costs.spend import Charge, first_of_month, first_of_next_month
from gpucloud.resources import rfc3339
from gpucloud_pricing.demand import Purchase

_SERVICES = {
    "compute": ("Compute", "Virtual Machines", "Virtual Machine"),
    "disk": ("Storage", "Block Storage", "Disk"),
    "address": ("Networking", "Public Addresses", "Public Address"),
}
"""Service category, service and type of resource of each part, in FOCUS."""
_PRICING = {Purchase.ON_DEMAND: "Standard", Purchase.SPOT: "Dynamic", Purchase.RESERVED: "Committed"}
"""FOCUS's pricing category of each way of paying."""


def rows(charges: Iterable[Charge]) -> Iterator[list[object]]:
    """The values of :data:`COLUMNS`, a row for each charge whose price is known."""
    for charge in charges:
        if charge.amount is not None:
            yield [value(charge) for value in COLUMNS.values()]


def _tags(charge: Charge) -> str:
    run = {"gpucloud:run": charge.box.run_id} if charge.box.run_id else {}
    return json.dumps({"gpucloud:box": charge.box.id, **run})


def _pricing(charge: Charge) -> str:
    offer = charge.box.offer
    return _PRICING[offer.purchase] if offer and charge.part == "compute" else "Standard"


def _sku(charge: Charge) -> str | None:
    offer = charge.box.offer
    if charge.part != "compute":
        return charge.part
    return offer.instance_type if offer else None


def _region(charge: Charge) -> str | None:
    return charge.box.place.region if charge.box.place else None


def _digits(amount: Decimal | None) -> str:
    return f"{round(amount or Decimal(0), 6):f}"


def _cost(charge: Charge) -> str:
    return _digits(charge.amount)


def _unit_price(charge: Charge) -> str:
    return f"{charge.unit_price or Decimal(0):f}"


def _vendor(charge: Charge) -> str:
    return charge.vendor


COLUMNS: dict[str, Callable[[Charge], object]] = {
    "AvailabilityZone": lambda charge: charge.box.place and charge.box.place.zone,
    "BilledCost": _cost,
    "BillingAccountId": lambda charge: (charge.box.place and charge.box.place.account) or None,
    "BillingAccountName": lambda _: None,
    "BillingCurrency": lambda charge: charge.currency,
    "BillingPeriodEnd": lambda charge: rfc3339(first_of_next_month(charge.start)),
    "BillingPeriodStart": lambda charge: rfc3339(first_of_month(charge.start)),
    "ChargeCategory": lambda _: "Usage",
    "ChargeClass": lambda _: None,
    "ChargeDescription": lambda charge: f"{charge.part} of {charge.box.name}",
    "ChargeFrequency": lambda _: "Usage-Based",
    "ChargePeriodEnd": lambda charge: rfc3339(charge.end),
    "ChargePeriodStart": lambda charge: rfc3339(charge.start),
    "ConsumedQuantity": lambda charge: _digits(charge.quantity),
    "ConsumedUnit": lambda charge: charge.unit,
    "ContractedCost": _cost,
    "ContractedUnitPrice": _unit_price,
    "EffectiveCost": _cost,
    "InvoiceIssuerName": _vendor,
    "ListCost": _cost,
    "ListUnitPrice": _unit_price,
    "PricingCategory": _pricing,
    "PricingQuantity": lambda charge: _digits(charge.quantity),
    "PricingUnit": lambda charge: charge.unit,
    "ProviderName": _vendor,
    "PublisherName": _vendor,
    "RegionId": _region,
    "RegionName": _region,
    "ResourceId": lambda charge: charge.box.id,
    "ResourceName": lambda charge: charge.box.name,
    "ResourceType": lambda charge: _SERVICES[charge.part][2],
    "ServiceCategory": lambda charge: _SERVICES[charge.part][0],
    "ServiceName": lambda charge: _SERVICES[charge.part][1],
    "SkuId": _sku,
    "Tags": _tags,
    "x_PriceAsOf": lambda charge: charge.as_of,
    "x_PriceSource": lambda charge: charge.source,
}
"""The columns: the mandatory ones, and those of the others with known values."""
