"""What RAM allows: everything, but what a test or a user has denied."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpucloud.sandbox.emulator import World
from gpucloud_alibaba.sandbox.wire import AlibabaError

_SETTING = "alibaba_denied"
EMPTY_WHEN_DENIED: Mapping[tuple[str, str], dict[str, Any]] = {
    ("ecs", "DescribeInstances"): {"Instances": {"Instance": []}, "TotalCount": 0, "NextToken": ""}
}
"""What answers an empty list, not an error, to a RAM user who may not read (SDK's reference)."""

FREE = {("sts", "GetCallerIdentity")}
"""What every caller may ask."""


def deny(world: World, actions: list[str]) -> None:
    """Denies the actions (globs such as ``ecs:Run*``); none lifts it."""
    world.database.keep_setting(_SETTING, actions)


def check(world: World, product: str, action: str, *, dry_run: bool) -> dict[str, Any] | None:
    """Passes what is allowed; gives the empty answer of what is denied silently.

    Raises:
        AlibabaError: it is denied.
    """
    denied: list[str] = world.database.setting(_SETTING) or []
    name = f"{product}:{action}"
    if (product, action) in FREE or not any(fnmatchcase(name, glob) for glob in denied):
        return None
    if (product, action) in EMPTY_WHEN_DENIED and not dry_run:
        return EMPTY_WHEN_DENIED[product, action]
    raise AlibabaError(
        "Forbidden.RAM",
        f"User not authorized to operate on the specified resource, or this API doesn't support RAM: {name}",
        403,
    )
