"""The quotas of the account: vCPUs per family of types and way of paying.

Codes: the Service Quotas console of EC2 ("Running On-Demand P instances"), as skypilot and dstack use them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, assert_never

from gpucloud.clouds.abilities import Quotas
from gpucloud.clouds.kit import Prefetch, in_threads
from gpucloud.resources import Quota
from gpucloud_aws.account import AwsAccount
from gpucloud_aws.clients import READ_ATTEMPTS
from gpucloud_aws.errors import reading
from gpucloud_pricing.purchases import Purchase

CLOUD = "aws"
FIX = "https://{region}.console.aws.amazon.com/servicequotas/home/services/ec2/quotas/{code}"
REQUEST = (
    "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} "
    "--region {region} --desired-value LIMIT"
)
"""Source: AWS CLI Command Reference, service-quotas request-service-quota-increase."""

ON_DEMAND_CODES = {r"(g|vt)\d": "L-DB2E81BA", r"p\d": "L-417A185B"}
SPOT_CODES = {r"(g|vt)\d": "L-3819A6DF", r"p[234]": "L-7212CCBC", r"p5": "L-C4BD4855"}
"""The prefixes of the types that count against a quota, and the quota's code."""


def code_for(instance_type: str, purchase: Purchase) -> str | None:
    """The quota that a type counts against; ``None`` if unknown, and for held capacity."""
    codes = _codes_of(purchase)
    return next((code for head, code in codes.items() if re.match(head, instance_type)), None)


def _codes_of(purchase: Purchase) -> Mapping[str, str]:
    match purchase:
        case Purchase.ON_DEMAND:
            return ON_DEMAND_CODES
        case Purchase.SPOT:
            return SPOT_CODES
        case Purchase.RESERVED:
            return {}
        case _:
            assert_never(purchase)


class AwsQuotas(Quotas):
    """vCPU quotas of the families, as Service Quotas tells them; that exists in one partition."""

    def __init__(self, account: AwsAccount) -> None:
        self._account = account

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The quotas that these types count against, with the vCPUs that run."""
        clients = self._account.clients
        if clients.partition(region) != "aws":
            return ()
        types: dict[str, list[str]] = {}
        for name in instance_types:
            code = code_for(name, purchase)
            if code is not None:
                types.setdefault(code, []).append(name)
        if not types:
            return ()
        quotas = clients.client("service-quotas", region, attempts=READ_ATTEMPTS)

        def limit_of(code: str) -> Decimal:
            answer = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)
            with reading("GetServiceQuota"):
                return Decimal(str(answer["Quota"]["Value"]))

        limits = Prefetch(lambda: in_threads(limit_of, types))
        used: dict[str, int] = dict.fromkeys(types, 0)
        for name, vcpus in _running(clients.ec2(region), spot=purchase is Purchase.SPOT):
            code = code_for(name, purchase)
            if code in used:
                used[code] += vcpus
        with reading("GetServiceQuota"):
            return [
                Quota(
                    cloud=CLOUD,
                    region=region,
                    name=code,
                    instance_types=tuple(names),
                    unit="vcpus",
                    limit=limit,
                    used=Decimal(used[code]),
                    fix=FIX.format(region=region, code=code),
                    request=REQUEST.format(region=region, code=code),
                )
                for (code, names), limit in zip(types.items(), limits.result(), strict=True)
            ]


def _running(ec2: Any, *, spot: bool) -> Iterator[tuple[str, int]]:
    """The types and vCPUs of the instances that count."""
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    for page in ec2.get_paginator("describe_instances").paginate(Filters=states):
        with reading("DescribeInstances"):
            for reservation in page["Reservations"]:
                for instance in reservation["Instances"]:
                    if (instance.get("InstanceLifecycle") == "spot") == spot:
                        cpu = instance.get("CpuOptions", {})
                        yield instance["InstanceType"], cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 0)
