"""Savings plans: what an hour costs under each, in AWS's own shape.

An instance plan takes what a standard reservation takes, a compute plan what a convertible one does (AWS
Savings Plans User Guide, "Savings Plans and Reserved Instances").
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud_aws.sandbox.prices import CONVERTIBLE, PAID_UPFRONT
from gpucloud_aws.sandbox.query import page
from gpucloud_aws.sandbox.region import CLOUD, Region

_SECONDS = {"reserved_1y": 31536000, "reserved_3y": 94608000}
_PLANS = {"EC2Instance": Decimal(1), "Compute": CONVERTIBLE}


def describe_offering_rates(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSavingsPlansOfferingRates, of EC2; capacity that is reserved and stands empty has rates too."""
    wanted = {each["name"]: each.get("values", []) for each in parameters.get("filters") or ()}
    rates = [
        rate
        for rate in _rates(region, wanted.get("instanceType"))
        if all(_property(rate, name) in values for name, values in wanted.items())
        and _among(rate["savingsPlanOffering"]["planType"], parameters.get("savingsPlanTypes"))
        and _among(rate["savingsPlanOffering"]["paymentOption"], parameters.get("savingsPlanPaymentOptions"))
        and _among(rate["productType"], parameters.get("products"))
        and _among(rate["serviceCode"], parameters.get("serviceCodes"))
    ]
    asked = {"MaxResults": parameters.get("maxResults"), "NextToken": parameters.get("nextToken")}
    given = {name: value for name, value in asked.items() if value is not None}
    shown, token = page(rates, given, lowest=1, highest=1000)
    return {"searchResults": shown, **({"nextToken": token} if token else {})}


def _among(value: str, allowed: list[str] | None) -> bool:
    return not allowed or value in allowed


def _property(rate: Document, name: str) -> str | None:
    return next((each["value"] for each in rate["properties"] if each["name"] == name), None)


def _rates(region: Region, names: list[str] | None) -> Iterator[Document]:
    market = region.world.market
    for place, zone, name, purchase in market.catalog(CLOUD).prices:
        if zone or place.startswith("cn-") or purchase not in _SECONDS:
            continue
        if names is not None and name not in names:
            continue
        price = market.price(CLOUD, place, "", name, purchase)
        if price is None:
            continue
        for plan, dearer in _PLANS.items():
            for paid, (_, reduced) in PAID_UPFRONT.items():
                offering = {
                    "offeringId": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{plan}{paid}{purchase}")),
                    "paymentOption": paid,
                    "planType": plan,
                    "durationSeconds": _SECONDS[purchase],
                    "currency": price.currency,
                    "planDescription": f"{plan} Savings Plan, {paid}",
                }
                for usage in ("BoxUsage", "UnusedBox"):
                    yield {
                        "savingsPlanOffering": offering,
                        "rate": f"{price.amount * dearer * reduced:.10f}".rstrip("0"),
                        "unit": "Hrs",
                        "productType": "EC2",
                        "serviceCode": "AmazonEC2",
                        "usageType": f"{usage}:{name}",
                        "operation": "RunInstances",
                        "properties": [
                            {"name": "region", "value": place},
                            {"name": "instanceType", "value": name},
                            {"name": "instanceFamily", "value": name.split(".")[0]},
                            {"name": "productDescription", "value": "Linux/UNIX"},
                            {"name": "tenancy", "value": "shared"},
                        ],
                    }
