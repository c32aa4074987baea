"""What IAM allows: everything, except what a user is denied or a policy of theirs leaves out.

A session of a role may do what its role's policies allow and its session policy does not leave out; a
federated user what both the user and the session policy allow, and nothing of IAM and STS.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpucloud_sandbox.aws import sessions
from gpucloud_sandbox.aws.authorization import Demand
from gpucloud_sandbox.aws.callers import Caller
from gpucloud_sandbox.aws.wire import AwsError, protocol_of
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.policy import Statement, holding, statements_of

_DENIED, _POLICY = "aws_denied", "aws_policy"

_NO_FEDERATION: Statement = {"Effect": "Deny", "Action": ["iam:*", "sts:*"], "Resource": "*"}
"""What no federated user may do: IAM User Guide, "Request temporary security credentials"."""

FREE = {"sts:GetCallerIdentity"}
"""What every caller may ask."""


def forget(world: World) -> None:
    """As on the first day."""
    for setting in (_DENIED, _POLICY):
        world.database.keep_setting(setting, None)


def deny(world: World, actions: list[str]) -> None:
    """Denies the actions (globs such as ``ec2:Run*``); none lifts it."""
    world.database.keep_setting(_DENIED, actions)


def set_policy(world: World, document: Mapping[str, Any] | None) -> None:
    """Allows what a policy allows, and nothing else; ``None`` lifts it.

    Raises:
        ValueError: it says something that the sandbox does not understand.
    """
    if document is not None:
        statements_of(document)
    world.database.keep_setting(_POLICY, document)


def check(world: World, caller: Caller, demands: Iterable[Demand]) -> None:
    """Passes what is allowed.

    Raises:
        AwsError: a demand is denied, or nothing allows it.
    """
    denied: list[str] = world.database.setting(_DENIED) or []
    granted = list(_grants(world, caller))
    for demand in demands:
        if demand.action in FREE:
            continue
        if any(fnmatchcase(demand.action, glob) for glob in denied) or not all(
            _allows(statements, demand) for statements in granted
        ):
            raise _refusal(caller, demand)


def _grants(world: World, caller: Caller) -> Iterator[list[Statement]]:
    """Each of these must allow an action; none is needed for the user, unless a policy was set."""
    policy: Mapping[str, Any] | None = world.database.setting(_POLICY)
    if policy is not None and not caller.role:
        yield statements_of(policy)
    if caller.token:
        yield from sessions.grants(caller)
    if caller.token and not caller.role:
        yield [{"Effect": "Allow", "Action": "*", "Resource": "*"}, _NO_FEDERATION]


def _allows(statements: list[Statement], demand: Demand) -> bool:
    """moto decides. It takes an unmet condition for a denial: it is given what holds, without conditions.

    Nor do its wildcards match a line feed, which a key of S3 may hold: it is given a space for each.
    """
    from moto.iam.access_control import (  # pyright: ignore[reportMissingTypeStubs]
        IAMPolicy,
        PermissionResult,
    )

    kept = [
        {member: value for member, value in statement.items() if member != "Condition"}
        for statement in holding(statements, demand.keys)
    ]
    policy = IAMPolicy(json.dumps({"Statement": kept}))
    resource = demand.resource.replace("\n", " ")
    return policy.is_action_permitted(demand.action, resource) is PermissionResult.PERMITTED


def _refusal(caller: Caller, demand: Demand) -> AwsError:
    """The refusal as the service words it."""
    service, _, _ = demand.action.partition(":")
    text = f"User: {caller.arn} is not authorized to perform: {demand.action}"
    match protocol_of(service):
        case "ec2":
            text = f"You are not authorized to perform this operation. {text} on resource: {demand.resource}"
            return AwsError("UnauthorizedOperation", text, 403)
        case "query" | "rest-xml":
            return AwsError("AccessDenied", f"{text} on resource: {demand.resource}", 403)
        case _:
            return AwsError("AccessDeniedException", text, 400)
