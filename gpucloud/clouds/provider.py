"""The provider interface: what one cloud must do, in few verbs.

Methods let the SDK's own exceptions pass; ``classify`` returns their meaning. Retrying, waiting, deadlines,
logging and error wrapping are done once for every cloud by :class:`gpucloud.clouds.cloud.Cloud`. A provider
must be safe to use from several threads, keeps no state of its own beyond caches of what cannot change, and
sends nothing when it is constructed. Providers are found through the entry-point group
``gpucloud.providers``: an entry is a callable, usually the provider's class, that takes a
:class:`gpucloud.clouds.profile.Profile` and returns a :class:`Provider`. Credentials and endpoints are in the
profile; a provider reads nothing from the process's environment, so that one process can use several
accounts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import (
    Bounds,
    CloudPolicy,
    CloudRole,
    End,
    HeldCapacity,
    Identity,
    Machine,
    Order,
    Permission,
    Quota,
    Quote,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    SnapshotOrder,
    VolumeOrder,
)
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from gpucloud_pricing import Commitment, Interruption, Price, Tariff
    from gpucloud_pricing.history import Coverage, SetAside
    from gpucloud_templates import Image, Metadata, SelfDelete


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The meaning of a cloud's error, with the cloud's own message.

    ``sent`` is False if the request was certainly never sent (connection refused, bad parameters caught by
    the SDK): then the outcome is known even if the error alone would leave it unknown.
    """

    error_class: ErrorClass
    code: str
    message: str
    request_id: str | None = None
    retry_after_s: float | None = None
    scope: Scope = Scope.ZONE
    sent: bool = True


class BegunError(Exception):
    """A create that failed in a call after the billable one; raised ``from`` that call's error.

    Whether that later call was sent proves nothing about the machines: they may exist.
    """


class Record(Protocol):
    """Called before and after ``prepare`` creates a resource, so that a crash in between loses nothing."""

    def making(self, kind: ResourceKind, name: str, /) -> None:
        """Called before the call that creates a resource; returns once that is on disk."""
        ...

    def made(self, ref: Ref, /) -> None:
        """Called as soon as the resource's id is known; returns once that is on disk."""
        ...

    def armed(self, timers: Sequence[str], /) -> None:
        """Called as soon as timers are set that will end the machines; returns once that is on disk."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionGraph:
    """Which kinds depend on which when they are deleted.

    Attributes:
        held_by: for each kind, the kinds that depend on it: those are deleted before it. Of a kind that
            depends on itself, the newest is deleted first, one at a time.
        takes_along: for each kind, the kinds that the cloud deletes together with it.
    """

    held_by: Mapping[ResourceKind, Collection[ResourceKind]]
    takes_along: Mapping[ResourceKind, Collection[ResourceKind]] = field(
        default_factory=dict[ResourceKind, Collection[ResourceKind]]
    )

    @classmethod
    def in_order(
        cls,
        *kinds: ResourceKind,
        takes_along: Mapping[ResourceKind, Collection[ResourceKind]] | None = None,
    ) -> DeletionGraph:
        """A graph in which the kinds are deleted one after the other, in this order."""
        held_by = {kind: kinds[:number] for number, kind in enumerate(kinds)}
        return cls(held_by=held_by, takes_along=takes_along or {})

    def holders(self, kind: ResourceKind) -> frozenset[ResourceKind]:
        """The other kinds that depend on one; a kind that is not declared comes after all declared ones."""
        return frozenset(self.held_by.get(kind, self.held_by)) - {kind}

    def holds_itself(self, kind: ResourceKind) -> bool:
        """Whether resources of a kind depend on others of the same kind."""
        return kind in self.held_by.get(kind, ())

    @property
    def order(self) -> Sequence[ResourceKind]:
        """The declared kinds, each after those that depend on it."""
        return tuple(TopologicalSorter({kind: self.holders(kind) for kind in self.held_by}).static_order())


class Provider(Protocol):
    """One cloud."""

    @property
    def name(self) -> str:
        """The cloud's short name, as in the market's data: ``aws``."""
        ...

    @property
    def deletion(self) -> DeletionGraph:
        """Which kinds depend on which when they are deleted; independent ones go at the same time."""
        ...

    @property
    def ending(self) -> str:
        """For people, as part of a sentence: what ends a box at its deadline, and what stays billed."""
        ...

    def account(self) -> str:
        """The account, subscription or tenant that the credentials belong to."""
        ...

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Creates the network and the group of the order's instances; returns the create call as plain JSON.

        Each resource has a deterministic name from ``order.name`` and is found again rather than created
        twice. ``record`` must be called before and after each one is created. Creates nothing billable except
        addresses, where they must exist before their machine. The same order yields the same request. For an
        order with a ``vacancy`` it makes nothing that the other nodes have already.
        """
        ...

    def create(self, request: Request, /) -> Sequence[Machine]:
        """The billable call: all nodes or none. The same request yields the same machines, never more.

        The tags, the encrypted disk, the restricted metadata service and the way in which the box ends itself
        are part of this call. A timer that ends it and cannot be part of the call is set by
        :class:`EndsFromOutside`.

        Raises :class:`BegunError` for a failure after a machine may have been created, unless all of them
        have been deleted again.
        """
        ...

    def get(self, ref: Ref, /) -> Resource:
        """One resource by id, with state ``gone`` if it was deleted and the cloud still returns it.

        Raises the SDK's not-found error when the cloud does not know the id.
        """
        ...

    def find(self, search: Search, /) -> SearchResult:
        """All resources with gpucloud's tags that match: of every kind, in every region or those searched.

        A region that cannot be read is ``unread``; so is an empty answer without proof that the caller may
        read.
        Resources that are gone may be left out.
        """
        ...

    def delete(self, ref: Ref, /) -> None:
        """Requests the deletion of one resource of any kind; success if it is gone already. Does not wait."""
        ...

    def classify(self, error: Exception, /) -> Verdict | None:
        """The meaning of an exception of the SDK; ``None`` for any other exception."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A call that changes something, or is about to. ``action`` is the cloud's own name for it.

    ``target`` is an id, a name, or the idempotency key of the resource to be created.
    """

    cloud: str
    region: str
    action: str
    target: str


class Answered(Protocol):
    """Called with the outcome of a call."""

    def __call__(self, outcome: str, request_id: str | None, /) -> None:
        """``outcome`` is ``ok``, the cloud's error code, or the name of the exception."""
        ...


class Witness(Protocol):
    """Called before every changing call."""

    def __call__(self, call: ApiCall, /) -> Answered:
        """Called in the thread that is about to send it; returns the function to call with its outcome."""
        ...


@runtime_checkable
class Audited(Protocol):
    """Clouds that report each changing call before they send it."""

    def watch(self, witness: Witness, /) -> None:
        """Reports to this witness from now on. Called once, before anything is sent."""
        ...


NO_PRICE, MISSING, OTHER_TYPE = (
    "no price that anybody pays",
    "a field is missing",
    "another type than asked for",
)
"""Why a row is set aside; the first reason is for zero, negative values and text."""
ROW_SHOWN = 200
"""How many characters to keep of a row that is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """The answer to a price query: prices, and the rows that are none.

    ``interruptions`` are the rates at which spot machines are interrupted, by region and type, if known.
    ``tariffs`` are prices other than compute: lists, each with all its steps in order.
    ``further`` are the next queries, for an answer that only lists these.
    """

    prices: Sequence[Price]
    set_aside: Sequence[SetAside] = ()
    interruptions: Mapping[tuple[str, str], Interruption] = field(
        default_factory=dict["tuple[str, str]", "Interruption"]
    )
    tariffs: Sequence[Sequence[Tariff]] = ()
    further: Sequence[Inquiry] | None = None

    @classmethod
    def of(cls, quotes: Iterable[Quote], source: str, set_aside: Sequence[SetAside] = ()) -> PriceList:
        """A list of quotes as prices of one source, and the rows that were set aside."""
        from gpucloud_pricing import Price

        prices = [
            Price(
                cloud=quote.cloud,
                region=quote.region,
                zone=quote.zone,
                instance_type=quote.instance_type,
                purchase=str(quote.purchase),
                amount=quote.price_per_hour,
                currency=quote.currency,
                as_of=quote.as_of.date(),
                source=source,
            )
            for quote in quotes
        ]
        return cls(prices=prices, set_aside=set_aside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A query for prices. It is answered completely or not at all.

    Attributes:
        name: unique within its cloud, and the same in each refresh.
        covers: the offers that the answer covers.
        ask: sends it; the cloud's errors pass.
    """

    name: str
    covers: Coverage
    ask: Callable[[], PriceList]


@runtime_checkable
class PriceSource(Protocol):
    """Clouds with calls for prices."""

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's prices of these types in this region: per zone for spot. Unknown types are left out."""
        ...

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """The queries for every price of these types, in these regions or in all those of the account."""
        ...


@runtime_checkable
class TariffSource(Protocol):
    """Clouds with calls for prices other than compute: disks, addresses, data transfer, snapshots."""

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """The queries for every tariff of these regions, or of all those of the account."""
        ...


@runtime_checkable
class CapacitySource(Protocol):
    """Clouds with calls for the capacity that the account already holds."""

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Active reservations of these types with free capacity."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentInquiry:
    """A query for commitments. It is answered completely or not at all.

    Attributes:
        name: unique within its cloud, and the same each time: ``reserved instances in REGION``.
        ask: sends it; the cloud's errors pass.
        if_empty: for people, what else than "there is none" an empty answer may mean; empty for nothing.
    """

    name: str
    ask: Callable[[], Sequence[Commitment]]
    if_empty: str = ""


@runtime_checkable
class CommitmentSource(Protocol):
    """Clouds with calls for what the account has paid for already, or has committed to pay."""

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """The queries for every commitment that is in force."""
        ...


@runtime_checkable
class MetadataSource(Protocol):
    """Clouds whose boxes can query a metadata service: for the time, and for spot interruption notices."""

    @property
    def metadata(self) -> Metadata:
        """How a box queries it."""
        ...


@runtime_checkable
class IdentitySource(Protocol):
    """Clouds that bill stopped machines, where a box can have an identity that may delete it."""

    @property
    def self_delete(self) -> SelfDelete:
        """How a box with such an identity (``Order.box_identity``) deletes itself."""
        ...


@runtime_checkable
class EndsByPowerOff(Protocol):
    """Clouds where a machine can end its own bill: it powers itself off."""

    @property
    def power_off_ends(self) -> bool:
        """Whether nothing of the machine is billed then."""
        ...


@runtime_checkable
class ImageSource(Protocol):
    """Clouds where the image of a recipe is known without a call."""

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> Image:
        """The image of ``Order.image`` on an instance type. Makes no call; UsageError if none fits."""
        ...


@runtime_checkable
class ChecksOrders(Protocol):
    """Clouds whose documented limits are checked when an order is planned."""

    def check(self, order: Order, /) -> None:
        """Refuses an order that the cloud would refuse later. Makes no call.

        The order of a plan lacks what is decided later: it has no key, name, account and user-data yet.

        Raises :class:`gpucloud.errors.UsageError`, which says what the cloud accepts.
        """
        ...


@runtime_checkable
class ConsoleLog(Protocol):
    """Clouds that keep the console output of a machine."""

    def console(self, ref: Ref, /) -> str:
        """The console's text, terminal escapes included; empty when there is none yet."""
        ...


@runtime_checkable
class Ingress(Protocol):
    """Clouds whose firewall rules can be changed later."""

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Makes these sources, on ssh and these ports, the only ones that the group allows."""
        ...


@runtime_checkable
class EndsFromOutside(Protocol):
    """Clouds where the timer that ends a machine is set by calls of its own, after the create call.

    That may be timers, or a role with which the machine can delete itself. If all of it is part of the create
    call, a provider does not have this ability.
    """

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        """Ensures that the machines of a box end at their deadline, also if they hang.

        Returns the resources that were created for it. ``timers`` are the known ones of the box, from the
        record of ``prepare``, ``note`` or ``extend``: the provider's own text, by which it finds them again.
        ``note`` is called with new ones as soon as they are known.

        Called for machines of a create call, known by its answer, by a search after a lost answer, or by a
        recovery of the journal. May be repeated: a timer that is set already stays.

        Raises the SDK's errors if a machine has no timer: the caller then ends the machines.
        """
        ...


@runtime_checkable
class GivesAddresses(Protocol):
    """Clouds where the public address of a machine may be a resource of its own, given to it once it runs.

    Such addresses are made, and recorded, by ``prepare``, one for each node, if the machines of the order get
    none by their create call: with several network interfaces, for example.
    """

    def give_address(self, machine: Ref, address: Ref, /) -> None:
        """Gives an address to a machine that runs; fine if it has it already."""
        ...


@runtime_checkable
class CanExtend(Protocol):
    """Clouds that keep a box's deadline themselves: in a timer, or at least in its tags."""

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[str]:
        """Moves the cloud's own deadline of a box's instances, and its tag on all resources of the box.

        ``None`` is no deadline. ``timers`` are those in force, from the record, ``note`` or this call;
        returns those in force from now on. ``note`` is called with new ones as soon as they are known. A box
        has a timer at every moment, and the old one is without effect when this returns.
        """
        ...


@runtime_checkable
class CanStop(Protocol):
    """Clouds where a machine can be stopped, so that its compute is not billed, and started again."""

    @property
    def timer_deletes(self) -> bool:
        """Whether the timer of :class:`EndsFromOutside` or of the machine itself deletes a stopped machine.

        Otherwise it only ends the bill of a running one.
        """
        ...

    def why_not_stop(self, machine: Machine, /, *, local_disks: bool) -> str | None:
        """Why a machine cannot be stopped, or would be billed on, as a clause. Makes no call.

        ``local_disks`` tells whether its type has disks of the host.
        """
        ...

    def stop(self, ref: Ref, /) -> None:
        """Requests the stop that ends the bill of a machine's compute. Does not wait; may be repeated."""
        ...

    def start(self, ref: Ref, /) -> None:
        """Starts a stopped machine, or raises the SDK's error, also if there is no capacity.

        A machine that runs is left as it is.
        """
        ...


@runtime_checkable
class HoldsVolumes(Protocol):
    """Clouds where a disk can be made by itself, and be attached to one machine after another."""

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size of a volume."""
        ...

    def prepare_volume(self, order: VolumeOrder, record: Record, /) -> Request:
        """Creates what a volume needs besides itself, nothing billable; otherwise as ``prepare`` of a box."""
        ...

    def create_volume(self, request: Request, /) -> Resource:
        """The billable call, with tags and encryption. The same request yields the same disk."""
        ...

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Creates what a snapshot needs besides itself, nothing billable; otherwise as ``prepare``."""
        ...

    def create_snapshot(self, request: Request, /) -> Resource:
        """The billable call, with tags, closed to export. The same request yields the same snapshot.

        It may still be ``pending``: it holds the disk as of this call all the same.
        """
        ...

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:
        """Attaches a disk to a machine that runs; fine if it is attached to this one already.

        The disk outlives the machine. ``number`` is that of the disk among those of the machine, from 0.
        Returns the paths at which the guest may show its device.

        Raises the SDK's error if it is attached to another machine.
        """
        ...


@runtime_checkable
class MakesImages(Protocol):
    """Clouds where the root disk of a stopped machine can be copied so that other machines boot from it."""

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:
        """What is to be sent for an image of a machine's root disk, without its volumes; as ``prepare``."""
        ...

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """The billable call, with tags: returns the image, and the snapshot that it holds, if it holds one.

        The machine is not restarted. The same request yields the same image. It may still be ``pending``: it
        holds the disk as of this call, which it no longer needs, and boots machines once it is ``running``.

        Raises :class:`BegunError` while a part of it is not shown yet.
        """
        ...


@runtime_checkable
class Echo(Protocol):
    """Clouds that report the caller's own address."""

    def caller_address(self) -> str:
        """This machine's public IP address, from an https echo service of the cloud; validated."""
        ...


@runtime_checkable
class QuotaSource(Protocol):
    """Clouds with calls for the account's quotas."""

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The quotas in this region that a launch of these types counts against, each once.

        A type may count against several (its family's and the region's). A type without a quota, or whose
        quota the cloud does not report, is in none.
        """
        ...


@runtime_checkable
class ForgetsEnded(Protocol):
    """Clouds that return a machine by its id until it ends, and then report that it does not exist.

    There a machine that was running and is no longer found has ended, however young it is.
    """

    @property
    def forgets_ended(self) -> bool:
        """``True``."""
        ...


@runtime_checkable
class ListsMachines(Protocol):
    """Clouds whose lists of machines show all that reading each by its id would: its state, its addresses.

    There many machines are read with one call.
    """

    @property
    def lists_machines(self) -> bool:
        """``True``."""
        ...


@runtime_checkable
class Checkup(Protocol):
    """Clouds that can check whether gpucloud works with these credentials. Changes and costs nothing."""

    @property
    def credentials_hint(self) -> str:
        """The commands or pages to get credentials with: the shortest way, then after ``;`` the others."""
        ...

    @property
    def policy(self) -> str:
        """The least privileges that every command needs, in the cloud's own JSON."""
        ...

    def identity(self) -> Identity:
        """The identity of the credentials."""
        ...

    def permissions(self, region: str, /) -> Sequence[Permission]:
        """Each action of :attr:`policy` that can be tried without effect, and whether it is allowed."""
        ...

    def server_time(self) -> datetime:
        """The cloud's time (the ``Date`` of an answer), in UTC."""
        ...


@runtime_checkable
class StatesPolicies(Protocol):
    """Clouds whose own policies can hold people to roles and rules. Calls nothing."""

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The privileges of a role; ``owner`` is the owner id of an operator."""
        ...

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A policy that denies everybody what is out of bounds."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """Clouds where a launch starts with reads that depend on its region alone."""

    def read_ahead(self, region: str, /) -> None:
        """Reads in advance what ``prepare`` needs in a region, and keeps it. Changes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """A container of an object store: a bucket, or in Azure ``ACCOUNT/CONTAINER``.

    Attributes:
        container: its name.
        region: where it is.
        account: the account that owns it.
        endpoint: the URL of its service; empty if the container's name and region are enough to find it.
    """

    container: str
    region: str
    account: str
    endpoint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageGrant:
    """The rights on a part of a container that a box gets. It may delete nothing.

    Attributes:
        place: the container.
        reads: the folder that may be listed and read; without slashes at its ends, as ``writes``.
        writes: the folder, inside ``reads``, in which objects may be created and replaced; ``None`` for none.
        name: what the grant is for; shown in the cloud's own log.
        role: the role that gives the rights; ``None`` for the caller's own.
        kms_key: the key of the cloud that encrypts what is written; ``None`` for the container's default.
    """

    place: StorePlace
    reads: str
    writes: str | None
    name: str
    role: str | None = None
    kms_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLease:
    """A grant that is in force, as options of rclone. They are secret: never printed and never journalled.

    Attributes:
        ends_at: when the cloud refuses it; at most an hour from its beginning.
        folder: the container, as the beginning of a path of rclone.
        reading: the options of rclone's remote that reads; it may be the same as the one that writes.
        writing: the options of the one that writes; those of ``reading`` where nothing may be written.
    """

    ends_at: datetime
    folder: str
    reading: Mapping[str, str] = field(repr=False)
    writing: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLogin:
    """Where, and as whom, somebody logs in at a database."""

    host: str
    port: int
    user: str


@runtime_checkable
class DatabaseLogins(Protocol):
    """Clouds whose identities log in at databases that the cloud hosts, by a token in place of a password."""

    def database_token(self, login: DatabaseLogin, /) -> str:
        """A new token: it lasts for minutes, and is used for one connection."""
        ...


@runtime_checkable
class ObjectStore(Protocol):
    """Clouds with an object store, on a part of which the caller can lend rights for a while."""

    @property
    def store_scheme(self) -> str:
        """The scheme of its URLs: ``s3``."""
        ...

    def locate(self, address: str, /) -> tuple[StorePlace, str]:
        """The container of an address (a URL without its scheme), and the folder in it.

        Raises :class:`gpucloud.errors.UsageError` if there is none, or if it belongs to somebody else.
        """
        ...

    def names(self, place: StorePlace, path: str, /) -> Sequence[str]:
        """The names of the folders and objects in a folder; none where it does not exist."""
        ...

    def lend(self, grant: StorageGrant, /) -> StorageLease:
        """Lends rights for at most an hour, never more than the caller or the role has.

        Raises :class:`gpucloud.errors.UsageError` if these credentials cannot be narrowed so.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSize:
    """How much a folder of an object store holds.

    Attributes:
        files: how many objects were counted.
        size_bytes: their size.
        whole: whether these are all; otherwise there are more.
    """

    files: int
    size_bytes: int
    whole: bool


@runtime_checkable
class MeasuresStore(Protocol):
    """Object stores that list the sizes of their objects."""

    def measure(self, place: StorePlace, path: str, most: int, /) -> StoreSize:
        """Counts the objects below a folder, about ``most`` of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object of a container: its path from the container on, and its size."""

    path: str
    size_bytes: int


@runtime_checkable
class ObjectAccess(Protocol):
    """Object stores whose objects the caller reads, writes and deletes, with the caller's own rights."""

    def objects(self, place: StorePlace, path: str, most: int, /) -> Sequence[StoredObject]:
        """The objects below a folder, in the order of their paths; about ``most`` where there are more.

        Those that stand for folders are left out.
        """
        ...

    def get_object(self, place: StorePlace, path: str, target: BinaryIO, most: int, /) -> None:
        """Writes an object to an empty file.

        Raises :class:`gpucloud.clouds.kit.LongerError` if it has more than ``most`` bytes.
        """
        ...

    def put_object(self, place: StorePlace, path: str, source: BinaryIO, kms_key: str | None, /) -> None:
        """Creates or replaces an object of at most 5 GB; a key of the cloud may encrypt it."""
        ...

    def delete_object(self, place: StorePlace, path: str, /) -> None:
        """Deletes an object; one that is not there is deleted."""
        ...


@runtime_checkable
class Remarks(Protocol):
    """Clouds where the account changes the properties of a box."""

    def remarks(self) -> Sequence[str]:
        """For people: how boxes of this account differ from the default; a sentence each."""
        ...
