"""Roles of machines' own identities: what they may do, and where."""

from __future__ import annotations

from gpucloud_sandbox.azure.subscription import MACHINE, SUBSCRIPTION, Subscription, canonical, part
from gpucloud_sandbox.azure.wire import Answer, AzureError, Json
from gpucloud_sandbox.database import Document

ASSIGNMENT = "assignment"
SELF_DELETE = "0b0e5e1f-de1e-4e00-8000-00000000ca7e"
DEFINITIONS = {SELF_DELETE: ("gpucloud box", frozenset({"microsoft.compute/virtualmachines/delete"}))}
"""The custom roles of the subscription: name and actions."""


def assign(subscription: Subscription, scope: str, id_: str, body: Json) -> Answer:
    """PUT of a role assignment.

    Raises:
        AzureError: there is no such role or identity, or it has the role already.
    """
    asked = part(body, "properties")
    definition, principal = str(asked.get("roleDefinitionId") or ""), str(asked.get("principalId") or "")
    role = definition.rpartition("/")[2].lower()
    if role not in DEFINITIONS or SUBSCRIPTION not in definition:
        text = f"The specified role definition with ID '{role}' does not exist."
        raise AzureError("RoleDefinitionDoesNotExist", text, 404)
    if principal not in {
        part(each, "identity").get("principalId") for each in subscription.all(MACHINE).values()
    }:
        text = f"Principal {principal} does not exist in the directory {SUBSCRIPTION}."
        raise AzureError("PrincipalNotFound", text, 400)
    given = {"_principal": principal, "_role": role, "_scope": canonical(scope)}
    for known_id, known in subscription.all(ASSIGNMENT).items():
        same = {name: known[name] for name in given} == given
        if same and known_id != canonical(id_):
            raise AzureError("RoleAssignmentExists", "The role assignment already exists.", 409)
        if known_id == canonical(id_) and not same:
            text = "Tenant ID, application ID, principal ID, and scope are not allowed to be updated."
            raise AzureError("RoleAssignmentUpdateNotPermitted", text, 403)
    shown: Document = {
        "id": id_,
        "name": id_.rpartition("/")[2],
        "type": "Microsoft.Authorization/roleAssignments",
        "properties": {**asked, "scope": scope},
    }
    subscription.keep(ASSIGNMENT, canonical(id_), {**shown, **given})
    return Answer(status=201, body=shown)


def allows(subscription: Subscription, principal: str, action: str, scope: str) -> bool:
    """Whether a machine's identity may do something to what is at a path."""
    return any(
        each["_principal"] == principal
        and canonical(scope).lower().startswith(f"{each['_scope']}/".lower())
        and action.lower() in DEFINITIONS[each["_role"]][1]
        for each in subscription.all(ASSIGNMENT).values()
    )
