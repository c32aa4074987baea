"""What RAM allows: everything, except what a user is denied or a policy of theirs leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from gpucloud_sandbox.alibaba.region import Region, tags_of
from gpucloud_sandbox.alibaba.tags import TAGGABLE
from gpucloud_sandbox.alibaba.wire import AlibabaError, true
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.policy import Keys, Statement, holding, statements_of, words

_DENIED, _POLICY = "alibaba_denied", "alibaba_policy"
EMPTY_WHEN_DENIED: Mapping[tuple[str, str], dict[str, Any]] = {
    ("ecs", "DescribeInstances"): {"Instances": {"Instance": []}, "TotalCount": 0, "NextToken": ""}
}
"""What answers an empty list, not an error, to a RAM user who may not read (SDK's reference)."""

FREE = {("sts", "GetCallerIdentity")}
"""What every caller may ask."""

_LOOKED_AT = ("acs:kms:", "acs:oss:", "acs:ram:")

NAMED = {
    "AssociateEipAddress": ("AllocationId", "eip"),
    "AttachDisk": ("DiskId", "disk"),
    "AttachKeyPair": ("KeyPairName", "keypair"),
    "AttachNetworkInterface": ("NetworkInterfaceId", "nic"),
    "AuthorizeSecurityGroup": ("SecurityGroupId", "group"),
    "AuthorizeSecurityGroupEgress": ("SecurityGroupId", "group"),
    "CreateSnapshot": ("DiskId", "disk"),
    "DeleteDeploymentSet": ("DeploymentSetId", "deployment_set"),
    "DeleteDisk": ("DiskId", "disk"),
    "DeleteImage": ("ImageId", "image"),
    "DeleteInstance": ("InstanceId", "instance"),
    "DeleteInstances": ("InstanceId", "instance"),
    "DeleteNetworkInterface": ("NetworkInterfaceId", "nic"),
    "DeleteSecurityGroup": ("SecurityGroupId", "group"),
    "DeleteSnapshot": ("SnapshotId", "snapshot"),
    "DeleteVSwitch": ("VSwitchId", "vswitch"),
    "DeleteVpc": ("VpcId", "vpc"),
    "DescribeInstanceAttribute": ("InstanceId", "instance"),
    "DetachDisk": ("DiskId", "disk"),
    "DetachKeyPair": ("KeyPairName", "keypair"),
    "DetachNetworkInterface": ("NetworkInterfaceId", "nic"),
    "GetInstanceConsoleOutput": ("InstanceId", "instance"),
    "ModifyDeploymentSetAttribute": ("DeploymentSetId", "deployment_set"),
    "ModifyInstanceAttribute": ("InstanceId", "instance"),
    "ModifyInstanceSpec": ("InstanceId", "instance"),
    "RebootInstance": ("InstanceId", "instance"),
    "RebootInstances": ("InstanceId", "instance"),
    "StartInstance": ("InstanceId", "instance"),
    "StartInstances": ("InstanceId", "instance"),
    "StopInstance": ("InstanceId", "instance"),
    "StopInstances": ("InstanceId", "instance"),
    "UnassociateEipAddress": ("AllocationId", "eip"),
    "ModifyInstanceAutoReleaseTime": ("InstanceId", "instance"),
    "ReleaseEipAddress": ("AllocationId", "eip"),
    "ResizeDisk": ("DiskId", "disk"),
    "RevokeSecurityGroup": ("SecurityGroupId", "group"),
    "RevokeSecurityGroupEgress": ("SecurityGroupId", "group"),
}
"""The calls that name what they change: the parameter with its ids, and its kind."""


def forget(world: World) -> None:
    """As on the first day."""
    for setting in (_DENIED, _POLICY):
        world.database.keep_setting(setting, None)


def deny(world: World, actions: list[str]) -> None:
    """Denies the actions (globs such as ``ecs:Run*``); none lifts it."""
    world.database.keep_setting(_DENIED, actions)


def set_policy(world: World, document: Mapping[str, Any] | None) -> None:
    """Allows what a policy allows, and nothing else; ``None`` lifts it.

    Raises:
        ValueError: it says something that the sandbox does not understand.
    """
    for statement in () if document is None else statements_of(document):
        if not all(each == "*" or each.startswith(_LOOKED_AT) for each in words(statement["Resource"])):
            raise ValueError("the sandbox looks at no Resource but *, and those of OSS, KMS and roles")
    world.database.keep_setting(_POLICY, document)


def check(
    region: Region,
    product: str,
    action: str,
    parameters: Mapping[str, Any],
    *,
    grants: Sequence[Sequence[Statement]] = (),
    resource: str = "*",
    keys: Keys | None = None,
) -> dict[str, Any] | None:
    """Passes what is allowed; returns the empty answer of what is denied silently.

    Args:
        region: where the call is made.
        product: the product.
        action: what RAM calls the call.
        parameters: the call's.
        grants: the policies of a session, each of which must allow it too.
        resource: what it is about, if it is of OSS, KMS or a role.
        keys: what it says of itself to the policies of a session.

    Raises:
        AlibabaError: it is denied, or nothing allows it.
    """
    denied: list[str] = region.world.database.setting(_DENIED) or []
    policy: Mapping[str, Any] | None = region.world.database.setting(_POLICY)
    name = f"{product}:{action}"
    allowed = not any(fnmatchcase(name, glob) for glob in denied)
    if allowed and policy is not None:
        statements = statements_of(policy)
        allowed = all(
            _allows(statements, name, found, resource) for found in _keys(region, parameters, action)
        )
    allowed = allowed and all(_allows(grant, name, keys or {}, resource) for grant in grants)
    if allowed or (product, action) in FREE:
        return None
    if (product, action) in EMPTY_WHEN_DENIED and not true(parameters.get("DryRun")):
        return EMPTY_WHEN_DENIED[product, action]
    raise AlibabaError(
        "Forbidden.RAM",
        f"User not authorized to operate on the specified resource, or this API doesn't support RAM: {name}",
        403,
    )


def _allows(statements: Sequence[Statement], name: str, keys: Keys, resource: str) -> bool:
    effects = {
        statement["Effect"]
        for statement in holding(statements, keys)
        if any(fnmatchcase(name, glob) for glob in words(statement["Action"]))
        and any(fnmatchcase(resource, glob.replace("[", "[[]")) for glob in words(statement["Resource"]))
    }
    return effects == {"Allow"}


def _keys(region: Region, parameters: Mapping[str, Any], action: str) -> list[Keys]:
    """The tags for policy conditions, for each resource of the call: its own, and those in the call."""
    pairs: list[Mapping[str, str]] = parameters.get("Tag") or []
    given = {f"acs:RequestTag/{pair.get('Key')}": pair.get("Value", "") for pair in pairs}
    if action in {"TagResources", "UntagResources", "UnTagResources"}:
        member, kind = "ResourceId", TAGGABLE.get(str(parameters.get("ResourceType")).lower(), "")
    elif action in NAMED:
        member, kind = NAMED[action]
    else:
        return [given]
    ids: str | list[str] = parameters.get(member) or []
    resources = [tags_of(region.all(kind).get(id_, {}) if kind else {}) for id_ in words(ids)]
    return [
        {**given, **{f"acs:ResourceTag/{key}": value for key, value in tags.items()}} for tags in resources
    ]
