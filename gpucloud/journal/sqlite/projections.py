"""The effect of each event type on the tables: one function per type, in the transaction that appends it.

The events of runs are in :mod:`gpucloud.journal.sqlite.run_projections`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from gpucloud.journal import events
from gpucloud.journal.budgets import terms_text
from gpucloud.journal.facts import Facts, NamedRef, Node, Price, facts_text, plain, read_facts
from gpucloud.journal.kinds import Kind
from gpucloud.journal.lifecycle import OVER, BoxState, may_become
from gpucloud.journal.policy import rules_text
from gpucloud.journal.sqlite import run_projections
from gpucloud.resources import Ref, ResourceKind, State

BOXES, RUNS = HELD = ("boxes", "runs")
"""The tables of what has events, a lease and an epoch of its own. Ids are unique among all."""
SETTINGS = "budgets"
"""The table of budgets, which has the policy too: a row whose terms are its rules."""
NUMBERED = (*HELD, SETTINGS)
"""The tables of what has events of its own."""

PARTS: Mapping[str, str | None] = {
    "compute": None,
    "disk": "disk_gb_month",
    "address": "public_ip_hour",
    "snapshot": "snapshot_gb_month",
}
"""What is billed of a holding, and the list prices; compute has the price of the offer."""
MACHINE_PARTS = ("compute", "disk", "address")
STORED = frozenset({"disk", "snapshot"})
"""The parts that are billed by their size."""
MINUTE = timedelta(minutes=1)


def project(connection: sqlite3.Connection, box: str, number: int, at: str, event: events.Event) -> None:
    """Applies one event to the tables.

    Raises:
        ValueError: it cannot follow the previous events of its box.
        sqlite3.IntegrityError: the box exists already, or a living one has its name.
    """
    _PROJECT[type(event)](connection, box, at, event)
    table = SETTINGS if isinstance(event, events.OF_SETTINGS) else _table_of(connection, box)
    connection.execute(f"UPDATE {table} SET number = ? WHERE id = ?", (number, box))  # noqa: S608


def _table_of(connection: sqlite3.Connection, id: str) -> str:  # noqa: A002  (the field's own name)
    """The table of a box or a run. Journals of older versions, which are replayed, have no table of runs."""
    known = connection.execute("SELECT 1 FROM boxes WHERE id = ?", (id,)).fetchone()
    return BOXES if known else RUNS


def _planned(connection: sqlite3.Connection, box: str, at: str, event: events.Planned) -> None:
    lease = json.dumps(plain(event.lease))
    _add_box(connection, box, event, state=BoxState.PLANNED, created_at=at, lease=lease)


def _recovered(connection: sqlite3.Connection, box: str, at: str, event: events.Recovered) -> None:
    born = event.created_at.isoformat()
    _add_box(connection, box, event, state=event.state, created_at=born, started_at=born, seen_at=at)
    for resource in event.resources:
        _add_resource(connection, box, at, resource)
        if event.kind is not Kind.BOX:  # the usage of machines begins with the nodes
            _begin_usages(connection, box, resource, since=born)
    _set_nodes(connection, box, at, event.facts.nodes or ())


def _add_box(
    connection: sqlite3.Connection,
    box: str,
    event: events.FirstOfBox,
    *,
    state: BoxState,
    **values: str | None,
) -> None:
    connection.execute(
        "INSERT INTO boxes (id, name, owner, run_id, op, state, epoch, number, expires_at, facts, lease,"
        " created_at, started_at, seen_at)"
        " VALUES (:id, :name, :owner, :run_id, :op, :state, 0, 0, :expires_at, :facts, :lease,"
        " :created_at, :started_at, :seen_at)",
        {
            "id": box,
            **{name: getattr(event, name) for name in ("name", "owner", "run_id", "op")},
            "state": str(state),
            "expires_at": _text(event.expires_at),
            "facts": _stored(event.facts),
            "lease": None,
            "started_at": None,
            "seen_at": None,
            **values,
        },
    )
    if event.kind is not Kind.BOX:  # older tables, which are filled while they are migrated, lack the column
        connection.execute("UPDATE boxes SET kind = ? WHERE id = ?", (str(event.kind), box))


def _taken(connection: sqlite3.Connection, box: str, at: str, event: events.Taken) -> None:
    lease = json.dumps(plain(event.lease))
    if _table_of(connection, box) == RUNS:
        connection.execute("UPDATE runs SET epoch = epoch + 1, lease = ? WHERE id = ?", (lease, box))
        return
    connection.execute(
        "UPDATE boxes SET epoch = epoch + 1, lease = :lease,"
        " taken_over_at = coalesce(:taken_over_at, taken_over_at) WHERE id = :box",
        {"box": box, "lease": lease, "taken_over_at": at if event.over else None},
    )


def _released(connection: sqlite3.Connection, box: str, at: str, event: events.Released) -> None:  # noqa: ARG001
    table = _table_of(connection, box)
    connection.execute(f"UPDATE {table} SET lease = NULL WHERE id = ?", (box,))  # noqa: S608


def _intended(connection: sqlite3.Connection, box: str, at: str, event: events.Intended) -> None:
    price = event.facts.price
    connection.execute(
        "INSERT INTO intents (id, box, op, cloud, account, region, zone, token, name, status, at, price,"
        " currency, ceiling_usd)"
        " VALUES (:id, :box, :op, :cloud, :account, :region, :zone, :token, :name, 'planned', :at, :price,"
        " :currency, :ceiling_usd)",
        {
            "id": event.intent,
            "box": box,
            "at": at,
            **{
                name: getattr(event, name)
                for name in ("op", "cloud", "account", "region", "zone", "token", "name")
            },
            "price": price and plain(price.amount),
            "currency": price and price.currency,
            "ceiling_usd": plain(event.ceiling_usd),
        },
    )
    _merge_facts(connection, box, at, event.facts)
    _set_state(connection, box, BoxState.PROVISIONING)


def _hashed(connection: sqlite3.Connection, box: str, at: str, event: events.Hashed) -> None:  # noqa: ARG001
    connection.execute(
        "UPDATE intents SET request_hash = :hash, status = 'open', at = :at WHERE id = :intent",
        {"intent": event.intent, "hash": event.request_hash, "at": at},
    )


def _resolved(connection: sqlite3.Connection, box: str, at: str, event: events.Resolved) -> None:
    connection.execute("UPDATE intents SET status = ? WHERE id = ?", (event.status, event.intent))
    if event.started_at:
        connection.execute("UPDATE boxes SET started_at = ? WHERE id = ?", (_text(event.started_at), box))
    for resource in event.resources:
        _know(connection, box, at, resource, since=_text(event.started_at) or at)
    if event.facts.given:  # the machines, from the cloud's answer
        _see(connection, box, at, event.facts)


def _making(connection: sqlite3.Connection, box: str, at: str, event: events.Making) -> None:
    _add_resource(connection, box, at, event.resource, state="making")


def _made(connection: sqlite3.Connection, box: str, at: str, event: events.Made) -> None:
    _know(connection, box, at, event.resource, since=at)


def _know(connection: sqlite3.Connection, box: str, at: str, resource: NamedRef, *, since: str) -> None:
    """The id of a resource is known: the resource was being created, or was known before."""
    where = "box = :box AND cloud = :cloud AND account = :account AND region = :region AND kind = :kind"
    values = _columns(box, resource)
    known = connection.execute(
        f"SELECT n, state FROM resources WHERE {where} AND id = :id",  # noqa: S608
        values,
    ).fetchone()
    pending = connection.execute(
        f"SELECT n, name = :name AS same_name FROM resources WHERE {where} AND id = '' AND state = 'making'"  # noqa: S608
        " ORDER BY same_name DESC, n",
        values,
    ).fetchone()
    change = "UPDATE resources SET id = :id, state = 'made', at = :at WHERE n = :n"
    back = known is not None and known[1] in {"gone", "gone_once"}
    if known is not None:
        if back or known[1] == "making":
            connection.execute(change, {"id": resource.ref.id, "at": at, "n": known[0]})
        if pending is not None and pending[1]:  # it was about to be created, and was found
            connection.execute("DELETE FROM resources WHERE n = ?", (pending[0],))
    elif pending is not None:
        connection.execute(change, {"id": resource.ref.id, "at": at, "n": pending[0]})
    else:
        _add_resource(connection, box, at, resource)
    if known is None or back:
        _begin_usages(connection, box, resource, since=since)


def _begin_usages(connection: sqlite3.Connection, box: str, resource: NamedRef, *, since: str) -> None:
    for part in _parts_of(connection, box, resource):
        _begin_usage(connection, box, resource.ref.id, part, since=since)


def _parts_of(connection: sqlite3.Connection, box: str, resource: NamedRef) -> Collection[str]:
    """The parts of a resource with usage of their own: those of a machine, or what is stored by itself."""
    match resource.ref.kind:
        case ResourceKind.INSTANCE:
            return MACHINE_PARTS
        case ResourceKind.DISK:
            return ("disk",) if _facts(connection, box).volume is not None else ()
        case ResourceKind.SNAPSHOT | ResourceKind.IMAGE as kind:
            snapshot = _facts(connection, box).snapshot
            return ("snapshot",) if snapshot is not None and snapshot.billed is kind else ()
        case _:
            return ()


def _add_resource(
    connection: sqlite3.Connection, box: str, at: str, resource: NamedRef, *, state: str = "made"
) -> None:
    connection.execute(
        "INSERT INTO resources (box, cloud, account, region, kind, name, id, state, at)"
        " VALUES (:box, :cloud, :account, :region, :kind, :name, :id, :state, :at)",
        {**_columns(box, resource), "state": state, "at": at},
    )


def _columns(box: str, resource: NamedRef) -> dict[str, str]:
    ref: Ref = resource.ref
    return {
        "box": box,
        "cloud": ref.cloud,
        "account": ref.account,
        "region": ref.region,
        "kind": str(ref.kind),
        "id": ref.id,
        "name": resource.name,
    }


def _set_resource_state(state: str) -> Callable[..., None]:
    def project_state(connection: sqlite3.Connection, box: str, at: str, event: Any) -> None:
        resource: NamedRef = event.resource
        connection.execute(
            "UPDATE resources SET state = :state, at = :at WHERE box = :box AND cloud = :cloud"
            " AND region = :region AND kind = :kind AND id = :id AND (id != '' OR name = :name)",
            {**_columns(box, resource), "state": state, "at": at},
        )
        if state in {"gone_once", "gone"}:
            told = event.ended_at if isinstance(event, events.Gone) else None
            for part in _parts_of(connection, box, resource):
                _end_usage(connection, box, resource.ref.id, part, _text(told) or at)
            connection.execute(
                "UPDATE nodes SET state = ? WHERE box = ? AND instance_id = ?",
                (str(State.GONE), box, resource.ref.id),
            )

    return project_state


def _extended(connection: sqlite3.Connection, box: str, at: str, event: events.Extended) -> None:  # noqa: ARG001
    connection.execute("UPDATE boxes SET expires_at = ? WHERE id = ?", (_text(event.expires_at), box))


def _seen(connection: sqlite3.Connection, box: str, at: str, event: events.Seen) -> None:
    _see(connection, box, at, event.facts)
    if event.state is not None:
        _set_state(connection, box, event.state)


def _state(connection: sqlite3.Connection, box: str, at: str, event: events.StateChanged) -> None:
    _set_state(connection, box, event.state)
    if event.facts.given:  # an observation of the cloud or of the box itself
        _see(connection, box, at, event.facts)
    if event.state in OVER:
        connection.execute("UPDATE boxes SET ended_at = ?, lease = NULL WHERE id = ?", (at, box))
        connection.execute("UPDATE usage SET ended_at = ? WHERE box = ? AND ended_at IS NULL", (at, box))


def _set_state(connection: sqlite3.Connection, box: str, state: BoxState) -> None:
    old = _of_box(connection, box, "state")
    if not may_become(BoxState(old), state):
        raise ValueError(f"box {box} cannot go from {old} to {state}")
    connection.execute("UPDATE boxes SET state = ? WHERE id = ?", (str(state), box))


def _see(connection: sqlite3.Connection, box: str, at: str, facts: Facts) -> None:
    connection.execute("UPDATE boxes SET seen_at = ? WHERE id = ?", (at, box))
    _merge_facts(connection, box, at, facts)


def _merge_facts(connection: sqlite3.Connection, box: str, at: str, news: Facts) -> None:
    if not news.given:
        return
    text = _stored(_facts(connection, box).updated(news))
    connection.execute("UPDATE boxes SET facts = ? WHERE id = ?", (text, box))
    if news.price is not None:
        connection.execute(
            "UPDATE usage SET price = :price, currency = :currency, as_of = :as_of, source = :source"
            " WHERE box = :box AND part = 'compute' AND ended_at IS NULL",
            {"box": box, **_price_columns(news.price)},
        )
    if news.nodes is not None:
        _set_nodes(connection, box, at, news.nodes)


def _facts(connection: sqlite3.Connection, box: str) -> Facts:
    return read_facts(json.loads(_of_box(connection, box, "facts")))


def _of_box(connection: sqlite3.Connection, box: str, column: Literal["facts", "state"]) -> str:
    """What the table has of a box.

    Raises:
        ValueError: there is no such box: its first event is missing.
    """
    query = f"SELECT {column} FROM boxes WHERE id = ?"  # noqa: S608
    row = connection.execute(query, (box,)).fetchone()
    if row is None:
        raise ValueError(f"there is no box {box}")
    return str(row[0])


def _stored(facts: Facts) -> str:
    """The facts in the table of boxes: nodes have a table of their own."""
    return facts_text(facts.without_nodes())


# --- nodes, and their usage


def _set_nodes(connection: sqlite3.Connection, box: str, at: str, nodes: Iterable[Node]) -> None:
    connection.execute("DELETE FROM nodes WHERE box = ?", (box,))
    for number, node in enumerate(nodes):
        connection.execute(
            "INSERT INTO nodes (box, number, instance_id, state, public_ip, private_ip, billed, started_at,"
            " ended_at, taken_back) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                box,
                number,
                node.instance_id,
                str(node.state),
                node.public_ip,
                node.private_ip,
                node.billed,
                _text(node.started_at),
                _text(node.ended_at),
                node.taken_back,
            ),
        )
        _see_usage(connection, box, at, node)


def _see_usage(connection: sqlite3.Connection, box: str, at: str, node: Node) -> None:
    """Starts and ends the usage of a machine by its state in the cloud.

    A stopped machine whose compute is not billed keeps its disk; an address only if its cloud shows one.
    """
    born, deadline = connection.execute(
        "SELECT started_at, expires_at FROM boxes WHERE id = ?", (box,)
    ).fetchone()
    running = _is_open(connection, box, node.instance_id, "compute")
    for part in MACHINE_PARTS:
        if _is_billed(node, part):
            since = _text(node.started_at) or born or at
            _begin_usage(connection, box, node.instance_id, part, since=since, again=at)
        elif running or part == "compute":
            _end_usage(connection, box, node.instance_id, part, _text(node.ended_at) or at)
        else:  # it was stopped before: what was left of it ended at its deadline at the latest
            end = min(filter(None, (at, deadline)), key=datetime.fromisoformat)
            _end_usage(connection, box, node.instance_id, part, end)


def _is_billed(node: Node, part: str) -> bool:
    """Whether a part of a machine is billed."""
    if part == "compute":
        return node.billed
    if part == "address" and node.state is State.STOPPED:
        return node.public_ip is not None
    return node.state is not State.GONE


def _is_open(connection: sqlite3.Connection, box: str, resource: str, part: str) -> bool:
    """Whether a part of a machine counts as billed now."""
    query = "SELECT 1 FROM usage WHERE box = ? AND resource = ? AND part = ? AND ended_at IS NULL"
    return connection.execute(query, (box, resource, part)).fetchone() is not None


def _begin_usage(
    connection: sqlite3.Connection,
    box: str,
    resource: str,
    part: str,
    *,
    since: str,
    again: str | None = None,
) -> None:
    """Starts an interval unless one is open.

    Args:
        connection: in the transaction of the event.
        box: the box.
        resource: the machine's id.
        part: the part of the machine.
        since: the start of a first interval; an existing first interval with a later start is corrected.
        again: the start of any further interval, unless ``since`` is after the previous one.
    """
    this = {"box": box, "resource": resource, "part": part}
    rows = connection.execute(
        "SELECT n, started_at, ended_at FROM usage"
        " WHERE box = :box AND resource = :resource AND part = :part ORDER BY n",
        this,
    ).fetchall()
    if not rows or rows[-1][2] is None:
        since = _nearer(connection, box, since)
    if rows and rows[-1][2] is None:
        if len(rows) == 1 and datetime.fromisoformat(since) < datetime.fromisoformat(rows[0][1]):
            connection.execute("UPDATE usage SET started_at = ? WHERE n = ?", (since, rows[0][0]))
        return
    if rows and datetime.fromisoformat(since) <= datetime.fromisoformat(rows[-1][2]):
        since = again or since
    facts = _facts(connection, box)
    tariff = PARTS[part]
    price = facts.price if tariff is None else (facts.listed or {}).get(tariff)
    connection.execute(
        "INSERT INTO usage (box, resource, part, started_at, price, currency, as_of, source, gib,"
        " paid_before)"
        " VALUES (:box, :resource, :part, :start, :price, :currency, :as_of, :source, :gib, :paid_before)",
        {
            **this,
            "start": since,
            **_price_columns(price),
            "gib": facts.wanted.disk_gib if part in STORED and facts.wanted else None,
            "paid_before": part == "compute"
            and facts.offer is not None
            and facts.offer.purchase.kind.paid_already,
        },
    )


def _nearer(connection: sqlite3.Connection, box: str, told: str) -> str:
    """When something was made, as its cloud tells it; in the whole minute of its request, when that was.

    ECS tells whole minutes and bills by the second (``CreationTime`` of DescribeInstances).
    """
    shown = datetime.fromisoformat(told)
    if shown.second or shown.microsecond:
        return told
    query = "SELECT at FROM intents WHERE box = ? AND status = 'made'"
    asked = [at for (at,) in connection.execute(query, (box,))]
    in_it = [at for at in asked if shown <= datetime.fromisoformat(at) < shown + MINUTE]
    return max(in_it, key=datetime.fromisoformat, default=told)


def _end_usage(connection: sqlite3.Connection, box: str, resource: str, part: str, end: str) -> None:
    connection.execute(
        "UPDATE usage SET ended_at = ? WHERE box = ? AND resource = ? AND part = ? AND ended_at IS NULL",
        (end, box, resource, part),
    )


def _price_columns(price: Price | None) -> dict[str, str | None]:
    names = ("price", "currency", "as_of", "source")
    if price is None:
        return dict.fromkeys(names)
    return dict(
        zip(names, map(plain, (price.amount, price.currency, price.as_of, price.source)), strict=True)
    )


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _budget_set(connection: sqlite3.Connection, budget: str, at: str, event: events.BudgetSet) -> None:
    _set(connection, budget, at, name=event.name, by=event.by, terms=terms_text(event.terms))


def _policy_applied(
    connection: sqlite3.Connection, policy: str, at: str, event: events.PolicyApplied
) -> None:
    _set(connection, policy, at, name="", by=event.by, terms=rules_text(event.rules))


def _set(connection: sqlite3.Connection, id: str, at: str, **values: str) -> None:  # noqa: A002
    connection.execute(
        "INSERT INTO budgets (id, name, epoch, number, by, at, terms)"
        " VALUES (:id, :name, 0, 0, :by, :at, :terms)"
        " ON CONFLICT (id) DO UPDATE SET by = excluded.by, at = excluded.at, terms = excluded.terms",
        {"id": id, "at": at, **values},
    )


def _budget_removed(
    connection: sqlite3.Connection, budget: str, at: str, event: events.BudgetRemoved
) -> None:
    connection.execute(
        "UPDATE budgets SET by = :by, at = :at, terms = NULL WHERE id = :id",
        {"id": budget, "by": event.by, "at": at},
    )


_PROJECT: Mapping[type[events.Event], Callable[..., None]] = {
    events.Planned: _planned,
    events.Recovered: _recovered,
    events.Taken: _taken,
    events.Released: _released,
    events.Intended: _intended,
    events.Hashed: _hashed,
    events.Resolved: _resolved,
    events.Making: _making,
    events.Made: _made,
    events.DeleteAsked: _set_resource_state("delete_asked"),
    events.GoneOnce: _set_resource_state("gone_once"),
    events.Gone: _set_resource_state("gone"),
    events.Extended: _extended,
    events.Seen: _seen,
    events.StateChanged: _state,
    events.RunBegun: run_projections.begun,
    events.RunAttempted: run_projections.attempted,
    events.RunDetached: run_projections.detached,
    events.RunLabelled: run_projections.labelled,
    events.RunLost: run_projections.lost,
    events.RunFetching: run_projections.fetching,
    events.RunNotFetched: run_projections.not_fetched,
    events.RunEnded: run_projections.ended,
    events.BudgetSet: _budget_set,
    events.BudgetRemoved: _budget_removed,
    events.PolicyApplied: _policy_applied,
}
