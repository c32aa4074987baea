"""The abilities of providers: what a cloud may do besides the verbs of every provider.

``provider.ability(Volumes)`` returns what has the ability in a cloud, or ``None``; the engine asks it by
:meth:`gpucloud.clouds.cloud.Cloud.ask`, which retries, waits, bounds and wraps. What is said of a
:class:`gpucloud.clouds.provider.Provider` holds here as well: the SDK's own exceptions pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gpucloud.clouds.provider import CallObserver, Record
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
    SnapshotOrder,
    VolumeOrder,
)
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from gpucloud_pricing import Commitment, Interruption, Price, Tariff
    from gpucloud_pricing.history import Coverage, SetAside
    from gpucloud_templates import Image, Metadata, SelfDelete

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
class Prices(Protocol):
    """Calls for today's prices."""

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's prices of these types in this region: per zone for spot. Unknown types are left out."""
        ...

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """The queries for every price of these types, in these regions or in all those of the account."""
        ...

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """The queries for every tariff of these regions, or of all those of the account."""
        ...


@runtime_checkable
class Reservations(Protocol):
    """Calls for the capacity that the account already holds."""

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
class Commitments(Protocol):
    """Calls for what the account has paid for already, or has committed to pay."""

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """The queries for every commitment that is in force."""
        ...


@runtime_checkable
class Quotas(Protocol):
    """Calls for the account's quotas."""

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The quotas in this region that a launch of these types counts against, each once.

        A type may count against several (its family's and the region's). A type without a quota, or whose
        quota the cloud does not report, is in none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How a cloud treats machines, as far as the engine can make use of it.

    Attributes:
        forgets_ended: it returns a machine by its id until it ends, and then reports that it does not exist:
            there a machine that was running and is no longer found has ended, however young it is.
        lists_machines: its lists of machines show all that reading each by its id would, its state and its
            addresses: there many machines are read with one call.
        power_off_ends: a machine can end its own bill: nothing of it is billed once it powers itself off.
    """

    forgets_ended: bool = False
    lists_machines: bool = False
    power_off_ends: bool = False


@runtime_checkable
class Boot(Protocol):
    """What is known of the boot of a box without a call."""

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> Image:
        """The image of ``Order.image`` on an instance type; UsageError if none fits."""
        ...

    @property
    def metadata(self) -> Metadata | None:
        """How a box queries the metadata service: for the time, and for spot interruption notices."""
        ...

    @property
    def self_delete(self) -> SelfDelete | None:
        """How a box with an identity that may delete it (``Order.box_identity``) deletes itself.

        ``None`` in clouds where stopped machines are not billed, or where a box can have no such identity.
        """
        ...


@runtime_checkable
class Preflight(Protocol):
    """What is asked before a box is bought."""

    def check(self, order: Order, /) -> None:
        """Refuses an order that the cloud would refuse later. Makes no call.

        The order of a plan lacks what is decided later: it has no key, name, account and user-data yet.

        Raises :class:`gpucloud.errors.UsageError`, which says what the cloud accepts.
        """
        ...

    def read_ahead(self, region: str, /) -> None:
        """Reads in advance what ``prepare`` needs in a region, and keeps it. Changes nothing."""
        ...

    def remarks(self) -> Sequence[str]:
        """For people: how boxes of this account differ from the default; a sentence each."""
        ...


@runtime_checkable
class Checkup(Protocol):
    """Whether gpucloud works with these credentials. Changes and costs nothing."""

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
class NetworkCheck(Protocol):
    """Whether there is a network for boxes, where a launch does not make one. Changes and costs nothing."""

    def network(self, region: str, /) -> str:
        """The network that a box in a region would be put into, for people.

        Raises:
            CloudError: there is none that a launch could use.
        """
        ...


@runtime_checkable
class AccessPolicies(Protocol):
    """The cloud's own policies, which can hold people to roles and rules. Calls nothing."""

    def role_policy(self, role: CloudRole, owner: str, /) -> CloudPolicy:
        """The privileges of a role; ``owner`` is the owner id of an operator."""
        ...

    def guardrail(self, bounds: Bounds, /) -> CloudPolicy:
        """A policy that denies everybody what is out of bounds."""
        ...


@runtime_checkable
class ConsoleLog(Protocol):
    """The console output of machines."""

    def console(self, ref: Ref, /) -> str:
        """The console's text, terminal escapes included; empty when there is none yet."""
        ...


@runtime_checkable
class Firewall(Protocol):
    """Firewall rules that can be changed later."""

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Makes these sources, on ssh and these ports, the only ones that the group allows."""
        ...


@runtime_checkable
class Deadlines(Protocol):
    """The cloud's own deadline of a box: a timer that ends it, or at least its tags."""

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        """Ensures that the machines of a box end at their deadline, also if they hang.

        Does nothing where all of it is part of the create call. Otherwise it may set timers, or give the
        machine a role with which it can delete itself. Returns the resources that were created for it.
        ``timers`` are the known ones of the box, from the record of ``prepare``, ``note`` or ``extend``: the
        provider's own text, by which it finds them again. ``note`` is called with new ones as soon as they
        are known.

        Called for machines of a create call, known by its answer, by a search after a lost answer, or by a
        recovery of the journal. May be repeated: a timer that is set already stays.

        Raises the SDK's errors if a machine has no timer: the caller then ends the machines.
        """
        ...

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


class KnownTimers:
    """The timers of a box through all tries of a call: the next try knows those of a failed one."""

    def __init__(self, timers: Sequence[str], note: Callable[[Sequence[str]], None]) -> None:
        self._timers = list(timers)
        self._note = note

    @property
    def all(self) -> Sequence[str]:
        """The timers that may be in force."""
        return tuple(self._timers)

    def learn(self, new: Sequence[str]) -> None:
        """Reports all timers that may be in force."""
        self._timers.extend(new)
        self._note(self.all)


@runtime_checkable
class AddressAssociation(Protocol):
    """Public addresses that are resources of their own, given to a machine once it runs.

    Such addresses are made, and recorded, by ``prepare``, one for each node, if the machines of the order get
    none by their create call: with several network interfaces, for example.
    """

    def give_address(self, machine: Ref, address: Ref, /) -> None:
        """Gives an address to a machine that runs; fine if it has it already."""
        ...


@runtime_checkable
class Power(Protocol):
    """Stopping machines, so that their compute is not billed, and starting them again."""

    @property
    def timer_deletes(self) -> bool:
        """Whether the timer of :class:`Deadlines` or of the machine itself deletes a stopped machine.

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
class Volumes(Protocol):
    """Disks that are made by themselves, and attached to one machine after another."""

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

    def attach(self, disk: Ref, machine: Ref, number: int, /) -> Sequence[str]:
        """Attaches a disk to a machine that runs; fine if it is attached to this one already.

        The disk outlives the machine. ``number`` is that of the disk among those of the machine, from 0.
        Returns the paths at which the guest may show its device.

        Raises the SDK's error if it is attached to another machine.
        """
        ...


@runtime_checkable
class Snapshots(Protocol):
    """Copies of volumes, of which new volumes are made."""

    def prepare_snapshot(self, order: SnapshotOrder, record: Record, /) -> Request:
        """Creates what a snapshot needs besides itself, nothing billable; otherwise as ``prepare``."""
        ...

    def create_snapshot(self, request: Request, /) -> Resource:
        """The billable call, with tags, closed to export. The same request yields the same snapshot.

        It may still be ``pending``: it holds the disk as of this call all the same.
        """
        ...


@runtime_checkable
class Images(Protocol):
    """Copies of the root disk of a stopped machine, from which other machines boot."""

    def prepare_image(self, order: SnapshotOrder, record: Record, /) -> Request:
        """What is to be sent for an image of a machine's root disk, without its volumes; as ``prepare``."""
        ...

    def create_image(self, request: Request, /) -> Sequence[Resource]:
        """The billable call, with tags: returns the image, and the snapshot that it holds, if it holds one.

        The machine is not restarted. The same request yields the same image. It may still be ``pending``: it
        holds the disk as of this call, which it no longer needs, and boots machines once it is ``running``.

        Raises :class:`PartialCreateError` while a part of it is not shown yet.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLogin:
    """Where, and as whom, somebody logs in at a database."""

    host: str
    port: int
    user: str


@runtime_checkable
class DatabaseLogins(Protocol):
    """Logins at databases that the cloud hosts, by a token of its identities in place of a password."""

    def database_token(self, login: DatabaseLogin, /) -> str:
        """A new token: it lasts for minutes, and is used for one connection."""
        ...


@runtime_checkable
class Audit(Protocol):
    """The changing calls, each reported before it is sent."""

    def watch(self, observer: CallObserver, /) -> None:
        """Reports to this observer from now on. Called once, before anything is sent."""
        ...
