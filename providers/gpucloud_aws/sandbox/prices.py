"""The price list service (GetProducts): on-demand prices in AWS's own, deep, shape."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from gpucloud.sandbox.database import Document
from gpucloud.sandbox.market import InstanceType, Price
from gpucloud_aws.sandbox.query import page
from gpucloud_aws.sandbox.region import CLOUD, Region
from gpucloud_aws.sandbox.wire import AwsError

_ON_DEMAND, _HOURLY = "JRTCKXETXF", "6YS6EN2CT7"
"""AWS's codes for the on-demand term and for a rate per hour."""

ENDPOINTS = ("us-east-1", "eu-central-1", "ap-south-1")


def get_products(region: Region, parameters: Mapping[str, Any]) -> Document:
    """Pricing GetProducts, for ``AmazonEC2``: Linux on demand, and capacity blocks at 0 as AWS lists them."""
    if parameters["ServiceCode"] != "AmazonEC2":
        return {"FormatVersion": "aws_v1", "PriceList": []}
    filters = parameters.get("Filters") or ()
    products = [each for each in _products(region, _wanted(filters)) if _passes(each, filters)]
    shown, token = page(products, parameters, lowest=1, highest=100)
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(each) for each in shown], "NextToken": token}


def _wanted(filters: Any) -> str | None:
    exact = (
        each["Value"] for each in filters if each["Field"] == "instanceType" and "," not in each["Value"]
    )
    return next(exact, None)


def _passes(product: Document, filters: Any) -> bool:
    attributes = {**product["product"]["attributes"], "productFamily": product["product"]["productFamily"]}
    return all(_fits(attributes.get(each["Field"], ""), each["Type"], each["Value"]) for each in filters)


def _fits(value: str, how: str, wanted: str) -> bool:
    match how:
        case "TERM_MATCH" | "EQUALS":
            return value == wanted
        case "CONTAINS":
            return wanted in value
        case "ANY_OF":
            return value in wanted.split(",")
        case "NONE_OF":
            return value not in wanted.split(",")
        case _:
            raise AwsError("InvalidParameterException", f"Invalid filter type {how}")


def _products(region: Region, wanted: str | None) -> Iterator[Document]:
    market = region.world.market
    catalog = market.catalog(CLOUD)
    for (place, zone, name, purchase), _ in catalog.prices.items():
        if zone or purchase != "on_demand" or wanted not in {None, name}:
            continue
        price = market.price(CLOUD, place, "", name, "on_demand")
        if price is None:
            continue
        yield _product(catalog.types[name], place, price, "OnDemand")
        if name.startswith("p"):
            free = Price(amount=Decimal(0), currency=price.currency, as_of=price.as_of)
            yield _product(catalog.types[name], place, free, "CapacityBlock")


def _product(type_: InstanceType, region: str, price: Price, option: str) -> Document:
    text = f"{type_.name}{region}{option}"
    sku = hashlib.sha256(text.encode()).hexdigest()[:16].upper()
    day = price.as_of if "T" in price.as_of else f"{price.as_of}T00:00:00Z"
    term, rate = f"{sku}.{_ON_DEMAND}", f"{sku}.{_ON_DEMAND}.{_HOURLY}"
    amount = f"{price.amount:.10f}"
    return {
        "product": {
            "productFamily": "Compute Instance",
            "sku": sku,
            "attributes": {
                "servicecode": "AmazonEC2",
                "instanceType": type_.name,
                "regionCode": region,
                "locationType": "AWS Region",
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "marketoption": option,
                "licenseModel": "No License required",
                "operation": "RunInstances",
                "vcpu": str(type_.vcpus),
                "memory": f"{type_.memory_gib} GiB",
                "gpu": str(type_.gpu_count),
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                term: {
                    "sku": sku,
                    "offerTermCode": _ON_DEMAND,
                    "effectiveDate": day,
                    "termAttributes": {},
                    "priceDimensions": {
                        rate: {
                            "rateCode": rate,
                            "unit": "Hrs",
                            "beginRange": "0",
                            "endRange": "Inf",
                            "appliesTo": [],
                            "description": f"${amount} per On Demand Linux {type_.name} Instance Hour",
                            "pricePerUnit": {price.currency: amount},
                        }
                    },
                }
            }
        },
        "version": "20261101000000",
        "publicationDate": day,
    }
