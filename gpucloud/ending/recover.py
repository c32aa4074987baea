"""Adopts boxes that were found by their tags into the journal, to be used and ended like any other box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from gpucloud.costs.resource_prices import billed_copy, listed_prices, listed_snapshot_price
from gpucloud.ending.deadline import ensure_end
from gpucloud.ending.discovery import DiscoveryResult, begin, by_box, finish
from gpucloud.ending.reading import offer_of, price_now
from gpucloud.errors import CloudError, GpucloudError
from gpucloud.journal.events import named
from gpucloud.journal.facts import Facts, Place, SnapshotFacts, VolumeFacts, node_of
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, BoxState, id_time
from gpucloud.journal.records import Box, Holding, Snapshot, Volume
from gpucloud.planning.volume_plan import KEEP
from gpucloud.resources import End, Machine, Resource, ResourceKind, Search, State, Tags, box_name
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud_pricing import Market

NAME_DIGITS = 8
"""How many characters of its id name a box whose name is not known."""


def adopt_found(
    context: Context, discovery: DiscoveryResult, market: Market
) -> tuple[Sequence[Holding], Sequence[GpucloudError]]:
    """Journals every box of a discovery that is not in the journal, and sets timers that end the living ones.

    Returns:
        These boxes, and one error per box that could not be journalled or whose timer could not be set. Its
        launch may have set that timer before, so such a box is left as it is.
    """
    adopted: list[Holding] = []
    troubles: list[GpucloudError] = []
    for _, resources in by_box(discovery.resources):
        with isolated(troubles, f"{resources[0].ref.kind} {resources[0].ref.id}"):
            state = state_of(resources, discovery.clocks[resources[0].ref.cloud])
            box = adopt_box(context, resources, state, market) if state else None
            if box is None:
                continue
            adopted.append(box)
            if state is BoxState.READY and isinstance(box, Box):
                _arm_end(context, box, resources)
    return adopted, troubles


def take_in_run(
    context: Context, run_id: str, market: Callable[[], Market]
) -> tuple[DiscoveryResult, list[GpucloudError]]:
    """Journals the boxes that another machine launched for a run, to be ended here.

    Args:
        context: clouds, journal, clock and progress of this call.
        run_id: the run.
        market: the source of types and prices; loaded only if something was found.

    Returns:
        The boxes, and the errors of those that could not be journalled.
    """
    troubles: list[GpucloudError] = []
    context.tell("down", f"looking for run {run_id} in every region of every cloud")
    discovery = finish(context, begin(context, Search(run=run_id)))
    for owner, resources in by_box(discovery.resources):
        what = f"{resources[0].ref.kind} {resources[0].ref.id}"
        if context.is_mine(owner):
            with isolated(troubles, what):
                adopt_box(context, resources, BoxState.DELETING, market())
        else:
            context.warn(
                "down",
                f"Not changed: {what} is of this run, but of owner {owner}",
                f"if that is you: GPUCLOUD_OWNER={owner}",
            )
    return discovery, troubles


def _arm_end(context: Context, box: Box, resources: Sequence[Resource]) -> None:
    """Sets the cloud's timer that ends a box that was found.

    Raises:
        CloudError: the timer could not be set.
    """
    machines = [each for each in resources if isinstance(each, Machine) and each.state is not State.GONE]
    try:
        ensure_end(context, box, context.clouds[box.cloud], machines, End(at=box.expires_at))
    except CloudError as error:
        error.message = f"{box.name} may run on after its deadline: {error.message}"
        error.hint = f"set it again: gpucloud extend {box.name}; or delete it: gpucloud down {box.name}"
        raise


def adopt_box(
    context: Context, resources: Sequence[Resource], state: BoxState, market: Market
) -> Holding | None:
    """Journals a box that was found.

    Args:
        context: clouds, journal, clock and progress of this call.
        resources: every resource that was found of it; all with the same tags.
        state: ``ready`` for a living box, ``deleting`` for the remains of one.
        market: the source of types and prices.

    Returns:
        The box; ``None`` if it is in the journal already.
    """
    tags = _tags(resources)
    machines = [resource for resource in resources if isinstance(resource, Machine)]
    born = [resource.created_at for resource in machines or resources if resource.created_at]
    refs = dict.fromkeys(
        [t.ref for t in resources] + [part for machine in machines for part in machine.parts]
    )
    stored = tags.volume or tags.snapshot
    name = stored or next(filter(None, (box_name(machine.name) for machine in machines)), None)
    facts = _stored_facts(context, resources, market) if stored else _facts(resources[0], machines, market)
    of: type[Holding] = Volume if tags.volume else Snapshot if tags.snapshot else Box
    return context.journal.recover(
        of,
        id=tags.box,
        name=name or f"found-{tags.box[-NAME_DIGITS:].lower()}",
        tags=tags,
        state=state,
        created_at=min(born, default=id_time(tags.box) or context.clock()),
        expires_at=tags.ends_at,
        facts=facts,
        resources=[named(ref) for ref in refs],
    )


def age_of(resources: Sequence[Resource], now: datetime) -> timedelta | None:
    """How long ago the newest of a box's resources was created; ``None`` if unknown."""
    made = [resource.created_at for resource in resources if resource.created_at]
    tags = resources[0].tags
    born = max(made, default=id_time(tags.box) if isinstance(tags, Tags) else None)
    return None if born is None else now - born


def is_retained(resources: Sequence[Resource], now: datetime) -> bool:
    """Whether something that is in no journal is wanted until its deadline: a stopped box, or what stores."""
    state = state_of(resources, now)
    return state is BoxState.STOPPED or (state is BoxState.READY and _tags(resources).retain)


def _tags(resources: Sequence[Resource]) -> Tags:
    tags = resources[0].tags
    assert isinstance(tags, Tags)  # noqa: S101  (who calls has grouped them by it)
    return tags


def state_of(resources: Sequence[Resource], now: datetime) -> BoxState | None:
    """The state of a box that is not in the journal, by its resources.

    Returns:
        ``ready`` if one of its machines lives, and for what stores data; ``stopped`` if all machines are
        stopped; ``deleting`` for remains and past its deadline; ``None`` while the list of machines may lag.
    """
    tags, age = resources[0].tags, age_of(resources, now)
    end = tags.ends_at if isinstance(tags, Tags) else None
    if end is not None and end < now:
        return BoxState.DELETING
    machines = [resource for resource in resources if isinstance(resource, Machine)]
    if not machines and isinstance(tags, Tags) and tags.retain:
        return BoxState.READY
    if machines:
        stopped = all(machine.state is State.STOPPED and not machine.billed for machine in machines)
        return BoxState.STOPPED if stopped else BoxState.READY
    return BoxState.DELETING if age is None or age >= CONSISTENCY_WINDOW else None


def _facts(first: Resource, machines: Sequence[Machine], market: Market) -> Facts:
    ref, machine = first.ref, next(iter(machines), None)
    price = None if machine is None else price_now(market, machine)
    return Facts(
        place=Place(
            cloud=ref.cloud,
            account=ref.account,
            region=ref.region,
            zone=machine.zone or None if machine else None,
        ),
        offer=None if machine is None else offer_of(market, machine),
        price=price,
        listed=listed_prices(market, ref.cloud, ref.region, None, price.currency if price else None),
        nodes=tuple(node_of(machine) for machine in machines if machine.state is not State.GONE),
        recovered=True,
    )


def _stored_facts(context: Context, resources: Sequence[Resource], market: Market) -> Facts:
    """What the cloud tells of a volume or a snapshot; lists do not show size and zone on every cloud."""
    bootable = any(each.ref.kind is ResourceKind.IMAGE for each in resources)
    billed = billed_copy(market, resources[0].ref.cloud, bootable=bootable)
    kinds = {ResourceKind.DISK, billed}
    shown = next((each for each in resources if each.ref.kind in kinds), resources[0])
    ref = shown.ref
    if ref.kind in kinds:
        shown = context.tasks.run(partial(context.clouds.usable(ref.cloud).get, ref)) or shown
    place = Place(cloud=ref.cloud, account=ref.account, region=ref.region, zone=shown.zone or None)
    if _tags(resources).snapshot:
        listed = listed_snapshot_price(market, ref.cloud, ref.region, None)
        return Facts(
            place=place,
            disk_gib=shown.size_gib,
            listed=listed,
            snapshot=SnapshotFacts(mounted=True, bootable=bootable, billed=billed),
            recovered=True,
        )
    return Facts(
        place=place,
        disk_gib=shown.size_gib,
        listed=listed_prices(market, ref.cloud, ref.region, shown.size_gib, None),
        volume=VolumeFacts(keep_s=KEEP.total_seconds(), mounted=True),  # it may hold data
        recovered=True,
    )
