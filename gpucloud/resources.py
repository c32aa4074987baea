"""The values that travel between the engine and the providers. No I/O, no clock, no environment."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from gpucloud_pricing.purchases import Purchase

Request = Mapping[str, Any]
"""What a provider's ``prepare`` returns and its ``create`` sends: plain JSON, so that it can be hashed."""


class ResourceKind(StrEnum):
    """The kinds of resource that gpucloud creates or finds.

    A placement group is whatever a cloud keeps machines close together by: an availability set in Azure, a
    deployment set in Alibaba Cloud.
    """

    INSTANCE = "instance"
    DISK = "disk"
    ADDRESS = "address"
    NIC = "nic"
    GROUP = "group"
    PLACEMENT_GROUP = "placement-group"
    NETWORK = "network"
    KEY = "key"
    SPOT_REQUEST = "spot-request"
    SNAPSHOT = "snapshot"
    IMAGE = "image"
    RESOURCE_GROUP = "resource-group"
    SCHEDULE = "schedule"

    @property
    def billable(self) -> bool:
        """Whether a resource of this kind is billed while it exists."""
        return self in {
            ResourceKind.INSTANCE,
            ResourceKind.DISK,
            ResourceKind.ADDRESS,
            ResourceKind.SPOT_REQUEST,
            ResourceKind.SNAPSHOT,
            ResourceKind.IMAGE,
        }


class State(StrEnum):
    """The state of a resource, by its cloud. A kind without states is ``running`` while it exists."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    GONE = "gone"


TAG_PREFIX = "gpucloud:"


def rfc3339(moment: datetime) -> str:
    """A time as every output and the journal write it: UTC, seconds, ``Z``."""
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


EXPIRES_TAG = f"{TAG_PREFIX}expires"
VOLUME_TAG = f"{TAG_PREFIX}volume"
SNAPSHOT_TAG = f"{TAG_PREFIX}snapshot"
RETAIN_TAG = f"{TAG_PREFIX}retain"
"""Marks what is wanted until its deadline, also where no journal knows it: data that outlives boxes."""

OWNER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
"""What an owner's id may look like: it travels in tags, policies and file names."""
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/=+%-]{0,127}")
"""What a run's id may look like: it travels in tags and is part of a command for people to copy."""
BOX_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What a box's id may look like: it travels in tags, paths and the arguments of programs."""

VOLUME_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
"""What a volume or a snapshot may be called: as a box."""

_GRAMMAR: Mapping[str, re.Pattern[str]] = {
    "owner": OWNER_ID,
    "box": BOX_ID,
    "op": re.compile(rf"(?:{BOX_ID.pattern})?"),
    "run": re.compile(rf"(?:{RUN_ID.pattern})?"),
    "volume": re.compile(rf"(?:{VOLUME_NAME.pattern})?"),
    "snapshot": re.compile(rf"(?:{VOLUME_NAME.pattern})?"),
    "expires": re.compile(r"none|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII),
}
_SHOWN_CHARACTERS = 60

MARKS = ("box", "owner")
"""The tags, by their short names: what has either is gpucloud's, and a search without values finds it."""


def expires_text(expires_at: datetime | None) -> str:
    """A box's end as its tag tells it: an RFC 3339 time in UTC, or ``none``."""
    return rfc3339(expires_at) if expires_at else "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """The five tags of every billable resource, the same on every cloud.

    ``expires`` has the form of :func:`expires_text`. ``volume`` is the name of a volume, ``snapshot`` that of
    a snapshot; both are empty for what belongs to a box. ``retain`` tells that only the deadline makes the
    resource unwanted.

    Raises:
        ValueError: a value is none that gpucloud writes; says which.
    """

    owner: str
    box: str
    op: str
    run: str
    expires: str
    volume: str = ""
    snapshot: str = ""
    retain: bool = False

    def __post_init__(self) -> None:
        """Refuses what gpucloud never writes: ids become paths, arguments and names of hosts."""
        for name, grammar in _GRAMMAR.items():
            value: str = getattr(self, name)
            if not grammar.fullmatch(value):
                raise _wrong(name, value)
        try:
            _ = self.ends_at
        except ValueError as error:  # a thirteenth month
            raise _wrong("expires", self.expires) from error

    @property
    def ends_at(self) -> datetime | None:
        """The deadline of the resource; ``None`` if it has none."""
        return None if self.expires == "none" else datetime.fromisoformat(self.expires)

    def as_dict(self) -> dict[str, str]:
        """The tags as the clouds hold them, keys with the prefix ``gpucloud:``."""
        names = {VOLUME_TAG: self.volume, SNAPSHOT_TAG: self.snapshot}
        further = {**names, RETAIN_TAG: "true" if self.retain else ""}
        return {
            f"{TAG_PREFIX}owner": self.owner,
            f"{TAG_PREFIX}box": self.box,
            f"{TAG_PREFIX}op": self.op,
            f"{TAG_PREFIX}run": self.run,
            EXPIRES_TAG: self.expires,
            **{name: value for name, value in further.items() if value},
        }

    @classmethod
    def parse(cls, tags: Mapping[str, str]) -> Tags | BadTags | None:
        """Reads the five tags from all tags of a resource; they are read nowhere else.

        Returns:
            ``None`` if the resource has none of them; :class:`BadTags` where gpucloud cannot have
            written what it carries.
        """
        shown = {name: tags[key] for name in _GRAMMAR if (key := f"{TAG_PREFIX}{name}") in tags}
        if not shown:
            return None
        values = {name: shown.get(name, "") for name in _GRAMMAR}
        try:
            return cls(**{**values, "expires": values["expires"] or "none"}, retain=RETAIN_TAG in tags)
        except ValueError as error:
            return BadTags(shown=shown, wrong=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class BadTags:
    """Values under the names of gpucloud's tags that gpucloud cannot have written.

    A resource with such tags is foreign: it is shown, but never adopted and never deleted.

    Attributes:
        shown: the values of those of the five tags that are there, by their short names. They are compared
            and shown; they are never a path, an argument or an id.
        wrong: which value is wrong, in printable ASCII.
    """

    shown: Mapping[str, str]
    wrong: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """Identifies a resource in a cloud. ``id`` is the cloud's own id; a name, where names are the ids."""

    cloud: str
    account: str
    region: str
    kind: ResourceKind
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource as its cloud shows it now.

    ``tags`` is ``None`` if the resource has none of gpucloud's tags. ``created_at`` is ``None`` where the
    cloud does not say; so is ``size_gib``, of a disk, or of the disk that a snapshot was made of. ``zone`` is
    in the market's own terms (AWS: AZ id); empty without one. ``attached_to`` is the machine that has a disk.
    """

    ref: Ref
    state: State
    tags: Tags | BadTags | None
    created_at: datetime | None = None
    size_gib: int | None = None
    zone: str = ""
    attached_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Resource):
    """One instance as its cloud shows it now.

    ``name`` is the cloud's name of it, as :func:`cloud_name` made it. ``reason`` is the cloud's own word for
    why it ended; ``ended_itself`` tells that its guest powered it off or its own end came, ``preempted`` that
    the cloud took it back. ``address_apart`` is whether its public address is a resource of its own, which a
    search finds too. ``parts`` are satellites that the cloud made with it and that are ours to account for
    (its root disk, its interface), known once it runs. ``billed`` is whether the cloud bills its compute as
    it is now: what is switched off is billed on one cloud and not on another. ``ended_at`` is since when it
    is not billed; ``None`` while it is, and where the cloud does not say.
    """

    instance_type: str
    purchase: Purchase
    name: str = ""
    public_ip: str | None = None
    private_ip: str | None = None
    reason: str | None = None
    preempted: bool = False
    billed: bool = True
    ended_at: datetime | None = None
    ended_itself: bool = False
    address_apart: bool = False
    parts: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRegion:
    """A region that could not be read: nothing may be concluded about it."""

    cloud: str
    region: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search by tag, and the regions that could not be read.

    ``suspects`` are resources with :class:`BadTags` that match otherwise. A provider returns them in
    ``resources``; :meth:`gpucloud.clouds.cloud.Cloud.find` separates them.
    """

    resources: tuple[Resource, ...]
    unread: tuple[UnreadableRegion, ...] = ()
    suspects: tuple[Resource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to look for by tag: every field that is set must match.

    ``regions`` narrows the search (a look at one known region); ``None`` means every region of the account.
    ``token`` is a create call's idempotency key, for clouds that can be asked by it. ``machines_only`` takes
    far fewer calls. ``aliases`` are further ids of the owner: clouds are asked for all owners then.
    """

    owner: str | None = None
    aliases: tuple[str, ...] = ()
    box: str | None = None
    op: str | None = None
    run: str | None = None
    token: str | None = None
    regions: tuple[str, ...] | None = None
    machines_only: bool = False

    @property
    def asked(self) -> dict[str, str]:
        """The values of tags that are asked for, by their short names, the rarest first."""
        owner = None if self.aliases else self.owner
        tags = {"box": self.box, "op": self.op, "run": self.run, "owner": owner}
        return {name: value for name, value in tags.items() if value is not None}

    def admits(self, tags: Tags | BadTags | None) -> bool:
        """Whether a resource with these tags matches; the provider compares token and regions."""
        owners = {self.owner, *self.aliases} if self.aliases else None
        match tags:
            case Tags():
                asked = all(getattr(tags, name) == value for name, value in self.asked.items())
                return asked and (owners is None or tags.owner in owners)
            case BadTags(shown=shown):
                asked = all(shown.get(name) == value for name, value in self.asked.items())
                return asked and (owners is None or shown.get("owner") in owners)
            case None:
                return not self.asked and owners is None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSlot:
    """The place of one node of a box that has several, for which another machine is bought alone.

    ``rank`` is the number of the node, from 0; ``key`` is that of the order by which the others were bought.
    """

    rank: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One attempt to buy: everything a provider needs, decided by the engine.

    ``key`` is the idempotency key: a function of operation, account, region, zone and attempt, at most 64
    ASCII characters. ``name`` is the cloud name: a slug and 8 characters of a hash, unique for the box.
    ``max_price_usd`` is the ceiling, per hour and node, and is the bid for spot. ``rates`` are the amounts of
    other currencies for one USD, for accounts that bid in them. ``allow_from`` are CIDRs,
    never the world. ``reservation`` names capacity that is already held. ``user_data`` is what cloud-init
    reads, as it travels: text or gzip, before base64. ``image`` is a recipe name (``ubuntu-22.04``) or a
    cloud's own image id. ``ttl_role`` names a role with which the cloud ends the box from outside, where it
    needs one for that. ``box_identity`` names a role that the box itself is given, on itself alone.
    ``volumes`` are disks to attach, for clouds that attach them in the create call. Several ``nodes`` are to
    be close together: a provider puts them into a placement group of their own, where the type and the way of
    paying allow one. ``fabric`` is the RDMA network that joins them, which their type has; ``None`` for none.
    With a ``vacancy`` only one of the nodes is bought: it joins the others in their network, their security
    group and their placement group, and nothing of that is made anew. :attr:`ranks` are the nodes to buy.
    """

    key: str
    name: str
    account: str
    region: str
    zone: str
    instance_type: str
    arch: str
    gpu_model: str
    gpu_count: Decimal
    purchase: Purchase
    nodes: int
    disk_gib: int
    image: str
    user_data: bytes
    allow_from: tuple[str, ...]
    ports: tuple[int, ...]
    tags: Tags
    max_price_usd: Decimal
    rates: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    extra_tags: Mapping[str, str] = field(default_factory=dict[str, str])
    reservation: str | None = None
    deadline: datetime | None = None
    ttl_role: str | None = None
    box_identity: str | None = None
    volumes: tuple[Ref, ...] = ()
    fabric: str | None = None
    vacancy: NodeSlot | None = None

    @property
    def ranks(self) -> Sequence[int]:
        """The numbers of the nodes that are bought: all of the box, or the one of the vacancy."""
        return range(self.nodes) if self.vacancy is None else (self.vacancy.rank,)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOrder:
    """An encrypted disk that is to outlive boxes; the fields are those of an :class:`Order`.

    ``zone`` is empty for a cloud whose disks need none. ``snapshot`` is what the disk is filled from; without
    it the disk is blank.
    """

    key: str
    name: str
    account: str
    region: str
    zone: str
    size_gib: int
    tags: Tags
    snapshot: Ref | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOrder:
    """A snapshot of a disk, or an image of a stopped machine; the fields are those of an :class:`Order`.

    ``of`` is the disk, or the machine, whose root disk alone is copied. ``size_gib`` is that of the disk.
    ``keep_days`` is after how many days a cloud that can end it by itself does so: not before its deadline.
    """

    key: str
    name: str
    account: str
    region: str
    of: Ref
    size_gib: int
    keep_days: int
    tags: Tags

    @property
    def is_image(self) -> bool:
        """Whether it is of a machine."""
        return self.of.kind is ResourceKind.INSTANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """When machines end, and what a cloud needs to end them from outside; as in their :class:`Order`.

    ``at`` is ``None`` for no end. ``extra_tags`` are for what is set, beside the machines' own five.
    """

    at: datetime | None
    ttl_role: str | None = None
    box_identity: str | None = None
    extra_tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A price that a cloud named today. ``zone`` is ``None`` for a regional price."""

    cloud: str
    region: str
    zone: str | None
    instance_type: str
    purchase: Purchase
    price_per_hour: Decimal
    currency: str
    as_of: datetime
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCapacity:
    """Capacity that the account already holds (a capacity reservation, a block, a private pool)."""

    cloud: str
    region: str
    zone: str
    instance_type: str
    id: str
    free: int
    purchase: str  # "reservation" or "capacity_block"


MOST_DIGITS = 30
"""Of a quota: "unlimited" is a number of up to 64 bits in all clouds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How much of something an account may rent in a region.

    Attributes:
        cloud: the provider's name.
        region: the region's id.
        name: the cloud's own name of it (``L-DB2E81BA``, ``lowPriorityCores``).
        instance_types: those asked about that count against it.
        unit: ``vcpus`` or ``instances``: what one machine takes is its vCPUs, or one.
        limit: how much in all.
        used: how much is taken; ``None`` where the cloud does not say.
        fix: the page of the console that asks for more.
        request: the command that asks for more; ``LIMIT`` stands for the new limit. Empty without one.
    """

    cloud: str
    region: str
    name: str
    instance_types: tuple[str, ...]
    unit: str
    limit: Decimal
    used: Decimal | None
    fix: str
    request: str = ""

    def __post_init__(self) -> None:
        """Refuses figures that nobody can be given: what follows would be compared with them, and shown."""
        for figure in (self.limit, self.used or Decimal(0)):
            if not figure.is_finite() or abs(figure.adjusted()) > MOST_DIGITS:
                raise ValueError(f"{figure} is no quota")

    def more(self, needed: Decimal) -> str:
        """How to ask for a limit under which this much more fits."""
        limit = f"{((self.used or Decimal(0)) + needed).normalize():f}"
        command = f", or: {self.request.replace('LIMIT', limit)}" if self.request else ""
        return f"{self.fix} (quota {self.name}, {self.region}){command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose credentials are in use.

    ``who`` is the cloud's own name of the user, role or application; ``source`` is where the SDK found the
    credentials (``environment``, ``profile default``).
    """

    account: str
    who: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Whether an action is allowed.

    ``allowed`` is ``None`` where it could not be told; ``said`` are the cloud's own words, ``fix`` is the
    command or page that grants it.
    """

    action: str
    allowed: bool | None
    said: str
    fix: str


class CloudRole(StrEnum):
    """Whom a policy of a cloud is for, as the roles of a team's journal."""

    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # launches, changes and ends what carries its own owner id
    ADMIN = "admin"  # the same with what carries any owner id


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPolicy:
    """A policy in a cloud's own JSON, and what it cannot say, or what to do with it, in sentences."""

    document: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is allowed in a cloud; ``None`` is no limit.

    Attributes:
        allowed: whether anything is.
        regions: the cloud's names.
        other_regions: the other regions that are known.
        instance_types: the cloud's names.
        purchases: ways of paying.
        tags: names of tags that a machine must have.
    """

    allowed: bool
    regions: tuple[str, ...] | None
    other_regions: tuple[str, ...]
    instance_types: tuple[str, ...] | None
    purchases: tuple[str, ...] | None
    tags: tuple[str, ...]


def _wrong(name: str, value: str) -> ValueError:
    said = ascii(value[:_SHOWN_CHARACTERS]) if value else "missing"
    return ValueError(f"{TAG_PREFIX}{name} is {said}")


def short_id(resource_id: str) -> str:
    """An id for people: the last word of one that is a path. Documents and errors give the whole.

    Of a version (``…/images/NAME/versions/1.0.0``) it is ``NAME/1.0.0``.
    """
    *parents, last = resource_id.split("/")
    return f"{parents[-2]}/{last}" if parents[-1:] == ["versions"] else last


def token_for(*, op: str, account: str, region: str, zone: str, attempt: int) -> str:
    """The idempotency key of one attempt: same inputs, same token; 40 ASCII characters."""
    text = "\n".join((op, account, region, zone, str(attempt)))
    return "gpc-" + hashlib.sha256(text.encode()).hexdigest()[:36]


def cloud_name(name: str, box: str) -> str:
    """A box's name in a cloud: a slug of its name and 8 characters of a hash of its id.

    Two boxes never share one, however alike their names are.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:30] or "box"
    return f"gpucloud-{slug}-{hashlib.sha256(box.encode()).hexdigest()[:8]}"


def box_name(cloud_name: str) -> str | None:
    """The box's name, as far as it fits, in a name that :func:`cloud_name` made; ``None`` for any other."""
    found = re.fullmatch(r"gpucloud-([a-z0-9-]{1,30})-[0-9a-f]{8}", cloud_name)
    return found[1] if found else None


def request_hash(request: Request) -> str:
    """A hash of a prepared request, to notice when a repeated call would not be the same call."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
