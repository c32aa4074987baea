"""The timeline of a box: what its events tell a person. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpucloud.journal import events
from gpucloud.journal.facts import Facts, Price
from gpucloud.journal.records import StoredEvent
from gpucloud.resources import rfc3339
from gpucloud_pricing.values import Money

if TYPE_CHECKING:
    from gpucloud.dashboard.documents import EntryDocument
    from gpucloud_pricing.documents import MoneyDocument


def timeline(stored: Iterable[StoredEvent]) -> list[EntryDocument]:
    """The events of a box that a person wants to know of, oldest first; what is said again is left out."""
    found: list[EntryDocument] = []
    said: set[str] = set()
    for each in stored:
        for what, values, price in _told(each.event):
            fact = f"{what} {values}"
            if what.startswith("timeline.seen.") and fact in said:
                continue
            if found and (found[-1]["what"], found[-1]["values"]) == (what, values):
                continue
            said.add(fact)
            found.append({"at": rfc3339(each.at), "what": what, "values": values, "price": price})
    return found


Told = tuple[str, dict[str, str], "MoneyDocument | None"]


def _told(event: events.JournalEvent) -> Iterator[Told]:
    """What an event tells, as keys and values of the page's texts."""
    match event:
        case events.Planned():
            yield "timeline.planned", {}, None
        case events.Recovered():
            yield "timeline.recovered", {}, None
        case events.Intended():
            yield _attempt(event)
        case events.Resolved(status="closed"):
            yield "timeline.closed", {}, None
        case events.Resolved(status="made"):
            yield "timeline.made", {"count": str(len(event.facts.nodes or ()))}, None
        case events.StateChanged() | events.Seen():
            yield from _facts_told(event.facts)
            if event.state is not None:
                yield f"state.{event.state}", {}, None
        case events.Extended():
            yield _extended(event)
        case events.DeleteAsked() | events.Gone():
            done = "gone" if isinstance(event, events.Gone) else "deleting"
            ref = event.resource.ref
            yield f"timeline.{done}", {"kind": str(ref.kind), "id": ref.id}, None
        case events.Taken(over=True):
            yield "timeline.taken", {"host": event.lease.host}, None
        case _:
            pass


def _attempt(event: events.Intended) -> Told:
    offer = event.facts.offer
    values = {"place": f"{event.cloud} {event.zone or event.region}"}
    if offer is not None:
        values |= {"type": offer.instance_type, "purchase": str(offer.purchase)}
    return "timeline.attempt", values, _money(event.facts.price)


def _extended(event: events.Extended) -> Told:
    if event.expires_at is None:
        return "timeline.unlimited", {}, None
    return "timeline.extended", {"until": rfc3339(event.expires_at)}, None


def _facts_told(facts: Facts) -> Iterator[Told]:
    if facts.ended_by is not None:
        yield f"timeline.seen.{facts.ended_by}", {}, None
    elif any(guard and guard.taken_back_at for guard in facts.guards or ()):
        yield "timeline.seen.notice", {}, None
    if facts.setup_error:
        yield "timeline.seen.setup", {"error": facts.setup_error}, None
    if facts.replaced:
        yield "timeline.seen.replaced", {"error": facts.replaced}, None
    for guard in facts.guards or ():
        for what, fault in sorted(guard.health.items()) if guard else ():
            yield "timeline.seen.fault", {"error": f"{what}: {fault}"}, None


def _money(price: Price | None) -> MoneyDocument | None:
    return Money(amount=price.amount, currency=price.currency).document() if price else None
