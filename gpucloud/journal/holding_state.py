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
from gpucloud.journal.records import Box, Holding, Intent, ResourceRow, Snapshot, Volume
from gpucloud.journal.usage import begin_resource, end_all, end_resource, reprice, resize, see_nodes
from gpucloud.resources import State


def begun(id: str, at: datetime, event: events.FirstOfBox) -> Holding:  # noqa: A002  (the field's own name)
    """A new box, volume or snapshot: planned, or found by its tags."""
    shared: dict[str, Any] = {
        "id": id,
        "name": event.name,
        "owner": event.owner,
        "op": event.op,
        "state": BoxState.PLANNED,
        "created_at": at,
        "expires_at": event.expires_at,
    }
    holding: Holding
    match event.kind:
        case Kind.BOX:
            holding = Box(**shared, run_id=event.run_id)
        case Kind.VOLUME:
            if event.facts.volume is None or event.facts.volume.keep_s is None:
                raise ValueError(f"for how long is volume {id} kept?")
            holding = Volume(**shared, keep_s=event.facts.volume.keep_s)
        case Kind.SNAPSHOT:
            holding = Snapshot(**shared)
    match event:
        case events.Planned():
            return _merged(replace(holding, lease=event.lease), at, event.facts)
        case events.Recovered():
            return _recovered(holding, at, event)
        case _:
            raise ValueError(f"{event.type!r} begins no {event.kind}")


def _recovered(holding: Holding, at: datetime, event: events.Recovered) -> Holding:
    born = event.created_at
    holding = replace(holding, state=event.state, created_at=born, started_at=born, seen_at=at)
    holding = replace(holding, resources=tuple(_row(holding, each, "made", at) for each in event.resources))
    holding = _merged(holding, at, event.facts)
    if not isinstance(holding, Box):  # the usage of machines begins with the nodes
        for resource in event.resources:
            holding = begin_resource(holding, resource, born)
    return holding


def _intended(holding: Holding, at: datetime, event: events.Intended) -> Holding:
    price = event.facts.price
    intent = Intent(
        id=event.intent,
        box=holding.id,
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
    if event.intent in {each.id for each in holding.intents}:
        raise ValueError(f"the attempt {event.intent} of {holding.kind} {holding.id} was meant already")
    holding = replace(holding, intents=(*holding.intents, intent))
    return _become(_merged(holding, at, event.facts), BoxState.PROVISIONING)


def _hashed(holding: Holding, at: datetime, event: events.Hashed) -> Holding:
    return _with_intent(holding, event.intent, request_hash=event.request_hash, status="open", at=at)


def _resolved(holding: Holding, at: datetime, event: events.Resolved) -> Holding:
    holding = _with_intent(holding, event.intent, status=event.status)
    if event.started_at:
        holding = replace(holding, started_at=event.started_at)
    for resource in event.resources:
        holding = _know(holding, at, resource, since=event.started_at or at)
    # The machines, from the cloud's answer.
    return _see(holding, at, event.facts) if event.facts.given else holding


def _with_intent(holding: Holding, intent: str, **changes: Any) -> Holding:
    changed = (replace(each, **changes) if each.id == intent else each for each in holding.intents)
    return replace(holding, intents=tuple(changed))


# --- resources


def _making(holding: Holding, at: datetime, event: events.Making) -> Holding:
    return replace(holding, resources=(*holding.resources, _row(holding, event.resource, "making", at)))


def _made(holding: Holding, at: datetime, event: events.Made) -> Holding:
    return _know(holding, at, event.resource, since=at)


def _row(holding: Holding, resource: NamedRef, state: str, at: datetime) -> ResourceRow:
    return ResourceRow(box=holding.id, ref=resource.ref, name=resource.name, state=state, at=at)


def _know(holding: Holding, at: datetime, resource: NamedRef, *, since: datetime) -> Holding:
    """The id of a resource is known: the resource was being created, or was known before."""
    known = next((each for each in holding.resources if each.ref == resource.ref), None)
    pending = _pending(holding, resource)
    is_back = known is not None and known.state in {"gone", "gone_once"}
    new = _row(holding, resource, "made", at)
    if known is not None:
        rows = list(holding.resources)
        if is_back or known.state == "making":
            rows[rows.index(known)] = replace(known, state="made", at=at)
        if pending is not None and pending.name == resource.name:  # it was about to be created, and was found
            rows.remove(pending)
    elif pending is not None:
        rows = [replace(new, name=each.name) if each is pending else each for each in holding.resources]
    else:
        rows = [*holding.resources, new]
    holding = replace(holding, resources=tuple(rows))
    return begin_resource(holding, resource, since) if known is None or is_back else holding


def _pending(holding: Holding, resource: NamedRef) -> ResourceRow | None:
    """What is being created in this place and of this kind: first what has the name."""
    place = replace(resource.ref, id="")
    pending = [each for each in holding.resources if each.ref == place and each.state == "making"]
    return min(pending, key=lambda each: each.name != resource.name, default=None)


def _resource_is(state: str) -> Callable[..., Holding]:
    def change(holding: Holding, at: datetime, event: events.OfResource) -> Holding:
        resource = event.resource
        holding = replace(
            holding,
            resources=tuple(
                replace(each, state=state, at=at) if _is_same(each, resource) else each
                for each in holding.resources
            ),
        )
        if state not in {"gone_once", "gone"}:
            return holding
        told = event.ended_at if isinstance(event, events.Gone) else None
        if isinstance(holding, Box):
            nodes = (
                replace(each, state=State.GONE) if each.instance_id == resource.ref.id else each
                for each in holding.nodes
            )
            holding = replace(holding, nodes=tuple(nodes))
        return end_resource(holding, resource, told or at)

    return change


def _is_same(row: ResourceRow, resource: NamedRef) -> bool:
    """Whether a row is of a resource: by its id, or by its name while it has none."""
    return row.ref == resource.ref and (bool(row.ref.id) or row.name == resource.name)


# --- what was seen, and the state


def _extended(holding: Holding, at: datetime, event: events.Extended) -> Holding:  # noqa: ARG001
    return replace(holding, expires_at=event.expires_at)


def _seen(holding: Holding, at: datetime, event: events.Seen) -> Holding:
    seen, known = event.facts.offer, holding.offer if isinstance(holding, Box) else None
    if seen is not None and known is not None and seen.instance_type != known.instance_type:
        holding = resize(holding, holding.seen_at or at)
    holding = _see(holding, at, event.facts)
    return holding if event.state is None else _become(holding, event.state)


def _state(holding: Holding, at: datetime, event: events.StateChanged) -> Holding:
    holding = _become(holding, event.state)
    if event.facts.given:  # an observation of the cloud or of the box itself
        holding = _see(holding, at, event.facts)
    return end_all(replace(holding, ended_at=at, lease=None), at) if event.state in OVER else holding


def _become(holding: Holding, state: BoxState) -> Holding:
    if not may_become(holding.state, state):
        raise ValueError(f"{holding.kind} {holding.id} cannot go from {holding.state} to {state}")
    return replace(holding, state=state)


def _see(holding: Holding, at: datetime, facts: Facts) -> Holding:
    return _merged(replace(holding, seen_at=at), at, facts)


def _merged(holding: Holding, at: datetime, news: Facts) -> Holding:
    given = news.given
    zone: str | None = given.pop("zone", None)  # set alone where only the cloud's answer has it
    if strange := given.keys() - type(holding).__dataclass_fields__.keys():
        raise ValueError(f"a {holding.kind} has no {', '.join(sorted(strange))}")
    holding = replace(holding, **given)
    if zone is not None and holding.place is not None:
        holding = replace(holding, place=replace(holding.place, zone=zone))
    if isinstance(holding, Box):
        if news.price is not None:
            holding = reprice(holding, news.price)
        if news.nodes is not None:
            holding = see_nodes(holding, news.nodes, at)
    return holding


EFFECTS: Mapping[type[events.JournalEvent], Callable[..., Holding]] = {
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
"""What each event makes of a holding: ``(holding, at, event)`` to the holding after it."""
