"""Resolves calls without an answer, and finds resources of a box that the journal does not have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from gpucloud.clouds.cloud import Cloud
from gpucloud.journal.events import Gone, Made, Resolved, named
from gpucloud.journal.facts import Facts, Node, node_of
from gpucloud.journal.lifecycle import CONSISTENCY_WINDOW, Phase, RecoveryStep, Sighting, reconcile
from gpucloud.journal.records import Box, Holding, Intent, ResourceRow, Snapshot, Volume
from gpucloud.resources import Machine, Resource, ResourceKind, Search, SearchResult, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S

STORED: Mapping[type[Holding], Collection[ResourceKind]] = {
    Volume: {ResourceKind.DISK},
    Snapshot: {ResourceKind.SNAPSHOT, ResourceKind.IMAGE},
}
"""What the billable call of something that stores data makes."""


def resolve_intents(
    context: Context, holding: Holding, cloud: Cloud, intents: Sequence[Intent], found: SearchResult
) -> None:
    """Journals what create calls without an answer created, or that they created nothing."""
    for intent in intents:
        made = _made_by(context, holding, cloud, intent, found)
        seen = Sighting.UNREADABLE if found.unread else Sighting.ABSENT
        if made:
            ended = all(each.state is State.GONE for each in made)
            seen = Sighting.TERMINAL if ended else Sighting.THERE
        match reconcile(Phase.CREATE_OPEN, seen, age=_unanswered_for(context, holding, intent.at)):
            case RecoveryStep.ADOPT:
                rank = vacant_rank(holding.nodes) if isinstance(holding, Box) else None
                adopt(context, holding, intent.id, made, name=intent.name, rank=rank)
            case RecoveryStep.CLOSE:
                context.journal.write(holding, Resolved(intent=intent.id, status="closed"))
            case _:
                continue


def resolve_makings(
    context: Context, holding: Holding, rows: Sequence[ResourceRow], found: SearchResult
) -> None:
    """Journals the ids of resources whose creation was interrupted, or that they were never created."""
    for row in [row for row in rows if row.state == "making"]:
        there = [resource for resource in found.resources if resource.ref.kind is row.ref.kind]
        for resource in there:
            context.journal.write(holding, Made(resource=named(resource.ref, row.name)))
        seen = Sighting.UNREADABLE if found.unread else Sighting.ABSENT
        age = _unanswered_for(context, holding, row.at)
        if not there and reconcile(Phase.CREATE_OPEN, seen, age=age) is RecoveryStep.CLOSE:
            context.journal.write(holding, Gone(resource=named(row.ref, row.name)))


def _made_by(
    context: Context, holding: Holding, cloud: Cloud, intent: Intent, found: SearchResult
) -> Sequence[Resource]:
    if isinstance(holding, Box):
        return _machines_of(context, cloud, intent, found)
    kinds = STORED[type(holding)]
    return [resource for resource in found.resources if resource.ref.kind in kinds]


def _machines_of(context: Context, cloud: Cloud, intent: Intent, found: SearchResult) -> list[Machine]:
    of_intent = Search(op=intent.op)
    machines = [t for t in found.resources if isinstance(t, Machine) and of_intent.admits(t.tags)]
    machines = [m for m in machines if m.zone == intent.zone or not intent.zone]
    if machines:
        return machines
    search = Search(token=intent.token, regions=(intent.region,))
    by_token = context.tasks.run(lambda: cloud.find(search), CALL_TIMEOUT_S)
    return [resource for resource in by_token.resources if isinstance(resource, Machine)]


def vacant_rank(nodes: Sequence[Node]) -> int | None:
    """The node in whose place a call without an answer made a machine; ``None`` for all nodes of a box. Pure.

    A box has no nodes before all are bought; one of them is bought alone once it is gone.
    """
    return next((rank for rank, node in enumerate(nodes) if node.state is State.GONE), None)


def adopt(
    context: Context,
    holding: Holding,
    intent: str,
    made: Sequence[Resource],
    *,
    name: str,
    rank: int | None = None,
) -> None:
    """Journals what a create call created: ids first, in one transaction, before any waiting.

    Args:
        context: clouds, journal, clock and progress of this call.
        holding: the box or other holding.
        intent: the id of the intent.
        made: what was created.
        name: the name of all that was created.
        rank: the node of which a machine was created; ``None`` for all nodes.

    Raises:
        StaleWriterError: the box was taken over; the new holder does not see yet what was made.
    """
    now = context.clock()
    started = [each.created_at for each in made if each.created_at]
    machines = [each for each in made if isinstance(each, Machine)]
    parts = [part for machine in machines for part in machine.parts]
    # A cloud that does not tell yet when it made a machine did so just now, not when the box began.
    nodes = [replace(node, started_at=node.started_at or now) for node in map(node_of, machines)]
    resolved = Resolved(
        intent=intent,
        status="made",
        started_at=(min(started) if started else now) if rank is None else None,  # of the box, not of a node
        resources=tuple(named(ref, name) for ref in (*(each.ref for each in made), *parts)),
        facts=Facts(
            nodes=nodes_with(holding.nodes, nodes, rank) if nodes and isinstance(holding, Box) else None,
            zone=made[0].zone or None,
        ),
    )
    context.journal.write(holding, resolved)


def nodes_with(nodes: Sequence[Node], made: Sequence[Node], rank: int | None) -> tuple[Node, ...]:
    """The nodes of a box after machines were made for it. Pure.

    Args:
        nodes: the nodes so far.
        made: those that were made.
        rank: the node in whose place the only one of them is; ``None`` if they are all nodes of the box.
    """
    return tuple(made) if rank is None else (*nodes[:rank], *made, *nodes[rank + 1 :])


def _unanswered_for(context: Context, holding: Holding, asked_at: datetime) -> timedelta:
    """The least age of a call without an answer.

    The holder from which the box was taken may have been paused just before its call, and have gone on after.
    """
    return context.clock() - max(asked_at, holding.taken_over_at or asked_at)


def note_unknown(context: Context, cloud: Cloud, holding: Holding, region: str) -> None:
    """Journals resources of a box that exist and are not in the journal: others may depend on them.

    A box that was recovered from a list that lagged has such resources. If a second machine has the tags of
    the box, nothing is journalled: that machine, and what belongs to it, is not ours to delete.
    """
    found = context.tasks.run(partial(cloud.find, Search(box=holding.id, regions=(region,))), CALL_TIMEOUT_S)
    ever = {row.ref for row in context.journal.resources(holding.id, present=False)}
    # A machine that was replaced is no node any more, and may be shown for a while.
    if any(is_second_machine(holding, each) for each in found.resources if each.ref not in ever):
        return
    known = {row.ref for row in context.journal.resources(holding.id)}
    for resource in found.resources:
        if resource.state is not State.GONE and resource.ref not in known:
            context.journal.write(holding, Made(resource=named(resource.ref)))


def is_second_machine(holding: Holding, resource: Resource) -> bool:
    """Whether a machine carries the tags of a box that has its nodes, and is none of them.

    Somebody has launched "more like this" in the cloud's console, for example. What the journal had lost and
    found again may have nodes that were not shown yet: those were made with the others.
    """
    if not isinstance(holding, Box) or not isinstance(resource, Machine):
        return False
    nodes = {node.instance_id for node in holding.nodes}
    if not nodes or resource.ref.id in nodes:
        return False
    if holding.recovered and resource.created_at and holding.started_at:
        return abs(resource.created_at - holding.started_at) >= CONSISTENCY_WINDOW
    return True
