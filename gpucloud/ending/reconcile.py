"""The first step of every changing command: finishes what a crash, a signal or a lost answer left behind.

Nothing is created here. Reading commands only report what is owed; see :func:`remains`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial

from gpucloud.clouds.abilities import ConsoleLog
from gpucloud.ending.reading import MachineReads, begin_reading, follow_type
from gpucloud.ending.settlement import settle_box
from gpucloud.ending.stopping import rest, unfinished
from gpucloud.ending.teardown import take_down
from gpucloud.errors import CleanupIncompleteError, GpucloudError
from gpucloud.journal.events import Made, Seen, StateChanged, named, read_ready_note
from gpucloud.journal.facts import Facts, Node, node_of
from gpucloud.journal.lifecycle import (
    CONSISTENCY_WINDOW,
    HALTING,
    HANDED_OVER,
    LAUNCHING,
    OVER,
    BoxState,
    EndedBy,
)
from gpucloud.journal.records import Box, H, Holding
from gpucloud.planning.access import server_time
from gpucloud.policy.budget_check import used_up
from gpucloud.resources import Machine, Ref, Resource, State, rfc3339
from gpucloud.runtime.context import Context
from gpucloud.runtime.events import ignore
from gpucloud.runtime.isolation import isolated
from gpucloud.runtime.tasks import CALL_TIMEOUT_S
from gpucloud.ssh.keys import key_folder, read_ready
from gpucloud_pricing import format_money
from gpucloud_templates import GUARD_LAST_WORDS

DEFAULT_BUDGET_S = 2.0
SAYING_S = 0.2
"""The part of the budget for journalling and reporting at its end."""
NEAR_THE_END = timedelta(minutes=2)
"""How much earlier than the deadline a cloud's timer may fire: some know only whole minutes."""
AT_ONCE = 100
"""How many boxes are journalled in one transaction: other processes wait meanwhile."""
MOST_NAMES = 5
"""How many boxes to name of those for which the budget was too short."""


def remains(context: Context, boxes: Iterable[H]) -> list[H]:
    """The unwanted ones of some boxes that no process works on: the next changing command takes them down.

    Their launch died, their deletion was not finished, or their deadline has passed.
    """
    now = context.clock()
    return [
        box
        for box in boxes
        if not box.is_in_use
        and (box.is_remains or (box.expires_at is not None and box.expires_at < now))
        and context.may_take(box.lease)
    ]


@dataclass(slots=True)
class _Due:
    """The work that is due in some clouds.

    Attributes:
        ended: boxes that their guard may have ended at a time that is not in the journal.
        unwanted: boxes to take down.
        halting: boxes whose stop or start was not finished.
        used_up: boxes that live, and whose budget is used up.
        over: boxes to check again: groups still owed, and absences seen only once.
    """

    ended: list[Box] = field(default_factory=list[Box])
    unwanted: list[Holding] = field(default_factory=list[Holding])
    halting: list[Box] = field(default_factory=list[Box])
    used_up: list[Holding] = field(default_factory=list[Holding])
    over: list[Holding] = field(default_factory=list[Holding])


def settle(context: Context, *, budget_s: float = DEFAULT_BUDGET_S) -> list[GpucloudError]:
    """Takes down unwanted boxes and checks once more those that were gone, within a budget.

    The work in one cloud does not hold up that in another. A cloud that does not answer is left out for the
    rest of the command: see ``Context.silent``.

    Returns:
        What could not be finished: one error per started box, and one for the other boxes of a cloud.
    """
    due = _all_due(context)
    names = [box.name for each in due.values() for box in each.unwanted]
    if names:
        context.tell("recover", f"deleting what is left of {_some(names)}")
    calls = {
        clouds: context.tasks.start(partial(_settle_in, context, clouds, each, budget_s - SAYING_S))
        for clouds, each in due.items()
        if not any(map(context.is_unresponsive, clouds))
    }
    context.tasks.until_done(calls.values(), budget_s)
    troubles: list[GpucloudError] = []
    for clouds, each in due.items():
        call = calls.get(clouds)
        if call is not None and call.done:
            troubles += call.value()
        else:
            troubles += _no_time(clouds, [*each.unwanted, *each.used_up])
    return troubles


def _all_due(context: Context) -> dict[tuple[str, ...], _Due]:
    """The work that is due, by clouds; a launch that died may have tried several."""
    boxes = context.journal.unsettled(owner=context.owner)
    living = {box.id: box for box in boxes if box.state not in OVER}
    clouds = {box.id: _clouds_of(box) for box in boxes}
    young = context.clock() - CONSISTENCY_WINDOW
    due: dict[tuple[str, ...], _Due] = defaultdict(_Due)
    for box in living.values():
        if isinstance(box, Box) and box.state is BoxState.READY and box.wanted.has_idle_limit:
            due[clouds[box.id]].ended.append(box)
    for box in living.values():
        if isinstance(box, Box) and box.is_halting and context.may_take(box.lease):
            due[clouds[box.id]].halting.append(box)
    for box in remains(context, [box for box in living.values() if box.state not in HALTING]):
        due[clouds[box.id]].unwanted.append(box)
    unwanted = {box.id for each in due.values() for box in each.unwanted}
    for id_, budget in used_up(context, [box for box in living.values() if box.id not in unwanted]).items():
        context.notice("settle", f"Budget {budget!r} is used up: ending {living[id_].name}")
        due[clouds[id_]].used_up.append(living[id_])
    for box in boxes:
        if box.id not in living and (box.unresolved or _is_to_be_seen_again(box, young)):
            due[clouds[box.id]].over.append(box)
    return due


def _clouds_of(holding: Holding) -> tuple[str, ...]:
    """The clouds in which something of a box is or may be; its own, if it was ever placed."""
    names = {holding.cloud} if holding.cloud else set[str]()
    names |= {each.ref.cloud for each in holding.present} | {each.cloud for each in holding.unresolved}
    return tuple(sorted(names))


def _is_to_be_seen_again(holding: Holding, young: datetime) -> bool:
    """Whether something of a box may be there, or was found to be gone only once and long enough ago."""
    return any(each.state != "gone_once" or each.at < young for each in holding.present)


def _settle_in(context: Context, clouds: Collection[str], due: _Due, budget_s: float) -> list[GpucloudError]:
    """Does the work that is due in some clouds, in its own thread and without progress events."""
    context = replace(context, tasks=context.tasks.for_another_thread(), emit=ignore)
    with context.tasks.within(budget_s):
        if not _answer(context, clouds):
            return _no_time(clouds, [*due.unwanted, *due.used_up])
        troubles = refresh_all(context, due.ended)
        for box in due.halting:
            with isolated(troubles, f"box {box.name!r}"):
                _come_to_rest(context, box)
        new = remains(context, [context.journal.now_of(box) for box in (*due.ended, *due.halting)])
        known = {box.id for box in due.unwanted}
        unwanted = [*due.unwanted, *(box for box in new if box.id not in known)]
        unwanted = catch_up(context, unwanted, troubles)
        # What nobody looked after may have ended by itself long ago: its bill ended then.
        with context.tasks.within(context.tasks.left_s / 2):  # looking leaves time to delete
            refresh_all(context, [box for box in unwanted if box.state is not BoxState.DELETING])
        troubles += _take_down_all(context, unwanted, due.used_up, clouds)
        for over in due.over:
            if not context.tasks.left_s:
                break
            with isolated(troubles, f"{over.kind} {over.name!r}"):
                _look_again(context, over)
    return troubles


def _come_to_rest(context: Context, box: Box) -> None:
    """Finishes a stop, or takes back a start, whose process is dead; unless another process holds the box.

    Raises:
        CleanupIncompleteError: its machine has not stopped within a part of the budget.
    """
    taken = context.take(box)
    if taken is None:
        return
    try:
        if rest(context.about(box.name), taken, context.tasks.left_s / 2) is None:
            raise unfinished(taken, "its machine has not stopped yet")
    finally:
        context.journal.release(taken)


def _look_again(context: Context, holding: Holding) -> None:
    """Checks what is left of a box that has ended, unless another process holds it."""
    taken = context.take(holding)
    if taken is None:
        return
    try:
        settle_box(context, taken)
    finally:
        context.journal.release(taken)


def _answer(context: Context, clouds: Iterable[str]) -> bool:
    """Whether these clouds answer, if only with a refusal; those that do not count as silent from now on."""
    if not context.tasks.left_s:
        return False
    asked = {name: context.tasks.start(partial(_account, context, name)) for name in clouds}
    if context.tasks.until_done(asked.values(), CALL_TIMEOUT_S):
        return True
    context.silent.update({name: call for name, call in asked.items() if not call.done})
    return False


def _account(context: Context, name: str) -> str:
    return context.clouds.usable(name).account()


def _take_down_all(
    context: Context, holdings: Sequence[Holding], used_up: Sequence[Holding], clouds: Collection[str]
) -> list[GpucloudError]:
    """Takes boxes down within the budget: every deletion is requested before the wait for the first one."""
    troubles: list[GpucloudError] = []
    clock = cache(partial(_clock_of, context))
    waiting = [box for box in holdings if box.is_remains or _is_past_end(box, clock, troubles)]
    waiting += used_up
    held: dict[str, Holding] = {}
    owed: dict[str, GpucloudError] = {}
    pause_s = 0.05
    try:
        while waiting and context.tasks.left_s:
            waiting = [box for box in waiting if not _ended(context, box, held, owed)]
            if waiting:
                context.tasks.pause(pause_s)
                pause_s = min(pause_s * 1.5, 1.0)
    finally:
        for box in held.values():
            context.journal.release(box)
    return [*troubles, *owed.values(), *_no_time(clouds, [box for box in waiting if box.id not in owed])]


def _ended(
    context: Context, holding: Holding, held: dict[str, Holding], owed: dict[str, GpucloudError]
) -> bool:
    """One pass to end a box; True if nothing is left to do. ``owed`` receives what is still owed."""
    if not context.tasks.left_s:
        return False
    taken = held.get(holding.id) or context.take(holding)
    if taken is None:  # another process was faster
        return True
    held[holding.id] = taken
    troubles: list[GpucloudError] = []
    with isolated(troubles, f"box {holding.name!r}"):
        take_down(context.about(holding.name), taken, once=True, ends_as=_end_of(holding))
    if troubles:
        owed[holding.id] = troubles[0]
        return False
    owed.pop(holding.id, None)
    return True


def _end_of(holding: Holding) -> BoxState:
    return BoxState.FAILED if holding.state in LAUNCHING else BoxState.DELETED


def _no_time(clouds: Collection[str], holdings: Sequence[Holding]) -> list[GpucloudError]:
    """The error for boxes that the budget did not reach; empty if there are none."""
    if not holdings:
        return []
    names = [holding.name for holding in holdings]
    return [
        CleanupIncompleteError(
            f"{_some(names)} may still be billed: {', '.join(clouds)} did not answer in time",
            hint="the next command that changes a box continues with this",
            owed_command=f"gpucloud down {' '.join(names[:MOST_NAMES])} --yes",
        )
    ]


def _some(names: Sequence[str]) -> str:
    """The first few of many names, in words."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _clock_of(context: Context, name: str) -> datetime | None:
    return context.tasks.run(partial(server_time, context.clouds.usable(name)))


def catch_up(context: Context, holdings: Sequence[Holding], troubles: list[GpucloudError]) -> list[Holding]:
    """Corrects boxes that are still launching by an older copy of the journal.

    A box that became ready after the copy was made is no remainder of a launch: if one of its machines
    exists, the box is restored from the note next to its keys.

    Returns:
        The boxes for which the journal is right. Nothing may be concluded about a box that was ready and
        whose cloud does not answer.
    """
    right: list[Holding] = []
    for holding in holdings:
        noted: Facts | None = None
        with isolated(troubles, f"box {holding.name!r} was ready; the journal is an older copy"):
            if context.state is not None and holding.state in LAUNCHING and context.may_take(holding.lease):
                note = read_ready(key_folder(context.state, holding.id))
                noted = None if note is None else read_ready_note(note)
            if not isinstance(holding, Box) or noted is None or not _take_as_noted(context, holding, noted):
                right.append(holding)
    return right


def _take_as_noted(context: Context, box: Box, noted: Facts) -> bool:
    """Restores a box as it became ready; False if no machine of it exists, or another process holds it."""
    as_noted = replace(box, **noted.given)
    reading, _ = begin_reading(context, [as_noted])
    seen = reading.nodes_of(context, as_noted, CALL_TIMEOUT_S)
    machines = [each for each in seen if isinstance(each, Machine) and each.state is not State.GONE]
    taken = context.take(box) if machines else None
    if taken is None:
        return False
    context.tell(
        "recover",
        f"{box.name!r} is ready; the journal is an older copy: restoring the box",
    )
    for ref in [ref for machine in machines for ref in (machine.ref, *machine.parts)]:
        context.journal.write(taken, Made(resource=named(ref)))
    for state in (BoxState.PROVISIONING, BoxState.BOOTSTRAPPING, BoxState.READY):
        if list(BoxState).index(state) >= list(BoxState).index(box.state):
            context.journal.write(taken, StateChanged(state=state, facts=noted))
    context.journal.release(taken)
    return True


def _is_past_end(
    holding: Holding, clock: Callable[[str], datetime | None], troubles: list[GpucloudError]
) -> bool:
    """Whether a box past its deadline by our clock is so by its cloud's clock as well: ours may be wrong."""
    assert holding.expires_at is not None  # noqa: S101  (who calls has looked)
    name = holding.cloud
    try:
        theirs = clock(name)
    except GpucloudError as error:
        troubles.append(
            GpucloudError(f"{holding.name} seems past its deadline; {name} did not report its time: {error}")
        )
        return False
    if theirs is None or holding.expires_at < theirs:
        return True
    troubles.append(
        GpucloudError(
            f"{holding.name} is past its deadline by this machine's clock, but not by that of {name} "
            f"({rfc3339(theirs)}): it is not changed",
            hint="set the clock: gpucloud check",
        )
    )
    return False


def refresh(context: Context, box: Box) -> Box:
    """Reads the state of a box from its cloud and journals it. Changes nothing in the cloud.

    A box that lost some nodes keeps its state; its nodes show the loss, and its price counts the living ones.
    A box whose machines have all ended by themselves becomes ``interrupted`` if its cloud took it back, and
    ``deleting`` otherwise, until a changing command has confirmed that nothing is left. The same holds for a
    box that its guard powered off in a cloud that bills stopped machines, and for one that is stopped past
    its deadline. The cost of its machines ends with them.

    Raises:
        GpucloudError: the cloud did not answer, or refused.
    """
    for trouble in refresh_all(context, [box]):
        raise trouble
    return context.journal.now_of(box)


def refresh_all(
    context: Context,
    holdings: Sequence[Holding],
    *,
    timeout_s: float = CALL_TIMEOUT_S,
    known_for: timedelta = timedelta(),
) -> list[GpucloudError]:
    """Does :func:`refresh` for several boxes, all at the same time.

    Args:
        context: clouds, journal, clock and progress of this call.
        holdings: the boxes.
        timeout_s: how long to wait for each of them.
        known_for: how long it is not journalled again that a box is as it was, for who looks often.

    Returns:
        One error per box whose state could not be read.
    """
    reading, troubles = begin_reading(context, holdings)
    return troubles + write_answers(context, reading, timeout_s=timeout_s, known_for=known_for)


def write_answers(
    context: Context,
    reading: MachineReads,
    *,
    timeout_s: float = CALL_TIMEOUT_S,
    known_for: timedelta = timedelta(),
) -> list[GpucloudError]:
    """Waits for the answers of the clouds and journals them; the arguments are those of :func:`refresh_all`.

    Returns:
        One error per box whose state could not be read.
    """
    reading.wait_for_searches(context, timeout_s)
    troubles: list[GpucloudError] = []
    seen: list[tuple[Box, Seen]] = []
    time_of = cache(partial(_cloud_time, context))
    for box in reading.boxes:
        with isolated(troubles, f"{box.name}: {box.cloud}"):
            news = _seen(context, box, reading.nodes_of(context, box, timeout_s), time_of)
            if _is_news(box, news, context.clock() - known_for):
                seen.append((box, news))
    for first in range(0, len(seen), AT_ONCE):
        context.journal.observe_all(seen[first : first + AT_ONCE])
    return troubles


def _seen(
    context: Context, box: Box, resources: Sequence[Resource | None], time_of: Callable[[str], datetime]
) -> Seen:
    """What the state of a box's machines means for the box; ``time_of`` is the time by a cloud's clock."""
    in_doubt = any(_is_in_doubt(*each) for each in zip(box.nodes, resources, strict=True))
    now = time_of(box.cloud) if in_doubt else context.clock()
    nodes = tuple(_node(context, box, *each, now) for each in zip(box.nodes, resources, strict=True))
    ended_by: EndedBy | None = None
    state: BoxState | None = None
    if box.state is BoxState.READY:
        ended_by = None if any(node.billed for node in nodes) else _why_ended(box, nodes)
        over = all(node.state is State.GONE for node in nodes)
        if ended_by in {None, EndedBy.ITSELF} and not over:  # a user may want to start it again
            ended_by = EndedBy.ITSELF if _ended_by_guard(context, resources) else None
        if ended_by is not None:
            state = BoxState.INTERRUPTED if ended_by is EndedBy.CLOUD else BoxState.DELETING
    elif box.state in HANDED_OVER and all(node.state is State.GONE for node in nodes):
        ended_by, state = _why_stopped_ended(context, box), BoxState.DELETING
    unsure = {
        node.instance_id: seen_at
        for known, seen, node in zip(box.nodes, resources, nodes, strict=True)
        if (seen_at := _billed_until(box, known, seen, node)) is not None
    }
    billed_until = {**box.billed_until, **unsure} if unsure else None
    other = follow_type(context, box, resources)
    if box.state is BoxState.STOPPED and any(node.billed and node.state is State.RUNNING for node in nodes):
        _tell_started(context, box)
    return Seen(state=state, facts=replace(other, nodes=nodes, ended_by=ended_by, billed_until=billed_until))


def _tell_started(context: Context, box: Box) -> None:
    """Warns of a stopped box that runs: it is billed, and ends when the stopped box would have."""
    price = box.price and f", costs {format_money(box.price.amount, box.price.currency)} per hour"
    end = f"ends at {rfc3339(box.expires_at)}" if box.expires_at else "has no end"
    context.warn(
        "look",
        f"{box.name} was started in the cloud's console: it runs{price or ''} and {end}",
        f"stop it: gpucloud stop {box.name}; to use it: gpucloud start {box.name}",
    )


def _is_news(box: Box, seen: Seen, since: datetime) -> bool:
    """Whether what was seen is to be journalled: it differs from what was seen after a moment."""
    known = box.seen_at is not None and box.seen_at > since
    return not known or seen != Seen(facts=Facts(nodes=box.nodes))


def _is_in_doubt(known: Node, seen: Resource | None) -> bool:
    """Whether a node seems to be billed no longer, and was when it was last seen."""
    return known.ended_at is None and not (isinstance(seen, Machine) and seen.billed)


def _node(context: Context, box: Box, known: Node, seen: Resource | None, now: datetime) -> Node:
    """A node as its cloud lists it; unchanged if the cloud's list may only lag behind.

    A node that is gone keeps its place and its id, and loses its address.
    """
    if known.state is State.GONE:
        return known
    past_end = box.expires_at is not None and now >= box.expires_at
    ended_at = known.ended_at or _told_end(seen) or _latest_end(box, now)
    if isinstance(seen, Machine):
        shown = node_of(seen)
        if seen.billed:
            return shown
        address = None if seen.state is State.GONE else seen.public_ip
        return replace(shown, public_ip=address, ended_at=ended_at, taken_back=seen.preempted)
    forgets = context.clouds.usable(box.cloud).traits.forgets_ended and known.state is State.RUNNING
    if forgets or past_end or context.clock() - box.created_at >= CONSISTENCY_WINDOW:
        # Clouds that no longer list a deleted machine report no reason.
        return replace(
            known,
            state=State.GONE,
            public_ip=None,
            billed=False,
            ended_at=ended_at,
            taken_back=box.is_spot and not past_end,
        )
    return known


def _told_end(seen: Resource | None) -> datetime | None:
    """The cloud's own time since when a machine is not billed; ``None`` if it tells none."""
    return seen.ended_at if isinstance(seen, Machine) else None


def _latest_end(box: Box, now: datetime) -> datetime:
    """The latest time at which a machine can have ended: now, or its armed end unless it was seen later."""
    ends = [moment for moment in (box.expires_at, box.seen_at) if moment is not None]
    return now if box.expires_at is None else min(now, max(ends))


def _billed_until(box: Box, known: Node, seen: Resource | None, node: Node) -> datetime | None:
    """When a node was last seen to be billed, if its end is known by an upper limit only; otherwise ``None``.

    A machine that nothing else ends was ended by its armed end, which has passed.
    """
    if node.ended_at is None or known.ended_at or _told_end(seen) or box.seen_at is None:
        return None
    armed = node.ended_at == box.expires_at and not box.is_spot and not box.wanted.has_idle_limit
    sure = armed or node.ended_at - box.seen_at <= NEAR_THE_END
    return None if sure else box.seen_at


def _why_ended(box: Box, nodes: Sequence[Node]) -> EndedBy:
    """Why no machine of a box is billed any more."""
    if any(node.taken_back for node in nodes):
        return EndedBy.CLOUD
    if box.expires_at is None:
        return EndedBy.ITSELF
    near = box.expires_at - NEAR_THE_END
    return EndedBy.TTL if any(node.ended_at and node.ended_at >= near for node in nodes) else EndedBy.ITSELF


def _why_stopped_ended(context: Context, box: Box) -> EndedBy:
    """Why the machines of a stopped box are gone: their compute ended long before, so only now tells."""
    past_end = box.expires_at is not None and context.clock() >= box.expires_at - NEAR_THE_END
    return EndedBy.TTL if past_end else EndedBy.ITSELF


def _cloud_time(context: Context, cloud: str) -> datetime:
    """The time by a cloud, which ends boxes; by our own clock if the cloud does not report one."""
    try:
        theirs = context.tasks.run(partial(server_time, context.clouds.usable(cloud)), CALL_TIMEOUT_S)
    except GpucloudError:
        return context.clock()
    return theirs or context.clock()


def _console(context: Context, machine: Ref) -> str:
    cloud = context.clouds.usable(machine.cloud)
    return cloud.ask(ConsoleLog, "read the console", lambda log: log.console(machine), lacking="")


def _ended_by_guard(context: Context, resources: Sequence[Resource | None]) -> bool:
    """Whether machines are stopped, and their console output shows that the guard did it.

    A user who stops a machine in the cloud's web console may want to start it again: that is no end.
    """
    machines = [resource for resource in resources if isinstance(resource, Machine)]
    if not machines or any(machine.state is not State.STOPPED for machine in machines):
        return False
    try:
        consoles = [
            context.tasks.run(partial(_console, context, machine.ref), CALL_TIMEOUT_S) for machine in machines
        ]
    except GpucloudError:
        return False
    return all(GUARD_LAST_WORDS in console for console in consoles)
