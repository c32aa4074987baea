"""Which parameters each call takes: types, which must be there (``api.json``), and which are supported."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gpucloud_sandbox import supported
from gpucloud_sandbox.alibaba.wire import AlibabaError, nested

_FORMS = {
    "Integer": r"-?\d{1,10}",
    "Long": r"-?\d{1,19}",
    "Boolean": r"(?i:true|false)",
    "Float": r"-?\d+(\.\d+)?",
    "Double": r"-?\d+(\.\d+)?",
}

NEWER: Mapping[tuple[str, str], Mapping[str, list[Any]]] = {
    ("sts", "AssumeRole"): {
        "DurationSeconds": ["Long", False],
        "ExternalId": ["String", False],
        "Policy": ["String", False],
        "RoleArn": ["String", True],
        "RoleSessionName": ["String", True],
    },
    ("sts", "GetCallerIdentity"): {},
    ("quotas", "ListProductQuotas"): {
        "ProductCode": ["String", True],
        "MaxResults": ["Integer", False],
        "NextToken": ["String", False],
        "QuotaActionCode": ["String", False],
        "KeyWord": ["String", False],
        "Dimensions": ["RepeatList", False, {"Key": ["String", False], "Value": ["String", False]}],
    },
}
"""Calls of products that the metadata does not hold. Source: the products' API references."""

UNLISTED = {
    ("ecs", "DescribeInstances"): {"ClientToken": ["String", False]},
    ("vpc", "DescribeVSwitches"): {"DryRun": ["Boolean", False]},
    ("vpc", "DeleteVpc"): {"DryRun": ["Boolean", False], "ForceDelete": ["Boolean", False]},
    ("vpc", "DeleteVSwitch"): {"DryRun": ["Boolean", False]},
}
"""Parameters that the SDKs of today send and the metadata lacks. Source: alibabacloud-vpc20160428 7.2.2."""

_PERMISSION = dict.fromkeys(
    (
        "Description",
        "DestCidrIp",
        "IpProtocol",
        "Ipv6DestCidrIp",
        "Ipv6SourceCidrIp",
        "NicType",
        "Policy",
        "PortRange",
        "PortRangeListId",
        "Priority",
        "SourceCidrIp",
        "SourceGroupId",
        "SourceGroupOwnerAccount",
        "SourcePortRange",
        "SourcePrefixListId",
    ),
    "String",
) | {"SourceGroupOwnerId": "Long"}

_PERMISSION_OUT: Mapping[str, str] = dict.fromkeys(
    (
        "Description",
        "DestCidrIp",
        "DestGroupId",
        "DestGroupOwnerAccount",
        "DestGroupOwnerId",  # a number in one SDK model, a text in another
        "DestPrefixListId",
        "IpProtocol",
        "Ipv6DestCidrIp",
        "Ipv6SourceCidrIp",
        "NicType",
        "Policy",
        "PortRange",
        "PortRangeListId",
        "Priority",
        "SourceCidrIp",
        "SourcePortRange",
    ),
    "String",
)

MEMBERS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("AuthorizeSecurityGroup", "Permissions"): _PERMISSION,
    ("AuthorizeSecurityGroupEgress", "Permissions"): _PERMISSION_OUT,
    ("RevokeSecurityGroup", "Permissions"): _PERMISSION,
    ("RevokeSecurityGroupEgress", "Permissions"): _PERMISSION_OUT,
    ("RunInstances", "SystemDisk"): {"Encrypted": "Boolean"},
}
"""What is inside parameters whose members are missing in the metadata.

Source: alibabacloud-ecs20140526 7.11.8, the request models.
"""


HONOURED = supported.read("gpucloud_sandbox.alibaba")
"""The supported members of each emulated call."""


@cache
def _products() -> Mapping[str, Any]:
    text = files("gpucloud_sandbox.alibaba").joinpath("api.json").read_text(encoding="utf-8")
    products: Mapping[str, Any] = json.loads(text)["products"]
    return products


@cache
def parameters_of(product: str, action: str) -> Mapping[str, list[Any]] | None:
    """What a call takes; ``None`` for one that the cloud does not have."""
    newer = NEWER.get((product, action))
    if newer is not None:
        return newer
    known: Mapping[str, list[Any]] | None = _products().get(product, {}).get(action)
    return None if known is None else {**known, **UNLISTED.get((product, action), {})}


@cache
def _types(product: str, action: str) -> Mapping[str, str]:
    """The type of each flat name, with ``#`` for numbers."""
    types: dict[str, str] = {}

    def add(parameters: Mapping[str, list[Any]], before: str) -> None:
        for name, (kind, _, *members) in parameters.items():
            full = before + name
            types[full] = kind
            if kind == "RepeatList":
                types[f"{full}.#"] = "String"
                add(members[0] if members else {}, f"{full}.#.")
            elif inside := MEMBERS.get((action, full)):
                inner = f"{full}.#." if kind == "Array" else f"{full}."
                types.update({f"{inner}{member}": type_ for member, type_ in inside.items()})

    add(parameters_of(product, action) or {}, "")
    return types


@cache
def _paths(product: str, action: str) -> frozenset[str]:
    """The names without their numbers."""
    return frozenset(name.replace(".#", "") for name in _types(product, action))


def check(product: str, action: str, flat: Mapping[str, str]) -> None:
    """Refuses parameters of another type or form than the call takes, and a call without what it needs.

    Raises:
        AlibabaError: says which.
    """
    known = parameters_of(product, action)
    if known is None:
        raise AlibabaError(
            "InvalidAction.NotFound", "Specified api is not found, please check your url and method.", 404
        )
    types = _types(product, action)
    for name, value in flat.items():
        kind = types.get(re.sub(r"\.\d+(?=\.|$)", ".#", name))
        of_another_form = kind is None and _unnumbered(name) in _paths(product, action)
        if kind == "RepeatList" or of_another_form:
            raise AlibabaError(f"InvalidParameter.{name}", f"The specified parameter {name} is not valid.")
        form = _FORMS.get(kind or "")
        if form and not re.fullmatch(form, value):
            raise AlibabaError(f"InvalidParameter.{name}", f"The specified {name} {value!r} is not {kind}.")
    for name, (_, required, *_rest) in known.items():
        if required and not any(given == name or given.startswith(f"{name}.") for given in flat):
            raise AlibabaError(
                f"MissingParameter.{name}" if product == "vpc" else "MissingParameter",
                f'The input parameter "{name}" that is mandatory for this request is not supplied.',
            )


def check_emulated(product: str, action: str, flat: Mapping[str, str]) -> None:
    """Refuses a call that is not emulated, and the first member that is not supported.

    The real cloud ignores parameters that it does not know; a typing error would go unnoticed there.

    Raises:
        AlibabaError: says which.
    """
    table = HONOURED.get((product, action))
    if table is None:
        raise not_emulated(f"{product}:{action}")
    members = {name: value for name, value in nested(flat).items() if name != "RegionId"}
    if (member := table.refused(members)) is not None:
        raise not_emulated(f"{action}: {member}")


def not_emulated(what: str) -> AlibabaError:
    """An error for what the sandbox does not emulate, in Alibaba Cloud's format."""
    return AlibabaError("UnsupportedOperation", f"The gpucloud sandbox does not emulate {what}.", 400)


def _unnumbered(name: str) -> str:
    return re.sub(r"\.\d+(?=\.|$)", "", name)
