"""The identity with which a machine may delete itself: its own, with a role on its resource group alone.

The role is the user's: a custom one that allows ``Microsoft.Compute/virtualMachines/delete`` and no more.
Azure deletes the resources that belong to the machine.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from gpucloud.clouds.kit import in_threads
from gpucloud.errors import RULES, Next, UsageError
from gpucloud_azure.clients import Clients
from gpucloud_azure.errors import MalformedAnswerError, NotEndingError, classify, code_of
from gpucloud_azure.find import show
from gpucloud_azure.ids import group_id, name_of
from gpucloud_azure.json_paths import text_at

AFTER = timedelta(minutes=2)
"""The delay of the cloud's own timers for such a machine: they would leave disk and address."""
ASSIGNMENTS_API = "2022-04-01"
_ROLE = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


def checked_role(role: str) -> str:
    """The id of a role definition.

    Raises:
        UsageError: it is not valid.
    """
    name = role.rpartition("/")[2].lower()
    if not _ROLE.fullmatch(name):
        raise UsageError(
            f"--box-identity: {role!r} is no id of a role definition",
            hint="az role definition list --name NAME --query '[].name'",
        )
    return name


def assign(clients: Clients, group: str, machines: Sequence[str], role: str) -> None:
    """Assigns a role on their resource group to the identities of machines. May be repeated.

    Raises:
        NotEndingError: Azure refused for another reason than a missing permission.
    """
    subscription = clients.subscription()
    scope = group_id(subscription, group)
    definition = f"/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/{role}"

    def assign_one(machine: str) -> None:
        principal = text_at(show(clients, machine), "identity", "principalId")
        if not principal:
            raise MalformedAnswerError(f"{name_of(machine)[1]} has no identity")
        properties: dict[str, Any] = {
            "roleDefinitionId": definition,
            "principalId": principal,
            "principalType": "ServicePrincipal",  # else Azure searches a directory that may not have it yet
        }
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"gpucloud:{machine}:{role}")
        try:
            clients.resources().resources.begin_create_or_update_by_id(
                f"{scope}/providers/Microsoft.Authorization/roleAssignments/{name}",
                {"properties": properties},
                api_version=ASSIGNMENTS_API,
                polling=False,
            )
        except Exception as error:
            if code_of(error) != "RoleAssignmentExists":  # under another name: a policy of the user's, say
                raise

    try:
        in_threads(assign_one, machines)
    except Exception as error:
        verdict = classify(error)
        if verdict is None or RULES[verdict.error_class].definite:
            raise
        if RULES[verdict.error_class].next is Next.AGAIN:
            raise
        text = f"the box could not be given its identity: {verdict.code}: {verdict.message}"
        raise NotEndingError(text) from error
