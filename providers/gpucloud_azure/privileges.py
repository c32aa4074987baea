"""Custom roles of Azure, and an Azure Policy for what nobody may do."""

from __future__ import annotations

import json
from typing import Any

from gpucloud.clouds.abilities import AccessPolicies
from gpucloud.resources import Bounds, CloudPolicy, CloudRole
from gpucloud_azure.checkup import policy
from gpucloud_pricing.purchases import Purchase

_MACHINES = "Microsoft.Compute/virtualMachines"
_MADE = [_MACHINES, "Microsoft.Compute/disks", "Microsoft.Compute/snapshots"]
_OPERATOR = (
    "Azure's roles know no conditions on tags of machines, disks and networks: this role reaches what other"
    " owners have in its scope. To prevent that, give each person a subscription, and assign the role there.",
)
_ROLES = {
    CloudRole.VIEWER: "gpucloud viewer",
    CloudRole.OPERATOR: "gpucloud operator",
}


class AzureAccessPolicies(AccessPolicies):
    """Custom roles, and policy definitions."""

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:  # noqa: ARG002  (no condition names it)
        """The custom role of a role.

        Source: Azure RBAC, "Azure role assignment condition format" (conditions on storage and on role
        assignments alone).
        """
        if role is CloudRole.ADMIN:
            return CloudPolicy(document=policy())
        document = json.loads(policy())
        document["Name"] = _ROLES[role]
        if role is CloudRole.VIEWER:
            document["Actions"] = [each for each in document["Actions"] if each.endswith("/read")]
            document["Description"] = "What gpucloud needs to look, and nothing that changes anything."
        notes = _OPERATOR if role is CloudRole.OPERATOR else ()
        return CloudPolicy(document=json.dumps(document, indent=2) + "\n", notes=notes)

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A policy definition: it denies, to everybody in the scope of its assignment, what is out of bounds.

        Sources: Azure Policy, "Policy definition structure"; the aliases of the built-in definition "Allowed
        virtual machine size SKUs"; ``Microsoft.Compute/virtualMachines/priority`` is UNVERIFIED.
        """
        denied = _denials(bounds)
        rule = {"if": {"anyOf": denied}, "then": {"effect": "deny"}}
        properties = {"displayName": "gpucloud guardrail", "policyType": "Custom", "mode": "All"}
        document = {"properties": {**properties, "policyRule": rule}}
        return CloudPolicy(
            document=json.dumps(document, indent=2) + "\n",
            notes=(
                "A policy definition: az policy definition create --mode All --rules takes its policyRule;"
                " then az policy assignment create, for a subscription or a management group.",
                "The account's own net for money: az consumption budget create, with an action group. It is"
                " not created here, counts up to a day late, and ends nothing by itself.",
            ),
        )


def _denials(bounds: Bounds) -> list[dict[str, Any]]:
    made = {"field": "type", "in": _MADE}
    machine = {"field": "type", "equals": _MACHINES}
    if not bounds.allowed:
        return [made]
    found: list[dict[str, Any]] = []
    if bounds.regions is not None:
        found.append({"allOf": [made, {"field": "location", "notIn": list(bounds.regions)}]})
    if bounds.instance_types is not None:
        sizes = {"field": f"{_MACHINES}/sku.name", "notIn": list(bounds.instance_types)}
        found.append({"allOf": [machine, sizes]})
    spot = {"field": f"{_MACHINES}/priority", "equals": "Spot"}
    if bounds.purchases is not None and Purchase.SPOT not in bounds.purchases:
        found.append({"allOf": [machine, spot]})
    if bounds.purchases == (Purchase.SPOT,):
        found.append({"allOf": [machine, {"not": spot}]})
    found += [{"allOf": [machine, {"field": f"tags['{tag}']", "exists": "false"}]} for tag in bounds.tags]
    return found
