"""Buys what stores data: volumes and snapshots. They end by the same code as boxes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import Record
from gpucloud.errors import CloudError, GpucloudError
from gpucloud.journal.events import Hashed, Intended, StateChanged
from gpucloud.journal.facts import Facts, Place
from gpucloud.journal.lifecycle import BoxState, new_id
from gpucloud.journal.records import Snapshot, Volume
from gpucloud.policy.budget_check import check_of
from gpucloud.purchase.creation import CREATE_TIMEOUT_S, PREPARE_TIMEOUT_S, Attempt, create, prepare
from gpucloud.purchase.failover import abandon, check_name, note_left
from gpucloud.purchase.policy_check import MoreCheck
from gpucloud.resources import (
    Request,
    Resource,
    ResourceKind,
    Search,
    SnapshotOrder,
    Tags,
    VolumeOrder,
    cloud_name,
    expires_text,
    request_hash,
    token_for,
)
from gpucloud.runtime.context import Context

Order = VolumeOrder | SnapshotOrder
Stored = Volume | Snapshot
S = TypeVar("S", Volume, Snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """What names something that is bought: on the journal's side, and on the cloud's.

    Attributes:
        key: the idempotency key of the call.
        name: the cloud's name.
        tags: the tags; their ``box`` and ``op`` are the journal's ids.
    """

    key: str
    name: str
    tags: Tags


def new_ids(context: Context, of: type[Stored], name: str, place: Place, keep: timedelta) -> Ids:
    """New ids for something of a type that is bought in a place, and is kept for a while."""
    now = context.clock().replace(microsecond=0)
    id_ = new_id(f"{of.kind[0]}-", now, context.randomness(10))
    op = new_id("op-", now, context.randomness(10))
    return Ids(
        key=token_for(op=op, account=place.account, region=place.region, zone=place.zone or "", attempt=1),
        name=cloud_name(name, id_),
        tags=Tags(
            owner=context.owner,
            box=id_,
            op=op,
            run="",
            expires=expires_text(now + keep),
            retain=True,
            volume=name if of is Volume else "",
            snapshot=name if of is Snapshot else "",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """How an order is prepared, and what the billable call makes.

    Attributes:
        prepare: makes what the order needs; gives the request.
        made: the kinds of what the request makes.
        told: what is bought, for the progress.
        prepare_s: how long the preparation may take, in seconds.
        create_s: how long the billable call may take, in seconds.
    """

    prepare: Callable[[Record], Request]
    made: Collection[ResourceKind]
    told: str
    prepare_s: float = PREPARE_TIMEOUT_S
    create_s: float = CREATE_TIMEOUT_S


def buy(
    context: Context,
    of: type[S],
    cloud: Cloud,
    order: Order,
    calls: Calls,
    *,
    name: str,
    place: Place,
    facts: Facts,
) -> S:
    """Buys what an order names, and leaves nothing behind if that fails.

    What is ``attended`` by its facts ends with this process, which still holds it afterwards.

    Args:
        context: clouds, journal, clock and progress of this call.
        of: what it is in the journal.
        cloud: the cloud.
        order: what is bought.
        calls: how it is prepared, and what is made.
        name: its name in the journal.
        place: where it is made.
        facts: what else is known of it.

    Raises:
        BudgetError: it would exceed a budget; nothing was spent.
        PolicyError: its owner has as much per hour as the policy allows; nothing was spent.
        UsageError: the name is taken; nothing was spent.
        CloudError: the cloud refused; nothing is left.
        CleanupIncompleteError: something may still be billed.
        InterruptedBySignal: ended by a signal; nothing is left.
    """
    check_name(context, name)
    limits = check_of(context)
    bought = context.journal.plan(
        of,
        id=order.tags.box,
        name=name,
        owner=context.owner,
        run_id=None,
        op=order.tags.op,
        expires_at=order.tags.ends_at,
        facts=facts,
        lease=context.lease(),
        limits=limits,
        forbids=None if context.market is None else MoreCheck(context.market, context.clock),
    )
    for text in limits.warnings if limits else ():
        context.warn("plan", text)
    context.tasks.clean_up = bought.removal
    try:
        with about(box=bought.id):
            _buy(context, bought, cloud, order, calls=calls, place=place)
    except BaseException as error:
        if isinstance(error, CloudError):
            with suppress(GpucloudError):  # a journal that cannot be written is handled below
                note_left(context, bought, cloud.name, order.region)
        abandon(context, bought, error)
        raise
    if not facts.attended:
        context.journal.release(bought)
    return context.journal.now_of(bought)


def _buy(context: Context, bought: Stored, cloud: Cloud, order: Order, *, calls: Calls, place: Place) -> None:
    """Writes the intent, prepares, creates, and journals what was made."""
    intent = f"{bought.op}.1"
    intended = Intended(
        intent=intent,
        op=bought.op,
        cloud=cloud.name,
        account=order.account,
        region=order.region,
        zone=place.zone or "",
        token=order.key,
        name=order.name,
        expires=order.tags.expires,
        facts=Facts(place=place),
    )
    context.journal.write(bought, intended)
    context.tell("create", calls.told)
    request = prepare(context, bought, cloud, order, calls.prepare, timeout_s=calls.prepare_s)
    context.journal.write(bought, Hashed(intent=intent, request_hash=request_hash(request)))
    attempt = Attempt(
        cloud=cloud,
        order=order,
        request=request,
        intent=intent,
        look=partial(_look, cloud, order, calls.made),
        timeout_s=calls.create_s,
    )
    create(context, bought, attempt)
    context.journal.write(bought, StateChanged(state=BoxState.READY))


def _look(cloud: Cloud, order: Order, kinds: Collection[ResourceKind]) -> list[Resource]:
    """What a create call without a clear answer has made; nothing unless all of it is there."""
    found = cloud.find(Search(box=order.tags.box, regions=(order.region,)))
    made = [resource for resource in found.resources if resource.ref.kind in kinds]
    return made if {resource.ref.kind for resource in made} == set(kinds) else []
