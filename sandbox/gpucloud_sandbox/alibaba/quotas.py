"""How much the account may rent: vCPUs per region and way of paying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpucloud_sandbox.alibaba.region import CLOUD, Region
from gpucloud_sandbox.alibaba.stock import alive
from gpucloud_sandbox.alibaba.wire import AlibabaError
from gpucloud_sandbox.database import Document
from gpucloud_sandbox.market import InstanceType

DEFAULT = 20000
_NAMES = {"on_demand": "postpaid", "spot": "spot"}


def limit_of(region: Region, name: str) -> int:
    """A quota's value."""
    kept = region.all("quota").get(name)
    return kept["_value"] if kept else DEFAULT


def set_limit(region: Region, name: str, value: int) -> None:
    """Sets a quota such as ``max-spot-instance-vcpu-count``."""
    region.put("quota", {"_name": name, "_value": value})


def used(region: Region, purchase: str) -> int:
    """The vCPUs that instances take."""
    types = region.world.market.catalog(CLOUD).types
    return sum(
        types[each["InstanceType"]].vcpus
        for each in region.all("instance").values()
        if alive(each) and each["_purchase"] == purchase
    )


def check_quota(region: Region, type_: InstanceType, purchase: str, count: int) -> None:
    """Refuses what is more than the account may rent."""
    name = _NAMES.get(purchase)
    if name is None:
        return
    limit = limit_of(region, f"max-{name}-instance-vcpu-count")
    if used(region, purchase) + type_.vcpus * count > limit:
        raise AlibabaError(
            "QuotaExceed.ElasticQuota",
            f"The number of ECS instances has exceeded the quota of the instance type ({limit} vCPUs).",
            403,
        )


def describe_account_attributes(region: Region, parameters: Mapping[str, Any]) -> Document:
    """DescribeAccountAttributes."""
    values: dict[str, int] = {"max-security-groups": 100}
    for purchase, name in _NAMES.items():
        values[f"max-{name}-instance-vcpu-count"] = limit_of(region, f"max-{name}-instance-vcpu-count")
        values[f"used-{name}-instance-vcpu-count"] = used(region, purchase)
    wanted = parameters.get("AttributeName") or list(values)
    items = [
        {
            "AttributeName": name,
            "AttributeValues": {"ValueItem": [{"Value": str(values[name])}]},
        }
        for name in wanted
        if name in values
    ]
    return {"AccountAttributeItems": {"AccountAttributeItem": items}}


def list_product_quotas(region: Region, parameters: Mapping[str, Any]) -> Document:
    """ListProductQuotas, of ECS."""
    if parameters["ProductCode"] != "ecs":
        return {"Quotas": [], "TotalCount": 0, "NextToken": ""}
    quotas = [
        {
            "ProductCode": "ecs",
            "QuotaActionCode": f"q_{name}_vcpu",
            "QuotaName": f"vCPUs of {name} instances",
            "TotalQuota": float(limit_of(region, f"max-{name}-instance-vcpu-count")),
            "TotalUsage": float(used(region, purchase)),
            "QuotaUnit": "vCPU",
            "Adjustable": True,
        }
        for purchase, name in _NAMES.items()
    ]
    return {"Quotas": quotas, "TotalCount": len(quotas), "NextToken": ""}
