"""One region of the emulated account: its zones, its network, its resources.

Resources are kept as JSON documents in the shape in which EC2 answers them; keys that begin with ``_`` are
the sandbox's own and never leave it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from gpucloud_sandbox.clock import stamp
from gpucloud_sandbox.database import Document, Shelf
from gpucloud_sandbox.emulator import World
from gpucloud_sandbox.market import InstanceType

if TYPE_CHECKING:
    from gpucloud_sandbox.aws.callers import Caller

CLOUD = "aws"
ACCOUNT = "123456789012"

ID_KEYS = {
    "instance": "InstanceId",
    "volume": "VolumeId",
    "modification": "VolumeId",
    "snapshot": "SnapshotId",
    "image": "ImageId",
    "interface": "NetworkInterfaceId",
    "group": "GroupId",
    "spot": "SpotInstanceRequestId",
    "reservation": "CapacityReservationId",
    "reserved": "ReservedInstancesId",
    "plan": "savingsPlanId",
    "address": "AllocationId",
    "placement": "GroupId",
    "vpc": "VpcId",
    "subnet": "SubnetId",
    "gateway": "InternetGatewayId",
    "route_table": "RouteTableId",
    "laid": "_region",
    "answer": "_token",
    "template": "LaunchTemplateId",
    "template_version": "_key",
    "token": "_token",
    "quota": "_code",
    "schedule": "Name",
    "session": "AccessKeyId",
}
"""The kinds of resource, and the field that holds the id of each."""

_STANDARD_ZONE = re.compile(r"[a-z]+\d+-az\d+")
_CLOSED_BY_DEFAULT = re.compile(
    r"(af|ap-east|ap-south-2|ap-southeast-[3-9]|ca-west|eu-central-2|eu-south|il|me|mx)-.*"
)


class Region:
    """One region.

    Args:
        world: the shared parts of the sandbox: database, clock, ledger, market.
        shelf: AWS's resources.
        name: the region's id.
        caller: who calls; ``None`` where nobody does, and time alone changes something.
    """

    def __init__(self, world: World, shelf: Shelf, name: str, caller: Caller | None = None) -> None:
        self.world = world
        self.name = name
        self.caller = caller
        self._shelf = shelf

    @property
    def now(self) -> datetime:
        """The clouds' time."""
        return self.world.clock.now()

    @property
    def stamp(self) -> str:
        """The clouds' time as AWS writes it."""
        return stamp(self.now)

    def later(self, seconds: float) -> str:
        """A time to come, as AWS writes it."""
        return stamp(self.now + timedelta(seconds=seconds))

    @property
    def regions(self) -> Collection[str]:
        """The names of all regions of the account."""
        return self.world.market.catalog(CLOUD).zones.keys()

    def elsewhere(self, name: str) -> Region:
        """Another region of the account."""
        return Region(self.world, self._shelf, name)

    # --- resources

    def all(self, kind: str) -> Mapping[str, Document]:
        """All resources of a kind, by id."""
        return self._shelf.all(self.name, kind)

    def put(self, kind: str, document: Document) -> Document:
        """Stores a new or changed resource."""
        return self._shelf.put(self.name, kind, document[ID_KEYS[kind]], document)

    def drop(self, kind: str, id_: str) -> None:
        """Removes a resource."""
        self._shelf.drop(self.name, kind, id_)

    def new_id(self, prefix: str) -> str:
        """A fresh id such as ``i-0123456789abcdef0``."""
        return f"{prefix}-0{self.world.token(16)}"

    # --- zones: names on the wire, ids in the market

    @property
    def zones(self) -> dict[str, str]:
        """The region's own zones: name to id. Which name means which zone differs between accounts."""
        return _zones(self.name, self.world.market.catalog(CLOUD).zones.get(self.name, ()))

    @property
    def other_zones(self) -> list[str]:
        """Local and Wavelength Zones, which this account has not opted in to."""
        zones = self.world.market.catalog(CLOUD).zones.get(self.name, ())
        return [zone for zone in zones if not _STANDARD_ZONE.fullmatch(zone)]

    def offers(self, instance_type: str, zone_id: str) -> bool:
        """Whether a zone has a type at all."""
        return zone_id in self.world.market.catalog(CLOUD).offered.get((self.name, instance_type), ())

    def type_of(self, name: str) -> InstanceType | None:
        """A type's hardware; ``None`` for one that no zone of this region has."""
        catalog = self.world.market.catalog(CLOUD)
        return catalog.types.get(name) if catalog.offered.get((self.name, name)) else None

    def private_name(self, ip: str) -> str:
        """The private DNS name of an instance by its private address.

        Source: EC2 User Guide, "EC2 instance hostnames and domains", IP name.
        """
        domain = "ec2.internal" if self.name == "us-east-1" else f"{self.name}.compute.internal"
        return f"ip-{ip.replace('.', '-')}.{domain}"

    # --- the default network

    def default_id(self, prefix: str) -> str:
        """The id of a part of the default network, by its prefix."""
        return _fixed_id(prefix, self.name)

    def default_subnet_id(self, zone_name: str) -> str:
        """The id of the default subnet of a zone."""
        return _fixed_id("subnet", zone_name)


def region_opt_in(name: str) -> str:
    """How AWS calls a region's state in this account, which has opted in to all."""
    return "opted-in" if _CLOSED_BY_DEFAULT.fullmatch(name) else "opt-in-not-required"


def tags_of(document: Mapping[str, Any]) -> dict[str, str]:
    """A resource's tags."""
    tags = document.get("Tags") or document.get("TagSet") or ()
    return {tag["Key"]: tag["Value"] for tag in tags}


@cache
def _zones(region: str, ids: tuple[str, ...]) -> dict[str, str]:
    """Names for the standard zones, never in the order of the ids: who mixes them up is to notice."""
    standard = [zone for zone in ids if _STANDARD_ZONE.fullmatch(zone)]
    turn = 1 + int(hashlib.sha256(region.encode()).hexdigest(), 16) % max(1, len(standard) - 1)
    turned = standard[turn:] + standard[:turn]
    return {f"{region}{chr(ord('a') + at)}": zone for at, zone in enumerate(turned)}


@cache
def _fixed_id(prefix: str, name: str) -> str:
    return f"{prefix}-0{hashlib.sha256(name.encode()).hexdigest()[:16]}"
