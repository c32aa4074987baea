"""Takes boxes down until the cloud itself says that nothing billable is left.

One pass looks at everything that the journal holds of a box, asks
:func:`gpucloud.journal.lifecycle.reconcile` what to do about it, and does it. Deletions are idempotent and
every observation is written, so that a pass may be cut off anywhere and repeated by another process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Any

from gpucloud.clouds.audit import about
from gpucloud.clouds.cloud import Cloud
from gpucloud.clouds.provider import DeletionGraph
from gpucloud.errors import (
    RULES,
    CloudError,
    ErrorClass,
    GpucloudError,
    InterruptedBySignal,
    Next,
    OwedError,
)
from gpucloud.journal.errors import JournalError, StaleWriterError
from gpucloud.journal.events import (
    DeleteAsked,
    Gone,
    GoneOnce,
    Made,
    OfResource,
    Resolved,
    StateChanged,
    named,
)
from gpucloud.journal.facts import Facts, node_of
from gpucloud.journal.lifecycle import (
    CONSISTENCY_WINDOW,
    OVER,
    Action,
    BoxState,
    Owed,
    Phase,
    Seen,
    reconcile,
    seen_state,
)
from gpucloud.journal.records import Box, Intent, ResourceRow
from gpucloud.resources import Machine, Ref, Resource, ResourceKind, Search, SearchResult, State
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import CALL_TIMEOUT_S, Call, TimedOutError

TAKE_DOWN_S = 300.0
TIDY_S = 15.0
FOLLOW_EVERY_S = 0.2


def take_down(
    context: Context,
    box: Box,
    *,
    budget_s: float = math.inf,
    once: bool = False,
    ends_as: BoxState = BoxState.DELETED,
    when_unbilled: Callable[[], object] = lambda: None,
) -> Box:
    """Ends a box that this process holds, and waits until the cloud confirms it.

    Where another process takes the box over to end it, its end is waited for; if that process dies, this one
    goes on.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: the box, its lease taken.
        budget_s: how long to wait for confirmation.
        once: not to wait for it at all: for who comes back.
        ends_as: ``deleted``, or ``failed`` for a launch that never became ready.
        when_unbilled: called once nothing billable is left, before what costs nothing is waited for.

    Returns:
        The box in its final state.

    Raises:
        OwedError: something may still be billed; the journal keeps it and the next command goes on.
        StaleWriterError: another process has taken the box over, and does not end it.
    """
    with context.tasks.within(budget_s):
        while True:
            try:
                box = context.journal.held(box)
                if box.state in OVER:
                    return box
                return _take_down(context, box, once=once, ends_as=ends_as, when_unbilled=when_unbilled)
            except StaleWriterError:
                if once:
                    raise
                box = _taken_back(context, box)


def _taken_back(context: Context, box: Box) -> Box:
    """A box that another process has taken over to end it: once it is over, or is ours again.

    Raises:
        OwedError: neither within the tasks's budget.
        StaleWriterError: the other process does not end it.
    """
    context.tell("down", f"another process is ending {box.name!r}; waiting for it")
    while True:
        now = context.journal.box(box.id)
        if now.state in OVER:
            return now
        if now.state is not BoxState.DELETING:
            context.journal.held(box)
        taken = context.take(box)
        if taken is not None:
            return taken
        if not context.tasks.left_s:
            raise owed_error(box, owed(context, box), None)
        context.tasks.pause(FOLLOW_EVERY_S)


def _take_down(
    context: Context, box: Box, *, once: bool, ends_as: BoxState, when_unbilled: Callable[[], object]
) -> Box:
    if box.state is not BoxState.DELETING:
        _write_state(context, box, BoxState.DELETING)
    _until_gone(context, box, lambda: _pass(context, box), once=once)
    if not once:
        when_unbilled()
        _tidy(context, box)
    _write_state(context, box, ends_as)
    return context.journal.held(box)


def _pass(context: Context, box: Box) -> tuple[list[Owed], GpucloudError | None]:
    trouble = settle_box(context, box)
    return owed(context, box), trouble


def _until_gone(
    context: Context,
    box: Box,
    end: Callable[[], tuple[list[Owed], GpucloudError | None]],
    *,
    once: bool = False,
) -> None:
    """Goes on to end something until nothing of it is billed. The tasks knows for how long.

    Args:
        context: clouds, journal, clock and progress of this call.
        box: whose it is.
        end: one pass: gives what may still be billed, and the last trouble that was met.
        once: whether one pass has to do.

    Raises:
        OwedError: something may still be billed at the end of the budget, or waiting would change nothing.
    """
    pause_s = 0.05
    while True:
        left, trouble = end()
        if not left:
            return
        if once or not context.tasks.left_s or _is_final(trouble):
            raise owed_error(box, left, trouble)
        context.tasks.pause(pause_s)
        pause_s = min(pause_s * 1.5, 5.0)


def end_unrecorded(context: Context, box: Box, *, budget_s: float) -> None:
    """Ends everything that carries a box's tag where the journal cannot be written: above all on a full disk.

    The journal is not told. Whatever looks later finds things that are gone.

    Raises:
        OwedError: something may still be billed.
        JournalError: not even where the box is can be read.
    """
    intents = context.journal.intents(box.id)
    places = sorted({(intent.cloud, intent.account, intent.region) for intent in intents})
    # A call whose outcome the journal was not told may have made what lists do not show yet.
    still_open = {(each.cloud, each.account, each.region) for each in intents if each.status == "open"}

    def end() -> tuple[list[Owed], GpucloudError | None]:
        left: list[Owed] = []
        trouble: GpucloudError | None = None
        for number, place in enumerate(places):
            with context.tasks.within(context.tasks.left_s / (len(places) - number)):
                found, failed = _end_in(context, box, place)
            if found:
                still_open.discard(place)
            trouble = failed or trouble
            if found != [] or place in still_open:
                left += _owed_in(box, place, found)
        return left, trouble

    with context.tasks.within(budget_s):
        _until_gone(context, box, end)


def _owed_in(box: Box, place: tuple[str, str, str], left: Sequence[Resource] | None) -> list[Owed]:
    """What may still be billed in a place of which the journal tells nothing."""
    cloud, account, region = place
    unknown = Ref(cloud=cloud, account=account, region=region, kind=ResourceKind.INSTANCE, id="")
    return owed_refs(box, [resource.ref for resource in left or ()] or [unknown])


def owed_refs(box: Box, refs: Sequence[Ref]) -> list[Owed]:
    """Things of a box that may still be billed, and of which the journal was not told."""
    return [
        Owed(ref=ref, name=box.name, price_per_hour=box.price_per_hour, currency=box.currency) for ref in refs
    ]


def _end_in(
    context: Context, box: Box, place: tuple[str, str, str]
) -> tuple[list[Resource] | None, GpucloudError | None]:
    """Asks to delete what is found of a box; what may still be billed, or why that is not known."""
    name, account, region = place
    try:
        cloud = _same_account(context, name, account)
        return _end_found(context, cloud, Search(box=box.id, regions=(region,))), None
    except TimedOutError as error:
        return None, GpucloudError(f"{name} {region}: {error}")
    except GpucloudError as error:
        return None, error


def _end_found(context: Context, cloud: Cloud, search: Search) -> list[Resource]:
    """Asks to delete what is found; gives what may still be billed of it."""
    found = context.tasks.run(partial(cloud.find, search), CALL_TIMEOUT_S)
    if found.unread:
        raise GpucloudError(f"{cloud.name} {found.unread[0].region}: {found.unread[0].error}")
    living = [resource for resource in found.resources if resource.state is not State.GONE]
    refs = [resource.ref for resource in living]
    _ask_to_delete(context, cloud, [ref for ref in refs if not _is_held(cloud.deletion, ref, refs, refs)])
    return [resource for resource in living if resource.ref.kind.billable]


def _tidy(context: Context, box: Box) -> None:
    """Goes on with what costs nothing, for a while: networks and groups count against quotas.

    What is left after that is looked at again by the next changing command.
    """
    pause_s = 0.02
    with context.tasks.within(TIDY_S):
        while context.tasks.signum is None and context.tasks.left_s:
            if all(row.state == "gone_once" for row in context.journal.resources(box.id)):
                return
            if _is_final(settle_box(context, box)):
                return
            context.tasks.pause(pause_s)
            pause_s = min(pause_s * 1.5, 2.0)


def _is_final(trouble: GpucloudError | None) -> bool:
    """Whether waiting changes nothing: the cloud will say the same again until somebody mends something."""
    if not isinstance(trouble, CloudError):
        return False
    return RULES[ErrorClass(trouble.error_class)].next in {Next.LEAVE_CLOUD, Next.STOP}


def end_machines(context: Context, box: Box, *, budget_s: float) -> None:
    """Ends a box's machines and what ends with them, and waits until they are gone; the box goes on.

    Raises:
        OwedError: that could not be confirmed.
    """
    end_resources(
        context, box, lambda ref: ref.kind.billable or ref.kind is ResourceKind.NIC, budget_s=budget_s
    )


def end_resources(context: Context, box: Box, chosen: Callable[[Ref], bool], *, budget_s: float) -> None:
    """Ends some of the things that the journal holds of a box, and waits until they are gone; it goes on.

    Raises:
        OwedError: that could not be confirmed of something billable.
    """

    def end() -> tuple[list[Owed], GpucloudError | None]:
        trouble = settle_box(context, box, chosen)
        return [item for item in owed(context, box) if not item.ref.id or chosen(item.ref)], trouble

    with context.tasks.within(budget_s):
        _until_gone(context, box, end)


def owed(context: Context, box: Box) -> list[Owed]:
    """What of a box may still be billed: billable things, and create calls whose outcome is not known."""
    left: list[Owed] = []
    for row in context.journal.resources(box.id):
        if row.ref.kind.billable and row.state != "gone_once":
            instance = row.ref.kind is ResourceKind.INSTANCE
            left.append(
                Owed(
                    ref=row.ref,
                    name=row.name,
                    price_per_hour=box.price_per_hour if instance else None,
                    currency=box.currency,
                )
            )
    for intent in context.journal.intents(box.id, unresolved=True):
        if intent.status == "open":
            ref = Ref(
                cloud=intent.cloud,
                account=intent.account,
                region=intent.region,
                kind=ResourceKind.INSTANCE,
                id="",
            )
            name = f"the instance of {intent.token}, if it was created"
            left.append(Owed(ref=ref, name=name, price_per_hour=box.price_per_hour, currency=box.currency))
    return left


def owed_error(box: Box, left: Sequence[Owed], cause: GpucloudError | None) -> OwedError:
    """The error that says what is left, what the cloud said, and the command that ends it."""
    said = f"; {cause.message}" if cause else ""
    names = ", ".join(f"{item.ref.kind} {item.ref.id or item.name}" for item in left)
    error = OwedError(
        f"box {box.name!r} may still be billed: {names}{said}",
        hint="repeat the command below until it reports that nothing is left",
        left=[dict(item.as_dict()) for item in left],
        owed_command=f"gpucloud down {box.name} --yes",
    )
    if isinstance(cause, CloudError):
        error.cloud, error.code, error.request_id = cause.cloud, cause.code, cause.request_id
    return error


def settle_box(
    context: Context, box: Box, chosen: Callable[[Ref], bool] | None = None
) -> GpucloudError | None:
    """One pass over everything that a box still has, or over the things that are chosen.

    Returns:
        The last trouble that was met, if any.
    """
    with about(box=box.id):
        return _settle(context, box, chosen)


def _settle(context: Context, box: Box, chosen: Callable[[Ref], bool] | None) -> GpucloudError | None:
    trouble: GpucloudError | None = None
    rows = [row for row in context.journal.resources(box.id) if chosen is None or chosen(row.ref)]
    intents = context.journal.intents(box.id, unresolved=True) if chosen is None else []
    places = {(i.cloud, i.account, i.region) for i in intents}
    places |= {(r.ref.cloud, r.ref.account, r.ref.region) for r in rows}
    for number, place in enumerate(sorted(places)):
        try:  # a place that does not answer keeps none of the others waiting
            with context.tasks.within(context.tasks.left_s / (len(places) - number)):
                trouble = _settle_place(context, box, place, rows, intents, chosen=chosen) or trouble
        except (JournalError, StaleWriterError):
            raise  # nothing more can be written down: to try again would change nothing
        except TimedOutError as error:
            trouble = GpucloudError(f"{place[0]} {place[2]}: {error}")
        except GpucloudError as error:
            trouble = error
    return trouble


def _settle_place(
    context: Context,
    box: Box,
    place: tuple[str, str, str],
    rows: Sequence[ResourceRow],
    intents: Sequence[Intent],
    *,
    chosen: Callable[[Ref], bool] | None,
) -> GpucloudError | None:
    """The pass over what a box has in one place: cloud, account, region."""
    cloud_name, account, region = place
    cloud = _same_account(context, cloud_name, account)
    mine = [row for row in rows if (row.ref.cloud, row.ref.region) == (cloud_name, region)]
    open_here = [i for i in intents if (i.cloud, i.region) == (cloud_name, region)]
    if open_here or any(row.state == "making" for row in mine):
        search = Search(box=box.id, regions=(region,))
        found = context.tasks.run(partial(cloud.find, search), CALL_TIMEOUT_S)
        _resolve_intents(context, box, cloud, open_here, found)
        _resolve_makings(context, box, mine, found)
        mine = [
            row
            for row in context.journal.resources(box.id)
            if (row.ref.cloud, row.ref.region) == (cloud_name, region) and (chosen is None or chosen(row.ref))
        ]
    refused = _delete_what_is_free(context, box, cloud, mine)
    if refused is not None and chosen is None:
        _note_unknown(context, cloud, box, region)
    return refused


def _same_account(context: Context, name: str, account: str) -> Cloud:
    cloud = context.clouds.usable(name)
    now = context.tasks.run(cloud.account, CALL_TIMEOUT_S)
    if now != account:
        raise CloudError(
            f"{name}: the box belongs to account {account}, but the credentials are for {now}",
            error_class=ErrorClass.AUTH,
            cloud=name,
            hint=f"use the credentials of account {account}",
        )
    return cloud


def _resolve_intents(
    context: Context, box: Box, cloud: Cloud, intents: Sequence[Intent], found: SearchResult
) -> None:
    """Writes down what create calls without an answer turn out to have made, or that they made nothing."""
    for intent in intents:
        machines = _machines_of(context, cloud, intent, found)
        seen = Seen.UNREADABLE if found.unread else Seen.ABSENT
        if machines:
            ended = all(machine.state is State.GONE for machine in machines)
            seen = Seen.TERMINAL if ended else Seen.THERE
        match reconcile(Phase.CREATE_OPEN, seen, age=_unanswered_for(context, box, intent.at)):
            case Action.ADOPT:
                adopt(context, box, intent.id, machines, name=intent.name)
            case Action.CLOSE:
                context.journal.write(box, Resolved(intent=intent.id, status="closed"))
            case _:
                continue


def _unanswered_for(context: Context, box: Box, asked_at: datetime) -> timedelta:
    """How long ago a call without an answer can have left at the latest.

    The holder from which the box was taken may have been paused just before its call, and have gone on after.
    """
    return context.clock() - max(asked_at, box.taken_over_at or asked_at)


def _note_unknown(context: Context, cloud: Cloud, box: Box, region: str) -> None:
    """Writes down what of a box is there and the journal does not have: it may be what holds the rest.

    A box that was taken in from a list that lagged has such things. Where it is a second machine that holds
    the rest, nothing is written down: that, and what belongs to it, is not ours to end.
    """
    found = context.tasks.run(partial(cloud.find, Search(box=box.id, regions=(region,))), CALL_TIMEOUT_S)
    if any(is_second_machine(box, resource) for resource in found.resources):
        return
    known = {row.ref for row in context.journal.resources(box.id)}
    for resource in found.resources:
        if resource.state is not State.GONE and resource.ref not in known:
            context.journal.write(box, Made(resource=named(resource.ref)))


def is_second_machine(box: Box, resource: Resource) -> bool:
    """Whether a machine carries the tags of a box that has its nodes, and is none of them.

    Somebody has launched "more like this" in the cloud's console, for example. What the journal had lost and
    found again may have nodes that were not shown yet: those were made with the others.
    """
    nodes = {node.instance_id for node in box.nodes}
    if not isinstance(resource, Machine) or not nodes or resource.ref.id in nodes:
        return False
    if box.recovered and resource.created_at and box.started_at:
        return abs(resource.created_at - box.started_at) >= CONSISTENCY_WINDOW
    return True


def _resolve_makings(context: Context, box: Box, rows: Sequence[ResourceRow], found: SearchResult) -> None:
    """Writes down the ids of things whose making was cut off, or that they were never made."""
    for row in [row for row in rows if row.state == "making"]:
        there = [resource for resource in found.resources if resource.ref.kind is row.ref.kind]
        for resource in there:
            context.journal.write(box, Made(resource=named(resource.ref, row.name)))
        seen = Seen.UNREADABLE if found.unread else Seen.ABSENT
        age = _unanswered_for(context, box, row.at)
        if not there and reconcile(Phase.CREATE_OPEN, seen, age=age) is Action.CLOSE:
            _note(context, box, Gone, row)


def _machines_of(context: Context, cloud: Cloud, intent: Intent, found: SearchResult) -> list[Machine]:
    of_intent = Search(op=intent.op)
    machines = [t for t in found.resources if isinstance(t, Machine) and of_intent.admits(t.tags)]
    machines = [m for m in machines if m.zone == intent.zone or not intent.zone]
    if machines:
        return machines
    search = Search(token=intent.token, regions=(intent.region,))
    by_token = context.tasks.run(lambda: cloud.find(search), CALL_TIMEOUT_S)
    return [resource for resource in by_token.resources if isinstance(resource, Machine)]


def adopt(context: Context, box: Box, intent: str, machines: Sequence[Machine], *, name: str) -> None:
    """Writes down what a create call made: ids first, in one transaction, before any waiting.

    Raises:
        StaleWriterError: the box was taken over; whoever has it will not know of these machines for a while.
    """
    started = [machine.created_at for machine in machines if machine.created_at]
    resolved = Resolved(
        intent=intent,
        status="made",
        started_at=min(started) if started else context.clock(),
        resources=tuple(named(ref, name) for machine in machines for ref in (machine.ref, *machine.parts)),
        facts=Facts(nodes=tuple(map(node_of, machines)), zone=machines[0].zone or None),
    )
    context.journal.write(box, resolved)


def _delete_what_is_free(
    context: Context, box: Box, cloud: Cloud, rows: Sequence[ResourceRow]
) -> GpucloudError | None:
    """Brings one region's things a step nearer to their end: at the same time, as far as none holds another.

    Returns:
        The last trouble that was met, if any.
    """
    graph = cloud.deletion
    place = {kind: number for number, kind in enumerate(graph.order)}
    newest_first = list(reversed(rows))
    newest_first.sort(key=lambda row: place.get(row.ref.kind, len(place)))
    left = {row.ref: row for row in newest_first if row.ref.id}
    tried: set[Ref] = set()
    refused: set[Ref] = set()
    trouble: GpucloudError | None = None
    while True:
        # What is held is looked at where its deletion was asked for: mostly it goes with what holds it.
        due = [
            row
            for row in left.values()
            if row.ref not in tried and (row.state != "made" or not _is_held(graph, row.ref, left, refused))
        ]
        if not due:
            return trouble
        tried.update(row.ref for row in due)
        again: list[Ref] = []
        calls = context.tasks.run_all([_step(context, cloud, row) for row in due])
        for row, call in zip(due, calls, strict=True):
            try:
                answer: Resource | None = _answer(context, cloud, row.ref, call)
            except InterruptedBySignal:
                raise
            except GpucloudError as error:
                trouble = error
                refused.add(row.ref)
                continue
            if row.state == "made":
                _note_asked(context, box, cloud, row, rows)
            elif not _is_held(graph, row.ref, left, refused):  # else it may be on its way to what holds it
                match _learned(context, box, row, answer):
                    case Action.CLOSE | Action.LOOK_AGAIN:
                        del left[row.ref]
                    case Action.DELETE:
                        again.append(row.ref)
                    case _:
                        pass
        trouble = _ask_to_delete(context, cloud, again) or trouble


def _is_held(graph: DeletionGraph, ref: Ref, there: Iterable[Ref], refused: Collection[Ref]) -> bool:
    """Whether another thing holds on to this one; of its own kind, a newer one that was not refused.

    Args:
        graph: which kinds hold on to which.
        ref: the thing.
        there: all that are there, newest first.
        refused: those of which the deletion was refused just now.
    """
    there = list(there)
    newer = takewhile(lambda other: other != ref, there) if graph.holds_itself(ref.kind) else ()
    return any(other.kind is ref.kind and other not in refused for other in newer) or any(
        other.kind in graph.holders(ref.kind) for other in there
    )


def _answer(context: Context, cloud: Cloud, ref: Ref, call: Call) -> Any:
    """What a call gave that was waited for."""
    try:
        return context.tasks.wait(call, 0.0)
    except TimedOutError as error:
        raise GpucloudError(f"{cloud.name} {ref.region}: {error}") from error


def _ask_to_delete(context: Context, cloud: Cloud, refs: Collection[Ref]) -> GpucloudError | None:
    """Asks once for the end of several things, at the same time; the last refusal, if any."""
    trouble: GpucloudError | None = None
    deletions = [partial(cloud.delete, ref, once=True) for ref in refs]
    for ref, call in zip(refs, context.tasks.run_all(deletions) if refs else (), strict=True):
        try:
            _answer(context, cloud, ref, call)
        except InterruptedBySignal:
            raise
        except GpucloudError as error:
            trouble = error
    return trouble


def _step(context: Context, cloud: Cloud, row: ResourceRow) -> Callable[[], Resource | None]:
    """The call that brings one thing a step nearer to its end."""
    if row.state == "made":
        # Asking to delete is safe to repeat and is the answer to anything that is there: no look first.
        return partial(cloud.delete, row.ref, once=not row.ref.kind.billable)
    if _is_gone_for_now(context, row):
        return lambda: None
    return partial(cloud.get, row.ref)


def _is_gone_for_now(context: Context, row: ResourceRow) -> bool:
    """Whether a thing was seen to be gone so lately that a second look would prove nothing."""
    return row.state == "gone_once" and context.clock() - row.at < CONSISTENCY_WINDOW


def _note_asked(
    context: Context, box: Box, cloud: Cloud, row: ResourceRow, rows: Sequence[ResourceRow]
) -> None:
    """Writes down that a thing is asked to end, and with it what ends along."""
    _note(context, box, DeleteAsked, row)
    along = cloud.deletion.takes_along.get(row.ref.kind, ())
    for other in rows:
        if other.ref.kind in along and other.state == "made":
            _note(context, box, DeleteAsked, other)


def _learned(context: Context, box: Box, row: ResourceRow, answer: Resource | None) -> Action:
    """Writes down what a look tells, and gives what there is to do."""
    if _is_gone_for_now(context, row):
        return Action.LOOK_AGAIN
    seen = Seen.ABSENT if answer is None else seen_state(answer.state)
    phase = Phase.GONE_ONCE if row.state == "gone_once" else Phase.DELETE_ASKED
    action = reconcile(phase, seen, age=context.clock() - row.at)
    if action is Action.CLOSE:
        _note(context, box, Gone, row)
    if action is Action.LOOK_AGAIN:
        _note(context, box, GoneOnce, row)
    return action


def _note(context: Context, box: Box, event: type[OfResource], row: ResourceRow) -> None:
    context.journal.write(box, event(resource=named(row.ref, row.name)))


def _write_state(context: Context, box: Box, state: BoxState) -> None:
    context.journal.write(box, StateChanged(state=state))
