"""The calls that gpucloud may send to Azure, their permissions, and whether each may be repeated.

Every request is checked against the table just before it is sent, so that a call that is not in it, above all
a purchase, cannot be sent even by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from urllib.parse import urlsplit

from gpucloud.clouds.fetch import same_origin
from gpucloud.clouds.profile import is_loopback
from gpucloud_azure.errors import ActionRefusedError


class Repeat(StrEnum):
    """Why a call may be repeated. No call is used that must never be repeated."""

    SAFE = "safe"  # changes nothing
    BY_NAME = "by-name"  # a second call on the same name finds the work done
    TOGETHER = "together"  # a second timer for the same moment does no harm


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedCall:
    """One kind of call.

    Attributes:
        method: HTTP method.
        path: Resource Manager's path; ``{}`` stands for one segment.
        permission: the action of Azure's role definitions that it needs; empty for none.
        repeat: why it may be repeated.
    """

    method: str
    path: str
    permission: str
    repeat: Repeat

    def fits(self, method: str, path: str) -> bool:
        """Whether a request is this call. Resource Manager compares paths without regard to case."""
        if method != self.method:
            return False
        wanted, given = _segments(self.path), _segments(path)
        return len(wanted) == len(given) and all(
            bool(there) if here == "{}" else here == there for here, there in zip(wanted, given, strict=True)
        )


@lru_cache(maxsize=256)
def _segments(path: str) -> Sequence[str]:
    return path.lower().split("/")


_SUBSCRIPTION = "/subscriptions/{}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{}}"


def _reads(path: str, permission: str) -> tuple[AllowedCall, ...]:
    return (AllowedCall(method="GET", path=path, permission=permission, repeat=Repeat.SAFE),)


def _path_of(kind: str) -> str:
    """The path of a resource of a kind in a resource group, which may be within another resource."""
    namespace, *words = kind.split("/")
    return "/".join([f"{_GROUP}/providers/{namespace}", *(f"{word}/{{}}" for word in words)])


def _is_made(kind: str) -> tuple[AllowedCall, ...]:
    """The calls to read and create resources of a kind by name; they go with their resource group."""
    return (
        *_reads(_path_of(kind), f"{kind}/read"),
        AllowedCall(method="PUT", path=_path_of(kind), permission=f"{kind}/write", repeat=Repeat.BY_NAME),
    )


def _lives(kind: str) -> tuple[AllowedCall, ...]:
    """The calls to read, create and delete resources of a kind by name."""
    deletion = AllowedCall(
        method="DELETE", path=_path_of(kind), permission=f"{kind}/delete", repeat=Repeat.BY_NAME
    )
    return (*_is_made(kind), deletion)


_ACCOUNTS = "Microsoft.Storage/storageAccounts"
_GROUPS = "Microsoft.Resources/subscriptions/resourceGroups"
_HELD = "Microsoft.Compute/capacityReservationGroups"
_SCHEDULE = "Microsoft.ComputeSchedule/locations/virtualMachinesSubmitDeallocate"
_CANCEL = "Microsoft.ComputeSchedule/locations/virtualMachinesCancelOperations"
_POWER = "Microsoft.Compute/virtualMachines"
_CONSOLE = "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData"

ASSIGNING = "Microsoft.Authorization/roleAssignments/write"
"""For ``--box-identity`` only; too powerful for ``policy.json``, so the user grants it."""

ACTIONS: tuple[AllowedCall, ...] = (
    # reading
    *_reads("/subscriptions", ""),
    *_reads(_SUBSCRIPTION, "Microsoft.Resources/subscriptions/read"),
    *_reads(f"{_SUBSCRIPTION}/resourceGroups", f"{_GROUPS}/read"),
    *_reads(f"{_SUBSCRIPTION}/resources", "Microsoft.Resources/subscriptions/resources/read"),
    *_reads(f"{_SUBSCRIPTION}/providers/{{}}", "Microsoft.Resources/subscriptions/providers/read"),
    *_reads(
        f"{_SUBSCRIPTION}/providers/Microsoft.Features/providers/Microsoft.Compute/features/EncryptionAtHost",
        "Microsoft.Features/providers/features/read",
    ),
    *_reads(
        f"{_SUBSCRIPTION}/providers/Microsoft.Authorization/permissions",
        "Microsoft.Authorization/permissions/read",
    ),
    *_reads(
        f"{_SUBSCRIPTION}/providers/Microsoft.Compute/locations/{{}}/usages",
        "Microsoft.Compute/locations/usages/read",
    ),
    *_reads(f"{_SUBSCRIPTION}/providers/Microsoft.Compute/skus", "Microsoft.Compute/skus/read"),
    *_reads(f"{_SUBSCRIPTION}/providers/{_HELD}", f"{_HELD}/read"),
    *_reads(f"{_GROUP}/providers/{_HELD}/{{}}/capacityReservations", f"{_HELD}/capacityReservations/read"),
    *_reads(
        f"{_GROUP}/providers/{_HELD}/{{}}/capacityReservations/{{}}", f"{_HELD}/capacityReservations/read"
    ),
    # of the tenant: no role of the subscription grants it; without permission the list is empty
    *_reads("/providers/Microsoft.Capacity/reservations", ""),
    # the account of checkpoints; keys for them are asked from its blob service (storage.py)
    *_reads(f"{_SUBSCRIPTION}/providers/Microsoft.Storage/storageAccounts", f"{_ACCOUNTS}/read"),
    # the resources of a box
    *_reads(_GROUP, f"{_GROUPS}/read"),
    AllowedCall(method="PUT", path=_GROUP, permission=f"{_GROUPS}/write", repeat=Repeat.BY_NAME),
    AllowedCall(method="DELETE", path=_GROUP, permission=f"{_GROUPS}/delete", repeat=Repeat.BY_NAME),
    *_lives("Microsoft.Network/virtualNetworks"),
    *_lives("Microsoft.Network/networkSecurityGroups"),
    *_lives("Microsoft.Network/publicIPAddresses"),
    *_lives("Microsoft.Network/networkInterfaces"),
    *_lives("Microsoft.Compute/virtualMachines"),
    *_lives("Microsoft.Compute/availabilitySets"),
    *_lives("Microsoft.Compute/disks"),
    *_lives("Microsoft.Compute/snapshots"),
    *_is_made("Microsoft.Compute/galleries"),
    *_is_made("Microsoft.Compute/galleries/images"),
    *_lives("Microsoft.Compute/galleries/images/versions"),
    *_lives("Microsoft.DevTestLab/schedules"),
    # the timers of a box, and its console
    AllowedCall(
        method="POST",
        path=f"{_SUBSCRIPTION}/providers/Microsoft.ComputeSchedule/locations/{{}}/virtualMachinesSubmitDeallocate",
        permission=f"{_SCHEDULE}/action",
        repeat=Repeat.TOGETHER,
    ),
    AllowedCall(
        method="POST",
        path=f"{_SUBSCRIPTION}/providers/Microsoft.ComputeSchedule/locations/{{}}/virtualMachinesCancelOperations",
        permission=f"{_CANCEL}/action",
        repeat=Repeat.BY_NAME,
    ),
    *(
        AllowedCall(
            method="PATCH",
            path=f"{scope}/providers/Microsoft.Resources/tags/default",
            permission="Microsoft.Resources/tags/write",
            repeat=Repeat.BY_NAME,
        )
        for scope in (_GROUP, f"{_GROUP}/providers/{{}}/{{}}/{{}}")
    ),
    AllowedCall(
        method="PUT",
        path=f"{_GROUP}/providers/Microsoft.Authorization/roleAssignments/{{}}",
        permission=ASSIGNING,
        repeat=Repeat.BY_NAME,
    ),
    # stopping and starting; the start's outcome
    *(
        AllowedCall(
            method="POST",
            path=f"{_GROUP}/providers/{_POWER}/{{}}/{word}",
            permission=f"{_POWER}/{word}/action",
            repeat=Repeat.BY_NAME,
        )
        for word in ("deallocate", "start")
    ),
    *_reads(
        f"{_SUBSCRIPTION}/providers/Microsoft.Compute/locations/{{}}/operations/{{}}",
        "Microsoft.Compute/locations/operations/read",
    ),
    AllowedCall(
        method="POST",
        path=f"{_GROUP}/providers/Microsoft.Compute/virtualMachines/{{}}/retrieveBootDiagnosticsData",
        permission=f"{_CONSOLE}/action",
        repeat=Repeat.SAFE,
    ),
)

ON_THE_WAY = (
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/capacityReservationGroups/deploy/action",
    "Microsoft.Storage/storageAccounts/blobServices/generateUserDelegationKey/action",
)
"""Further permissions: of the calls, to attach resources; and of the blob service's own call for a key."""


def changing(method: str, path: str) -> AllowedCall | None:
    """The call of a request, if it changes something."""
    found = (action for action in ACTIONS if action.repeat is not Repeat.SAFE)
    return next((action for action in found if action.fits(method, path)), None)


def region_in(path: str) -> str:
    """The region in a path, which only calls to regional services have."""
    found = re.search(r"/locations/([^/]+)/", path)
    return found[1] if found else ""


def refuse_unlisted(method: str, url: str, endpoint: str) -> None:
    """Refuses a request that may not be sent with credentials.

    Args:
        method: HTTP method.
        url: its URL with the query.
        endpoint: Resource Manager's own URL: no token is sent anywhere else.

    Raises:
        ActionRefusedError: the call is not in the table, or would go to another host, or without TLS.
    """
    at = urlsplit(url)
    what = f"{method} {at.path}"
    if not same_origin(url, endpoint):
        raise ActionRefusedError(f"{what} was not sent: {at.netloc} is not {urlsplit(endpoint).netloc}")
    if at.scheme != "https" and not is_loopback(url):
        raise ActionRefusedError(f"{what} was not sent: {endpoint} does not use TLS")
    if not any(action.fits(method, at.path) for action in ACTIONS):
        raise ActionRefusedError(f"{what} is not among the calls that gpucloud may send, and was not sent")
