"""What each event of a box, a volume or a snapshot makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpucloud.journal import events
from gpucloud.journal.facts import Facts, NamedRef
from gpucloud.journal.kinds import Kind
from gpucloud.journal.lifecycle import OVER, BoxState, may_become
from gpucloud.journal.records import Box, Intent, ResourceRow
from gpucloud.journal.usage import begin_resource, end_all, end_resource, reprice, resize, see_nodes
from gpucloud.resources import State


def begun(id: str, at: datetime, event: events.FirstOfBox) -> Box:  # noqa: A002  (the field's own name)
    """A new box: planned, or found by its tags."""
    box = Box(
        id=id,
        name=event.name,
        owner=event.owner,
        run_id=event.run_id,
        op=event.op,
        kind=event.kind,
        state=BoxState.PLANNED,
        created_at=at,
        expires_at=event.expires_at,
    )
    match event:
        case events.Planned():
            return _merged(replace(box, lease=event.lease), at, event.facts)
        case events.Recovered():
            return _recovered(box, at, event)
        case _:
            raise ValueError(f"{event.type!r} begins no box")


def _recovered(box: Box, at: datetime, event: events.Recovered) -> Box:
    born = event.created_at
    box = replace(box, state=event.state, created_at=born, started_at=born, seen_at=at)
    box = replace(box, resources=tuple(_row(box, each, "made", at) for each in event.resources))
    box = _merged(box, at, event.facts)
    if event.kind is not Kind.BOX:  # the usage of machines begins with the nodes
        for resource in event.resources:
            box = begin_resource(box, resource, born)
    return box


def _intended(box: Box, at: datetime, event: events.Intended) -> Box:
    price = event.facts.price
    intent = Intent(
        id=event.intent,
        box=box.id,
        op=event.op,
        cloud=event.cloud,
        account=event.account,
        region=event.region,
        zone=event.zone,
        token=event.token,
        name=event.name,
        status="planned",
        at=at,
        price=price.amount if price else None,
        currency=price.currency if price else None,
        ceiling_usd=event.ceiling_usd,
    )
    if event.intent in {each.id for each in box.intents}:
        raise ValueError(f"the attempt {event.intent} of box {box.id} was meant already")
    box = replace(box, intents=(*box.intents, intent))
    return _become(_merged(box, at, event.facts), BoxState.PROVISIONING)


def _hashed(box: Box, at: datetime, event: events.Hashed) -> Box:
    return _with_intent(box, event.intent, request_hash=event.request_hash, status="open", at=at)


def _resolved(box: Box, at: datetime, event: events.Resolved) -> Box:
    box = _with_intent(box, event.intent, status=event.status)
    if event.started_at:
        box = replace(box, started_at=event.started_at)
    for resource in event.resources:
        box = _know(box, at, resource, since=event.started_at or at)
    return _see(box, at, event.facts) if event.facts.given else box  # the machines, from the cloud's answer


def _with_intent(box: Box, intent: str, **changes: Any) -> Box:
    changed = (replace(each, **changes) if each.id == intent else each for each in box.intents)
    return replace(box, intents=tuple(changed))


# --- resources


def _making(box: Box, at: datetime, event: events.Making) -> Box:
    return replace(box, resources=(*box.resources, _row(box, event.resource, "making", at)))


def _made(box: Box, at: datetime, event: events.Made) -> Box:
    return _know(box, at, event.resource, since=at)


def _row(box: Box, resource: NamedRef, state: str, at: datetime) -> ResourceRow:
    return ResourceRow(box=box.id, ref=resource.ref, name=resource.name, state=state, at=at)


def _know(box: Box, at: datetime, resource: NamedRef, *, since: datetime) -> Box:
    """The id of a resource is known: the resource was being created, or was known before."""
    known = next((each for each in box.resources if each.ref == resource.ref), None)
    pending = _pending(box, resource)
    is_back = known is not None and known.state in {"gone", "gone_once"}
    new = _row(box, resource, "made", at)
    if known is not None:
        rows = list(box.resources)
        if is_back or known.state == "making":
            rows[rows.index(known)] = replace(known, state="made", at=at)
        if pending is not None and pending.name == resource.name:  # it was about to be created, and was found
            rows.remove(pending)
    elif pending is not None:
        rows = [replace(new, name=each.name) if each is pending else each for each in box.resources]
    else:
        rows = [*box.resources, new]
    box = replace(box, resources=tuple(rows))
    return begin_resource(box, resource, since) if known is None or is_back else box


def _pending(box: Box, resource: NamedRef) -> ResourceRow | None:
    """What is being created in this place and of this kind: first what has the name."""
    place = replace(resource.ref, id="")
    pending = [each for each in box.resources if each.ref == place and each.state == "making"]
    return min(pending, key=lambda each: each.name != resource.name, default=None)


def _resource_is(state: str) -> Callable[..., Box]:
    def change(box: Box, at: datetime, event: events.OfResource) -> Box:
        resource = event.resource
        box = replace(
            box,
            resources=tuple(
                replace(each, state=state, at=at) if _is_same(each, resource) else each
                for each in box.resources
            ),
        )
        if state not in {"gone_once", "gone"}:
            return box
        told = event.ended_at if isinstance(event, events.Gone) else None
        nodes = (
            replace(each, state=State.GONE) if each.instance_id == resource.ref.id else each
            for each in box.nodes
        )
        return end_resource(replace(box, nodes=tuple(nodes)), resource, told or at)

    return change


def _is_same(row: ResourceRow, resource: NamedRef) -> bool:
    """Whether a row is of a resource: by its id, or by its name while it has none."""
    return row.ref == resource.ref and (bool(row.ref.id) or row.name == resource.name)


# --- what was seen, and the state


def _extended(box: Box, at: datetime, event: events.Extended) -> Box:  # noqa: ARG001
    return replace(box, expires_at=event.expires_at)


def _seen(box: Box, at: datetime, event: events.Seen) -> Box:
    seen = event.facts.offer
    if seen is not None and box.offer is not None and seen.instance_type != box.offer.instance_type:
        box = resize(box, box.seen_at or at)
    box = _see(box, at, event.facts)
    return box if event.state is None else _become(box, event.state)


def _state(box: Box, at: datetime, event: events.StateChanged) -> Box:
    box = _become(box, event.state)
    if event.facts.given:  # an observation of the cloud or of the box itself
        box = _see(box, at, event.facts)
    return end_all(replace(box, ended_at=at, lease=None), at) if event.state in OVER else box


def _become(box: Box, state: BoxState) -> Box:
    if not may_become(box.state, state):
        raise ValueError(f"box {box.id} cannot go from {box.state} to {state}")
    return replace(box, state=state)


def _see(box: Box, at: datetime, facts: Facts) -> Box:
    return _merged(replace(box, seen_at=at), at, facts)


def _merged(box: Box, at: datetime, news: Facts) -> Box:
    given = news.given
    zone: str | None = given.pop("zone", None)  # set alone where only the cloud's answer has it
    box = replace(box, **given)
    if zone is not None and box.place is not None:
        box = replace(box, place=replace(box.place, zone=zone))
    if news.price is not None:
        box = reprice(box, news.price)
    return box if news.nodes is None else see_nodes(box, news.nodes, at)


EFFECTS: Mapping[type[events.Event], Callable[..., Box]] = {
    events.Intended: _intended,
    events.Hashed: _hashed,
    events.Resolved: _resolved,
    events.Making: _making,
    events.Made: _made,
    events.DeleteAsked: _resource_is("delete_asked"),
    events.GoneOnce: _resource_is("gone_once"),
    events.Gone: _resource_is("gone"),
    events.Extended: _extended,
    events.Seen: _seen,
    events.StateChanged: _state,
}
"""What each event makes of a box: ``(box, at, event)`` to the box after it."""
