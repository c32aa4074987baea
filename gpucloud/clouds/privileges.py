"""Roles made from a least-privilege policy, for clouds with policies in IAM's grammar (AWS, RAM)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpucloud.resources import CloudRole

_OWNER = "/gpucloud:owner"
_READS = ("Describe", "Get", "List")
_LENDS = frozenset({"sts:GetFederationToken"})
"""What only seems to read: it gives keys with which something may be changed."""

Statement = Mapping[str, Any]


def role_document(policy: str, role: CloudRole, owner: str) -> str:
    """The policy of one role.

    Args:
        policy: the least privileges for all of gpucloud, as JSON.
        role: a viewer has what reads; an operator, all, but on nothing that carries another owner's tag.
        owner: the operator's owner id.
    """
    if role is CloudRole.ADMIN:
        return policy
    document = json.loads(policy)
    statements: Iterable[Statement] = document["Statement"]
    if role is CloudRole.VIEWER:
        statements = filter(None, map(_reading, statements))
    else:
        statements = (_owned(each, owner) for each in statements)
    return json.dumps({**document, "Statement": list(statements)}, indent=2) + "\n"


def _reading(statement: Statement) -> Statement | None:
    """What a statement allows of reading; what it denies, as it is."""
    if statement["Effect"] == "Deny":
        return statement
    actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
    reads = [each for each in actions if each.partition(":")[2].startswith(_READS) and each not in _LENDS]
    return {**statement, "Action": reads} if reads else None


def _owned(statement: Statement, owner: str) -> Statement:
    """A statement that holds of one owner's tag, where it holds of every owner's."""
    conditions: dict[str, dict[str, Any]] = {}
    for operator, demands in statement.get("Condition", {}).items():
        for key, value in demands.items():
            of_owner = key.endswith(_OWNER)
            conditions.setdefault("StringEquals" if of_owner else operator, {})[key] = (
                owner if of_owner else value
            )
    return {**statement, "Condition": conditions} if conditions else statement
