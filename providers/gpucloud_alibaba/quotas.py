"""How much the account may rent: vCPUs of pay-as-you-go and of spot instances, per region."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import assert_never

from gpucloud.clouds.abilities import Quotas
from gpucloud.resources import Quota
from gpucloud_alibaba.account import AlibabaAccount
from gpucloud_alibaba.clients import listed
from gpucloud_alibaba.describe import CLOUD
from gpucloud_alibaba.errors import reading
from gpucloud_alibaba.models import ecs_models
from gpucloud_pricing.purchases import Purchase

FIX = (
    "ask for more in the Quota Center, product ECS: https://quotas.console.alibabacloud.com "
    "(China site: https://quotas.console.aliyun.com)"
)
REQUEST = (
    "aliyun quotas CreateQuotaApplication --ProductCode ecs --QuotaActionCode CODE "
    "--Dimensions.1.Key regionId --Dimensions.1.Value {region} --DesireValue LIMIT --Reason 'GPU work', "
    "with the CODE from: aliyun quotas ListProductQuotas --ProductCode ecs"
)
"""Source: Quota Center API reference, CreateQuotaApplication and ListProductQuotas. Which code limits the
vCPUs of a region is not documented there: UNVERIFIED, so the user looks it up."""


class AlibabaQuotas(Quotas):
    """The vCPU quota of a region."""

    def __init__(self, account: AlibabaAccount) -> None:
        self._account = account

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The region's vCPU quota for a way of paying; held capacity counts against none.

        Limits of single types are in the Quota Center only and are not read.
        """
        counted = _counted_as(purchase)
        if counted is None or not instance_types:
            return ()
        limit, used = (f"{what}-{counted}-instance-vcpu-count" for what in ("max", "used"))
        asked = ecs_models().DescribeAccountAttributesRequest(region_id=region, attribute_name=[limit, used])
        body = self._account.clients.ecs(region).describe_account_attributes(asked).body
        values: dict[str, Decimal] = {}
        with reading("DescribeAccountAttributes"):
            for item in listed(body.account_attribute_items.account_attribute_item):
                shown = item.attribute_values.value_item if item.attribute_values else None
                if item.attribute_name in {limit, used} and shown:  # others are no numbers
                    values[item.attribute_name] = Decimal(str(shown[0].value))
            if limit not in values:
                return ()
            return [
                Quota(
                    cloud=CLOUD,
                    region=region,
                    name=limit,
                    instance_types=tuple(instance_types),
                    unit="vcpus",
                    limit=values[limit],
                    used=values.get(used),
                    fix=FIX,
                    request=REQUEST.format(region=region),
                )
            ]


def _counted_as(purchase: Purchase) -> str | None:
    """The word in the names of the quotas of a way of paying; ``None`` where it counts against none."""
    match purchase:
        case Purchase.ON_DEMAND:
            return "postpaid"
        case Purchase.SPOT:
            return "spot"
        case Purchase.RESERVED:
            return None
        case _:
            assert_never(purchase)
