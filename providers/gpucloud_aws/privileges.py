"""The policies of AWS for a role, and for what nobody may do."""

from __future__ import annotations

import json
from typing import Any, assert_never

from gpucloud.clouds.abilities import AccessPolicies
from gpucloud.clouds.privileges import role_document
from gpucloud.resources import Bounds, CloudPolicy, CloudRole
from gpucloud_aws.checkup import policy
from gpucloud_pricing.purchases import Purchase

LONGEST_SCP = 5120
"""Characters of a service control policy, without whitespace (AWS Organizations user guide, "Quotas")."""
_MAKES = ("ec2:CreateImage", "ec2:CreateSnapshot", "ec2:CreateVolume", "ec2:RunInstances")
_INSTANCES = "arn:aws:ec2:*:*:instance/*"
_OPERATOR = (
    "Schedules that end boxes are told by their names, not by tags: an operator may change all of them.",
    "Reading is not limited to what the owner has: EC2's Describe calls know no conditions.",
)


class AwsAccessPolicies(AccessPolicies):
    """The policies of IAM and of AWS Organizations."""

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The IAM policy of a role."""
        notes = _OPERATOR if role is CloudRole.OPERATOR else ()
        return CloudPolicy(document=role_document(policy(), role, owner), notes=notes)

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A service control policy for accounts: it denies everybody in them what is out of bounds.

        Sources: Service Authorization Reference, "Condition keys for Amazon EC2" (``ec2:InstanceType``,
        ``ec2:InstanceMarketType``); IAM user guide, "Global condition keys" (``aws:RequestedRegion``).
        """
        document = json.dumps({"Version": "2012-10-17", "Statement": list(_denials(bounds))}, indent=2)
        length = len("".join(document.split()))
        long = f"It has {length} characters, of {LONGEST_SCP} that AWS takes: name fewer types or regions."
        return CloudPolicy(
            document=document + "\n",
            notes=(
                "A service control policy for an organizational unit or an account: aws organizations"
                " create-policy --type SERVICE_CONTROL_POLICY. It holds for everybody there.",
                *([long] if length > LONGEST_SCP else []),
                "The account's own net for money: aws budgets create-budget, with an action that attaches a"
                " policy or stops instances. It is not created here, and counts hours late.",
            ),
        )


def _denials(bounds: Bounds) -> list[dict[str, Any]]:
    if not bounds.allowed:
        return [_deny("NothingIsMadeHere", _MAKES, "*")]
    found: list[dict[str, Any]] = []
    if bounds.regions is not None:
        where = {"StringNotEquals": {"aws:RequestedRegion": list(bounds.regions)}}
        found.append(_deny("NothingIsMadeElsewhere", _MAKES, "*", where))
    if bounds.instance_types is not None:
        types = {"StringNotLike": {"ec2:InstanceType": list(bounds.instance_types)}}
        found.append(_deny("NoOtherTypes", ("ec2:RunInstances", "ec2:StartInstances"), _INSTANCES, types))
    if bounds.purchases is not None:
        markets = [_market_type(Purchase(each)) for each in bounds.purchases]
        ways = {"StringNotEquals": {"ec2:InstanceMarketType": markets}}
        found.append(_deny("NoOtherWaysOfPaying", ("ec2:RunInstances",), _INSTANCES, ways))
    found += [
        _deny(f"Tag{number}", ("ec2:RunInstances",), _INSTANCES, {"Null": {f"aws:RequestTag/{tag}": "true"}})
        for number, tag in enumerate(bounds.tags, start=1)
    ]
    return found


def _market_type(purchase: Purchase) -> str:
    """The value of ``ec2:InstanceMarketType``; capacity that is held counts as on demand, but for blocks."""
    match purchase:
        case Purchase.ON_DEMAND:
            return "on-demand"
        case Purchase.SPOT:
            return "spot"
        case Purchase.RESERVED:
            return "capacity-block"
        case _:
            assert_never(purchase)


def _deny(
    sid: str, actions: tuple[str, ...], resource: str, condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Sid": sid, "Effect": "Deny", "Action": list(actions), "Resource": resource}
    return {**statement, "Condition": condition} if condition else statement
