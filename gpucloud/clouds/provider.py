"""The provider interface: what one cloud must do, in few verbs.

Methods let the SDK's own exceptions pass; ``classify`` says what they mean. Retrying, waiting, deadlines,
logging and error wrapping are done once for every cloud by :class:`gpucloud.clouds.cloud.Cloud`. A provider
must be safe to use from several threads, keeps no state of its own beyond caches of what cannot change, and
sends nothing when it is constructed. Providers are found through the entry-point group
``gpucloud.providers``: an entry is a callable, usually the provider's class, that takes a
:class:`gpucloud.clouds.profile.Profile` and gives a :class:`Provider`. Credentials and endpoints are the
profile's; a provider reads nothing from the process's environment, so that one process can use several
accounts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gpucloud.errors import ErrorClass, Scope
from gpucloud.resources import (
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
)
from gpucloud_pricing.demand import Purchase

if TYPE_CHECKING:
    from gpucloud_pricing import Commitment, Interruption, Price
    from gpucloud_pricing.history import Coverage, SetAside
    from gpucloud_templates import Image, Metadata, SelfDelete


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a cloud's failure means, with the cloud's own words kept.

    ``sent`` is False where the request certainly never left (connection refused, bad parameters caught by
    the SDK): then even an otherwise unknown outcome is known.
    """

    error_class: ErrorClass
    code: str
    message: str
    request_id: str | None = None
    retry_after_s: float | None = None
    scope: Scope = Scope.ZONE
    sent: bool = True


class BegunError(Exception):
    """A create that failed in a call after its billable one; raised ``from`` that call's error.

    Whether that later call was sent says nothing of the machines: they may be there.
    """


class Record(Protocol):
    """Told before and after each thing that ``prepare`` makes, so that a crash in between loses nothing."""

    def making(self, kind: ResourceKind, name: str, /) -> None:
        """Called before the call that makes a thing; returns once that is on disk."""
        ...

    def made(self, ref: Ref, /) -> None:
        """Called as soon as its id is known; returns once that is on disk."""
        ...

    def armed(self, timers: Sequence[str], /) -> None:
        """Called as soon as timers are set that will end the machines; returns once that is on disk."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionGraph:
    """Which kinds depend on which when they are deleted.

    Attributes:
        held_by: for each kind, the kinds that hold on to it: those are gone before it is deleted. Of a kind
            that is held by itself, the newest goes first, one at a time.
        takes_along: for each kind, the kinds of which the cloud deletes with it what belongs to it.
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
        """Each kind is held by all those before it."""
        held_by = {kind: kinds[:number] for number, kind in enumerate(kinds)}
        return cls(held_by=held_by, takes_along=takes_along or {})

    def holders(self, kind: ResourceKind) -> frozenset[ResourceKind]:
        """The other kinds that hold on to one; a kind that is not declared comes after all that are."""
        return frozenset(self.held_by.get(kind, self.held_by)) - {kind}

    def holds_itself(self, kind: ResourceKind) -> bool:
        """Whether things of a kind hold on to others of the same kind."""
        return kind in self.held_by.get(kind, ())

    @property
    def order(self) -> Sequence[ResourceKind]:
        """The declared kinds, each after those that hold on to it."""
        return tuple(TopologicalSorter({kind: self.holders(kind) for kind in self.held_by}).static_order())


class Provider(Protocol):
    """One cloud."""

    @property
    def name(self) -> str:
        """The cloud's short name, as in the market's data: ``aws``."""
        ...

    @property
    def deletion(self) -> DeletionGraph:
        """Which kinds depend on which when they are deleted: what does not is deleted at the same time."""
        ...

    @property
    def ending(self) -> str:
        """For people, as part of a sentence: what ends a box at its deadline, and what that leaves."""
        ...

    def account(self) -> str:
        """The account, subscription or tenant that the credentials belong to."""
        ...

    def prepare(self, order: Order, record: Record, /) -> Request:
        """Makes what the order's instances stand on (network, group) and gives the create call as plain JSON.

        What is made has a deterministic name from ``order.name`` and is found again rather than made twice.
        ``record`` must be told before and after each thing made. Makes nothing billable, but addresses where
        they must be there before their machine. The same order gives the same request.
        """
        ...

    def create(self, request: Request, /) -> Sequence[Machine]:
        """The billable call: all nodes or none. The same request gives the same machines, never more.

        The tags, the encrypted disk, the closed metadata service and the way in which the box ends itself
        travel in this call. What is to end it from outside and cannot travel in it is for
        :class:`EndsFromOutside`.

        Raises :class:`BegunError` for what goes wrong once a machine may have been made, unless all of them
        have been ended again.
        """
        ...

    def get(self, ref: Ref, /) -> Resource:
        """One thing by id. A thing that ended is given with state ``gone`` while the cloud still shows it.

        Raises the SDK's not-found error when the cloud does not know the id.
        """
        ...

    def find(self, search: Search, /) -> SearchResult:
        """Everything that carries gpucloud's tags and matches: every kind, in every region or in those named.

        A region that cannot be read is ``unread``; so is an empty answer without proof that the caller may
        read.
        Things that are gone may be left out.
        """
        ...

    def delete(self, ref: Ref, /) -> None:
        """Asks the cloud to end one thing of any kind. Deleting what is gone is success. Does not wait."""
        ...

    def classify(self, error: Exception, /) -> Verdict | None:
        """What an exception of the SDK means; ``None`` when it is not the SDK's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A call that changes something, or is about to. ``action`` is the cloud's own name of it.

    ``target`` names what it is about: an id, a name, or the idempotency key of what is to be made.
    """

    cloud: str
    region: str
    action: str
    target: str


class Answered(Protocol):
    """Told how a call ended."""

    def __call__(self, outcome: str, request_id: str | None, /) -> None:
        """``outcome`` is ``ok``, the cloud's code of its refusal, or the name of what happened instead."""
        ...


class Witness(Protocol):
    """Told of every changing call before it is sent."""

    def __call__(self, call: ApiCall, /) -> Answered:
        """Called in the thread that is about to send it; gives what is to be told how it ended."""
        ...


@runtime_checkable
class Audited(Protocol):
    """Clouds that tell of each changing call that they send."""

    def watch(self, witness: Witness, /) -> None:
        """From now on tells this witness. Called once, before anything is sent."""
        ...


NO_PRICE, MISSING, OTHER_TYPE = (
    "no price that anybody pays",
    "a field is missing",
    "another type than asked for",
)
"""Why a row is set aside; the first is of zero, what is negative, and text."""
ROW_SHOWN = 200
"""How many characters of a row that is set aside are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """The answer to an inquiry: prices, and what of it was no price.

    ``interruptions`` are how often spot machines are taken back, by region and type, where it tells of that.
    ``further`` is what to ask now that this is known, where the answer is no more than that.
    """

    prices: Sequence[Price]
    set_aside: Sequence[SetAside] = ()
    interruptions: Mapping[tuple[str, str], Interruption] = field(
        default_factory=dict["tuple[str, str]", "Interruption"]
    )
    further: Sequence[Inquiry] | None = None

    @classmethod
    def of(cls, quotes: Iterable[Quote], source: str, set_aside: Sequence[SetAside] = ()) -> PriceList:
        """Quotes as prices of a source of the market, and what was set aside."""
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
    """A question about prices. It is answered whole or not at all.

    Attributes:
        name: unique within its cloud, and the same in each refresh.
        covers: what the answer speaks of.
        ask: sends it; the cloud's errors pass.
    """

    name: str
    covers: Coverage
    ask: Callable[[], PriceList]


@runtime_checkable
class PriceSource(Protocol):
    """Clouds that can be asked for prices."""

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        """Today's prices of these types in this region: per zone for spot. Unknown types are left out."""
        ...

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        """What to ask for every price of these types, in these regions or in all that the account has."""
        ...


@runtime_checkable
class CapacitySource(Protocol):
    """Clouds that can say which capacity the account already holds."""

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        """Active reservations of these types with something free."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentInquiry:
    """A question about commitments. It is answered whole or not at all.

    Attributes:
        name: unique within its cloud, and the same each time: ``reserved instances in REGION``.
        ask: sends it; the cloud's errors pass.
        if_empty: for people, what an empty answer may mean besides that there is none; empty for nothing.
    """

    name: str
    ask: Callable[[], Sequence[Commitment]]
    if_empty: str = ""


@runtime_checkable
class CommitmentSource(Protocol):
    """Clouds that can say what the account has paid for already, or has promised to pay."""

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """What to ask for every commitment that is in force."""
        ...


@runtime_checkable
class MetadataSource(Protocol):
    """Clouds whose boxes can ask a metadata service: for the time, and whether they are taken back."""

    @property
    def metadata(self) -> Metadata:
        """How a box asks it."""
        ...


@runtime_checkable
class IdentitySource(Protocol):
    """Clouds where powering off does not end the bill, and a box can get an identity that may delete it."""

    @property
    def self_delete(self) -> SelfDelete:
        """How a box with such an identity (``Order.box_identity``) deletes itself."""
        ...


@runtime_checkable
class ImageSource(Protocol):
    """Clouds that know beforehand what a recipe boots."""

    def boot_image(self, recipe: str, arch: str, instance_type: str, /) -> Image:
        """What ``Order.image`` boots on an instance type. Asks nobody; UsageError where nothing fits."""
        ...


@runtime_checkable
class ConsoleLog(Protocol):
    """Clouds that keep what a machine wrote to its console."""

    def console(self, ref: Ref, /) -> str:
        """The console's text, terminal escapes included; empty when there is none yet."""
        ...


@runtime_checkable
class Ingress(Protocol):
    """Clouds whose firewall can let in another address later."""

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        """Makes these sources, on ssh and these ports, the only ones that the group lets in."""
        ...


@runtime_checkable
class EndsFromOutside(Protocol):
    """Clouds where what ends a machine from outside is set by calls of its own, beside the create call.

    That may be timers, or a role with which the machine can delete itself. Where all of it travels in the
    create call, a provider does not have this ability.
    """

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        """Makes sure that the machines of a box end when they should, also if they hang.

        Gives what was made for it and is to be accounted for. ``timers`` are those of the box that are known,
        as the record of ``prepare``, ``note`` or ``extend`` gave them: provider's own text, with which it
        finds them again. ``note`` is told new ones as soon as they are known.

        Called for machines that a create call gave, however that was found out: by its answer, by a look
        after a lost one, or by a recovery of the journal. May be repeated: what is set already stays.

        Raises the SDK's errors when a machine would have no end: whoever called then ends the machines.
        """
        ...


@runtime_checkable
class CanExtend(Protocol):
    """Clouds that keep a box's end themselves: in a timer, or at least in its tags."""

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[str]:
        """Moves the cloud's own end of a box's instances, and the tag that tells it on all that it has.

        ``None`` is no end. ``timers`` are those in force, as the record, ``note`` or this gave them;
        given are those in force from now on. ``note`` is told new ones as soon as they are known. What is to
        end later is at no moment without an end, and when this returns the old one does nothing any more.
        """
        ...


@runtime_checkable
class Echo(Protocol):
    """Clouds that tell the caller its own address."""

    def caller_address(self) -> str:
        """This machine's public IP address, as an https echo of the cloud says; validated."""
        ...


@runtime_checkable
class QuotaSource(Protocol):
    """Clouds that can say how much the account may rent."""

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quota]:
        """The quotas in this region that a launch of these types counts against, each once.

        A type may count against several (its family's and the region's). A type that no quota limits, or
        whose quota the cloud does not tell, is in none.
        """
        ...


@runtime_checkable
class ForgetsEnded(Protocol):
    """Clouds that show a machine by its id until its end, and know nothing of it afterwards.

    A machine that was seen to run there and is not found any more has ended, however young it is.
    """

    @property
    def forgets_ended(self) -> bool:
        """``True``."""
        ...


@runtime_checkable
class Checkup(Protocol):
    """Clouds that can say whether gpucloud will work with these credentials. Changes and costs nothing."""

    @property
    def credentials_hint(self) -> str:
        """The command or page with which a person without credentials gets some."""
        ...

    @property
    def policy(self) -> str:
        """The least privileges that every command needs, in the cloud's own JSON."""
        ...

    def identity(self) -> Identity:
        """Whose the credentials are."""
        ...

    def permissions(self, region: str, /) -> Sequence[Permission]:
        """Each action of :attr:`policy` that can be tried without effect, and whether it is allowed."""
        ...

    def server_time(self) -> datetime:
        """What the cloud's clock says (the ``Date`` of an answer), in UTC."""
        ...


@runtime_checkable
class ReadsAhead(Protocol):
    """Clouds where a launch begins with reads that only depend on its region."""

    def read_ahead(self, region: str, /) -> None:
        """Reads what ``prepare`` will need in a region, and keeps it for that. Changes nothing."""
        ...


@runtime_checkable
class Remarks(Protocol):
    """Clouds where what a box gets depends on the account."""

    def remarks(self) -> Sequence[str]:
        """For people: what boxes of this account have otherwise than they should; a sentence each."""
        ...
