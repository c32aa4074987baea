"""Savings plans: what an hour costs under each, and those that the account has, in AWS's own shape.

An instance plan takes what a standard reservation takes, a compute plan what a convertible one does (AWS
Savings Plans User Guide, "Savings Plans and Reserved Instances").
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from gpucloud_sandbox.aws.prices import CONVERTIBLE, PAID_UPFRONT
from gpucloud_sandbox.aws.query import page
from gpucloud_sandbox.aws.region import ACCOUNT, CLOUD, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.clock import end_of, stamp
from gpucloud_sandbox.database import Document

ENDPOINT = "us-east-1"
"""The region whose endpoint answers for all."""
_SECONDS = {"reserved_1y": 31536000, "reserved_3y": 94608000}
_UPFRONT = {"none": "No Upfront", "partial": "Partial Upfront", "all": "All Upfront"}
_PLANS = {"EC2Instance": Decimal(1), "Compute": CONVERTIBLE}


def describe_offering_rates(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSavingsPlansOfferingRates, of EC2; unused reserved capacity has rates too."""
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
    return _paged("searchResults", rates, parameters)


def grant(region: Region, values: Mapping[str, Any]) -> Document:
    """Gives the account a plan.

    Args:
        region: that of the endpoint.
        values: ``per_hour`` in USD, ``until`` (the last day), ``term`` (1y, 3y), ``upfront`` (none,
            partial, all); for an instance plan ``family`` and ``region``.

    Raises:
        ValueError: AWS sells no such plan.
    """
    type_ = "EC2Instance" if "family" in values else "Compute"
    where = {"region": values["region"], "ec2InstanceFamily": values["family"]} if "family" in values else {}
    paid = _UPFRONT.get(values.get("upfront", "none"))
    seconds = _SECONDS.get(f"reserved_{values.get('term', '1y')}")
    if paid is None or seconds is None:
        raise ValueError("a plan is for 1y or 3y, with none, partial or all paid upfront")
    id_ = str(uuid.UUID(region.world.token(32)))
    return region.put(
        "plan",
        {
            "savingsPlanId": id_,
            "savingsPlanArn": f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/{id_}",
            "offeringId": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{type_}{paid}{seconds}")),
            "description": f"{type_} Savings Plan, {paid}",
            "savingsPlanType": type_,
            "paymentOption": paid,
            "productTypes": ["EC2", "Fargate", "Lambda"] if type_ == "Compute" else ["EC2"],
            **where,
            "currency": "USD",
            "commitment": str(Decimal(str(values["per_hour"]))),
            "start": region.stamp,
            "end": stamp(end_of(values["until"])),
            "termDurationInSeconds": seconds,
            "tags": {},
        },
    )


def describe_savings_plans(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeSavingsPlans, by state and id.

    Raises:
        AwsError: other filters are asked for.
    """
    if parameters.get("filters"):
        raise AwsError("ValidationException", "The gpucloud sandbox does not emulate these filters")
    known = [
        {**each, "state": "active" if datetime.fromisoformat(each["end"]) > region.now else "retired"}
        for each in region.all("plan").values()
        if _among(each["savingsPlanId"], parameters.get("savingsPlanIds"))
    ]
    plans = [each for each in known if _among(each["state"], parameters.get("states"))]
    return _paged("savingsPlans", plans, parameters)


def _paged(member: str, rows: list[Document], parameters: Mapping[str, Any]) -> Document:
    asked = {"MaxResults": parameters.get("maxResults"), "NextToken": parameters.get("nextToken")}
    given = {name: value for name, value in asked.items() if value is not None}
    shown, token = page(rows, given, lowest=1, highest=1000)
    return {member: shown, **({"nextToken": token} if token else {})}


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
