"""One attempt to buy an offer: intent, preparation, the billable call, and the handling of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from gpucloud.clouds.abilities import AddressAssociation
from gpucloud.clouds.cloud import Cloud
from gpucloud.costs.resource_prices import listed_prices
from gpucloud.ending.deadline import ensure_end
from gpucloud.ending.resolution import nodes_with
from gpucloud.ending.teardown import TAKE_DOWN_S, end_machines
from gpucloud.errors import (
    BoxLostError,
    CloudError,
    GpucloudError,
    PriceError,
)
from gpucloud.journal.events import Hashed, Intended, Made, StateChanged, named
from gpucloud.journal.facts import BoughtOffer, Facts, Gpu, Place, node_of
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.planning.plan import Candidate, fabric_of
from gpucloud.purchase.ceiling import Agreement, begin_check, in_force, price_of
from gpucloud.purchase.creation import CREATE_TIMEOUT_S, Attempt, prepare
from gpucloud.purchase.order import BootData, BoxPurchase
from gpucloud.purchase.volume_use import chosen_at, note_use, ref_of
from gpucloud.resources import (
    End,
    Machine,
    Order,
    Ref,
    Resource,
    ResourceKind,
    Search,
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

START_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAttempt(Attempt):
    """One try to buy machines, of one offer."""

    order: Order
    offer: Candidate


def begin(context: Context, box: Box, purchase: BoxPurchase, candidate: Candidate) -> MachineAttempt:
    """Begins to buy one offer in one zone: writes the intent, and prepares what the machines need."""
    number = len(context.journal.intents(box.id)) + 1
    cloud = context.clouds.usable(candidate.cloud)
    account = context.tasks.run(cloud.account)
    boot = purchase.boots[candidate.key]
    volumes = chosen_at(purchase.volumes, candidate.cloud, candidate.region, candidate.zone)
    order = _order(
        box,
        purchase,
        candidate,
        account,
        number,
        user_data=boot.user_data,
        volumes=tuple(ref_of(context, each.volume, ResourceKind.DISK) for each in volumes),
    )
    intent = f"{order.tags.op}.{number}"
    context.journal.write(box, _intended(intent, order, candidate, purchase, boot))
    context.tell("network", candidate.place)
    request = prepare(context, box, cloud, order, partial(cloud.prepare, order))
    for each in volumes:
        note_use(context, each.volume, box)
    context.journal.write(box, Hashed(intent=intent, request_hash=request_hash(request)))
    context.emit(_started(candidate))
    return MachineAttempt(
        cloud=cloud,
        order=order,
        offer=candidate,
        request=request,
        intent=intent,
        look=partial(_look, cloud, order),
        rank=purchase.rank,
        price=Money(amount=candidate.price, currency=candidate.currency),
    )


def until_running(
    context: Context,
    box: Box,
    attempt: MachineAttempt,
    made: Sequence[Resource],
    prices: Agreement,
) -> Box:
    """The box once its machines run: their end is set, and they are what was agreed, at its price."""
    cloud, order, offer = attempt.cloud, attempt.order, attempt.offer
    machines: Sequence[Machine] = [each for each in made if isinstance(each, Machine)]
    bought = replace(offer, zone=offer.zone or machines[0].zone)
    asked = begin_check(context, prices, bought)
    looks = _begin_looks(context, cloud, machines)
    _arm_end(context, box, cloud, order, machines)
    _check_bought(order, offer, machines)
    machines = _wait_until_running(context, box, cloud, machines, looks, ranks=order.ranks)
    for machine in machines:
        for part in machine.parts:
            context.journal.write(box, Made(resource=named(part, order.name)))
    nodes = nodes_with(box.nodes, list(map(node_of, machines)), attempt.rank)
    facts = Facts(nodes=nodes, price=price_of(in_force(context, asked, bought)))
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


def _order(
    box: Box,
    purchase: BoxPurchase,
    candidate: Candidate,
    account: str,
    number: int,
    *,
    user_data: bytes,
    volumes: tuple[Ref, ...],
) -> Order:
    spec, end = purchase.spec, purchase.order.end
    op = purchase.op or box.op
    return Order(
        key=token_for(op=op, account=account, region=candidate.region, zone=candidate.zone, attempt=number),
        name=cloud_name(purchase.name, box.id),
        account=account,
        region=candidate.region,
        zone=candidate.zone,
        instance_type=candidate.instance_type,
        arch=candidate.arch,
        gpu_model=candidate.gpu_model,
        gpu_count=candidate.gpu_count,
        purchase=candidate.purchase,
        nodes=spec.nodes,
        disk_gib=spec.disk,
        image=purchase.image,
        user_data=user_data,
        allow_from=tuple(purchase.allow_from),
        ports=spec.ports,
        tags=Tags(
            owner=box.owner,
            box=box.id,
            op=op,
            run=purchase.order.request.run_id or "",
            expires=expires_text(end),
        ),
        extra_tags=dict(spec.tags),
        max_price_usd=candidate.ceiling_usd,
        rates={rate.quote: rate.rate for rate in purchase.order.market.rates if rate.base == "USD"},
        reservation=candidate.reservation,
        deadline=end,
        ttl_role=spec.ttl_role,
        box_identity=spec.box_identity,
        volumes=volumes,
        fabric=fabric_of(spec.rdma, spec.nodes, candidate.rdma),
        vacancy=purchase.vacancy,
    )


def _intended(
    intent: str, order: Order, candidate: Candidate, purchase: BoxPurchase, boot: BootData
) -> Intended:
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
            offer=BoughtOffer(
                instance_type=candidate.instance_type,
                purchase=candidate.purchase,
                gpu=Gpu(
                    model=candidate.gpu_model,
                    count=candidate.gpu_count,
                    memory_gib=candidate.gpu_memory_gib,
                ),
                interconnect=candidate.interconnect,
                reservation=candidate.reservation,
                fabric=order.fabric,
            ),
            price=price_of(candidate),
            listed=listed_prices(
                purchase.order.market,
                candidate.cloud,
                candidate.region,
                order.disk_gib,
                candidate.currency,
            ),
            # What the other nodes are, and what ends them, remains.
            nodes=() if purchase.vacancy is None else None,
            allow_from=tuple(order.allow_from),
            ports=tuple(order.ports),
            boot=boot.written,
            timers=() if purchase.vacancy is None else None,
        ),
    )


def _look(cloud: Cloud, order: Order) -> Sequence[Machine]:
    """The machines of a create call without a clear answer; none unless all that it asked for are there."""
    found = cloud.find(Search(token=order.key, regions=(order.region,)))
    machines = [resource for resource in found.resources if isinstance(resource, Machine)]
    return machines if len(machines) == len(order.ranks) else []


def _arm_end(context: Context, box: Box, cloud: Cloud, order: Order, machines: Sequence[Machine]) -> None:
    """Sets the cloud's timer that ends the machines; deletes them now if it cannot be set.

    Raises:
        CloudError: the timer could not be set, and the machines are gone.
        CleanupIncompleteError: the timer could not be set, and the machines may still exist.
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


def _check_bought(order: Order, candidate: Candidate, machines: Sequence[Machine]) -> None:
    """Refuses machines that differ from the offer that was bought, before they cost a noticeable amount."""
    hint = "the box was deleted; this is a fault: please report it"
    if len(machines) != len(order.ranks):
        said = f"{candidate.cloud} started {len(machines)} machines instead of {len(order.ranks)}"
        raise PriceError(said, hint=hint)
    for machine in machines:
        got = (machine.instance_type, str(machine.purchase), machine.zone or candidate.zone)
        wanted = (candidate.instance_type, str(candidate.purchase), candidate.zone or machine.zone)
        if got != wanted:
            said = f"{candidate.cloud} started {' '.join(got)} instead of {' '.join(wanted)}"
            raise PriceError(said, hint=hint)


def _begin_looks(context: Context, cloud: Cloud, machines: Sequence[Machine]) -> list[Call]:
    """Starts to read the state of machines that may not run yet, all at the same time."""
    return [] if _all_run(machines) else [context.tasks.start(partial(cloud.get, m.ref)) for m in machines]


def _wait_until_running(
    context: Context,
    box: Box,
    cloud: Cloud,
    machines: Sequence[Machine],
    looks: Sequence[Call],
    *,
    ranks: Sequence[int],
) -> Sequence[Machine]:
    """Polls until every machine runs and has an address. The first requests were sent before."""
    ids = tuple(machine.ref.id for machine in machines)
    context.emit(MachinesCreated("boot", f"waiting for {', '.join(map(short_id, ids))}", ids=ids))
    try:
        with context.tasks.within(START_TIMEOUT_S):
            current = _once_running(context, box, cloud, machines, looks, ranks=ranks)
    except TimedOutError as error:
        raise cloud.late(f"{machines[0].ref.id} did not start within {START_TIMEOUT_S:.0f} s") from error
    ended = [machine for machine in current if _has_ended(machine)]
    if ended:
        raise _never_started(context, box, cloud, ended[0])
    return current


def _once_running(
    context: Context,
    box: Box,
    cloud: Cloud,
    machines: Sequence[Machine],
    looks: Sequence[Call],
    *,
    ranks: Sequence[int],
) -> Sequence[Machine]:
    """The machines once all of them run, or one has ended.

    Raises:
        StaleWriterError: another process has taken the box over, and its machines are not listed.
        TimedOutError: neither happened within the budget.
    """
    pause_s = 0.02
    current = list(machines)
    own = _own_addresses(context, box, cloud, machines, ranks)
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
        _give_addresses(context, cloud, current, own)
        if not _all_run(current):
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.6, 3.0)


def _own_addresses(
    context: Context, box: Box, cloud: Cloud, machines: Sequence[Machine], ranks: Sequence[int]
) -> dict[Ref, Ref]:
    """The addresses that were made for machines which get none by themselves; by machine, each its own.

    They were made in the order of the ranks; a machine that is bought alone gets that of the one before it.
    """
    if cloud.ability(AddressAssociation) is None:
        return {}
    made = [
        row.ref
        for row in context.journal.resources(box.id)
        if row.ref.kind is ResourceKind.ADDRESS
        and row.state == "made"
        and (row.ref.cloud, row.ref.region) == (cloud.name, machines[0].ref.region)
    ]
    if not made:
        return {}
    return {machine.ref: made[rank] for machine, rank in zip(machines, ranks, strict=True)}


def _give_addresses(context: Context, cloud: Cloud, machines: Sequence[Machine], own: dict[Ref, Ref]) -> None:
    """Gives those that run the addresses that are left for them."""
    ready = [each.ref for each in machines if each.state is State.RUNNING and each.ref in own]
    calls = [context.tasks.start(partial(_give_address, cloud, ref, own[ref])) for ref in ready]
    for ref, call in zip(ready, calls, strict=True):
        context.tasks.wait(call, CREATE_TIMEOUT_S)
        del own[ref]


def _give_address(cloud: Cloud, machine: Ref, address: Ref) -> None:
    what = f"give {machine.id} its address"
    cloud.ask(AddressAssociation, what, lambda addresses: addresses.give_address(machine, address))


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
    return cloud.never_started(machine)
