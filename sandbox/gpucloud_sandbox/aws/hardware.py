"""What DescribeInstanceTypes says of a type besides the catalog, as moto's package has recorded it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PLAIN: Mapping[str, Any] = {
    "NetworkInfo": {
        "MaximumNetworkInterfaces": 4,
        "MaximumNetworkCards": 1,
        "NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 4}],
        "Ipv4AddressesPerInterface": 10,
        "EfaSupported": False,
        "EnaSupport": "supported",
    },
    "EbsInfo": {"EbsOptimizedSupport": "default", "EncryptionSupport": "supported"},
    "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
}
"""Of a type of an older generation, which the record does not have."""

_DISKS = 28
"""Attachments of a type whose own limit is unknown (EC2 User Guide, "Volume limits for instances")."""


@cache
def _recorded() -> Mapping[str, Any]:
    spec = find_spec("moto")  # finds it without its import, which takes long
    assert spec is not None and spec.submodule_search_locations  # noqa: S101, PT018  (a dependency)
    path = Path(spec.submodule_search_locations[0], "ec2", "resources", "instance_types.json.gz")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        types: Mapping[str, Any] = json.load(stream)
    return types


def hardware(name: str) -> Mapping[str, Any]:
    """The recorded part of a type's description."""
    found: Mapping[str, Any] = _recorded().get(name, _PLAIN)
    return found


def cards(name: str) -> list[int]:
    """How many interfaces each network card of a type takes."""
    return [card["MaximumNetworkInterfaces"] for card in hardware(name)["NetworkInfo"]["NetworkCards"]]


def kinds(name: str, card: int) -> list[str]:
    """The kinds of interface that a network card of a type takes."""
    found: list[str] = hardware(name)["NetworkInfo"]["NetworkCards"][card].get(
        "InterfaceTypes", ["interface"]
    )
    return found


def most_efa(name: str) -> int:
    """How many interfaces of EFA a type takes."""
    return int(hardware(name)["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0))


def most_disks(name: str) -> int:
    """How many disks can be attached to a type."""
    return int(hardware(name)["EbsInfo"].get("MaximumEbsAttachments", _DISKS))


def strategies(name: str) -> list[str]:
    """The strategies of the placement groups that take a type."""
    found: list[str] = hardware(name)["PlacementGroupInfo"]["SupportedStrategies"]
    return found
