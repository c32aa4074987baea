"""One attempt to buy an offer: intent, preparation, the billable call, and the handling of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from gpucloud.boxes.ceiling import Agreement, begin_check, in_force, price_of
from gpucloud.boxes.ends import ensure_end, note_timers
from gpucloud.boxes.owed import owed_error, owed_refs
from gpucloud.boxes.resolution import adopt
from gpucloud.boxes.teardown import TAKE_DOWN_S, end_machines
from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.errors import (
    BoxLostError,
    CloudError,
    ErrorClass,
    GpucloudError,
    InterruptedBySignal,
    OutcomeUnknownError,
    PriceError,
    Scope,
)
from gpucloud.journal.errors import StaleWriterError
from gpucloud.journal.events import Hashed, Intended, Made, Making, Resolved, StateChanged, named
from gpucloud.journal.facts import Data, Facts, FirstBoot, Gpu, Offer, Place, Price, node_of
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.plan import Candidate, Key
from gpucloud.resources import (
    End,
    Machine,
    Order,
    Ref,
    Request,
    ResourceKind,
    Search,
    SearchResult,
    State,
    Tags,
    cloud_name,
    expires_text,
    request_hash,
    short_id,
    token_for,
)
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import AttemptStarted, MachinesCreated
from gpucloud.runtime.tasks import Call, TimedOutError
from gpucloud_pricing.values import Money

PREPARE_TIMEOUT_S = 120.0
CREATE_TIMEOUT_S = 180.0
IN_FLIGHT_S = 20.0
"""How long a call under way may take after a signal: most of the one minute is kept for the deletion."""
START_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """The boot of a machine: user-data as it is sent, and the part of it that the journal keeps."""

    user_data: bytes
    written: FirstBoot = FirstBoot()  # noqa: RUF009  (frozen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of a launch that are the same for every offer.

    Attributes:
        boots: the boot of each candidate, by the candidate's key.
        listed: the list prices of a region other than compute, by (cloud, region).
        allow_from: the networks that may connect.
        prices: the agreement about prices.
        rates: the amounts of other currencies for one USD, for spot bids.
        attended: whether the box ends with the process that launches it, as the only living one of its run.
        expires_at: ``None`` only with ``--ttl none``.
        clean_up: the command that ends the box after a second signal, if not ``down`` of its name.
    """

    box: str
    name: str
    run_id: str | None
    nodes: int
    disk_gib: int
    image: str
    boots: Mapping[Key, Boot]
    listed: Mapping[tuple[str, str], Mapping[str, Price]]
    allow_from: Sequence[str]
    prices: Agreement
    rates: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    ports: tuple[int, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    expires_at: datetime | None = None
    ttl_role: str | None = None
    box_identity: str | None = None
    attended: bool = False
    clean_up: str | None = None
    spec: Data = field(default_factory=dict[str, Any])


def buy(context: Context, box: Box, terms: Terms, candidate: Candidate) -> Box:
    """Buys one offer in one zone: writes the intent, prepares, creates, and waits until the machines run."""
    number = len(context.journal.intents(box.id)) + 1
    cloud = context.clouds.usable(candidate.cloud)
    account = context.tasks.run(cloud.account)
    boot = terms.boots[candidate.key]
    order = _order(
        box,
        terms,
        candidate,
        account,
        number,
        allow_from=tuple(terms.allow_from),
        user_data=boot.user_data,
    )
    intent = f"{box.op}.{number}"
    context.journal.write(box, _intended(intent, order, candidate, terms, boot))
    context.tell("network", candidate.place)
    request = _prepare(context, box, cloud, order)
    context.journal.write(box, Hashed(intent=intent, request_hash=request_hash(request)))
    context.emit(_started(candidate))
    with about(price=Money(amount=candidate.price, currency=candidate.currency).document()):
        machines = _create(context, box, cloud, order, intent=intent, request=request)
    bought = replace(candidate, zone=candidate.zone or machines[0].zone)
    asked = begin_check(context, terms.prices, bought)
    looks = _begin_looks(context, cloud, machines)
    _arm_end(context, box, cloud, order, machines)
    _check_bought(candidate, machines)
    machines = _wait_until_running(context, box, cloud, machines, looks)
    for machine in machines:
        for part in machine.parts:
            context.journal.write(box, Made(resource=named(part, order.name)))
    facts = Facts(nodes=tuple(map(node_of, machines)), price=price_of(in_force(context, asked, bought)))
    context.journal.write(box, StateChanged(state=BoxState.BOOTSTRAPPING, facts=facts))
    return context.journal.held(box)


def _started(candidate: Candidate) -> AttemptStarted:
    return AttemptStarted(
        "create",
        f"{candidate.place} at {candidate.price} {candidate.currency} per hour and node",
        cloud=candidate.cloud,
        region=candidate.region,
        zone=candidate.zone,
        instance_type=candidate.instance_type,
        price=candidate.price,
        currency=candidate.currency,
    )


def _prepare(context: Context, box: Box, cloud: Cloud, order: Order) -> Request:
    recorder = _Recorder(context, box, order, cloud.name)
    call = context.tasks.start(lambda: cloud.prepare(order, recorder))
    try:
        request: Request = context.tasks.wait(call, PREPARE_TIMEOUT_S)
    except InterruptedBySignal:
        with context.tasks.finishing(), suppress(CloudError, TimedOutError):
            context.tasks.wait(call, IN_FLIGHT_S)
        raise
    except TimedOutError as error:
        raise cloud.late(f"the network in {order.region} was not ready in time ({error})") from error
    return request


def _order(
    box: Box,
    terms: Terms,
    candidate: Candidate,
    account: str,
    number: int,
    *,
    allow_from: tuple[str, ...],
    user_data: bytes,
) -> Order:
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
        user_data=user_data,
        allow_from=allow_from,
        ports=terms.ports,
        tags=Tags(
            owner=box.owner,
            box=box.id,
            op=box.op,
            run=terms.run_id or "",
            expires=expires_text(terms.expires_at),
        ),
        extra_tags=dict(terms.tags),
        max_price_usd=candidate.ceiling_usd,
        rates=terms.rates,
        reservation=candidate.reservation,
        deadline=terms.expires_at,
        ttl_role=terms.ttl_role,
        box_identity=terms.box_identity,
    )


def _intended(intent: str, order: Order, candidate: Candidate, terms: Terms, boot: Boot) -> Intended:
    return Intended(
        intent=intent,
        op=order.tags.op,
        cloud=candidate.cloud,
        account=order.account,
        region=order.region,
        zone=order.zone,
        token=order.key,
        name=order.name,
        ceiling_usd=candidate.ceiling_usd,
        expires=order.tags.expires,
        facts=Facts(
            place=Place(
                cloud=candidate.cloud,
                account=order.account,
                region=candidate.region,
                zone=candidate.zone or None,
            ),
            offer=Offer(
                instance_type=candidate.instance_type,
                purchase=candidate.purchase,
                gpu=Gpu(
                    model=candidate.gpu_model,
                    count=candidate.gpu_count,
                    memory_gib=candidate.gpu_memory_gib,
                ),
                interconnect=candidate.interconnect,
                reservation=candidate.reservation,
            ),
            price=price_of(candidate),
            listed=terms.listed[candidate.cloud, candidate.region],
            nodes=(),
            allow_from=tuple(order.allow_from),
            ports=tuple(order.ports),
            boot=boot.written,
            timers=(),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Journals each resource that ``prepare`` creates, before and after the call."""

    context: Context
    box: Box
    order: Order
    cloud: str

    def making(self, kind: ResourceKind, name: str, /) -> None:
        """Journals a resource that is about to be created."""
        ref = Ref(cloud=self.cloud, account=self.order.account, region=self.order.region, kind=kind, id="")
        self.context.journal.write(self.box, Making(resource=named(ref, name)))

    def made(self, ref: Ref, /) -> None:
        """Journals the id of a resource that was created."""
        self.context.journal.write(self.box, Made(resource=named(ref, self.order.name)))

    def armed(self, timers: Sequence[str], /) -> None:
        """Journals timers that were set, by this or an earlier try of the attempt."""
        known = self.context.journal.box(self.box.id).timers
        note_timers(self.context, self.box, (*known, *timers))


def _create(
    context: Context, box: Box, cloud: Cloud, order: Order, *, intent: str, request: Request
) -> Sequence[Machine]:
    """Makes the billable call and journals its outcome, also when it is interrupted."""
    # A process that was paused may resume long after another one has taken its box.
    still_held = partial(context.journal.check, box)
    call = context.tasks.start(lambda: cloud.create(request, before=still_held))
    try:
        machines, _ = context.tasks.wait(call, CREATE_TIMEOUT_S)
    except OutcomeUnknownError as error:
        machines = _look(context, cloud, order, error)
        if not machines:
            if error.error_class is ErrorClass.BAD_PARAM:
                # The cloud rejected the request itself and lists nothing: check once more later.
                _resolve(context, box, intent, "watched")
            raise
    except CloudError as error:
        _resolve_refused(context, box, intent, error)
        raise
    except TimedOutError as error:
        raise OutcomeUnknownError(
            f"{cloud.name}: the create call was not answered ({error})",
            error_class=ErrorClass.SERVER,
            cloud=cloud.name,
        ) from error
    except InterruptedBySignal:
        # The result of the call under way must be known before it can be deleted.
        with context.tasks.finishing():
            try:
                late, _ = context.tasks.wait(call, IN_FLIGHT_S)
                _adopt(context, box, cloud, intent, late, name=order.name)
            except (OutcomeUnknownError, TimedOutError):
                pass  # the intent stays open, and is resolved when the box is taken down
            except CloudError as error:
                _resolve_refused(context, box, intent, error)
        raise
    _adopt(context, box, cloud, intent, machines, name=order.name)
    return list(machines)


def _adopt(
    context: Context, box: Box, cloud: Cloud, intent: str, machines: Sequence[Machine], *, name: str
) -> None:
    """Journals the machines that the create call made; deletes them if the box was taken over meanwhile.

    Raises:
        StaleWriterError: the box was taken over, and the deletion of the machines was requested.
        OwedError: the box was taken over, and the deletion could not be requested.
    """
    try:
        adopt(context, box, intent, machines, name=name)
    except StaleWriterError as stale:
        ids = ", ".join(short_id(machine.ref.id) for machine in machines)
        context.tell("down", f"{stale.message}; deleting {ids}")
        with context.tasks.finishing():
            try:
                for machine in machines:
                    context.tasks.run(partial(cloud.delete, machine.ref), CREATE_TIMEOUT_S)
            except (CloudError, TimedOutError) as error:
                said = error if isinstance(error, CloudError) else None
                raise owed_error(box, owed_refs(box, [each.ref for each in machines]), said) from stale
        raise


def _resolve_refused(context: Context, box: Box, intent: str, error: CloudError) -> None:
    """A refusal proves that its own call created nothing, not that an earlier unanswered call did."""
    _resolve(context, box, intent, "watched" if error.earlier_unknown else "closed")


def _resolve(context: Context, box: Box, intent: str, status: Literal["closed", "watched"]) -> None:
    context.journal.write(box, Resolved(intent=intent, status=status))


def _look(context: Context, cloud: Cloud, order: Order, cause: CloudError) -> Sequence[Machine]:
    """Checks whether a create call without a clear answer created machines after all."""
    context.tell("create", f"no clear answer ({cause.code}); checking whether the instance exists")
    search = Search(token=order.key, regions=(order.region,))
    try:
        found: SearchResult = context.tasks.run(lambda: cloud.find(search))
    except CloudError:
        return []
    machines = [resource for resource in found.resources if isinstance(resource, Machine)]
    return machines if len(machines) == order.nodes else []


def _arm_end(context: Context, box: Box, cloud: Cloud, order: Order, machines: Sequence[Machine]) -> None:
    """Sets the cloud's timer that ends the machines; deletes them now if it cannot be set.

    Raises:
        CloudError: the timer could not be set, and the machines are gone.
        OwedError: the timer could not be set, and the machines may still exist.
    """
    end = End(
        at=order.deadline,
        ttl_role=order.ttl_role,
        box_identity=order.box_identity,
        extra_tags=order.extra_tags,
    )
    try:
        ensure_end(context, box, cloud, machines, end)
    except CloudError as error:
        context.tell("create", f"{error.message}; deleting the box")
        end_machines(context, box, budget_s=TAKE_DOWN_S)
        error.message = f"{error.message}. The box was deleted, because the cloud set no timer to end it"
        raise


def _check_bought(candidate: Candidate, machines: Sequence[Machine]) -> None:
    """Refuses a machine that differs from the offer that was bought, before it costs a noticeable amount."""
    for machine in machines:
        got = (machine.instance_type, str(machine.purchase), machine.zone or candidate.zone)
        wanted = (candidate.instance_type, str(candidate.purchase), candidate.zone or machine.zone)
        if got != wanted:
            raise PriceError(
                f"{candidate.cloud} started {' '.join(got)} instead of {' '.join(wanted)}",
                hint="the box was deleted; this is a fault: please report it",
            )


def _begin_looks(context: Context, cloud: Cloud, machines: Sequence[Machine]) -> list[Call]:
    """Starts to read the state of machines that may not run yet, all at the same time."""
    return [] if _all_run(machines) else [context.tasks.start(partial(cloud.get, m.ref)) for m in machines]


def _wait_until_running(
    context: Context, box: Box, cloud: Cloud, machines: Sequence[Machine], looks: Sequence[Call]
) -> Sequence[Machine]:
    """Polls until every machine runs and has an address. The first requests were sent before."""
    ids = tuple(machine.ref.id for machine in machines)
    context.emit(MachinesCreated("boot", f"waiting for {', '.join(map(short_id, ids))}", ids=ids))
    try:
        with context.tasks.within(START_TIMEOUT_S):
            current = _once_running(context, box, cloud, machines, looks)
    except TimedOutError as error:
        raise cloud.late(f"{machines[0].ref.id} did not start within {START_TIMEOUT_S:.0f} s") from error
    ended = [machine for machine in current if _has_ended(machine)]
    if ended:
        raise _never_started(context, box, cloud, ended[0])
    return current


def _once_running(
    context: Context, box: Box, cloud: Cloud, machines: Sequence[Machine], looks: Sequence[Call]
) -> Sequence[Machine]:
    """The machines once all of them run, or one has ended.

    Raises:
        StaleWriterError: another process has taken the box over, and its machines are not listed.
        TimedOutError: neither happened within the budget.
    """
    pause_s = 0.02
    current = list(machines)
    while True:
        if _all_run(current) or any(map(_has_ended, current)):
            return current
        if not context.tasks.left_s:
            raise TimedOutError("the machines are not running yet")
        looks = looks or _begin_looks(context, cloud, current)
        seen = [context.tasks.wait(call, CREATE_TIMEOUT_S) for call in looks]
        looks = ()
        # A machine that is not listed yet is not gone: the cloud's lists lag behind its creations. Some
        # clouds do not list a deleted machine either, and a process that takes the box over deletes them.
        if None in seen:
            context.journal.check(box)
        current = [new if isinstance(new, Machine) else old for new, old in zip(seen, current, strict=True)]
        if not _all_run(current):
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.6, 3.0)


def _has_ended(machine: Machine) -> bool:
    return machine.state is State.GONE or machine.ended_itself or machine.preempted


def _all_run(machines: Sequence[Machine]) -> bool:
    return all(machine.state is State.RUNNING and machine.public_ip for machine in machines)


def _never_started(context: Context, box: Box, cloud: Cloud, machine: Machine) -> GpucloudError:
    """A late refusal: the next offer may be tried once every machine of this one is gone."""
    context.tell(
        "create", f"{short_id(machine.ref.id)} ended before it ran; checking that nothing is left of it"
    )
    end_machines(context, box, budget_s=TAKE_DOWN_S)
    if machine.ended_itself:
        return BoxLostError(
            f"{cloud.name}: {machine.ref.id} powered itself off while it booted", taken_back=False
        )
    return CloudError(
        f"{cloud.name}: {machine.ref.id} ended before it ran: {machine.reason or 'no reason given'}",
        error_class=ErrorClass.CAPACITY,
        cloud=cloud.name,
        code=machine.reason,
        scope=Scope.ZONE,
    )
