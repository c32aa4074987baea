"""vCPU quotas by family and market, enforced at launch and reported by Service Quotas.

Codes: skypilot and dstack, as in AWS's Service Quotas console; see errors and quotas of the provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.aws.held import unused
from gpucloud_sandbox.aws.query import page
from gpucloud_sandbox.aws.region import ACCOUNT, Region
from gpucloud_sandbox.aws.wire import AwsError
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType

GENEROUS = 10_000.0
"""vCPUs, unless another quota was set. A fresh account of AWS often has 0 for P and G."""

CODES = {
    ("G", "on_demand"): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
    ("G", "spot"): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
    ("Standard", "on_demand"): (
        "L-1216C47A",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    ),
    ("Standard", "spot"): ("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
    ("P", "on_demand"): ("L-417A185B", "Running On-Demand P instances"),
    ("P2-4", "spot"): ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    ("P5", "spot"): ("L-C4BD4855", "All P5 Spot Instance Requests"),
}


def check_quota(region: Region, type_: InstanceType, purchase: str, count: int) -> None:
    """Refuses what would go over a quota.

    Raises:
        AwsError: it would.
    """
    if purchase == "capacity_block":
        return
    bucket = _bucket(type_.name, purchase)
    used = sum(
        _vcpus(region, each["InstanceType"])
        for each in region.all("instance").values()
        if each["State"]["Name"] in {"pending", "running"}
        and _bucket(each["InstanceType"], each["_purchase"]) == bucket
    ) + sum(
        _vcpus(region, each["InstanceType"]) * each["AvailableInstanceCount"]
        for each in unused(region)
        if _bucket(each["InstanceType"], "on_demand") == bucket
    )
    limit = _value(region, CODES[bucket][0])
    if used + type_.vcpus * count <= limit:
        return
    if purchase == "spot":
        raise AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    raise AwsError(
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows for the "
        "instance bucket that the specified instance type belongs to. Please visit "
        "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    )


def set_quota(region: Region, *, code: str, value: float) -> None:
    """Sets a quota, in vCPUs.

    Raises:
        ValueError: the code is unknown.
    """
    if code not in {known for known, _ in CODES.values()}:
        raise ValueError(f"no quota {code}")
    region.put("quota", {"_code": code, "_value": value})


def get_service_quota(region: Region, parameters: Mapping[str, Any]) -> Document:
    """Service Quotas GetServiceQuota."""
    quotas = {quota["QuotaCode"]: quota for quota in _quotas(region)}
    quota = quotas.get(parameters["QuotaCode"])
    if parameters["ServiceCode"] != "ec2" or quota is None:
        raise AwsError("NoSuchResourceException", "The specified quota does not exist.")
    return {"Quota": quota}


def list_service_quotas(region: Region, parameters: Mapping[str, Any]) -> Document:
    """Service Quotas ListServiceQuotas."""
    code = parameters.get("QuotaCode")
    quotas = _quotas(region) if parameters["ServiceCode"] == "ec2" else []
    quotas = [quota for quota in quotas if code in {None, quota["QuotaCode"]}]
    shown, token = page(quotas, parameters, lowest=1, highest=100)
    return {"Quotas": shown, "NextToken": token}


def _quotas(region: Region) -> list[Document]:
    return [
        {
            "ServiceCode": "ec2",
            "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
            "QuotaArn": f"arn:aws:servicequotas:{region.name}:{ACCOUNT}:ec2/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": _value(region, code),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
        for code, name in CODES.values()
    ]


def _value(region: Region, code: str) -> float:
    return float(region.all("quota").get(code, {}).get("_value", GENEROUS))


def _vcpus(region: Region, name: str) -> int:
    type_ = region.type_of(name)
    return type_.vcpus if type_ else 0


def _bucket(name: str, purchase: str) -> tuple[str, str]:
    family = {"g": "G", "p": "P"}.get(name[0], "Standard")
    if family == "P" and purchase == "spot":
        family = "P2-4" if re.match(r"p[234]", name) else "P5"
    return family, purchase if purchase == "spot" else "on_demand"
