"""Which parameters each call takes: names, types, and which must be there (``api.json``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gpucloud_alibaba.sandbox.wire import AlibabaError

_FORMS = {
    "Integer": r"-?\d{1,10}",
    "Long": r"-?\d{1,19}",
    "Boolean": r"(?i:true|false)",
    "Float": r"-?\d+(\.\d+)?",
    "Double": r"-?\d+(\.\d+)?",
}

NEWER: Mapping[tuple[str, str], Mapping[str, list[Any]]] = {
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

MEMBERS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("AuthorizeSecurityGroup", "Permissions"): _PERMISSION,
    ("RevokeSecurityGroup", "Permissions"): _PERMISSION,
    ("RunInstances", "ClockOptions"): {"PtpStatus": "String"},
    ("RunInstances", "ImageOptions"): {"LoginAsNonRoot": "Boolean"},
    ("RunInstances", "NetworkOptions"): {
        "BandwidthWeighting": "String",
        "EnableJumboFrame": "Boolean",
        "EnableNetworkEncryption": "Boolean",
    },
    ("RunInstances", "PrivateDnsNameOptions"): {
        "EnableInstanceIdDnsAAAARecord": "Boolean",
        "EnableInstanceIdDnsARecord": "Boolean",
        "EnableIpDnsARecord": "Boolean",
        "EnableIpDnsPtrRecord": "Boolean",
        "HostnameType": "String",
    },
    ("RunInstances", "SystemDisk"): {
        "BurstingEnabled": "Boolean",
        "EncryptAlgorithm": "String",
        "Encrypted": "Boolean",
        "KMSKeyId": "String",
        "ProvisionedIops": "Long",
        "StorageClusterId": "String",
    },
}
"""What is inside parameters whose members are missing in the metadata.

Source: alibabacloud-ecs20140526 7.11.8, the request models.
"""


@cache
def _products() -> Mapping[str, Any]:
    text = files("gpucloud_alibaba.sandbox").joinpath("api.json").read_text(encoding="utf-8")
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
def _patterns(product: str, action: str) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The type of each flat name, with ``#`` for numbers, and the beginnings below which all is taken."""
    types: dict[str, str] = {}
    open_: list[str] = []

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
            elif kind in {"Array", "Struct"}:
                open_.append(f"{full}.")

    add(parameters_of(product, action) or {}, "")
    return types, tuple(open_)


def check(product: str, action: str, flat: Mapping[str, str]) -> None:
    """Refuses parameters that the call does not take, of another type, or missing.

    The real cloud ignores parameters that it does not know; a typing error would go unnoticed there.

    Raises:
        AlibabaError: says which.
    """
    known = parameters_of(product, action)
    if known is None:
        raise AlibabaError(
            "InvalidAction.NotFound", "Specified api is not found, please check your url and method.", 404
        )
    types, open_ = _patterns(product, action)
    for name, value in flat.items():
        if name == "RegionId":
            continue
        numbered = re.sub(r"\.\d+(?=\.|$)", ".#", name)
        kind = types.get(numbered)
        if kind is None and not numbered.startswith(open_):
            raise AlibabaError("InvalidParameter", f"{action} has no parameter {name} (gpucloud sandbox).")
        form = _FORMS.get(kind or "")
        if form and not re.fullmatch(form, value):
            raise AlibabaError(f"InvalidParameter.{name}", f"The specified {name} {value!r} is not {kind}.")
    for name, (_, required, *_rest) in known.items():
        if required and not any(given == name or given.startswith(f"{name}.") for given in flat):
            raise AlibabaError(
                f"MissingParameter.{name}" if product == "vpc" else "MissingParameter",
                f'The input parameter "{name}" that is mandatory for this request is not supplied.',
            )
