"""The provider of a cloud in memory: what a provider of a real cloud does, in each temperament."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from gpucloud.clouds.abilities import Inquiry, PriceList, Traits
from gpucloud.clouds.provider import DeletionGraph, Record, Verdict
from gpucloud.errors import RULES, ErrorClass, Scope
from gpucloud.resources import (
    End,
    HeldCapacity,
    Machine,
    Order,
    Quote,
    Ref,
    Request,
    Resource,
    ResourceKind,
    Search,
    SearchResult,
    State,
    Tags,
    UnreadableRegion,
    rfc3339,
)
from gpucloud_pricing.history import Coverage
from gpucloud_pricing.purchases import Purchase
from tests.memory.cloud import ADDRESS_PRICE, DISK_PRICE, UNPRICED, Item, MemoryCloud
from tests.memory.faults import CloudSaid, ConnectionLost
from tests.memory.temperament import TEMPERAMENT_OF, Temperament

SCOPES = {
    ErrorClass.UNSUPPORTED: Scope.ATTEMPT,
    ErrorClass.QUOTA: Scope.TYPE_IN_REGION,
    ErrorClass.AUTH: Scope.ACCOUNT,
    ErrorClass.BILLING: Scope.ACCOUNT,
}
RELEASE_MARGIN_S = 120
A = TypeVar("A")


class MemoryProvider:
    """One process's way to a cloud in memory. Has no state of its own."""

    def __init__(self, cloud: MemoryCloud) -> None:
        self.cloud = cloud

    @classmethod
    def named(cls, name: str, *, temperament: Temperament | None = None, **of_cloud: Any) -> MemoryProvider:
        """A new cloud of this name, with its usual temperament; the rest is for :class:`MemoryCloud`."""
        return cls(MemoryCloud(name, temperament or TEMPERAMENT_OF[name], **of_cloud))

    @property
    def name(self) -> str:
        return self.cloud.name

    @property
    def deletion(self) -> DeletionGraph:
        return self.cloud.temperament.deletion

    @property
    def ending(self) -> str:
        return "the cloud forgets it"

    def account(self) -> str:
        return self.cloud.call("account", "", lambda: self.cloud.account)

    # --- making

    def prepare(self, order: Order, record: Record, /) -> Request:
        stands_on = [self._make(kind, order, record) for kind in self.cloud.temperament.stands_on]
        group = next(ref for ref in stands_on if ref.kind is ResourceKind.GROUP)
        self.admit(group, order.allow_from, order.ports)
        return {
            "key": order.key,
            "name": order.name,
            "region": order.region,
            "zone": order.zone,
            "instance_type": order.instance_type,
            "purchase": str(order.purchase),
            "nodes": len(order.ranks),
            "disk_gib": order.disk_gib,
            "image": order.image,
            "user_data": base64.b64encode(order.user_data).decode(),
            "bid_usd": format(order.max_price_usd, "f"),
            "reservation": order.reservation,
            "ends_at": self._end(order.deadline),
            "stands_on": [ref.id for ref in stands_on],
            "tags": {**order.extra_tags, **order.tags.as_dict()},
        }

    def _make(self, kind: ResourceKind, order: Order, record: Record) -> Ref:
        """One thing that the box stands on, found by name or made; it holds on to those made before it."""
        name = f"{order.name}-{order.region}" if self.cloud.temperament.put_by_name else order.name
        cloud, region = self.cloud, order.region

        def make() -> Ref:
            there = cloud.by_name(region, kind, name)
            if there is not None:
                return there.ref
            id = f"{name}/{kind}" if cloud.temperament.put_by_name else cloud.new_id(kind)  # noqa: A001
            ref = self._ref(region, kind, id)
            kinds = cloud.temperament.stands_on
            before = [cloud.by_name(region, earlier, name) for earlier in kinds[: kinds.index(kind)]]
            needs = tuple(item.ref.id for item in before if item is not None)
            return cloud.add(ref, name, order.tags.as_dict(), needs=needs).ref

        there = cloud.call(f"find-{kind}", region, lambda: cloud.by_name(region, kind, name), name=name)
        if there is None:
            record.making(kind, name)
            ref = cloud.call(f"make-{kind}", region, make, mutating=True, name=name)
        else:
            ref = there.ref
        record.made(ref)
        return ref

    def _end(self, deadline: datetime | None) -> str | None:
        """When the cloud ends the box: never nearer than the cloud takes."""
        if deadline is None:
            return None
        least_s = self.cloud.temperament.minimum_life_s
        earliest = self.cloud.clock() + timedelta(seconds=least_s + RELEASE_MARGIN_S if least_s else 0)
        return rfc3339(max(deadline, earliest))

    def create(self, request: Request, /) -> Sequence[Machine]:
        cloud, region, zone = self.cloud, str(request["region"]), str(request["zone"])
        if not cloud.temperament.put_by_name:
            items = cloud.call(
                "create", region, lambda: self._run(request), mutating=True, name=request["key"], zone=zone
            )
            return [self._machine(item) for item in items]
        refs = [self._machine_ref(request, node) for node in range(request["nodes"])]
        try:
            return self._put_all(request, refs)
        except CloudSaid as error:
            if RULES[_class_of(cloud, error)].definite:  # all or none; parts of the failed one stay behind
                for ref in refs:
                    self.delete(ref)
            raise

    def _put_all(self, request: Request, refs: Sequence[Ref]) -> Sequence[Machine]:
        """Puts every node, then asks how the long-running operations went."""
        cloud, region, zone = self.cloud, str(request["region"]), str(request["zone"])
        for node, ref in enumerate(refs):
            put = partial(self._put, request, node, ref)
            cloud.call("create", region, put, mutating=True, name=ref.id, zone=zone)
        items = [
            cloud.call("poll", region, partial(cloud.look, region, ref.id), name=ref.id, zone=zone)
            for ref in refs
        ]
        if any(item.doomed for item in items):
            raise cloud.say(ErrorClass.CAPACITY, f"no room for {request['instance_type']}")
        return [self._machine(item) for item in items]

    def _run(self, request: Request) -> list[Item]:
        """The create call of clouds with tokens: the same token gives the same machines."""
        cloud, region, token = self.cloud, str(request["region"]), str(request["key"])
        asked, ids = cloud.tokens.get((region, token), (dict(request), ()))
        if asked != dict(request):
            raise cloud.say(ErrorClass.CONFLICT, "the token was used with other parameters")
        if ids:
            items = [cloud.items[region, each] for each in ids]
            if cloud.temperament.token_dies_with_machine and all(i.state is State.GONE for i in items):
                raise CloudSaid("IdempotentInstanceTerminated", request_id=cloud.request_id())
            return items
        self._check(request)
        in_stock = cloud.take_stock(request["zone"], request["instance_type"], request["nodes"])
        if not in_stock and not cloud.temperament.vanishes:
            raise cloud.say(ErrorClass.CAPACITY, f"no {request['instance_type']} in {request['zone']}")
        new = [cloud.new_id(ResourceKind.INSTANCE) for _ in range(request["nodes"])]
        refs = [self._ref(region, ResourceKind.INSTANCE, each) for each in new]
        items = [self._boot(request, node, ref, doomed=not in_stock) for node, ref in enumerate(refs)]
        cloud.tokens[region, token] = (dict(request), tuple(ref.id for ref in refs))
        return items

    def _put(self, request: Request, node: int, ref: Ref) -> None:
        """One put by name: the same again is the same; with other parameters it is a conflict."""
        cloud = self.cloud
        there = cloud.items.get((ref.region, ref.id))
        if there is not None and there.state is not State.GONE:
            if there.state is State.STOPPING:
                raise cloud.say(ErrorClass.EVENTUAL, f"{ref.id} is being deleted")
            if there.spec != dict(request):
                raise cloud.say(ErrorClass.CONFLICT, f"{ref.id} exists with other properties")
            return
        self._check(request)
        in_stock = cloud.take_stock(request["zone"], request["instance_type"], 1)
        self._boot(request, node, ref, doomed=not in_stock)

    def _check(self, request: Request) -> None:
        cloud, region = self.cloud, str(request["region"])
        missing = [each for each in request["stands_on"] if (region, each) not in cloud.items]
        if missing:
            raise cloud.say(ErrorClass.EVENTUAL, f"{missing[0]} does not exist")
        least_s = cloud.temperament.minimum_life_s
        end = request["ends_at"]
        if least_s and end and datetime.fromisoformat(end) < cloud.clock() + timedelta(seconds=least_s):
            raise cloud.say(ErrorClass.BAD_PARAM, f"an end at {end} is too near")
        bid, price = request["bid_usd"], self._price(request)
        if request["purchase"] == Purchase.SPOT and Decimal(bid) < price:
            raise cloud.say(ErrorClass.PRICE, f"the bid {bid} is under the price {price}")
        if request["reservation"] is not None:
            self._use_held(request)

    def _use_held(self, request: Request) -> None:
        cloud = self.cloud
        for index, held in enumerate(cloud.held):
            if held.id == request["reservation"] and held.free >= request["nodes"]:
                cloud.held[index] = replace(held, free=held.free - int(request["nodes"]))
                return
        raise cloud.say(ErrorClass.CAPACITY, f"nothing is free in {request['reservation']}")

    def _price(self, request: Request) -> Decimal:
        price = self.cloud.price(
            request["region"], request["zone"], request["instance_type"], Purchase(request["purchase"])
        )
        return UNPRICED if price is None else price

    def _boot(self, request: Request, node: int, ref: Ref, *, doomed: bool) -> Item:
        """A machine with its parts. A doomed one will never run; by name, its parts outlive it."""
        cloud = self.cloud
        tags, stands_on = request["tags"], tuple(request["stands_on"])
        end = request["ends_at"]
        machine = cloud.add(
            ref,
            _node_name(request, node),
            tags,
            state=State.PENDING,
            spec=dict(request),
            needs=stands_on,
            ends_at=datetime.fromisoformat(end) if end and not cloud.temperament.ends_beside else None,
            doomed=doomed,
        )
        if doomed and cloud.temperament.vanishes:
            return machine
        if not doomed:
            cloud.bill(machine, self._price(request))
        for kind in cloud.temperament.parts:
            by_name = cloud.temperament.put_by_name
            id = f"{ref.id}-{kind}" if by_name else cloud.new_id(kind)  # noqa: A001
            parent = None if doomed else ref.id
            needs = stands_on if kind is ResourceKind.NIC else stands_on[:1] if by_name else ()
            if (ref.region, id) in cloud.items:  # left behind by an earlier failure: taken up again
                cloud.items[ref.region, id].parent = parent
                continue
            part = cloud.add(self._ref(ref.region, kind, id), id, tags, parent=parent, needs=needs)
            if kind.billable:
                cloud.bill(part, DISK_PRICE if kind is ResourceKind.DISK else ADDRESS_PRICE)
        return machine

    def ensure_end(
        self,
        machines: Sequence[Machine],
        end: End,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[Ref]:
        cloud = self.cloud
        if not cloud.temperament.ends_beside or end.at is None:
            return ()

        def arm(ref: Ref) -> None:
            cloud.look(ref.region, ref.id).ends_at = end.at

        for ref in [machine.ref for machine in machines]:
            cloud.call("arm", ref.region, partial(arm, ref), mutating=True, name=ref.id)
        late = [timer for machine in machines if (timer := f"timer-{machine.ref.id}") not in timers]
        if late:
            note(late)
        return ()

    # --- looking

    def get(self, ref: Ref, /) -> Resource:
        cloud, key = self.cloud, (ref.region, ref.id)
        try:
            return self._resource(cloud.call("get", ref.region, lambda: cloud.look(*key), name=ref.id))
        except CloudSaid as error:
            unknown = _class_of(cloud, error) is ErrorClass.NOT_FOUND
            if not (unknown and cloud.temperament.vanishes and cloud.remembers):
                raise
            past = cloud.call("history", ref.region, lambda: cloud.items.get(key), name=ref.id)
            if past is None or past.state is not State.GONE:
                raise
            return self._resource(past)

    def find(self, search: Search, /) -> SearchResult:
        cloud = self.cloud
        used = {region for region, _ in list(cloud.items)}
        regions = search.regions if search.regions is not None else tuple(sorted({*cloud.zones, *used}))
        resources: list[Resource] = []
        unread: list[UnreadableRegion] = []
        for region in regions:
            try:
                resources += [self._resource(item) for item in self._list(region, search)]
            except (CloudSaid, ConnectionLost) as error:
                unread.append(UnreadableRegion(cloud=self.name, region=region, error=str(error)))
        return SearchResult(resources=tuple(resources), unread=tuple(unread))

    def _list(self, region: str, search: Search) -> Sequence[Item]:
        cloud = self.cloud
        items = cloud.call("list", region, lambda: cloud.listing(region, lambda item: _matches(item, search)))
        if not items and cloud.temperament.empty_when_denied:
            # An empty list proves nothing: a dry run says whether we may look.
            cloud.call("prove", region, lambda: cloud.refuse_denied("list", region))
        return items if search.token is None or cloud.temperament.finds_by_token else []

    def delete(self, ref: Ref, /) -> None:
        cloud = self.cloud
        try:
            cloud.call(
                "delete", ref.region, lambda: cloud.delete(ref.region, ref.id), mutating=True, name=ref.id
            )
        except CloudSaid as error:
            if _class_of(cloud, error) is not ErrorClass.NOT_FOUND:
                raise

    def classify(self, error: Exception, /) -> Verdict | None:
        if isinstance(error, ConnectionLost):
            return Verdict(
                error_class=ErrorClass.SERVER, code="ConnectionLost", message=str(error), sent=error.sent
            )
        if not isinstance(error, CloudSaid):
            return None
        error_class = _class_of(self.cloud, error)
        capacity = self.cloud.temperament.capacity_scope
        return Verdict(
            error_class=error_class,
            code=error.code,
            message=error.message,
            request_id=error.request_id,
            retry_after_s=error.retry_after_s,
            scope=capacity if error_class is ErrorClass.CAPACITY else SCOPES.get(error_class, Scope.ATTEMPT),
            listed=_listed_class(self.cloud, error) is not None,
        )

    # --- abilities

    def ability(self, kind: type[A], /) -> A | None:
        forgets = self.cloud.temperament.forgets_the_dead
        able = (self, Traits(forgets_ended=forgets, lists_machines=not forgets))
        return next((each for each in able if isinstance(each, kind)), None)

    def tariff_inquiries(self, regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        return ()

    def extend(
        self,
        resources: Sequence[Ref],
        expires_at: datetime | None,
        timers: Sequence[str],
        note: Callable[[Sequence[str]], None],
        /,
    ) -> Sequence[str]:
        return ()

    def quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase, /) -> Sequence[Quote]:
        return self.cloud.call("quotes", region, lambda: self._quotes(region, instance_types, purchase))

    def inquiries(self, instance_types: Sequence[str], regions: Sequence[str] | None, /) -> Sequence[Inquiry]:
        def ask(region: str) -> PriceList:
            ways = (Purchase.ON_DEMAND, Purchase.SPOT)
            told = [self.quotes(region, instance_types, way) for way in ways]
            return PriceList.of([quote for quotes in told for quote in quotes], "memory")

        return [
            Inquiry(
                name=f"prices in {region}",
                covers=Coverage(
                    cloud=self.name, source="memory", regions=(region,), instance_types=instance_types
                ),
                ask=partial(ask, region),
            )
            for region in self.cloud.zones
            if regions is None or region in regions
        ]

    def _quotes(self, region: str, instance_types: Sequence[str], purchase: Purchase) -> list[Quote]:
        cloud = self.cloud
        zones: Sequence[str | None] = cloud.zones.get(region, ()) if purchase is Purchase.SPOT else (None,)
        found: list[Quote] = []
        for instance_type in instance_types:
            for zone in zones:
                price = cloud.price(region, zone or region, instance_type, purchase)
                if price is not None:
                    found.append(
                        Quote(
                            cloud=self.name,
                            region=region,
                            zone=zone,
                            instance_type=instance_type,
                            purchase=purchase,
                            price_per_hour=price,
                            currency="USD",
                            as_of=cloud.clock(),
                            source="a cloud in memory",
                        )
                    )
        return found

    def held(self, region: str, instance_types: Sequence[str], /) -> Sequence[HeldCapacity]:
        held = self.cloud.call("held", region, lambda: self.cloud.held)
        return [h for h in held if h.region == region and h.instance_type in instance_types and h.free]

    def console(self, ref: Ref, /) -> str:
        item = self.cloud.call("console", ref.region, lambda: self.cloud.look(ref.region, ref.id))
        return "" if item.state is State.PENDING else f"{item.name} booted\n"

    def admit(self, group: Ref, cidrs: Sequence[str], ports: Sequence[int], /) -> None:
        cloud = self.cloud
        rules = {"cidrs": sorted(cidrs), "ports": sorted({22, *ports})}
        there = cloud.call("rules", group.region, lambda: cloud.look(group.region, group.id))
        if there.spec == rules:
            return

        def change() -> None:
            cloud.look(group.region, group.id).spec = rules

        cloud.call("admit", group.region, change, mutating=True, name=group.id)

    def caller_address(self) -> str:
        return self.cloud.call("echo", "", lambda: self.cloud.caller)

    # --- the cloud's things in the engine's words

    def _ref(self, region: str, kind: ResourceKind, id: str) -> Ref:  # noqa: A002
        return Ref(cloud=self.name, account=self.cloud.account, region=region, kind=kind, id=id)

    def _machine_ref(self, request: Request, node: int) -> Ref:
        id = f"{request['stands_on'][0]}/{_node_name(request, node)}"  # noqa: A001
        return self._ref(request["region"], ResourceKind.INSTANCE, id)

    def _resource(self, item: Item) -> Resource:
        if item.ref.kind is ResourceKind.INSTANCE:
            return self._machine(item)
        return Resource(
            ref=item.ref, state=item.state, tags=Tags.parse(item.tags), created_at=item.created_at
        )

    def _machine(self, item: Item) -> Machine:
        with self.cloud.lock:
            parts = tuple(part.ref for part in self.cloud.parts_of(item))
        return Machine(
            ref=item.ref,
            state=item.state,
            tags=Tags.parse(item.tags),
            created_at=item.created_at,
            zone=item.spec["zone"],
            instance_type=item.spec["instance_type"],
            purchase=Purchase(item.spec["purchase"]),
            name=item.spec["name"],
            public_ip=item.public_ip,
            private_ip=item.private_ip,
            reason=item.reason,
            preempted=item.preempted,
            billed=item.state not in {State.STOPPED, State.GONE},
            ended_itself=item.ended_itself,
            parts=parts,
        )


def _node_name(request: Request, node: int) -> str:
    return f"vm-{hashlib.sha256(str(request['key']).encode()).hexdigest()[:8]}-{node}"


def _matches(item: Item, search: Search) -> bool:
    tags = Tags.parse(item.tags)
    if (
        tags is None
        or not search.admits(tags)
        or (search.machines_only and item.ref.kind is not ResourceKind.INSTANCE)
    ):
        return False
    return search.token is None or item.spec.get("key") == search.token


def _listed_class(cloud: MemoryCloud, error: CloudSaid) -> ErrorClass | None:
    codes = {code: error_class for error_class, (code, _) in cloud.temperament.codes.items()}
    return codes.get(error.code) or cloud.temperament.also.get(error.code)


def _class_of(cloud: MemoryCloud, error: CloudSaid) -> ErrorClass:
    by_status = ErrorClass.SERVER if error.status >= 500 else ErrorClass.BAD_PARAM
    return _listed_class(cloud, error) or by_status
