"""Resource Manager's ids: type, resource group and name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpucloud.errors import UsageError
from gpucloud.resources import ResourceKind


@dataclass(frozen=True, slots=True)
class Type:
    """A resource type and the API version for calls by id."""

    type: str
    api: str


_NETWORK_API = "2024-05-01"

TYPES: Mapping[ResourceKind, Type] = {
    ResourceKind.INSTANCE: Type("Microsoft.Compute/virtualMachines", "2024-07-01"),
    ResourceKind.DISK: Type("Microsoft.Compute/disks", "2024-03-02"),
    ResourceKind.SNAPSHOT: Type("Microsoft.Compute/snapshots", "2024-03-02"),
    ResourceKind.IMAGE: Type("Microsoft.Compute/galleries/images/versions", "2025-03-03"),
    ResourceKind.PLACEMENT_GROUP: Type("Microsoft.Compute/availabilitySets", "2024-07-01"),
    ResourceKind.ADDRESS: Type("Microsoft.Network/publicIPAddresses", _NETWORK_API),
    ResourceKind.NIC: Type("Microsoft.Network/networkInterfaces", _NETWORK_API),
    ResourceKind.GROUP: Type("Microsoft.Network/networkSecurityGroups", _NETWORK_API),
    ResourceKind.NETWORK: Type("Microsoft.Network/virtualNetworks", _NETWORK_API),
    ResourceKind.SCHEDULE: Type("Microsoft.DevTestLab/schedules", "2018-09-15"),
    ResourceKind.RESOURCE_GROUP: Type("Microsoft.Resources/resourceGroups", "2025-04-01"),
}
_KINDS = {each.type.lower(): kind for kind, each in TYPES.items()}

_ID = re.compile(
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)"
    r"(?:/providers/(?P<path>[^/]+(?:/[^/]+/[^/]+)+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of an id; ``type`` is empty and ``name`` the group's for a resource group.

    The name of a resource within another one has the names of both, as in the lists of Resource Manager.
    """

    subscription: str
    group: str
    type: str
    name: str

    def canonical(self) -> str:
        """The id, with subscription, group and type in the case of this package."""
        head = f"/subscriptions/{self.subscription.lower()}/resourceGroups/{self.group.lower()}"
        if not self.type:
            return head
        kind = _KINDS.get(self.type.lower())
        written = TYPES[kind].type if kind else self.type
        return f"{head}/providers/{_path(written, self.name.lower())}"


def kind_of(type_: str) -> ResourceKind | None:
    """The kind of a resource type; ``None`` for an unknown type."""
    return _KINDS.get(type_.lower())


def api(kind: ResourceKind) -> str:
    """The API version of a kind."""
    return TYPES[kind].api


def parts_of(resource_id: str) -> Parts | None:
    """An id's parts; ``None`` if it is not the id of a resource group or of a resource in one."""
    found = _ID.fullmatch(resource_id)
    if found is None:
        return None
    namespace, *words = (found["path"] or "").split("/")
    return Parts(
        subscription=found["subscription"],
        group=found["group"],
        type="/".join([namespace, *words[::2]]),
        name="/".join(words[1::2]) or found["group"],
    )


def _path(type_: str, name: str) -> str:
    """The part of an id after ``providers``: each word of the type with its name."""
    namespace, *words = type_.split("/")
    return "/".join(
        [namespace, *(f"{word}/{each}" for word, each in zip(words, name.split("/"), strict=True))]
    )


def name_of(resource_id: str) -> tuple[str, str]:
    """Resource group and name of an id.

    Raises:
        UsageError: it is not valid.
    """
    parts = parts_of(resource_id)
    if parts is None:
        raise UsageError(f"{resource_id!r} is no id of an Azure resource")
    return parts.group, parts.name


def group_id(subscription: str, group: str) -> str:
    """The id of a resource group."""
    return f"/subscriptions/{subscription.lower()}/resourceGroups/{group.lower()}"


def id_in(subscription: str, group: str, kind: ResourceKind, name: str) -> str:
    """The id of a resource in a resource group."""
    return f"{group_id(subscription, group)}/providers/{_path(TYPES[kind].type, name.lower())}"


def canonical(resource_id: str) -> str:
    """An id in the case of this package: Resource Manager returns different capitalisations."""
    parts = parts_of(resource_id)
    return resource_id if parts is None else parts.canonical()
