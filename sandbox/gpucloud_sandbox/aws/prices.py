"""The price list service (GetProducts): prices on demand and reserved in AWS's own, deep, shape."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Any

from gpucloud_sandbox.aws import tariffs
from gpucloud_sandbox.aws.query import page
from gpucloud_sandbox.aws.region import CLOUD, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType, Price

_ON_DEMAND, _HOURLY, _ONCE = "JRTCKXETXF", "6YS6EN2CT7", "2TG2D8R56U"
"""AWS's codes for the on-demand term, and for a rate per hour and one that is paid once."""
_LEASES = {"reserved_1y": ("1yr", 8760), "reserved_3y": ("3yr", 26280)}
PAID_UPFRONT = {
    "No Upfront": (Decimal(0), Decimal(1)),
    "Partial Upfront": (Decimal("0.5"), Decimal("0.96")),
    "All Upfront": (Decimal(1), Decimal("0.94")),
}
"""Which part is paid at once, and how much of the price without that is paid in all: the sandbox's own, near
what AWS takes."""
CONVERTIBLE = Decimal("1.15")
"""How much dearer a convertible reservation is; likewise."""

_MACHINE = "Compute Instance"
_PAGE = 100
"""The most rows of a page, and how many there are where the caller names no number. Source: the Price List
Query API's reference, GetProducts."""

ENDPOINTS = ("us-east-1", "eu-central-1", "ap-south-1")


def get_products(region: Region, parameters: Mapping[str, Any]) -> Document:
    """Pricing GetProducts: machines (Linux, Windows, capacity blocks at 0 as AWS lists them) and tariffs."""
    service, filters = parameters["ServiceCode"], parameters.get("Filters") or ()
    exact = {each["Field"]: each["Value"] for each in filters if each["Type"] in {"TERM_MATCH", "EQUALS"}}
    is_machine = service == "AmazonEC2" and exact.get("productFamily", _MACHINE) == _MACHINE
    machines = _products(region, _wanted(filters)) if is_machine else ()
    others = () if "instanceType" in exact else tariffs.products(region.world.market, service)
    products = [each for each in chain(machines, others) if _passes(each, filters)]
    shown, token = page(products, {"MaxResults": _PAGE, **parameters}, lowest=1, highest=_PAGE)
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(each) for each in shown], "NextToken": token}


def _wanted(filters: Any) -> str | None:
    exact = (
        each["Value"] for each in filters if each["Field"] == "instanceType" and "," not in each["Value"]
    )
    return next(exact, None)


def _passes(product: Document, filters: Any) -> bool:
    attributes = {
        "productFamily": product["product"].get("productFamily"),
        **product["product"]["attributes"],
    }
    return all(_fits(attributes.get(each["Field"]) or "", each["Type"], each["Value"]) for each in filters)


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
    for place, zone, name, purchase in catalog.prices:
        if purchase != "on_demand" or wanted not in {None, name} or place.startswith("cn-"):
            continue  # China has a price list of its own
        price = market.price(CLOUD, place, zone, name, "on_demand")
        if price is None:
            continue
        type_ = catalog.types[name]
        attributes = {"regionCode": zone or place, "locationType": _location_type(place, zone)}
        ours = _product(type_, price, attributes)
        leases = {
            lease: market.price(CLOUD, place, zone, name, purchase)
            for purchase, lease in _LEASES.items()
            if (place, zone, name, purchase) in catalog.prices
        }
        ours["terms"]["Reserved"] = dict(_reserved(ours["product"]["sku"], leases))
        yield ours
        dearer = replace(price, amount=price.amount * 2)
        yield _product(type_, dearer, {**attributes, "operatingSystem": "Windows"})
        if name.startswith("p"):
            free = replace(price, amount=Decimal(0))
            yield _product(type_, free, {**attributes, "marketoption": "CapacityBlock"})


def _location_type(place: str, zone: str) -> str:
    if not zone:
        return "AWS Region"
    return "AWS Wavelength Zone" if zone.startswith(f"{place}-wl") else "AWS Local Zone"


def _product(type_: InstanceType, price: Price, attributes: Mapping[str, str]) -> Document:
    text = f"{type_.name}{sorted(attributes.items())}"
    sku = hashlib.sha256(text.encode()).hexdigest()[:16].upper()
    day = price.as_of if "T" in price.as_of else f"{price.as_of}T00:00:00Z"
    rate = f"{sku}.{_ON_DEMAND}.{_HOURLY}"
    told = f"${price.amount:.10f} per On Demand Linux {type_.name} Instance Hour"
    return {
        "product": {
            "productFamily": _MACHINE,
            "sku": sku,
            "attributes": {
                "servicecode": "AmazonEC2",
                "instanceType": type_.name,
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "capacitystatus": "Used",
                "marketoption": "OnDemand",
                "licenseModel": "No License required",
                "operation": "RunInstances",
                "vcpu": str(type_.vcpus),
                "memory": f"{type_.memory_gib} GiB",
                **({"gpu": str(type_.gpu_count)} if type_.gpu_count else {}),
                **attributes,
            },
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                f"{sku}.{_ON_DEMAND}": {
                    "sku": sku,
                    "offerTermCode": _ON_DEMAND,
                    "effectiveDate": day,
                    "termAttributes": {},
                    "priceDimensions": {rate: _dimension(rate, "Hrs", price.amount, price.currency, told)},
                }
            }
        },
        "version": "20261101000000",
        "publicationDate": day,
    }


def _reserved(sku: str, leases: Mapping[tuple[str, int], Price | None]) -> Iterator[tuple[str, Document]]:
    """The terms of reservations: of each length, in both classes, paid in three ways."""
    for (length, hours), price in leases.items():
        for class_, dearer in (("standard", Decimal(1)), ("convertible", CONVERTIBLE)):
            for paid, (at_once, reduced) in PAID_UPFRONT.items():
                if price is None:
                    continue
                total = price.amount * hours * reduced * dearer
                upfront, hourly = total * at_once, total * (1 - at_once) / hours
                code = hashlib.sha256(f"{length}{class_}{paid}".encode()).hexdigest()[:10].upper()
                term = f"{sku}.{code}"
                amounts = {_HOURLY: ("Hrs", hourly)} | ({_ONCE: ("Quantity", upfront)} if upfront else {})
                yield (
                    term,
                    {
                        "sku": sku,
                        "offerTermCode": code,
                        "termAttributes": {
                            "LeaseContractLength": length,
                            "OfferingClass": class_,
                            "PurchaseOption": paid,
                        },
                        "priceDimensions": {
                            f"{term}.{rate}": _dimension(f"{term}.{rate}", unit, amount, price.currency)
                            for rate, (unit, amount) in amounts.items()
                        },
                    },
                )


def _dimension(code: str, unit: str, amount: Decimal, currency: str, told: str = "") -> Document:
    return {
        "rateCode": code,
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "appliesTo": [],
        "description": told or ("Upfront Fee" if unit == "Quantity" else "per hour"),
        "pricePerUnit": {currency: f"{amount:.10f}"},
    }
