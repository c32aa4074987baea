"""The calls that gpucloud may send to Alibaba Cloud, whether each may be repeated, and forbidden parameters.

Every request is checked against the table before it is signed, so that a call that is not in it, above all a
purchase, cannot be sent even by mistake. ``RunInstances`` itself can be a purchase (a prepaid subscription),
so its parameters are checked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gpucloud.clouds.profile import is_loopback
from gpucloud_alibaba.errors import ActionRefusedError


class Repeat(StrEnum):
    """Why a call may be repeated. No call is used that must never be repeated."""

    SAFE = "safe"  # changes nothing
    TOKEN = "token"  # the cloud recognises the repetition by its ClientToken  # noqa: S105
    BY_NAME = "by-name"  # a second call on the same id finds the work done


PRODUCTS = {"2014-05-26": "ecs", "2016-04-28": "vpc", "2015-04-01": "sts"}
"""The products by the version of their API, which is the only product id in a request."""

ACTIONS: dict[tuple[str, str], Repeat] = {
    ("ecs", "DescribeAccountAttributes"): Repeat.SAFE,
    ("ecs", "DescribeAvailableResource"): Repeat.SAFE,
    ("ecs", "DescribeCapacityReservations"): Repeat.SAFE,
    ("ecs", "DescribeDeploymentSets"): Repeat.SAFE,
    ("ecs", "DescribeDisks"): Repeat.SAFE,
    ("ecs", "DescribeElasticityAssurances"): Repeat.SAFE,
    ("ecs", "DescribeImages"): Repeat.SAFE,
    ("ecs", "DescribeInstanceHistoryEvents"): Repeat.SAFE,
    ("ecs", "DescribeInstanceTypes"): Repeat.SAFE,
    ("ecs", "DescribeInstances"): Repeat.SAFE,
    ("ecs", "DescribeNetworkInterfaces"): Repeat.SAFE,
    ("ecs", "DescribePrice"): Repeat.SAFE,
    ("ecs", "DescribeRegions"): Repeat.SAFE,
    ("ecs", "DescribeReservedInstances"): Repeat.SAFE,
    ("ecs", "DescribeSecurityGroupAttribute"): Repeat.SAFE,
    ("ecs", "DescribeSecurityGroups"): Repeat.SAFE,
    ("ecs", "DescribeSnapshots"): Repeat.SAFE,
    ("ecs", "DescribeSpotAdvice"): Repeat.SAFE,
    ("ecs", "DescribeSpotPriceHistory"): Repeat.SAFE,
    ("ecs", "GetInstanceConsoleOutput"): Repeat.SAFE,
    ("oss", "GetObject"): Repeat.SAFE,
    ("oss", "ListBuckets"): Repeat.SAFE,
    ("oss", "ListObjectsV2"): Repeat.SAFE,
    ("sts", "AssumeRole"): Repeat.SAFE,
    ("sts", "GetCallerIdentity"): Repeat.SAFE,
    ("vpc", "DescribeEipAddresses"): Repeat.SAFE,
    ("vpc", "DescribeVSwitches"): Repeat.SAFE,
    ("vpc", "DescribeVpcs"): Repeat.SAFE,
    ("ecs", "CreateDeploymentSet"): Repeat.TOKEN,
    ("ecs", "CreateDisk"): Repeat.TOKEN,
    ("ecs", "CreateImage"): Repeat.TOKEN,
    ("ecs", "CreateSecurityGroup"): Repeat.TOKEN,
    ("ecs", "CreateSnapshot"): Repeat.TOKEN,
    ("ecs", "RunInstances"): Repeat.TOKEN,
    ("vpc", "CreateVSwitch"): Repeat.TOKEN,
    ("vpc", "CreateVpc"): Repeat.TOKEN,
    ("ecs", "AttachDisk"): Repeat.BY_NAME,
    ("ecs", "AuthorizeSecurityGroup"): Repeat.BY_NAME,
    ("ecs", "DeleteDeploymentSet"): Repeat.BY_NAME,
    ("ecs", "DeleteDisk"): Repeat.BY_NAME,
    ("ecs", "DeleteImage"): Repeat.BY_NAME,
    ("ecs", "DeleteInstances"): Repeat.BY_NAME,
    ("ecs", "DeleteNetworkInterface"): Repeat.BY_NAME,
    ("ecs", "DeleteSecurityGroup"): Repeat.BY_NAME,
    ("ecs", "DeleteSnapshot"): Repeat.BY_NAME,
    ("ecs", "ModifyDeploymentSetAttribute"): Repeat.BY_NAME,
    ("ecs", "ModifyInstanceAutoReleaseTime"): Repeat.BY_NAME,
    ("ecs", "RevokeSecurityGroup"): Repeat.BY_NAME,
    ("ecs", "StartInstance"): Repeat.BY_NAME,
    ("ecs", "StopInstance"): Repeat.BY_NAME,
    ("ecs", "TagResources"): Repeat.BY_NAME,
    ("oss", "DeleteObject"): Repeat.BY_NAME,
    ("oss", "PutObject"): Repeat.BY_NAME,
    ("vpc", "DeleteVSwitch"): Repeat.BY_NAME,
    ("vpc", "DeleteVpc"): Repeat.BY_NAME,
    ("vpc", "ReleaseEipAddress"): Repeat.BY_NAME,
    ("vpc", "TagResources"): Repeat.BY_NAME,
}

BUYS = frozenset({"AutoPay", "AutoRenew", "AutoRenewPeriod", "Period", "PeriodUnit", "TerminateSubscription"})
"""Parameters of prepaid resources."""


def refuse_unlisted(
    *, version: str, action: str, parameters: Mapping[str, str], protocol: str, host: str
) -> None:
    """Called with every request before it is signed.

    Args:
        version: the API's version, which identifies the product.
        action: the API's name of the call.
        parameters: all parameters, as on the wire.
        protocol: ``https`` or ``http``.
        host: the host of the request.

    Raises:
        ActionRefusedError: the call is not on the list, would pay in advance, or would go without TLS to
            another machine.
    """
    product = PRODUCTS.get(version, version)
    if (product, action) not in ACTIONS:
        raise ActionRefusedError(
            f"{product}:{action} is not among the calls that gpucloud may send, and was not sent"
        )
    bought = sorted(BUYS & parameters.keys())
    if bought and ACTIONS[product, action] is not Repeat.SAFE:  # price queries may contain them
        raise ActionRefusedError(f"{product}:{action} with {', '.join(bought)} was not sent: it may buy")
    if action == "RunInstances" and parameters.get("InstanceChargeType") != "PostPaid":
        raise ActionRefusedError("ecs:RunInstances was not sent: it must say InstanceChargeType=PostPaid")
    if protocol.lower() != "https" and not is_loopback(f"//{host}"):
        raise ActionRefusedError(f"{product}:{action} was not sent: {protocol}://{host} does not use TLS")
