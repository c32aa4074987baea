"""Every provider decides for each way of paying: none is ordered, counted or forbidden as another."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from gpucloud.clouds.abilities import Preflight
from gpucloud.resources import Bounds
from gpucloud_alibaba import create as alibaba
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws import create as aws
from gpucloud_aws.privileges import AwsAccessPolicies
from gpucloud_aws.provider import AwsProvider
from gpucloud_aws.quotas import code_for
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing.purchases import Purchase
from tests.profiles import own_profile
from tests.providers import alibaba_wire, aws_wire, azure_wire
from tests.providers.abilities import able
from tests.providers.test_azure_launch import machine_body


def of_aws(purchase: Purchase) -> object:
    order = aws_wire.order(purchase=purchase, reservation="cr-1")
    able(AwsProvider(own_profile()), Preflight).check(order)
    return aws.market_of(order, block=False, currency="USD")


def of_alibaba(purchase: Purchase) -> object:
    order = alibaba_wire.order(purchase=purchase, reservation="crp-1")
    able(AlibabaProvider(own_profile()), Preflight).check(order)
    return alibaba.market_of(order, 9.0)


def of_azure(purchase: Purchase) -> object:
    order = azure_wire.order(purchase=purchase, reservation="/group/1")
    able(AzureProvider(own_profile()), Preflight).check(order)
    return machine_body(purchase=purchase, reservation="/group/1")["properties"]


@pytest.mark.parametrize("ordered", [of_aws, of_alibaba, of_azure])
def test_none_is_ordered_as_another(ordered: Callable[[Purchase], object]) -> None:
    assert len({json.dumps(ordered(purchase), sort_keys=True) for purchase in Purchase}) == len(Purchase)


def test_aws_counts_what_is_not_held_against_a_quota_of_its_own() -> None:
    codes = {purchase: code_for("g4dn.xlarge", purchase) for purchase in Purchase}
    assert {purchase for purchase, code in codes.items() if code is None} == {Purchase.RESERVED}
    assert len(set(codes.values())) == len(Purchase)


@pytest.mark.parametrize("purchase", Purchase)
def test_a_guardrail_of_aws_names_the_market_of_the_allowed_one(purchase: Purchase) -> None:
    bounds = Bounds(
        allowed=True,
        regions=None,
        other_regions=(),
        instance_types=None,
        purchases=(str(purchase),),
        tags=(),
    )
    (denial,) = json.loads(AwsAccessPolicies().guardrail(bounds).document)["Statement"]
    markets = {"on_demand": "on-demand", "spot": "spot", "reserved": "capacity-block"}
    assert denial["Condition"] == {"StringNotEquals": {"ec2:InstanceMarketType": [markets[purchase]]}}
