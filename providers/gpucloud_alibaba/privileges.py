"""The policies of Alibaba Cloud for a role, and for what nobody may do."""

from __future__ import annotations

import json
from typing import Any

from gpucloud.clouds.abilities import AccessPolicies
from gpucloud.clouds.privileges import role_document
from gpucloud.resources import Bounds, CloudPolicy, CloudRole
from gpucloud_alibaba.checkup import policy

_MAKES = ["ecs:CreateDisk", "ecs:CreateImage", "ecs:CreateSnapshot", "ecs:RunInstances"]
_OPERATOR = (
    "Deployment sets carry no tags: an operator may change those of other owners, and delete empty ones.",
    "Reading is not limited to what the owner has.",
)


class AlibabaAccessPolicies(AccessPolicies):
    """The policies of RAM and of resource directories."""

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The RAM policy of a role."""
        notes = _OPERATOR if role is CloudRole.OPERATOR else ()
        return CloudPolicy(document=role_document(policy(), role, owner), notes=notes)

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A control policy of a resource directory: it denies everybody in its members what is out of bounds.

        Sources: Resource Management, "Languages of access control policies"; ECS, "RAM authorization" (ARNs
        ``acs:ecs:REGION:ACCOUNT:...``). That ``StringNotLike`` holds of a tag that is missing is UNVERIFIED.
        """
        document = json.dumps({"Version": "1", "Statement": _denials(bounds)}, indent=2)
        lost = [
            f"No condition of ECS is known for {what}: gpucloud alone looks at it."
            for what, limits in (
                ("instance types", bounds.instance_types),
                ("ways of paying", bounds.purchases),
            )
            if bounds.allowed and limits is not None
        ]
        return CloudPolicy(
            document=document + "\n",
            notes=(
                "A control policy for a folder or a member of a resource directory (Resource Management,"
                " control policies). It holds for everybody there. It names the regions that gpucloud knows.",
                *lost,
                "The account's own net for money: a cost budget with alerts (Expenses and Costs, Budgets). It"
                " is not created here, counts hours late, and ends nothing.",
            ),
        )


def _denials(bounds: Bounds) -> list[dict[str, Any]]:
    if not bounds.allowed:
        return [_deny(["*"])]
    found: list[dict[str, Any]] = []
    if bounds.other_regions:
        found.append(_deny([f"acs:ecs:{region}:*:*" for region in bounds.other_regions]))
    for tag in bounds.tags:
        missing = {"StringNotLike": {f"acs:RequestTag/{tag}": "?*"}}
        found.append({**_deny(["*"]), "Action": ["ecs:RunInstances"], "Condition": missing})
    return found


def _deny(resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Deny", "Action": _MAKES, "Resource": resources[0] if resources == ["*"] else resources}
