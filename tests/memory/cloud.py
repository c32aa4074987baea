"""The state and the rules of a cloud in memory: what exists, what is billed, what was asked. No provider."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from gpucloud.errors import ErrorClass
from gpucloud.resources import HeldCapacity, Ref, ResourceKind, State
from gpucloud_pricing.purchases import Purchase
from tests.builders import Clock
from tests.memory.faults import CloudSaid, Fault
from tests.memory.temperament import Temperament

T = TypeVar("T")
Key = tuple[str, str]
"""Region and id: ids are unique in a region."""

DISK_PRICE = Decimal("0.01")
ADDRESS_PRICE = Decimal("0.005")
UNPRICED = Decimal(1)
SPOT_SHARE = Decimal("0.3")
PREFIX = {
    ResourceKind.INSTANCE: "i",
    ResourceKind.DISK: "vol",
    ResourceKind.NIC: "eni",
    ResourceKind.GROUP: "sg",
    ResourceKind.NETWORK: "vpc",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a change takes: so many looks at the thing, and so many seconds of the clock."""

    looks: int = 0
    seconds: float = 0


@dataclass(slots=True, kw_only=True)
class Item:
    """One thing in the cloud. ``needs`` are the ids that it holds on to; ``spec`` is what was asked for."""

    ref: Ref
    name: str
    tags: dict[str, str]
    created_at: datetime
    state: State
    spec: dict[str, Any] = field(default_factory=dict[str, Any])
    needs: tuple[str, ...] = ()
    parent: str | None = None
    since: datetime | None = None
    looks: int = 0
    listings: int = 0
    ends_at: datetime | None = None
    public_ip: str | None = None
    private_ip: str | None = None
    reason: str | None = None
    preempted: bool = False
    ended_itself: bool = False
    doomed: bool = False


@dataclass(slots=True, kw_only=True)
class Billed:
    """One entry of the ledger: a billable thing from birth to death."""

    ref: Ref
    tags: Mapping[str, str]
    price_per_hour: Decimal
    since: datetime
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that the cloud received."""

    action: str
    region: str
    name: str
    mutating: bool
    at: datetime


class MemoryCloud:
    """One account in one cloud. Several providers over it are several processes; safe from several threads.

    Args:
        name: the provider's name.
        temperament: how it behaves.
        clock: its time; a test moves it.
        seed: of its request ids.
        zones: what it knows of regions and their zones; others may be ordered from all the same.
        stock: machines left per (zone, type); missing is unlimited, unless ``default_stock`` says otherwise.
        prices: per hour, by type, or by (place, type, purchase), where the place is a zone or a region.
        boots: how long a machine is pending.
        ends: how long a machine is stopping.
        listed: how long lists do not show a new thing; the temperament's own if not given.
        shown: how long a new thing cannot be got by its id either.
        remembers: whether the cloud tells of ids that vanished (its history of events).
    """

    def __init__(
        self,
        name: str,
        temperament: Temperament,
        *,
        account: str = "account-1",
        clock: Clock | None = None,
        seed: int = 0,
        zones: Mapping[str, Sequence[str]] | None = None,
        stock: Mapping[Key, int] | None = None,
        default_stock: int | None = None,
        prices: Mapping[str | tuple[str, str, Purchase], Decimal] | None = None,
        boots: Pace = Pace(looks=1),
        ends: Pace = Pace(looks=1),
        listed: Pace | None = None,
        shown: Pace = Pace(),
        remembers: bool = True,
    ) -> None:
        self.name = name
        self.temperament = temperament
        self.account = account
        self.clock = clock or Clock()
        self.zones = dict(zones or {"us-east-1": ("use1-az4", "use1-az6"), "us-west-2": ("usw2-az1",)})
        self.stock = dict(stock or {})
        self.default_stock = default_stock
        self.prices = dict(prices or {})
        self.boots, self.ends, self.shown = boots, ends, shown
        self.listed = listed or Pace(looks=temperament.listed_after_looks)
        self.remembers = remembers
        self.held: list[HeldCapacity] = []
        self.faults: list[Fault] = []
        self.denied: set[tuple[str, str]] = set()
        self.caller = "198.51.100.7"
        self.calls: list[Call] = []
        self.ledger: list[Billed] = []
        self.items: dict[Key, Item] = {}
        self.tokens: dict[tuple[str, str], tuple[dict[str, Any], tuple[str, ...]]] = {}
        self._random = random.Random(seed)  # noqa: S311  (repeatable on purpose)
        self._count = self._addresses = 0
        self.lock = threading.RLock()

    # --- what a test does to it and reads from it

    def fail(self, action: str, error: BaseException | None = None, **how: Any) -> Fault:
        """Adds a fault; see :class:`Fault`. Actions: create, poll, arm, delete, get, list; ``*``."""
        fault = Fault(action=action, error=error, **how)
        self.faults.append(fault)
        return fault

    def say(self, error_class: ErrorClass, message: str = "as the test says", **words: Any) -> CloudSaid:
        """An error in this cloud's own words for a class."""
        code, status = self.temperament.codes[error_class]
        return CloudSaid(code, message, **{"status": status, "request_id": self.request_id(), **words})

    def deny(self, action: str, region: str = "*") -> None:
        """Takes a permission away, from now on; ``*`` is every region."""
        self.denied.add((action, region))

    def billing(self) -> list[Billed]:
        """What is billed now."""
        return [entry for entry in self.ledger if entry.until is None]

    def mutating(self) -> list[Call]:
        """The calls that changed something or tried to."""
        return [call for call in self.calls if call.mutating]

    def machines(self) -> list[Item]:
        """Every machine that is not gone."""
        with self.lock:
            return [
                item
                for item in self.items.values()
                if item.ref.kind is ResourceKind.INSTANCE and item.state is not State.GONE
            ]

    def preempt(self, ref: Ref) -> None:
        """Takes a spot machine back."""
        with self.lock:
            item = self.items[ref.region, ref.id]
            item.preempted = True
            self._gone(item, "Server.SpotInstanceTermination")

    def end(self, ref: Ref) -> None:
        """What happens when a machine ends itself, or its time is up."""
        with self.lock:
            item = self.items[ref.region, ref.id]
            item.ended_itself = True
            if self.temperament.stops_at_end:
                item.state = State.STOPPED
                self._stop_billing(item.ref)
            else:
                self._gone(item, "Client.InstanceInitiatedShutdown")

    # --- the wire

    def call(
        self,
        action: str,
        region: str,
        apply: Callable[[], T],
        *,
        mutating: bool = False,
        name: str = "",
        zone: str | None = None,
    ) -> T:
        """One request, with whatever the test lets happen to it on the way."""
        with self.lock:
            self.calls.append(
                Call(action=action, region=region, name=name, mutating=mutating, at=self.clock())
            )
            struck = [fault for fault in self.faults if fault.strikes(action, region, zone)]
            fault = struck[0] if struck else Fault(action=action)
            if fault.delay_s:
                self.clock.sleep(fault.delay_s)
            self._time_passes()
            if fault.error and not fault.applied:
                raise self._with_request_id(fault.error)
            if action != "list":
                self.refuse_denied(action, region)
            before = self._snapshot() if fault.deliveries == 0 else None
            result = apply()
            for _ in range(fault.deliveries - 1):
                result = apply()
            if before is not None:
                self.items, self.ledger, self.tokens, self.stock = before
            if fault.error:
                raise self._with_request_id(fault.error)
            return copy.deepcopy(result)

    def refuse_denied(self, action: str, region: str) -> None:
        """Raises the cloud's refusal when a permission was taken away."""
        if self.denied & {(action, region), (action, "*"), ("*", region), ("*", "*")}:
            raise self.say(ErrorClass.AUTH, f"not allowed: {action} in {region}")

    def _snapshot(self) -> Any:
        return copy.deepcopy((self.items, self.ledger, self.tokens, self.stock))

    def request_id(self) -> str:
        """A request id; the same seed gives the same ones."""
        return f"req-{self._random.getrandbits(48):012x}"

    def _with_request_id(self, error: BaseException) -> BaseException:
        if isinstance(error, CloudSaid) and error.request_id is None:
            error.request_id = self.request_id()
        return error

    # --- making

    def new_id(self, kind: ResourceKind) -> str:
        """An id that nothing had before."""
        self._count += 1
        return f"{PREFIX.get(kind, str(kind))}-{self._count:017x}"

    def add(self, ref: Ref, name: str, tags: Mapping[str, str], **values: Any) -> Item:
        """Puts a thing there, without any rule."""
        now = self.clock()
        item = Item(
            ref=ref,
            name=name,
            tags=dict(tags),
            created_at=now,
            since=now,
            **{"state": State.RUNNING, **values},
        )
        self.items[ref.region, ref.id] = item
        return item

    def by_name(self, region: str, kind: ResourceKind, name: str) -> Item | None:
        """The living thing with this name."""
        for item in self.items.values():
            if (item.ref.region, item.ref.kind, item.name) == (region, kind, name) and _lives(item):
                return item
        return None

    def bill(self, item: Item, price: Decimal) -> None:
        """Begins to bill a thing."""
        self.ledger.append(
            Billed(ref=item.ref, tags=dict(item.tags), price_per_hour=price, since=self.clock())
        )

    def price(self, region: str, zone: str, instance_type: str, purchase: Purchase) -> Decimal | None:
        """The price now; ``None`` for a type that the cloud does not know."""
        for place in (zone, region):
            if (place, instance_type, purchase) in self.prices:
                return self.prices[place, instance_type, purchase]
        base = self.prices.get(instance_type)
        return base if base is None or purchase is not Purchase.SPOT else base * SPOT_SHARE

    def take_stock(self, zone: str, instance_type: str, count: int) -> bool:
        """Takes machines from the stock of a zone; False, and nothing taken, when there are too few."""
        left = self.stock.get((zone, instance_type), self.default_stock)
        if left is not None and left < count:
            return False
        if left is not None:
            self.stock[zone, instance_type] = left - count
        return True

    # --- looking

    def look(self, region: str, id: str) -> Item:  # noqa: A002
        """One thing by id. Raises the cloud's not-found error."""
        item = self.items.get((region, id))
        if item is None or (item.state is State.GONE and not self.temperament.shows_the_dead):
            raise self.say(ErrorClass.NOT_FOUND, f"{id} does not exist in {region}")
        item.listings += 1
        if not self._passed(self.shown, item.listings - 1, item.created_at):
            raise self.say(ErrorClass.NOT_FOUND, f"{id} does not exist in {region}")
        self.step(item)
        if item.state is State.GONE and not self.temperament.shows_the_dead:
            raise self.say(ErrorClass.NOT_FOUND, f"{id} does not exist in {region}")
        return item

    def listing(self, region: str, wanted: Callable[[Item], bool]) -> list[Item]:
        """What a list shows of the wanted things; new things come late."""
        try:
            self.refuse_denied("list", region)
        except CloudSaid:
            if self.temperament.empty_when_denied:
                return []
            raise
        shown: list[Item] = []
        for item in [i for i in self.items.values() if i.ref.region == region and wanted(i)]:
            self.step(item)
            item.listings += 1
            hidden = not self._passed(self.listed, item.listings - 1, item.created_at)
            if not hidden and (_lives(item) or self.temperament.shows_the_dead):
                shown.append(item)
        return shown

    def parts_of(self, item: Item) -> list[Item]:
        """What came with a machine and is still there."""
        return [
            part
            for part in self.items.values()
            if part.parent == item.ref.id and part.ref.region == item.ref.region and _lives(part)
        ]

    # --- changing

    def step(self, item: Item) -> None:
        """Lets a thing that is looked at come a step further in its life."""
        if item.state is State.PENDING and self._passed(self.boots, item.looks, item.since):
            if item.doomed and self.temperament.put_by_name:
                item.state, item.reason = State.STOPPED, self.temperament.codes[ErrorClass.CAPACITY][0]
            elif item.doomed:
                self._gone(item, "SystemFailure.Delete")
            else:
                item.state = State.RUNNING
                self._addresses += 1
                number = self._addresses % 250 + 1
                item.public_ip, item.private_ip = f"203.0.113.{number}", f"10.0.0.{number}"
        elif item.state is State.STOPPING and self._passed(self.ends, item.looks, item.since):
            self._gone(item, "Client.UserInitiatedShutdown")
        item.looks += 1

    def delete(self, region: str, id: str) -> None:  # noqa: A002
        """Ends a thing. Raises not-found for what is gone, and a dependency error for what is in use."""
        item = self.items.get((region, id))
        if item is None or (item.state is State.GONE and not self.temperament.shows_the_dead):
            raise self.say(ErrorClass.NOT_FOUND, f"{id} does not exist in {region}")
        if item.state in {State.GONE, State.STOPPING}:
            return
        slow = item.ref.kind in {ResourceKind.INSTANCE, ResourceKind.RESOURCE_GROUP}
        if item.ref.kind is not ResourceKind.RESOURCE_GROUP:
            self._refuse_in_use(item)
        if not slow:
            self._gone(item, None)
            return
        item.state, item.looks, item.since = State.STOPPING, 0, self.clock()

    def _refuse_in_use(self, item: Item) -> None:
        users = [
            other
            for other in self.items.values()
            if other.ref.region == item.ref.region
            and _lives(other)
            and (item.ref.id in other.needs or other.ref.id == item.parent)
        ]
        if users:
            raise self.say(ErrorClass.EVENTUAL, f"{item.ref.id} is in use by {users[0].ref.id}")

    def _gone(self, item: Item, reason: str | None) -> None:
        inside = [i for i in self.items.values() if item.ref.id in i.needs and _lives(i)]
        item.state, item.reason = State.GONE, reason
        item.public_ip = None
        self._stop_billing(item.ref)
        for part in self.parts_of(item):
            self._gone(part, reason)
        if item.ref.kind is ResourceKind.RESOURCE_GROUP:
            for other in inside:
                if _lives(other):
                    self._gone(other, reason)
        if item.ref.kind is ResourceKind.INSTANCE and not item.doomed:
            place = (str(item.spec["zone"]), str(item.spec["instance_type"]))
            if place in self.stock:
                self.stock[place] += 1
        if item.ref.kind is not ResourceKind.INSTANCE:
            del self.items[item.ref.region, item.ref.id]

    def _stop_billing(self, ref: Ref) -> None:
        for entry in self.ledger:
            if entry.ref == ref and entry.until is None:
                entry.until = self.clock()

    def _time_passes(self) -> None:
        for item in self.machines():
            if item.ends_at is not None and item.ends_at <= self.clock() and item.state is State.RUNNING:
                self.end(item.ref)

    def _passed(self, pace: Pace, looks: int, since: datetime | None) -> bool:
        start = since or self.clock()
        return looks >= pace.looks and self.clock() >= start + timedelta(seconds=pace.seconds)


def _lives(item: Item) -> bool:
    return item.state is not State.GONE
