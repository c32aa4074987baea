"""What of a box is billed, and since when: intervals that its events begin and end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from gpucloud.journal.facts import NamedRef, Node, Price, Usage
from gpucloud.journal.records import Box
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


def begin_resource(box: Box, resource: NamedRef, since: datetime) -> Box:
    """Begins to bill the parts of a resource that has come to be."""
    for part in _parts_of(box, resource):
        box = _begin(box, resource.ref.id, part, since=since)
    return box


def end_resource(box: Box, resource: NamedRef, at: datetime) -> Box:
    """Ends what is billed of a resource that is gone."""
    for part in _parts_of(box, resource):
        box = _end(box, resource.ref.id, part, at)
    return box


def end_all(box: Box, at: datetime) -> Box:
    """Ends everything that is still billed."""
    return replace(box, usage=tuple(replace(each, end=each.end or at) for each in box.usage))


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


def resize(box: Box, since: datetime) -> Box:
    """Begins new intervals of compute for machines that are of another type since then, at the latest."""
    usage: list[Usage] = []
    for each in box.usage:
        if each.part == "compute" and each.end is None and each.start < since:
            usage += [replace(each, end=since), replace(each, start=since)]
        else:
            usage.append(each)
    return replace(box, usage=tuple(usage))


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


def _parts_of(box: Box, resource: NamedRef) -> Collection[str]:
    """The parts of a resource with usage of their own: those of a machine, or what is stored by itself."""
    match resource.ref.kind:
        case ResourceKind.INSTANCE:
            return MACHINE_PARTS
        case ResourceKind.DISK:
            return ("disk",) if box.volume is not None else ()
        case ResourceKind.SNAPSHOT | ResourceKind.IMAGE as kind:
            return ("snapshot",) if box.snapshot is not None and box.snapshot.billed is kind else ()
        case _:
            return ()


def _is_billed(node: Node, part: str) -> bool:
    if part == "compute":
        return node.billed
    if part == "address" and node.state is State.STOPPED:
        return node.public_ip is not None
    return node.state is not State.GONE


def _intervals(box: Box, resource: str, part: str) -> list[Usage]:
    return [each for each in box.usage if (each.resource, each.part) == (resource, part)]


def _begin(box: Box, resource: str, part: str, *, since: datetime, again: datetime | None = None) -> Box:
    """Starts an interval unless one is open.

    Args:
        box: the box.
        resource: the machine's id.
        part: the part of the machine.
        since: the start of a first interval; an existing first interval with a later start is corrected.
        again: the start of any further interval, unless ``since`` is after the previous one.
    """
    known = _intervals(box, resource, part)
    if not known or known[-1].end is None:
        since = _nearer(box, since)
    if not known:
        return replace(box, usage=(*box.usage, _interval(box, resource, part, since)))
    last = known[-1]
    if last.end is not None:
        start = (again or since) if since <= last.end else since
        return replace(box, usage=(*box.usage, _interval(box, resource, part, start)))
    if len(known) == 1 and since < last.start:
        return replace(
            box, usage=tuple(replace(each, start=since) if each is last else each for each in box.usage)
        )
    return box


def _interval(box: Box, resource: str, part: str, start: datetime) -> Usage:
    refs = (each.ref for each in box.resources if each.ref.kind in _BILLED_KINDS)
    place = next((ref for ref in refs if ref.id == resource), None)
    return Usage(
        box=box.id,
        resource=resource,
        part=part,
        start=start,
        end=None,
        price=box.price if part == "compute" else box.listed.get(_TARIFFS[part]),
        gib=box.wanted.disk_gib if part in _STORED else None,
        paid_before=part == "compute" and box.offer is not None and box.offer.purchase.kind.paid_already,
        cloud=place.cloud if place else None,
        region=place.region if place else None,
    )


def _nearer(box: Box, told: datetime) -> datetime:
    """When something was made, as its cloud tells it; in the whole minute of its request, when that was.

    ECS tells whole minutes and bills by the second (``CreationTime`` of DescribeInstances).
    """
    if told.second or told.microsecond:
        return told
    asked = (intent.at for intent in box.intents if intent.status == "made")
    return max((at for at in asked if told <= at < told + _MINUTE), default=told)


def _end(box: Box, resource: str, part: str, end: datetime) -> Box:
    usage = (
        replace(each, end=end) if (each.resource, each.part, each.end) == (resource, part, None) else each
        for each in box.usage
    )
    return replace(box, usage=tuple(usage))
