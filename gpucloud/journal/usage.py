"""What of a holding is billed, and since when: intervals that its events begin and end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from gpucloud.journal.facts import NamedRef, Node, Price, Usage
from gpucloud.journal.records import Box, H, Holding, Snapshot, Volume
from gpucloud.resources import ResourceKind, State

MACHINE_PARTS = ("compute", "disk", "address")
_TARIFFS: Mapping[str, str] = {
    "disk": "disk_gb_month",
    "address": "public_ip_hour",
    "snapshot": "snapshot_gb_month",
}
"""The list price of each part; compute has the price of the offer."""
_STORED = frozenset({"disk", "snapshot"})
"""The parts that are billed by their size."""
_BILLED_KINDS = frozenset(
    {ResourceKind.INSTANCE, ResourceKind.DISK, ResourceKind.SNAPSHOT, ResourceKind.IMAGE}
)
_MINUTE = timedelta(minutes=1)


def begin_resource(holding: H, resource: NamedRef, since: datetime) -> H:
    """Begins to bill the parts of a resource that has come to be."""
    for part in _parts_of(holding, resource):
        holding = _begin(holding, resource.ref.id, part, since=since)
    return holding


def end_resource(holding: H, resource: NamedRef, at: datetime) -> H:
    """Ends what is billed of a resource that is gone."""
    for part in _parts_of(holding, resource):
        holding = _end(holding, resource.ref.id, part, at)
    return holding


def end_all(holding: H, at: datetime) -> H:
    """Ends everything that is still billed."""
    return replace(holding, usage=tuple(replace(each, end=each.end or at) for each in holding.usage))


def see_nodes(box: Box, nodes: Iterable[Node], at: datetime) -> Box:
    """Begins and ends the usage of machines by their state in the cloud."""
    for node in nodes:
        box = _see_node(box, node, at)
    return box


def reprice(box: Box, price: Price) -> Box:
    """Gives the compute that is billed now another price."""
    usage = (
        replace(each, price=price) if each.part == "compute" and each.end is None else each
        for each in box.usage
    )
    return replace(box, usage=tuple(usage))


def resize(holding: H, since: datetime) -> H:
    """Begins new intervals of compute for machines that are of another type since then, at the latest."""
    usage: list[Usage] = []
    for each in holding.usage:
        if each.part == "compute" and each.end is None and each.start < since:
            usage += [replace(each, end=since), replace(each, start=since)]
        else:
            usage.append(each)
    return replace(holding, usage=tuple(usage))


def _see_node(box: Box, node: Node, at: datetime) -> Box:
    """Sees one machine.

    A stopped machine whose compute is not billed keeps its disk; an address only if its cloud shows one.
    """
    compute = _intervals(box, node.instance_id, "compute")
    is_running = bool(compute) and compute[-1].end is None
    for part in MACHINE_PARTS:
        if _is_billed(node, part):
            since = node.started_at or box.started_at or at
            box = _begin(box, node.instance_id, part, since=since, again=at)
        elif is_running or part == "compute":
            box = _end(box, node.instance_id, part, node.ended_at or at)
        else:  # it was stopped before: what was left of it ended at its deadline at the latest
            end = min(filter(None, (at, box.expires_at)))
            box = _end(box, node.instance_id, part, end)
    return box


def _parts_of(holding: Holding, resource: NamedRef) -> Collection[str]:
    """The parts of a resource with usage of their own: those of a machine, or what is stored by itself."""
    match resource.ref.kind:
        case ResourceKind.INSTANCE:
            return MACHINE_PARTS
        case ResourceKind.DISK:
            return ("disk",) if isinstance(holding, Volume) else ()
        case ResourceKind.SNAPSHOT | ResourceKind.IMAGE as kind:
            return ("snapshot",) if isinstance(holding, Snapshot) and holding.billed is kind else ()
        case _:
            return ()


def _is_billed(node: Node, part: str) -> bool:
    if part == "compute":
        return node.billed
    if part == "address" and node.state is State.STOPPED:
        return node.public_ip is not None
    return node.state is not State.GONE


def _intervals(holding: Holding, resource: str, part: str) -> list[Usage]:
    return [each for each in holding.usage if (each.resource, each.part) == (resource, part)]


def _begin(holding: H, resource: str, part: str, *, since: datetime, again: datetime | None = None) -> H:
    """Starts an interval unless one is open.

    Args:
        holding: the box, volume or snapshot.
        resource: the id of what is billed.
        part: the part of it.
        since: the start of a first interval; an existing first interval with a later start is corrected.
        again: the start of any further interval, unless ``since`` is after the previous one.
    """
    known = _intervals(holding, resource, part)
    if not known or known[-1].end is None:
        since = _nearer(holding, since)
    if not known:
        return replace(holding, usage=(*holding.usage, _interval(holding, resource, part, since)))
    last = known[-1]
    if last.end is not None:
        start = (again or since) if since <= last.end else since
        return replace(holding, usage=(*holding.usage, _interval(holding, resource, part, start)))
    if len(known) == 1 and since < last.start:
        usage = (replace(each, start=since) if each is last else each for each in holding.usage)
        return replace(holding, usage=tuple(usage))
    return holding


def _interval(holding: Holding, resource: str, part: str, start: datetime) -> Usage:
    refs = (each.ref for each in holding.resources if each.ref.kind in _BILLED_KINDS)
    place = next((ref for ref in refs if ref.id == resource), None)
    computing = holding if part == "compute" and isinstance(holding, Box) else None
    offer = computing.offer if computing else None
    return Usage(
        box=holding.id,
        resource=resource,
        part=part,
        start=start,
        end=None,
        price=computing.price if computing else holding.listed.get(_TARIFFS[part]),
        gib=holding.disk_gib if part in _STORED else None,
        paid_before=offer is not None and offer.purchase.kind.paid_already,
        cloud=place.cloud if place else None,
        region=place.region if place else None,
    )


def _nearer(holding: Holding, told: datetime) -> datetime:
    """When something was made, as its cloud tells it; in the whole minute of its request, when that was.

    ECS tells whole minutes and bills by the second (``CreationTime`` of DescribeInstances).
    """
    if told.second or told.microsecond:
        return told
    asked = (intent.at for intent in holding.intents if intent.status == "made")
    return max((at for at in asked if told <= at < told + _MINUTE), default=told)


def _end(holding: H, resource: str, part: str, end: datetime) -> H:
    usage = (
        replace(each, end=end) if (each.resource, each.part, each.end) == (resource, part, None) else each
        for each in holding.usage
    )
    return replace(holding, usage=tuple(usage))
