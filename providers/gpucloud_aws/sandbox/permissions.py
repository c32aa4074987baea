"""What IAM allows: everything, but what a test or a user has denied."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gpucloud.sandbox.emulator import World
from gpucloud_aws.sandbox.wire import AwsError

_SETTING = "aws_denied"
_PREFIXES = {"service-quotas": "servicequotas"}
"""How IAM calls services that sign under another name."""

FREE = {"sts:GetCallerIdentity"}
"""What every caller may ask."""


def deny(world: World, actions: list[str]) -> None:
    """Denies the actions (globs such as ``ec2:Run*``); none lifts it."""
    world.database.keep_setting(_SETTING, actions)


def check(world: World, service: str, action: str) -> None:
    """Passes what is allowed.

    Raises:
        AwsError: it is denied.
    """
    denied: list[str] = world.database.setting(_SETTING) or []
    name = f"{_PREFIXES.get(service, service)}:{action}"
    if name in FREE or not any(fnmatchcase(name, glob) for glob in denied):
        return
    if service == "ec2":
        raise AwsError("UnauthorizedOperation", "You are not authorized to perform this operation.", 403)
    raise AwsError("AccessDeniedException", f"The user is not authorized to perform: {name}", 400)
