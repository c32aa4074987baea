"""The emulated subscription: its resources, kept as Resource Manager answers them.

Keys that begin with ``_`` are the sandbox's own and never leave it. Resources are found by their ids in the
form of :mod:`gpucloud_azure.ids`, as Resource Manager compares ids without regard to case.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from gpucloud_azure.ids import parts_of
from gpucloud_sandbox.azure.wire import AzureError
from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.ledger import Entry

CLOUD = "azure"
SUBSCRIPTION = "5ab5c21b-0000-4000-8000-00000000ca7e"
EVERYWHERE = ""
"""Resources are kept under one region of the shelf: ids are the subscription's."""

GROUP = "Microsoft.Resources/resourceGroups"
MACHINE = "Microsoft.Compute/virtualMachines"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
INSTANCE = f"{SCALE_SET}/virtualMachines"
DISK = "Microsoft.Compute/disks"
AVAILABILITY = "Microsoft.Compute/availabilitySets"
SNAPSHOT = "Microsoft.Compute/snapshots"
GALLERY = "Microsoft.Compute/galleries"
DEFINITION = f"{GALLERY}/images"
VERSION = f"{DEFINITION}/versions"
RESERVATIONS = "Microsoft.Compute/capacityReservationGroups"
NETWORK = "Microsoft.Network/virtualNetworks"
FIREWALL = "Microsoft.Network/networkSecurityGroups"
ADDRESS = "Microsoft.Network/publicIPAddresses"
NIC = "Microsoft.Network/networkInterfaces"
ACCOUNT = "Microsoft.Storage/storageAccounts"
SCHEDULE = "Microsoft.DevTestLab/schedules"
DEPLOYMENT = "Microsoft.Resources/deployments"
TYPES = (
    GROUP,
    MACHINE,
    SCALE_SET,
    DISK,
    SNAPSHOT,
    GALLERY,
    DEFINITION,
    VERSION,
    AVAILABILITY,
    RESERVATIONS,
    NETWORK,
    FIREWALL,
    ADDRESS,
    NIC,
    ACCOUNT,
    SCHEDULE,
)
BY_NAME = {each.lower(): each for each in TYPES}
_WORDS = len(["", "subscriptions", "S", "resourceGroups", "G", "providers", "N", "T", "NAME"])
"""Of an id of a resource that is directly in a group."""


class Subscription:
    """Everything that is emulated.

    Args:
        world: the shared parts of the sandbox: database, clock, ledger, market.
        shelf: Azure's resources.
        client: the id of the one application that has access.
        issue: returns a token of a machine's identity for an audience.
    """

    def __init__(self, world: World, shelf: Shelf, client: str, issue: Callable[[str, str], str]) -> None:
        self.world = world
        self.client = client
        self.issue = issue
        self.principal: str | None = None
        self._shelf = shelf

    def as_seen_by(self, principal: str) -> Subscription:
        """The same, for a machine's own identity: what it may do is what its roles allow."""
        seen = copy(self)
        seen.principal = principal
        return seen

    @property
    def now(self) -> datetime:
        """The clouds' time."""
        return self.world.clock.now()

    @property
    def stamp(self) -> str:
        """The clouds' time, for the sandbox's own use."""
        return stamp(self.now)

    @property
    def moment(self) -> str:
        """The clouds' time as Azure writes it."""
        return self.now.isoformat()

    def later(self, seconds: float) -> str:
        """A time to come, for the sandbox's own use."""
        return stamp(self.now + timedelta(seconds=seconds))

    @property
    def transition_s(self) -> float:
        """How long a machine is being made, and being deleted."""
        return self.world.dials.pace.transition_s

    # --- resources

    def all(self, kind: str) -> Mapping[str, Document]:
        """All resources of a type, by canonical id."""
        return self._shelf.all(EVERYWHERE, kind)

    def everything(self) -> Iterator[tuple[str, Document]]:
        """Every resource that has a resource group, with its type."""
        for kind in TYPES[1:]:
            for document in list(self.all(kind).values()):
                yield kind, document

    def find(self, kind: str, id_: str) -> Document | None:
        """A resource by id, however it is capitalised."""
        return self.all(kind).get(canonical(id_))

    def put(self, kind: str, document: Document) -> Document:
        """Stores a new or changed resource."""
        return self._shelf.put(EVERYWHERE, kind, canonical(document["id"]), document)

    def drop(self, kind: str, id_: str) -> None:
        """Removes a resource."""
        self._shelf.drop(EVERYWHERE, kind, canonical(id_))

    def keep(self, kind: str, id_: str, document: Document) -> Document:
        """Keeps something that is no resource: an operation, a quota."""
        return self._shelf.put(EVERYWHERE, kind, id_, document)

    def forget(self, kind: str, id_: str) -> None:
        """Forgets something that is no resource."""
        self._shelf.drop(EVERYWHERE, kind, id_)

    def within(self, group_id: str) -> list[tuple[str, Document]]:
        """The resources of a resource group."""
        head = f"{canonical(group_id)}/"
        return [(kind, each) for kind, each in self.everything() if canonical(each["id"]).startswith(head)]

    def new_uuid(self) -> str:
        """A fresh UUID."""
        return str(uuid.UUID(self.world.token(32)))

    # --- billing

    def begin_billing(
        self, kind: str, document: Document, price: Decimal, currency: str, *, zone: str | None = None
    ) -> None:
        """A resource is billed from now on."""
        tags = tags_of(document)
        entry = Entry(
            kind=kind,
            id=canonical(document["id"]),
            cloud=CLOUD,
            region=document["location"],
            zone=zone,
            price=price,
            currency=currency,
            box=tags.get("gpucloud:box"),
            owner=tags.get("gpucloud:owner"),
            op=tags.get("gpucloud:op"),
            tags=tags,
        )
        self.world.ledger.begin_billing(entry, self.now)

    def end_billing(self, document: Document, reason: str) -> None:
        """A resource is no longer billed."""
        self.world.ledger.end_billing(CLOUD, canonical(document["id"]), self.now, reason)


def canonical(id_: str) -> str:
    """An id in the one form in which resources are kept.

    Raises:
        AzureError: it is no id of a resource.
    """
    words = id_.split("/")
    parts, below = parts_of("/".join(words[:_WORDS])), words[_WORDS:]
    if parts is None or len(below) % 2:
        raise AzureError(
            "LinkedInvalidPropertyId", f"Property id '{id_}' is invalid. Expect fully qualified id."
        )
    named = replace(parts, type=BY_NAME.get(parts.type.lower(), parts.type))
    return "/".join([named.canonical(), *map(str.lower, below)])


def is_nested(document: Document) -> bool:
    """Whether a resource is inside a scale set.

    Instances of scale sets, with their interfaces and addresses, are kept among the other machines,
    interfaces and addresses, as the same is true of them; but no list of the subscription shows them.
    """
    id_ = canonical(document["id"])
    return f"/{SCALE_SET}/" in id_ and id_.count("/") >= _WORDS


def tail(id_: str) -> str:
    """The last part of an id."""
    return id_.rpartition("/")[2]


def shown(document: Document) -> Document:
    """A resource without the sandbox's own fields."""
    return {name: value for name, value in document.items() if not name.startswith("_")}


def tags_of(document: Mapping[str, Any]) -> dict[str, str]:
    """A resource's tags, their names in lower case, as Azure compares them."""
    tags: Mapping[str, str] = document.get("tags") or {}
    return {key.lower(): value for key, value in tags.items()}


def part(document: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """An object within objects; empty where something is missing on the way."""
    found: Any = document
    for name in path:
        found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, dict) else None
    return dict(cast("Mapping[str, Any]", found)) if isinstance(found, dict) else {}
