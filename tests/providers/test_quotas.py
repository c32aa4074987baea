"""Which quotas a purchase counts against, and which not.

The types of AWS's families: EC2 User Guide, "Amazon EC2 instance type quotas".
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from gpucloud.clouds.abilities import Quotas
from gpucloud_alibaba.errors import MalformedAnswerError as MalformedAnswerOfAlibaba
from gpucloud_alibaba.provider import AlibabaProvider
from gpucloud_aws.errors import MalformedAnswerError as MalformedAnswerOfAws
from gpucloud_aws.provider import AwsProvider
from gpucloud_azure.errors import MalformedAnswerError as MalformedAnswerOfAzure
from gpucloud_azure.provider import AzureProvider
from gpucloud_pricing.purchases import Purchase
from tests.profiles import own_profile
from tests.providers import alibaba_sandbox, alibaba_wire, aws_wire
from tests.providers.abilities import able
from tests.providers.azure_wire import Answer as AzureAnswer
from tests.providers.azure_wire import Wire as AzureWire

alibaba_environment, alibaba = alibaba_sandbox.alibaba_environment, alibaba_sandbox.wire

AWS_FAMILIES = (
    ("g4dn.xlarge", Purchase.ON_DEMAND, "L-DB2E81BA"),
    ("g6e.48xlarge", Purchase.ON_DEMAND, "L-DB2E81BA"),
    ("vt1.3xlarge", Purchase.ON_DEMAND, "L-DB2E81BA"),
    ("g4dn.xlarge", Purchase.SPOT, "L-3819A6DF"),
    ("p3.2xlarge", Purchase.ON_DEMAND, "L-417A185B"),
    ("p5.48xlarge", Purchase.ON_DEMAND, "L-417A185B"),
    ("p4d.24xlarge", Purchase.SPOT, "L-7212CCBC"),
    ("p5.48xlarge", Purchase.SPOT, "L-C4BD4855"),
)
RUNNING = (
    ("g4dn.xlarge", "", 2, 2),
    ("g5.xlarge", "spot", 2, 2),
    ("p4d.24xlarge", "", 48, 2),
    ("p4d.24xlarge", "spot", 48, 1),
    ("p5.48xlarge", "spot", 96, 2),
    ("c7i.large", "", 1, 2),
)
"""What runs: type, life cycle, cores, threads of each. vCPUs of every quota are a different number."""
USED = {"L-DB2E81BA": 4, "L-3819A6DF": 4, "L-417A185B": 96, "L-7212CCBC": 48, "L-C4BD4855": 192}


def running() -> str:
    items = "".join(
        f"<item><instanceId>i-{number}</instanceId><instanceType>{name}</instanceType>"
        + (f"<instanceLifecycle>{lifecycle}</instanceLifecycle>" if lifecycle else "")
        + f"<cpuOptions><coreCount>{cores}</coreCount><threadsPerCore>{threads}</threadsPerCore></cpuOptions>"
        + "</item>"
        for number, (name, lifecycle, cores, threads) in enumerate(RUNNING)
    )
    shown = f"<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>"
    return aws_wire.answer("DescribeInstances", shown)


@pytest.mark.parametrize(("name", "purchase", "code"), AWS_FAMILIES)
def test_a_type_of_aws_counts_against_the_quota_of_its_family_and_way_of_paying(
    wire: aws_wire.Wire, name: str, purchase: Purchase, code: str
) -> None:
    json_body = {"content-type": "application/x-amz-json-1.1"}
    wire.say("GetServiceQuota", aws_wire.Answer('{"Quota": {"Value": 200.0}}', headers=json_body))
    wire.say("DescribeInstances", running())
    [quota] = able(AwsProvider(own_profile()), Quotas).headroom("us-east-1", [name, "c7i.large"], purchase)
    [asked] = wire.sent["GetServiceQuota"]
    assert json.loads(asked["json"]) == {"ServiceCode": "ec2", "QuotaCode": code}
    assert (quota.name, quota.instance_types) == (code, (name,))
    assert (quota.limit, quota.used) == (Decimal("200.0"), Decimal(USED[code]))


@pytest.mark.parametrize(
    ("name", "purchase"),
    [
        ("p6-b200.48xlarge", Purchase.SPOT),
        ("c7i.large", Purchase.ON_DEMAND),
        ("g4dn.xlarge", Purchase.RESERVED),
    ],
)
def test_a_type_of_aws_without_a_known_quota_asks_for_none(
    wire: aws_wire.Wire, name: str, purchase: Purchase
) -> None:
    assert not able(AwsProvider(own_profile()), Quotas).headroom("us-east-1", [name], purchase)
    assert "GetServiceQuota" not in wire.sent


def test_of_the_usages_of_azure_only_those_of_the_purchase_count(azure_wire: AzureWire) -> None:
    size, family = "Standard_NC4as_T4_v3", "Standard NCASv3_T4 Family"
    names = ("cores", "lowPriorityCores", family, "standardNCFamily", "virtualMachines", "PremiumDiskCount")
    usages = [{"name": {"value": name}, "limit": 8, "currentValue": 4} for name in names]
    azure_wire.say("GET", "/usages", AzureAnswer({"value": usages}))
    sku = {"name": size, "resourceType": "virtualMachines", "family": family}
    azure_wire.say("GET", "/skus", AzureAnswer({"value": [sku]}))
    provider = AzureProvider(own_profile())

    def counted(purchase: Purchase) -> list[str]:
        return [quota.name for quota in able(provider, Quotas).headroom("eastus", [size], purchase)]

    assert counted(Purchase.ON_DEMAND) == ["cores", family]
    assert counted(Purchase.SPOT) == ["lowPriorityCores"]
    assert counted(Purchase.RESERVED) == []


def test_of_the_attributes_of_alibaba_only_those_of_the_purchase_count(alibaba: alibaba_wire.Wire) -> None:
    """Others are no numbers, or have no values at all."""
    numbers = {
        "max-postpaid-instance-vcpu-count": "100",
        "used-postpaid-instance-vcpu-count": "10",
        "max-spot-instance-vcpu-count": "50",
        "used-spot-instance-vcpu-count": "5",
        "supported-postpaid-instance-types": "ecs.gn6i-c4g1.xlarge",
    }
    items: list[dict[str, Any]] = [
        {"AttributeName": name, "AttributeValues": {"ValueItem": [{"Value": value}]}}
        for name, value in numbers.items()
    ]
    items.insert(0, {"AttributeName": "max-axt-command-count"})
    alibaba.say("DescribeAccountAttributes", {"AccountAttributeItems": {"AccountAttributeItem": items}})
    provider = AlibabaProvider(own_profile())

    def counted(purchase: Purchase) -> list[tuple[str, Decimal, Decimal | None]]:
        quotas = able(provider, Quotas).headroom("cn-hangzhou", ["ecs.gn6i-c4g1.xlarge"], purchase)
        return [(quota.name, quota.limit, quota.used) for quota in quotas]

    assert counted(Purchase.ON_DEMAND) == [("max-postpaid-instance-vcpu-count", Decimal(100), Decimal(10))]
    assert counted(Purchase.SPOT) == [("max-spot-instance-vcpu-count", Decimal(50), Decimal(5))]
    assert counted(Purchase.RESERVED) == []


@pytest.mark.parametrize("limit", ["NaN", "Infinity", "1e999999"])
def test_a_limit_that_nobody_can_be_given_is_a_malformed_answer(
    wire: aws_wire.Wire, alibaba: alibaba_wire.Wire, azure_wire: AzureWire, limit: str
) -> None:
    json_body = {"content-type": "application/x-amz-json-1.1"}
    wire.say("GetServiceQuota", aws_wire.Answer(json.dumps({"Quota": {"Value": limit}}), headers=json_body))
    wire.say("DescribeInstances", running())
    with pytest.raises(MalformedAnswerOfAws, match="GetServiceQuota"):
        able(AwsProvider(own_profile()), Quotas).headroom("us-east-1", ["g4dn.xlarge"], Purchase.SPOT)
    item = {
        "AttributeName": "max-spot-instance-vcpu-count",
        "AttributeValues": {"ValueItem": [{"Value": limit}]},
    }
    alibaba.say("DescribeAccountAttributes", {"AccountAttributeItems": {"AccountAttributeItem": [item]}})
    with pytest.raises(MalformedAnswerOfAlibaba, match="DescribeAccountAttributes"):
        able(AlibabaProvider(own_profile()), Quotas).headroom(
            "cn-hangzhou", ["ecs.gn6i-c4g1.xlarge"], Purchase.SPOT
        )
    usage = {"name": {"value": "lowPriorityCores"}, "limit": limit, "currentValue": 4}
    azure_wire.say("GET", "/usages", AzureAnswer({"value": [usage]}))
    with pytest.raises(MalformedAnswerOfAzure, match="quotas"):
        able(AzureProvider(own_profile()), Quotas).headroom("eastus", ["Standard_NC4as_T4_v3"], Purchase.SPOT)
