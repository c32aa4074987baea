"""Which calls may leave this machine, whether each may be repeated, and what none of them may ask for.

The table is held against every request before it is signed, so that a call that is not on it, a purchase
above all, cannot be sent even by mistake. ``RunInstances`` itself can be a purchase (a subscription, paid for
at once), so its parameters are looked at as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gpucloud.clouds.profile import is_loopback
from gpucloud_alibaba.errors import ActionRefusedError


class Repeat(StrEnum):
    """Why a call may be repeated. Nothing that must never be repeated is used."""

    SAFE = "safe"  # changes nothing
    TOKEN = "token"  # the cloud recognises the repetition by its ClientToken  # noqa: S105
    BY_NAME = "by-name"  # a second call on the same id finds the work done


PRODUCTS = {"2014-05-26": "ecs", "2016-04-28": "vpc", "2015-04-01": "sts"}
"""The products by the version of their API, which is what a request names."""

ACTIONS: dict[tuple[str, str], Repeat] = {
    ("ecs", "DescribeAccountAttributes"): Repeat.SAFE,
    ("ecs", "DescribeAvailableResource"): Repeat.SAFE,
    ("ecs", "DescribeCapacityReservations"): Repeat.SAFE,
    ("ecs", "DescribeDisks"): Repeat.SAFE,
    ("ecs", "DescribeElasticityAssurances"): Repeat.SAFE,
    ("ecs", "DescribeImages"): Repeat.SAFE,
    ("ecs", "DescribeInstanceHistoryEvents"): Repeat.SAFE,
    ("ecs", "DescribeInstances"): Repeat.SAFE,
    ("ecs", "DescribeNetworkInterfaces"): Repeat.SAFE,
    ("ecs", "DescribePrice"): Repeat.SAFE,
    ("ecs", "DescribeRegions"): Repeat.SAFE,
    ("ecs", "DescribeReservedInstances"): Repeat.SAFE,
    ("ecs", "DescribeSecurityGroupAttribute"): Repeat.SAFE,
    ("ecs", "DescribeSecurityGroups"): Repeat.SAFE,
    ("ecs", "DescribeSpotAdvice"): Repeat.SAFE,
    ("ecs", "DescribeSpotPriceHistory"): Repeat.SAFE,
    ("ecs", "GetInstanceConsoleOutput"): Repeat.SAFE,
    ("sts", "GetCallerIdentity"): Repeat.SAFE,
    ("vpc", "DescribeEipAddresses"): Repeat.SAFE,
    ("vpc", "DescribeVSwitches"): Repeat.SAFE,
    ("vpc", "DescribeVpcs"): Repeat.SAFE,
    ("ecs", "CreateSecurityGroup"): Repeat.TOKEN,
    ("ecs", "RunInstances"): Repeat.TOKEN,
    ("vpc", "CreateVSwitch"): Repeat.TOKEN,
    ("vpc", "CreateVpc"): Repeat.TOKEN,
    ("ecs", "AuthorizeSecurityGroup"): Repeat.BY_NAME,
    ("ecs", "DeleteDisk"): Repeat.BY_NAME,
    ("ecs", "DeleteInstances"): Repeat.BY_NAME,
    ("ecs", "DeleteNetworkInterface"): Repeat.BY_NAME,
    ("ecs", "DeleteSecurityGroup"): Repeat.BY_NAME,
    ("ecs", "ModifyInstanceAutoReleaseTime"): Repeat.BY_NAME,
    ("ecs", "RevokeSecurityGroup"): Repeat.BY_NAME,
    ("ecs", "TagResources"): Repeat.BY_NAME,
    ("vpc", "DeleteVSwitch"): Repeat.BY_NAME,
    ("vpc", "DeleteVpc"): Repeat.BY_NAME,
    ("vpc", "ReleaseEipAddress"): Repeat.BY_NAME,
    ("vpc", "TagResources"): Repeat.BY_NAME,
}

BUYS = frozenset({"AutoPay", "AutoRenew", "AutoRenewPeriod", "Period", "PeriodUnit", "TerminateSubscription"})
"""Parameters that exist for what is paid for in advance."""


def refuse_unlisted(
    *, version: str, action: str, parameters: Mapping[str, str], protocol: str, host: str
) -> None:
    """Called with every request before it is signed.

    Args:
        version: the API's version, which tells the product.
        action: the API's name of the call.
        parameters: all parameters, as on the wire.
        protocol: ``https`` or ``http``.
        host: where the request goes.

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
    if bought and ACTIONS[product, action] is not Repeat.SAFE:  # what a month would cost may be asked
        raise ActionRefusedError(f"{product}:{action} with {', '.join(bought)} was not sent: it may buy")
    if action == "RunInstances" and parameters.get("InstanceChargeType") != "PostPaid":
        raise ActionRefusedError("ecs:RunInstances was not sent: it must say InstanceChargeType=PostPaid")
    if protocol.lower() != "https" and not is_loopback(f"//{host}"):
        raise ActionRefusedError(f"{product}:{action} was not sent: {protocol}://{host} does not use TLS")
