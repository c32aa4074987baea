"""Buys one box: walks the plan's attempts until one starts, and leaves nothing behind when none does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from gpucloud.cloud import Cloud
from gpucloud.errors import (
    RULES,
    CloudError,
    ErrorClass,
    GpucloudError,
    InterruptedBySignal,
    Next,
    NoOfferError,
    OutcomeUnknownError,
    OwedError,
    PriceError,
    Scope,
    UsageError,
)
from gpucloud.lifecycle import CONSISTENCY_WINDOW, BoxState, new_id, rfc3339
from gpucloud.model import (
    Found,
    Kind,
    Machine,
    Order,
    Ref,
    Request,
    Search,
    State,
    Tags,
    cloud_name,
    request_hash,
    token_for,
)
from gpucloud.plan import MAX_ATTEMPT_SECONDS, Candidate
from gpucloud.store import Box
from gpucloud.teardown import adopt, end_machines, made_data, node_facts, take_down
from gpucloud.waiter import TimedOutError
from gpucloud.world import World

PREPARE_TIMEOUT_S = 120.0
CREATE_TIMEOUT_S = 180.0
IN_FLIGHT_S = 60.0
START_TIMEOUT_S = 600.0
TAKE_DOWN_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is wanted besides the offer. ``user_data`` is rendered for the box's id and key beforehand.

    ``max_price_usd`` is per hour and node. ``expires_at`` is ``None`` only when the user said ``--ttl none``.
    """

    box: str
    name: str
    run_id: str | None
    nodes: int
    disk_gib: int
    image: str
    user_data: str
    allow_from: Callable[[Cloud], Sequence[str]]
    ports: tuple[int, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    max_price_usd: Decimal | None = None
    expires_at: datetime | None = None
    spec: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Tried:
    """The attempts so far, and what they taught about what is not worth trying."""

    attempts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    errors: list[CloudError] = field(default_factory=list[CloudError])
    _blocked: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])

    def failed(self, candidate: Candidate, error: CloudError) -> None:
        """Notes a refusal."""
        self.errors.append(error)
        self.attempts.append(
            {
                **_where(candidate),
                "class": str(error.error_class),
                "code": error.code,
                "message": error.message,
                "request_id": error.request_id,
            }
        )
        purchase = str(candidate.purchase)
        match error.scope:
            case Scope.CLOUD:
                self._blocked.add((candidate.cloud,))
            case Scope.REGION:
                self._blocked.add((candidate.cloud, candidate.region, candidate.instance_type, purchase))
            case Scope.TYPE:
                self._blocked.add((candidate.cloud, candidate.instance_type, purchase))
            case _:
                pass

    def skip(self, candidate: Candidate) -> bool:
        """Whether an earlier refusal covers this one."""
        purchase = str(candidate.purchase)
        return bool(
            {
                (candidate.cloud,),
                (candidate.cloud, candidate.region, candidate.instance_type, purchase),
                (candidate.cloud, candidate.instance_type, purchase),
            }
            & self._blocked
        )

    def verdict(self) -> GpucloudError:
        """The error of a launch for which no attempt was left, with the exit code that fits them all."""
        if not self.errors:
            return NoOfferError("nothing could be tried", hint="see what is on offer: gpucloud offers --why")
        for error_class in (
            ErrorClass.CAPACITY,
            ErrorClass.UNSUPPORTED,
            ErrorClass.QUOTA,
            ErrorClass.PRICE,
            ErrorClass.AUTH,
            ErrorClass.BILLING,
        ):
            of_class = [error for error in self.errors if error.error_class == error_class]
            if of_class:
                return self._summary(of_class[-1])
        return self._summary(self.errors[-1])

    def _summary(self, last: CloudError) -> GpucloudError:
        count = len(self.attempts)
        last.message = f"none of {count} attempt{'s' if count != 1 else ''} started; the last: {last.message}"
        last.attempts = self.attempts
        return last


def launch(world: World, terms: Terms, candidates: Sequence[Candidate]) -> Box:
    """Provisions one box and gives it in state ``bootstrapping``, its lease still held.

    Args:
        world: the outside.
        terms: what is wanted besides the offer.
        candidates: what to try, in order.

    Raises:
        UsageError: the name is taken; nothing was spent.
        CloudError: nothing started and nothing is left; ``attempts`` tells what was tried.
        OwedError: something may still be billed.
        InterruptedBySignal: ended by a signal; nothing is left.
    """
    box = world.journal.plan_box(
        id=terms.box,
        name=terms.name,
        owner=world.owner,
        run_id=terms.run_id,
        op=new_id("op-", world.clock(), world.randomness(10)),
        expires_at=terms.expires_at,
        facts={"spec": dict(terms.spec), "disk_gib": terms.disk_gib, "image": terms.image},
        lease=world.lease(),
    )
    world.waiter.clean_up = f"gpucloud down {terms.name} --yes"
    tried = Tried()
    try:
        return _first_that_starts(world, box, terms, candidates, tried)
    except BaseException as error:
        abandon(world, box, error, tried.attempts)
        raise


def abandon(
    world: World, box: Box, cause: BaseException, attempts: list[dict[str, Any]] | None = None
) -> None:
    """Takes down what a launch made before it failed. Raises ``OwedError`` when that cannot be confirmed."""
    if isinstance(cause, GpucloudError) and attempts:
        cause.attempts = attempts
    world.tell("down", f"taking down what was made for {box.name!r}")
    with world.waiter.finishing():
        try:
            take_down(world, world.journal.box(box.id), budget_s=TAKE_DOWN_S, ends_as=BoxState.FAILED)
        except OwedError as owed:
            owed.attempts = attempts or []
            owed.message = f"{cause}; {owed.message}"
            raise owed from cause
        finally:
            world.journal.note(box.id, "released", {})


def _first_that_starts(
    world: World, box: Box, terms: Terms, candidates: Sequence[Candidate], tried: Tried
) -> Box:
    end = world.clock() + timedelta(seconds=MAX_ATTEMPT_SECONDS)
    for number, candidate in enumerate(candidates, start=1):
        if tried.skip(candidate):
            continue
        if world.clock() > end:
            break
        try:
            return _attempt(world, box, terms, candidate, number)
        except CloudError as error:
            if isinstance(error, OutcomeUnknownError):
                raise
            tried.failed(candidate, error)
            _clear(world, box, candidate)
            world.tell("create", f"{candidate.place}: {error.code}; trying the next")
            if RULES[ErrorClass(error.error_class)].next in {Next.STOP, Next.AGAIN}:
                raise
    raise tried.verdict()


def _clear(world: World, box: Box, candidate: Candidate) -> None:
    """Makes sure that a refused attempt left nothing billable behind, before another one is made.

    Raises:
        OwedError: something is left and cannot be ended.
    """
    try:
        cloud = world.clouds[candidate.cloud]
        search = Search(box=box.id, regions=(candidate.region,))
        found: Found = world.waiter.run(lambda: cloud.find(search))
    except (CloudError, KeyError, ImportError, TimedOutError):
        return  # what cannot be read now is looked for again when the box is taken down
    for thing in found.things:
        if thing.state is not State.GONE and thing.ref.kind is not Kind.GROUP:
            world.journal.note(box.id, "made", made_data(thing.ref, name=thing.ref.id))
    end_machines(world, box, budget_s=TAKE_DOWN_S)


def _attempt(world: World, box: Box, terms: Terms, candidate: Candidate, number: int) -> Box:
    """One offer in one zone: intent, preparation, the billable call, waiting until the machines run."""
    cloud = _cloud(world, candidate.cloud)
    account = world.waiter.run(cloud.account)
    order = _order(box, terms, candidate, account, number, allow_from=tuple(terms.allow_from(cloud)))
    intent = f"{box.op}.{number}"
    world.journal.write(box, "intended", _intended(intent, order, candidate, terms))
    world.tell("network", candidate.place)
    request = _prepare(world, box, cloud, order)
    world.journal.write(box, "hashed", {"intent": intent, "request_hash": request_hash(request)})
    world.tell("create", f"{candidate.place} at {candidate.price} {candidate.currency} per hour")
    machines = _create(world, cloud, order, intent, request)
    _check_bought(candidate, machines)
    machines = _wait_until_running(world, box, cloud, machines)
    facts = {"nodes": [node_facts(machine) for machine in machines]}
    for machine in machines:
        for part in machine.parts:
            world.journal.note(box.id, "made", made_data(part, name=order.name))
    world.journal.write(box, "state", {"state": str(BoxState.BOOTSTRAPPING), "facts": facts})
    return world.journal.box(box.id)


def _prepare(world: World, box: Box, cloud: Cloud, order: Order) -> Request:
    recorder = _Recorder(world, box, order, cloud.name)
    call = world.waiter.start(lambda: cloud.prepare(order, recorder))
    try:
        request: Request = world.waiter.wait(call, PREPARE_TIMEOUT_S)
    except InterruptedBySignal:
        with world.waiter.finishing(), suppress(CloudError, TimedOutError):
            world.waiter.wait(call, IN_FLIGHT_S)
        raise
    except TimedOutError as error:
        raise CloudError(
            f"{cloud.name}: preparing {order.region} took too long ({error})",
            error_class=ErrorClass.SERVER,
            cloud=cloud.name,
        ) from error
    return request


def _cloud(world: World, name: str) -> Cloud:
    try:
        return world.clouds[name]
    except (KeyError, ImportError) as error:
        raise CloudError(
            f"cloud {name!r} is not installed: {error}",
            error_class=ErrorClass.AUTH,
            cloud=name,
            scope=Scope.CLOUD,
            hint=f"pip install 'gpucloud[{name}]'",
        ) from error


def _order(
    box: Box,
    terms: Terms,
    candidate: Candidate,
    account: str,
    number: int,
    *,
    allow_from: tuple[str, ...],
) -> Order:
    expires = rfc3339(terms.expires_at) if terms.expires_at else "none"
    return Order(
        key=token_for(
            op=box.op, account=account, region=candidate.region, zone=candidate.zone, attempt=number
        ),
        name=cloud_name(terms.name, box.id),
        account=account,
        region=candidate.region,
        zone=candidate.zone,
        instance_type=candidate.instance_type,
        arch=candidate.arch,
        gpu_model=candidate.gpu_model,
        gpu_count=candidate.gpu_count,
        purchase=candidate.purchase,
        nodes=terms.nodes,
        disk_gib=terms.disk_gib,
        image=terms.image,
        user_data=terms.user_data,
        allow_from=allow_from,
        ports=terms.ports,
        tags=Tags(owner=box.owner, box=box.id, op=box.op, run=terms.run_id or "", expires=expires),
        extra_tags=dict(terms.tags),
        max_price_usd=terms.max_price_usd,
        reservation=candidate.reservation,
        deadline=terms.expires_at,
    )


def _intended(intent: str, order: Order, candidate: Candidate, terms: Terms) -> dict[str, Any]:
    ceiling = candidate.price_usd if terms.max_price_usd is None else terms.max_price_usd
    return {
        "intent": intent,
        "op": order.tags.op,
        "cloud": candidate.cloud,
        "account": order.account,
        "region": order.region,
        "zone": order.zone,
        "token": order.key,
        "name": order.name,
        "ceiling_usd": format(ceiling, "f"),
        "expires": order.tags.expires,
        "facts": {
            **_where(candidate),
            "account": order.account,
            "gpu": {
                "model": candidate.gpu_model,
                "count": format(candidate.gpu_count, "f"),
                "memory_gib": format(candidate.gpu_memory_gib, "f"),
            },
            "price": {"amount": format(candidate.price, "f"), "currency": candidate.currency},
            "price_as_of": candidate.as_of.isoformat(),
            "price_source": candidate.source,
            "nodes": [],
            "allow_from": list(order.allow_from),
            "ports": list(order.ports),
        },
    }


def _where(candidate: Candidate) -> dict[str, Any]:
    return {
        "cloud": candidate.cloud,
        "region": candidate.region,
        "zone": candidate.zone or None,
        "instance_type": candidate.instance_type,
        "purchase": str(candidate.purchase),
    }


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Writes down what ``prepare`` makes, before and after."""

    world: World
    box: Box
    order: Order
    cloud: str

    def making(self, kind: Kind, name: str, /) -> None:
        """A thing is about to be made."""
        ref = Ref(cloud=self.cloud, account=self.order.account, region=self.order.region, kind=kind, id="")
        self.world.journal.write(self.box, "making", made_data(ref, name=name))

    def made(self, ref: Ref, /) -> None:
        """Its id is known."""
        self.world.journal.write(self.box, "made", made_data(ref, name=self.order.name))


def _create(world: World, cloud: Cloud, order: Order, intent: str, request: Request) -> Sequence[Machine]:
    """Makes the billable call and writes its outcome down, whatever happens meanwhile."""
    box = order.tags.box
    call = world.waiter.start(lambda: cloud.create(request))
    try:
        machines, _ = world.waiter.wait(call, CREATE_TIMEOUT_S)
    except OutcomeUnknownError as error:
        machines = _look(world, cloud, order, error)
        if not machines:
            if error.error_class is ErrorClass.BAD_PARAM:
                # The cloud complained about the request itself and shows nothing: look once more later.
                _resolve(world, box, intent, "watched")
            raise
    except CloudError as error:
        _resolve(world, box, intent, "watched" if error.earlier_unknown else "closed")
        raise
    except TimedOutError as error:
        raise OutcomeUnknownError(
            f"{cloud.name}: the create call gave no answer ({error})",
            error_class=ErrorClass.SERVER,
            cloud=cloud.name,
        ) from error
    except InterruptedBySignal:
        # What the call under way makes must be known before it can be ended.
        with world.waiter.finishing():
            try:
                late, _ = world.waiter.wait(call, IN_FLIGHT_S)
                adopt(world, box, intent, late, name=order.name)
            except (OutcomeUnknownError, TimedOutError):
                pass  # the intent stays open, and is looked up when the box is taken down
            except CloudError:
                _resolve(world, box, intent, "closed")
        raise
    adopt(world, box, intent, machines, name=order.name)
    return list(machines)


def _resolve(world: World, box: str, intent: str, status: str) -> None:
    world.journal.note(box, "resolved", {"intent": intent, "status": status})


def _look(world: World, cloud: Cloud, order: Order, cause: CloudError) -> Sequence[Machine]:
    """Looks whether a create call without a clear answer made something after all."""
    world.tell("create", f"no clear answer ({cause.code}); looking whether it was made")
    search = Search(token=order.key, regions=(order.region,))
    try:
        found: Found = world.waiter.run(lambda: cloud.find(search))
    except CloudError:
        return []
    machines = [thing for thing in found.things if isinstance(thing, Machine)]
    return machines if len(machines) == order.nodes else []


def _check_bought(candidate: Candidate, machines: Sequence[Machine]) -> None:
    """Refuses a machine that is not what was agreed to, before it costs anything worth mentioning."""
    for machine in machines:
        got = (machine.instance_type, str(machine.purchase), machine.zone or candidate.zone)
        wanted = (candidate.instance_type, str(candidate.purchase), candidate.zone or machine.zone)
        if got != wanted:
            raise PriceError(
                f"{candidate.cloud} started {' '.join(got)} instead of {' '.join(wanted)}",
                hint="it was taken down; this should never happen: please report it",
            )


def _wait_until_running(
    world: World, box: Box, cloud: Cloud, machines: Sequence[Machine]
) -> Sequence[Machine]:
    """Looks until every machine runs and has an address."""
    world.tell("boot", f"waiting for {', '.join(machine.ref.id for machine in machines)}")
    end = world.clock() + timedelta(seconds=START_TIMEOUT_S)
    pause_s = 0.02
    current = list(machines)
    while True:
        ended = [machine for machine in current if machine.state is State.GONE]
        if ended:
            raise _never_started(world, box, cloud, ended[0])
        if all(machine.state is State.RUNNING and machine.public_ip for machine in current):
            return current
        if world.clock() > end:
            raise CloudError(
                f"{cloud.name}: {current[0].ref.id} did not start within {START_TIMEOUT_S:.0f} s",
                error_class=ErrorClass.SERVER,
                cloud=cloud.name,
            )
        world.waiter.pause(pause_s)
        pause_s = min(pause_s * 1.6, 3.0)
        calls = [world.waiter.start(lambda m=machine: cloud.get(m.ref)) for machine in current]  # type: ignore[misc]
        seen = [world.waiter.wait(call, CREATE_TIMEOUT_S) for call in calls]
        # A machine that is not shown yet is not gone: the cloud's lists lag behind its creations.
        current = [new if isinstance(new, Machine) else old for new, old in zip(seen, current, strict=True)]


def _never_started(world: World, box: Box, cloud: Cloud, machine: Machine) -> CloudError:
    """A refusal that came late: the next offer may be tried once every machine of this one is gone."""
    world.tell("create", f"{machine.ref.id} ended before it ran; making sure that nothing of it is left")
    end_machines(world, box, budget_s=TAKE_DOWN_S)
    return CloudError(
        f"{cloud.name}: {machine.ref.id} ended before it ran: {machine.reason or 'no reason given'}",
        error_class=ErrorClass.CAPACITY,
        cloud=cloud.name,
        code=machine.reason,
        scope=Scope.ZONE,
    )


def check_name(world: World, name: str) -> None:
    """Refuses a name that a living box has, before anything is asked or bought.

    Raises:
        UsageError: the name is taken.
    """
    for box in world.journal.boxes(owner=world.owner):
        if box.name != name:
            continue
        hint = f"choose another --name, or end it: gpucloud down {name}"
        unknown = [i for i in world.journal.intents(box.id, unresolved=True) if i.status == "open"]
        if box.state is BoxState.DELETING and unknown:
            until = max(intent.at for intent in unknown) + CONSISTENCY_WINDOW
            hint = f"its launch was cut off, and may show until {rfc3339(until)}: choose another --name"
        raise UsageError(f"a box named {name!r} is living already ({box.state})", hint=hint)
