"""One cloud as the engine uses it: a provider, wrapped once with retries, logging and error messages."""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from gpucloud.clouds.profile import Profile
from gpucloud.clouds.provider import (
    Audited,
    BegunError,
    CanExtend,
    CanStop,
    CapacitySource,
    ChecksOrders,
    Checkup,
    CommitmentInquiry,
    CommitmentSource,
    ConsoleLog,
    DatabaseLogin,
    DatabaseLogins,
    DeletionGraph,
    Echo,
    EndsByPowerOff,
    EndsFromOutside,
    ForgetsEnded,
    GivesAddresses,
    HoldsVolumes,
    IdentitySource,
    ImageSource,
    Ingress,
    Inquiry,
    ListsMachines,
    MakesImages,
    MeasuresStore,
    MetadataSource,
    ObjectAccess,
    ObjectStore,
    PriceList,
    PriceSource,
    Provider,
    QuotaSource,
    ReadsAhead,
    Record,
    Remarks,
    StorageGrant,
    StorageLease,
    StoredObject,
    StorePlace,
    StoreSize,
    TariffSource,
    Verdict,
    Witness,
)
from gpucloud.errors import (
    RULES,
    CloudError,
    ErrorClass,
    Next,
    OutcomeUnknownError,
    Scope,
    UsageError,
)
from gpucloud.resources import (
    BadTags,
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
    Search,
    SearchResult,
    SnapshotOrder,
    VolumeOrder,
)
from gpucloud_pricing.purchases import Purchase

if TYPE_CHECKING:
    from gpucloud_pricing import Commitment
    from gpucloud_templates import Image, Metadata, SelfDelete

log = logging.getLogger("gpucloud.clouds.cloud")
LOGIN_S = 10.0
"""How long to try again to get what logs in at a database: a command waits for its journal."""
T = TypeVar("T")
_HTML = re.compile(r"<(!doctype\s+html|html)\b.*", re.IGNORECASE | re.DOTALL)
"""An error page of a proxy, or of an endpoint that is down, instead of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and how long a call is retried: exponential backoff with full jitter, within a budget."""

    first_s: float = 0.5
    cap_s: float = 20.0
    budget_s: float = 60.0

    def delay_s(self, attempt: int, told_s: float | None, uniform: Callable[[float, float], float]) -> float:
        """The pause before the next try; the cloud's ``Retry-After`` takes precedence."""
        if told_s is not None:
            return min(told_s, self.cap_s)
        ceiling = min(self.first_s * 2**attempt, self.cap_s)
        return uniform(ceiling / 4, ceiling)


class _Known:
    """The timers of a box through all tries of a call: the next try knows those of a failed one."""

    def __init__(self, timers: Sequence[str], note: Callable[[Sequence[str]], None]) -> None:
        self.timers = list(timers)
        self._note = note

    def learn(self, new: Sequence[str]) -> None:
        """Reports all timers that may be in force."""
        self.timers.extend(new)
        self._note(tuple(self.timers))


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """A provider with the behaviour that is the same for all clouds.

    Every method raises :class:`CloudError` with the cloud's own code, message and request id, or
    :class:`OutcomeUnknownError` when a create call may have been applied.
    """

    provider: Provider
    backoff: Backoff = field(default_factory=Backoff)
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    @property
    def deletion(self) -> DeletionGraph:
        """Which kinds depend on which when they are deleted."""
        return self.provider.deletion

    def account(self) -> str:
        """The account that the credentials belong to."""
        return self._call("identify the account", self.provider.account)

    def prepare(self, order: Order, record: Record) -> Request:
        """Creates the network and the security group of the instances; by name, so it may be repeated."""
        return self._call("prepare network and security group", lambda: self.provider.prepare(order, record))

    def create(self, request: Request, *, before: Callable[[], None]) -> tuple[Sequence[Machine], bool]:
        """The billable call, repeated with the same key until its outcome is known.

        Args:
            request: the result of ``prepare``.
            before: called directly before each try; an exception of it passes.

        Returns:
            The machines, and whether an earlier try had no answer.

        Raises:
            CloudError: refused; the last try created nothing. Its ``earlier_unknown`` is set if an earlier
                try had no answer.
            OutcomeUnknownError: the machines may have been created.
        """
        return self._create("create the instance", partial(self.provider.create, request), before)

    def _create(self, what: str, call: Callable[[], T], before: Callable[[], None]) -> tuple[T, bool]:
        """A billable call; as :meth:`create`."""
        deadline = self.monotonic() + self.backoff.budget_s
        attempt, unknown = 0, False
        while True:
            before()
            try:
                return call(), unknown
            except Exception as error:
                verdict = self._verdict(error)
                rule = RULES[verdict.error_class]
                log.info("create: %s (%s)", verdict.code, verdict.error_class)
                if (rule.definite or not verdict.sent) and not isinstance(error, BegunError):
                    failure = self._error(what, verdict)
                    failure.earlier_unknown = unknown
                    if rule.definite:
                        raise failure from error
                else:
                    unknown = True
                    failure = self._unknown(what, verdict)
                delay_s = self.backoff.delay_s(attempt, verdict.retry_after_s, self.uniform)
                if rule.next is not Next.AGAIN or self.monotonic() + delay_s > deadline:
                    if unknown and not isinstance(failure, OutcomeUnknownError):
                        failure = self._unknown(what, verdict)
                    raise failure from error
                self.sleep(delay_s)
                attempt += 1

    @property
    def volume_sizes_gib(self) -> tuple[int, int]:
        """The least and the largest size of a volume.

        Raises:
            UsageError: this cloud holds no volumes.
        """
        return self._volumes.volume_sizes_gib

    def prepare_volume(self, order: VolumeOrder, record: Record) -> Request:
        """Creates what a volume needs besides itself; by name, so it may be repeated."""
        source = self._volumes
        return self._call("prepare the volume", lambda: source.prepare_volume(order, record))

    def create_volume(self, request: Request, *, before: Callable[[], None]) -> tuple[Resource, bool]:
        """The billable call of a volume; otherwise as :meth:`create`."""
        source = self._volumes
        return self._create("create the volume", partial(source.create_volume, request), before)

    def prepare_snapshot(self, order: SnapshotOrder, record: Record) -> Request:
        """Creates what a snapshot needs besides itself; by name, so it may be repeated."""
        source = self._volumes
        return self._call("prepare the snapshot", lambda: source.prepare_snapshot(order, record))

    def create_snapshot(self, request: Request, *, before: Callable[[], None]) -> tuple[Resource, bool]:
        """The billable call of a snapshot; otherwise as :meth:`create`."""
        source = self._volumes
        return self._create("create the snapshot", partial(source.create_snapshot, request), before)

    @property
    def makes_images(self) -> bool:
        """Whether boxes can boot from the copy of another box's root disk."""
        return isinstance(self.provider, MakesImages)

    def prepare_image(self, order: SnapshotOrder, record: Record) -> Request:
        """What is to be sent for an image of a machine; as :meth:`prepare`."""
        source = self._images
        return self._call("prepare the image", lambda: source.prepare_image(order, record))

    def create_image(
        self, request: Request, *, before: Callable[[], None]
    ) -> tuple[Sequence[Resource], bool]:
        """The billable call of an image; otherwise as :meth:`create`."""
        source = self._images
        return self._create("create the image", partial(source.create_image, request), before)

    @property
    def _images(self) -> MakesImages:
        """The provider as one that makes images of machines; who asks has seen :attr:`makes_images`."""
        assert isinstance(self.provider, MakesImages)  # noqa: S101
        return self.provider

    def attach(self, disk: Ref, machine: Ref, number: int) -> Sequence[str]:
        """Attaches a disk to a machine; returns the paths at which its guest may show the device."""
        source = self._volumes
        return self._call(f"attach disk {disk.id}", lambda: source.attach(disk, machine, number))

    @property
    def _volumes(self) -> HoldsVolumes:
        """The provider as one that holds volumes.

        Raises:
            UsageError: it does not.
        """
        source = self.provider
        if not isinstance(source, HoldsVolumes):
            raise UsageError(f"{self.name} holds no volumes", hint="choose another --cloud")
        return source

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
    ) -> Sequence[Ref]:
        """Sets the cloud's timers that end machines, in clouds that need calls of their own for it.

        ``note`` is called with all timers that may be in force whenever there is a new one.
        """
        source = self.provider
        if not isinstance(source, EndsFromOutside):
            return ()
        known = _Known(timers, note)
        return self._call(
            "set the timer that ends the box",
            lambda: source.ensure_end(machines, end, tuple(known.timers), known.learn),
        )

    @property
    def gives_addresses(self) -> bool:
        """Whether :meth:`give_address` works."""
        return isinstance(self.provider, GivesAddresses)

    def give_address(self, machine: Ref, address: Ref) -> None:
        """Gives an address that was made for it to a machine that runs; may be repeated."""
        source = self.provider
        assert isinstance(source, GivesAddresses)  # noqa: S101
        self._call(f"give {machine.id} its address", lambda: source.give_address(machine, address))

    def get(self, ref: Ref) -> Resource | None:
        """The present state of one resource; ``None`` if the cloud reports that the id does not exist."""
        try:
            return self._call(f"look at {ref.kind} {ref.id}", lambda: self.provider.get(ref))
        except CloudError as error:
            if error.error_class is ErrorClass.NOT_FOUND:
                return None
            raise

    def find(self, search: Search) -> SearchResult:
        """All resources of ours that match, and the regions that could not be read.

        Resources with tags that gpucloud never wrote are returned separately, except in a search by token:
        only the caller of a create call knows its token.
        """
        found = self._call("search by tag", lambda: self.provider.find(search))
        if search.token is not None:
            return found
        suspects = tuple(resource for resource in found.resources if isinstance(resource.tags, BadTags))
        resources = tuple(resource for resource in found.resources if not isinstance(resource.tags, BadTags))
        return replace(found, resources=resources, suspects=suspects)

    def delete(self, ref: Ref, *, once: bool = False) -> None:
        """Requests a deletion; success if it is gone already. ``once``: not retried while in use."""
        budget_s = 0.0 if once else self.backoff.budget_s
        try:
            self._call(f"delete {ref.kind} {ref.id}", lambda: self.provider.delete(ref), budget_s)
        except CloudError as error:
            if error.error_class is not ErrorClass.NOT_FOUND:
                raise

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase) -> Sequence[Quote]:
        """Today's prices; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, PriceSource):
            return ()
        return self._call(
            f"ask today's prices in {region}", lambda: source.quotes(region, instance_types, purchase)
        )

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None) -> Sequence[Inquiry]:
        """The queries for every price of these types; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, PriceSource):
            return ()
        return self._call("list the price queries", lambda: source.inquiries(instance_types, regions))

    def tariff_inquiries(self, regions: Sequence[str] | None) -> Sequence[Inquiry]:
        """The queries for every tariff of these regions; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, TariffSource):
            return ()
        return self._call("list the tariff queries", lambda: source.tariff_inquiries(regions))

    def ask(self, inquiry: Inquiry, *, once: bool = False) -> PriceList:
        """Sends a price query. ``once``: without retries."""
        return self._call(f"ask for {inquiry.name}", inquiry.ask, 0.0 if once else None)

    def held(self, region: str, instance_types: Sequence[str]) -> Sequence[HeldCapacity]:
        """Capacity that the account holds; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, CapacitySource):
            return ()
        return self._call(f"ask for held capacity in {region}", lambda: source.held(region, instance_types))

    def commitment_inquiries(self) -> Sequence[CommitmentInquiry]:
        """The queries for every commitment; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, CommitmentSource):
            return ()
        return self._call("list the commitment queries", source.commitment_inquiries)

    def ask_commitments(self, inquiry: CommitmentInquiry) -> Sequence[Commitment]:
        """Sends a commitment query."""
        return self._call(f"ask for {inquiry.name}", inquiry.ask)

    def console(self, ref: Ref) -> str:
        """The console output of a machine; empty if the cloud keeps none."""
        source = self.provider
        if not isinstance(source, ConsoleLog):
            return ""
        return self._call("read the console", lambda: source.console(ref))

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int]) -> None:
        """Makes these sources the only ones that a security group allows."""
        source = self.provider
        if isinstance(source, Ingress):
            self._call("allow the new address", lambda: source.admit(group, cidrs, ports))

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
    ) -> Sequence[str]:
        """Moves the cloud's own deadline of a box, if it has one; returns the timers in force.

        ``note`` is called with all timers that may be in force whenever there is a new one: a timer of a
        failed try is removed by the next try.
        """
        source = self.provider
        if not isinstance(source, CanExtend):
            return ()
        known = _Known(timers, note)
        return self._call(
            "move the deadline of the box",
            lambda: source.extend(resources, expires_at, tuple(known.timers), known.learn),
        )

    @property
    def timer_deletes(self) -> bool:
        """Whether this cloud's timer deletes a stopped machine with its disks."""
        return isinstance(self.provider, CanStop) and self.provider.timer_deletes

    def why_not_stop(self, machine: Machine, *, local_disks: bool) -> str | None:
        """Why a machine cannot be stopped, or would be billed on; ``None`` if it can."""
        source = self.provider
        if not isinstance(source, CanStop):
            return f"{self.name} cannot stop machines"
        return source.why_not_stop(machine, local_disks=local_disks)

    def stop(self, ref: Ref) -> None:
        """Requests the stop that ends the bill of a machine's compute; may be repeated."""
        source = self.provider
        if isinstance(source, CanStop):
            self._call("stop the instance", lambda: source.stop(ref))

    def start(self, ref: Ref) -> None:
        """Starts a stopped machine again; one that runs is left as it is."""
        source = self.provider
        if isinstance(source, CanStop):
            self._call("start the instance", lambda: source.start(ref))

    def caller_address(self) -> str | None:
        """This machine's address as the cloud sees it; ``None`` if this cloud has no such call."""
        source = self.provider
        return self._call("ask for our address", source.caller_address) if isinstance(source, Echo) else None

    def headroom(self, region: str, instance_types: Sequence[str], purchase: Purchase) -> Sequence[Quota]:
        """The quotas that these types count against; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, QuotaSource):
            return ()
        return self._call(
            f"ask for quotas in {region}", lambda: source.headroom(region, instance_types, purchase)
        )

    @property
    def metadata(self) -> Metadata | None:
        """How a box queries its cloud's metadata service; ``None`` if there is none."""
        return self.provider.metadata if isinstance(self.provider, MetadataSource) else None

    @property
    def forgets_ended(self) -> bool:
        """Whether a machine that was running and is no longer found has ended, however young it is."""
        return isinstance(self.provider, ForgetsEnded) and self.provider.forgets_ended

    @property
    def lists_machines(self) -> bool:
        """Whether a search shows all of a machine that reading it by its id would."""
        return isinstance(self.provider, ListsMachines) and self.provider.lists_machines

    def ends_itself(self, *, has_identity: bool) -> bool:
        """Whether a machine can end its own bill: by powering off, or with an identity that deletes it."""
        source = self.provider
        return (isinstance(source, EndsByPowerOff) and source.power_off_ends) or (
            has_identity and isinstance(source, IdentitySource)
        )

    @property
    def self_delete(self) -> SelfDelete | None:
        """How a box with an identity deletes itself; ``None`` if it needs no identity or cannot have one."""
        return self.provider.self_delete if isinstance(self.provider, IdentitySource) else None

    def boot_image(self, recipe: str, arch: str, instance_type: str) -> Image:
        """The image that a recipe boots on an instance type, as far as known without a call.

        Raises:
            UsageError: the cloud has no image for it.
        """
        from gpucloud_templates.software import own_image

        source = self.provider
        if not isinstance(source, ImageSource):
            return own_image(recipe)
        return source.boot_image(recipe, arch, instance_type)

    def check(self, order: Order) -> None:
        """Refuses an order that is beyond a documented limit of the cloud. Makes no call.

        Raises:
            UsageError: it is; the message says what the cloud accepts.
        """
        if isinstance(self.provider, ChecksOrders):
            self.provider.check(order)

    def read_ahead(self, region: str) -> None:
        """Reads in advance what a launch in a region needs; a failure is raised where it is needed."""
        if isinstance(self.provider, ReadsAhead):
            with suppress(CloudError):
                source = self.provider
                self._call("read what a launch needs", lambda: source.read_ahead(region), 0.0)

    def remarks(self) -> Sequence[str]:
        """How boxes of this account differ from the default."""
        source = self.provider
        return self._call("read the account", source.remarks) if isinstance(source, Remarks) else ()

    @property
    def store_scheme(self) -> str | None:
        """The scheme of its object store's URLs; ``None`` if none of its store is used."""
        return self.provider.store_scheme if isinstance(self.provider, ObjectStore) else None

    def locate(self, address: str) -> tuple[StorePlace, str]:
        """The container of an address in the object store, and the folder in it.

        Raises:
            UsageError: there is no such container, or it belongs to somebody else.
        """
        store = self._store()
        return self._call(f"look at {store.store_scheme}://{address}", lambda: store.locate(address))

    def names(self, place: StorePlace, path: str) -> Sequence[str]:
        """The names of the folders and objects in a folder of the object store."""
        store = self._store()
        return self._call(f"list {place.container}/{path}", lambda: store.names(place, path))

    def measure(self, place: StorePlace, path: str, most: int) -> StoreSize | None:
        """How much a folder of the object store holds; ``None`` if this store does not say.

        Args:
            place: the container.
            path: the folder.
            most: about how many objects to count.
        """
        store = self.provider
        if not isinstance(store, MeasuresStore):
            return None
        return self._call(f"list {place.container}/{path}", lambda: store.measure(place, path, most))

    def lend(self, grant: StorageGrant) -> StorageLease:
        """Lends rights on a part of a container for at most an hour.

        Raises:
            UsageError: these credentials cannot be narrowed so.
        """
        store = self._store()
        return self._call(f"lend rights on {grant.place.container}", lambda: store.lend(grant))

    def objects(self, place: StorePlace, path: str, most: int) -> Sequence[StoredObject]:
        """The objects below a folder, in the order of their paths; about ``most`` where there are more."""
        store = self._objects()
        return self._call(f"list {place.container}/{path}", lambda: store.objects(place, path, most))

    def get_object(self, place: StorePlace, path: str, target: BinaryIO, most: int) -> None:
        """Writes an object to a file, in place of what it has.

        Raises:
            CloudError: the cloud refused; of the class ``not_found`` if there is none.
            LongerError: it has more than ``most`` bytes.
            OSError: the file cannot be written.
        """
        store = self._objects()

        def once() -> None:
            target.seek(0)
            target.truncate()
            store.get_object(place, path, target, most)

        self._call(f"read {place.container}/{path}", once)

    def read_object(self, place: StorePlace, path: str, most: int) -> bytes | None:
        """What a small object has; ``None`` if there is none.

        Raises:
            LongerError: it has more than ``most`` bytes.
        """
        text = BytesIO()
        try:
            self.get_object(place, path, text, most)
        except CloudError as error:
            if error.error_class is ErrorClass.NOT_FOUND:
                return None
            raise
        return text.getvalue()

    def put_object(
        self, place: StorePlace, path: str, source: BinaryIO, *, kms_key: str | None = None
    ) -> None:
        """Creates or replaces an object, of at most 5 GB, with what a file has from its beginning on."""
        store = self._objects()

        def once() -> None:
            source.seek(0)
            store.put_object(place, path, source, kms_key)

        self._call(f"write {place.container}/{path}", once)

    def delete_object(self, place: StorePlace, path: str) -> None:
        """Deletes an object; one that is not there is deleted."""
        store = self._objects()
        self._call(f"delete {place.container}/{path}", lambda: store.delete_object(place, path))

    def _objects(self) -> ObjectAccess:
        if not isinstance(self.provider, ObjectAccess):
            raise CloudError(
                f"{self.name}: its objects are not read here",
                error_class=ErrorClass.UNSUPPORTED,
                cloud=self.name,
                sent=False,
            )
        return self.provider

    def _store(self) -> ObjectStore:
        """The object store; who asks has found the cloud by :attr:`store_scheme`."""
        assert isinstance(self.provider, ObjectStore)  # noqa: S101
        return self.provider

    def database_token(self, *, host: str, port: int, user: str) -> str:
        """What logs in at a database that this cloud hosts, in place of a password.

        Raises:
            CloudError: the cloud gives none, or has no such logins.
        """
        source = self.provider
        if not isinstance(source, DatabaseLogins):
            raise CloudError(
                f"{self.name} has no logins to databases by its own identities",
                error_class=ErrorClass.AUTH,
                cloud=self.name,
                hint="leave auth= out of the journal's URL",
                sent=False,
            )
        login = DatabaseLogin(host=host, port=port, user=user)
        return self._call(f"log in at {host}", lambda: source.database_token(login), LOGIN_S)

    def identity(self) -> Identity | None:
        """The identity of the credentials; ``None`` if this cloud has no such call."""
        source = self.provider
        return self._call("identify the caller", source.identity) if isinstance(source, Checkup) else None

    def permissions(self, region: str) -> Sequence[Permission]:
        """What the credentials may do; empty if this cloud has no such call."""
        source = self.provider
        if not isinstance(source, Checkup):
            return ()
        return self._call("check the permissions", lambda: source.permissions(region))

    def server_time(self) -> datetime | None:
        """The cloud's clock; ``None`` if this cloud has no such call."""
        source = self.provider
        return self._call("ask for the time", source.server_time) if isinstance(source, Checkup) else None

    def _call(self, what: str, call: Callable[[], T], budget_s: float | None = None) -> T:
        """Makes a call, with retries where its failure allows them, within the budget."""
        deadline = self.monotonic() + (self.backoff.budget_s if budget_s is None else budget_s)
        attempt = 0
        while True:
            try:
                return call()
            except Exception as error:
                verdict = self._verdict(error)
                log.info("%s: %s (%s)", what, verdict.code, verdict.error_class)
                delay_s = self.backoff.delay_s(attempt, verdict.retry_after_s, self.uniform)
                again = RULES[verdict.error_class].next is Next.AGAIN
                if not again or self.monotonic() + delay_s > deadline:
                    raise self._error(what, verdict) from error
                self.sleep(delay_s)
                attempt += 1

    def late(self, what: str) -> CloudError:
        """The error of a call whose time is over."""
        return CloudError(f"{self.name}: {what}", error_class=ErrorClass.SERVER, cloud=self.name)

    def _verdict(self, error: Exception) -> Verdict:
        if isinstance(error, BegunError) and isinstance(error.__cause__, Exception):
            return self._verdict(error.__cause__)
        verdict = self.provider.classify(error)
        if verdict is None:
            raise error
        return verdict

    def _unknown(self, what: str, verdict: Verdict) -> OutcomeUnknownError:
        return OutcomeUnknownError(**self._words(what, verdict))

    def _error(self, what: str, verdict: Verdict) -> CloudError:
        return CloudError(**self._words(what, verdict))

    def _words(self, what: str, verdict: Verdict) -> dict[str, Any]:
        said = _HTML.sub("a page of HTML", verdict.message)
        return {
            "message": f"{self.name}: could not {what}: {verdict.code}: {said}",
            "error_class": verdict.error_class,
            "cloud": self.name,
            "code": verdict.code,
            "request_id": verdict.request_id,
            "scope": verdict.scope,
            "sent": verdict.sent,
            "hint": HINTS.get(verdict.error_class),
        }


HINTS: dict[ErrorClass, str] = {
    ErrorClass.AUTH: "check the credentials and their permissions for this cloud",
    ErrorClass.BILLING: "check the account's status and payment with the cloud",
    ErrorClass.QUOTA: "ask the cloud for more quota, or allow other regions or types",
    ErrorClass.CAPACITY: "try other regions or GPUs, or later",
    ErrorClass.UNSUPPORTED: "try other zones or types",
    ErrorClass.PRICE: "raise --max-price, or allow other ways of paying",
    ErrorClass.THROTTLED: "wait a minute, then repeat the command",
    ErrorClass.SERVER: "repeat the command; gpucloud list shows what is known",
}


class Clouds:
    """The clouds that are installed, each opened at its first use."""

    def __init__(
        self,
        factories: Mapping[str, Callable[[], Provider]],
        wrap: Callable[[Provider], Cloud] = lambda provider: Cloud(provider=provider),
    ) -> None:
        self._factories = factories
        self._wrap = wrap
        self._made: dict[str, Cloud] = {}
        self._making = threading.Lock()

    @classmethod
    def installed(cls, profile: Profile, witness: Witness | None = None) -> Clouds:
        """Every provider of the entry-point group ``gpucloud.providers``.

        Args:
            profile: the account and the endpoints that they use.
            witness: called for every call that changes something.

        Raises:
            UsageError: two packages bring a cloud of the same name.
        """
        from importlib.metadata import entry_points

        def make(entry: Any) -> Provider:
            provider: Provider = entry.load()(profile)
            if witness is not None and isinstance(provider, Audited):
                provider.watch(witness)
            return provider

        installed = entry_points(group="gpucloud.providers")  # reads the metadata of every package
        entries = {entry.name: entry for entry in installed}
        for entry in installed:
            if entries[entry.name].value != entry.value:
                raise UsageError(
                    f"two packages bring a cloud named {entry.name!r}: {entry.value} is one of them",
                    hint="uninstall one of them",
                )
        return cls({name: partial(make, entry) for name, entry in entries.items()})

    def names(self) -> list[str]:
        """The clouds' names, sorted."""
        return sorted(self._factories)

    def caller_address(self, name: str) -> str | None:
        """This machine's address as this cloud or another one sees it; ``None`` if none has an echo service.

        An echo needs no credentials, so any installed cloud may be asked.

        Raises:
            CloudError: the cloud did not answer.
        """
        for each in (name, *(other for other in self.names() if other != name)):
            try:
                address = self[each].caller_address()
            except ImportError:
                continue
            if address is not None:
                return address
        return None

    def usable(self, name: str) -> Cloud:
        """The cloud with this name, with its failure to load as a ``CloudError``.

        Raises:
            CloudError: it cannot be used on this machine: no provider of this name, or no SDK.
        """
        try:
            return self[name]
        except (KeyError, ImportError) as error:
            raise CloudError(
                f"cloud {name!r} is not installed: {error}",
                error_class=ErrorClass.AUTH,
                cloud=name,
                scope=Scope.CLOUD,
                hint=f"pip install 'gpucloud[{name}]'",
                sent=False,
            ) from error

    def __getitem__(self, name: str) -> Cloud:
        """The cloud with this name.

        Raises:
            KeyError: no provider of this name is installed.
            ImportError: its SDK is not installed.
        """
        with self._making:
            if name not in self._made:
                self._made[name] = self._wrap(self._factories[name]())
            return self._made[name]
