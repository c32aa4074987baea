"""What every changing command does first: finishes what a crash, a signal or a lost answer left behind.

Nothing is created here. Reading commands only report what is owed; see :func:`remains`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from gpucloud.errors import CloudError, GpucloudError
from gpucloud.isolation import isolated
from gpucloud.lifecycle import CONSISTENCY_WINDOW, LAUNCHING, OVER, BoxState, EndedBy
from gpucloud.model import Machine, Purchase, Ref, State, Thing, rfc3339
from gpucloud.store import Box
from gpucloud.teardown import CALL_TIMEOUT_S, machine_ref, node_facts, settle_box, take_down
from gpucloud.waiter import Call, TimedOutError
from gpucloud.world import World
from gpucloud_templates import GUARD_LAST_WORDS

DEFAULT_BUDGET_S = 2.0


def remains(world: World) -> list[Box]:
    """Boxes that nobody is working on and that are not wanted: the next changing command takes them down.

    They are the remains of a launch that died, a deletion that was not finished, or past their deadline.
    """
    now = world.clock()
    return [
        box
        for box in world.journal.boxes(owner=world.owner)
        if world.may_take(box.lease)
        and (is_remains(box) or (box.expires_at is not None and box.expires_at < now))
    ]


def is_remains(box: Box) -> bool:
    """Whether a box that nobody is working on is what a command left that was not finished."""
    left = box.state is BoxState.READY and bool(box.facts.get("attended"))  # its run is no more
    return left or box.state in LAUNCHING | {BoxState.DELETING, BoxState.INTERRUPTED}


def settle(world: World, *, budget_s: float = DEFAULT_BUDGET_S) -> list[GpucloudError]:
    """Takes down what remains and looks once more at what was gone, within a budget.

    Returns:
        What could not be finished, one error per box; the rest is said, not waited for.
    """
    end = world.clock() + timedelta(seconds=budget_s)
    troubles = refresh_all(world, _may_have_ended(world), timeout_s=budget_s)
    for box in remains(world):
        with isolated(troubles, f"box {box.name!r}"):
            if not is_remains(box) and not _is_past_end(world, box, troubles):
                continue
            taken = world.take(box)
            if taken is None:
                continue
            ends_as = BoxState.FAILED if taken.state in LAUNCHING else BoxState.DELETED
            world.tell("recover", f"taking down what is left of {box.name!r} ({box.state})")
            left_s = max((end - world.clock()).total_seconds(), 0.0)
            try:
                take_down(world, taken, budget_s=left_s, ends_as=ends_as)
            finally:
                world.journal.release(taken)
    _second_looks(world, troubles, end_in_s=max((end - world.clock()).total_seconds(), 0.0))
    return troubles


def _is_past_end(world: World, box: Box, troubles: list[GpucloudError]) -> bool:
    """Whether a box that is past its end by our clock is so by its cloud's as well: ours may be wrong."""
    assert box.expires_at is not None  # noqa: S101  (who calls has looked)
    name = box.facts["cloud"]
    try:
        theirs = world.waiter.run(world.clouds.usable(name).server_time, CALL_TIMEOUT_S)
    except (CloudError, TimedOutError) as error:
        troubles.append(GpucloudError(f"{box.name} seems past its end, but {name} does not say: {error}"))
        return False
    if theirs is None or box.expires_at < theirs:
        return True
    troubles.append(
        GpucloudError(
            f"{box.name} is past its end by this machine's clock, but not by that of {name} "
            f"({rfc3339(theirs)}): it is left alone",
            hint="set the clock: gpucloud check",
        )
    )
    return False


def _may_have_ended(world: World) -> list[Box]:
    """Boxes whose guard may have ended them at a time that the journal does not know."""
    boxes = world.journal.boxes(owner=world.owner)
    return [box for box in boxes if box.state is BoxState.READY and box.facts["spec"].get("idle")]


def _second_looks(world: World, troubles: list[GpucloudError], *, end_in_s: float) -> None:
    """Looks again at things of boxes that are over: groups still owed, and absences seen only once."""
    end = world.clock() + timedelta(seconds=end_in_s)
    boxes = {box.id: box for box in world.journal.boxes(owner=world.owner, over=True) if box.state in OVER}
    young = world.clock() - CONSISTENCY_WINDOW
    waiting = [row.box for row in world.journal.things() if row.state != "gone_once" or row.at < young]
    waiting += [intent.box for intent in world.journal.intents(unresolved=True)]
    for box in sorted({box for box in waiting if box in boxes}):
        if world.clock() >= end:
            return
        with isolated(troubles, f"box {boxes[box].name!r}"):
            taken = world.take(boxes[box])
            if taken is None:
                continue
            try:
                settle_box(world, taken)
            finally:
                world.journal.release(taken)


def refresh(world: World, box: Box) -> Box:
    """Asks the cloud how a box is, and writes down what it says. Changes nothing in the cloud.

    A box whose machines have all ended by themselves becomes ``interrupted`` when its cloud took it back, and
    ``deleting`` otherwise, until a changing command has confirmed that nothing is left. So does one whose
    guard has powered it off where the cloud goes on billing that, and one that is switched off and past its
    end. What its machines cost is known to have ended with them.

    Raises:
        GpucloudError: the cloud did not answer, or refused.
    """
    for trouble in refresh_all(world, [box]):
        raise trouble
    return world.journal.box(box.id)


def refresh_all(
    world: World, boxes: Sequence[Box], *, timeout_s: float = CALL_TIMEOUT_S
) -> list[GpucloudError]:
    """Asks the clouds how these boxes are, all at once, as :func:`refresh` does with one.

    Returns:
        What could not be asked, one error per box.
    """
    asked: list[tuple[Box, list[Call]]] = []
    troubles: list[GpucloudError] = []
    for box in boxes:
        if box.state not in OVER and box.facts.get("nodes"):
            with isolated(troubles, box.name):
                asked.append((box, _ask(world, box)))
    for box, calls in asked:
        with isolated(troubles, f"{box.name}: {box.facts['cloud']}"):
            _write_down(world, box, [world.waiter.wait(call, timeout_s) for call in calls])
    return troubles


def _ask(world: World, box: Box) -> list[Call]:
    def look(ref: Ref) -> Thing | None:
        # The cloud is made here: its SDK takes long to import, and clouds do not wait for each other.
        return world.clouds.usable(ref.cloud).get(ref)

    return [
        world.waiter.start(partial(look, ref))
        for ref in (machine_ref(box, node) for node in range(len(box.facts["nodes"])))
    ]


def _write_down(world: World, box: Box, things: Sequence[Thing | None]) -> None:
    settled = box.state is not BoxState.READY and box.facts.get("compute_ended_at")
    in_doubt = not settled and any(not isinstance(thing, Machine) or not thing.billed for thing in things)
    now = _cloud_time(world, box) if in_doubt else world.clock()
    known = zip(box.facts["nodes"], things, strict=True)
    nodes = [_node(world, box, old, thing, now) for old, thing in known]
    facts: dict[str, object] = {"nodes": nodes}
    state: BoxState | None = None
    ended_by: EndedBy | None = None
    if any(node["billed"] for node in nodes):
        facts["compute_ended_at"] = None
    elif not settled:
        ended_at = min(now, box.expires_at or now)
        facts["compute_ended_at"] = box.facts.get("compute_ended_at") or ended_at.isoformat()
        ended_by = _why_ended(box, things, now)
    over = all(node["state"] == State.GONE for node in nodes)
    if box.state is BoxState.READY:
        if ended_by in {None, EndedBy.ITSELF} and not over:  # somebody may want to start it again
            ended_by = EndedBy.ITSELF if _ended_by_guard(world, things) else None
        if ended_by is not None:
            facts["ended_by"] = str(ended_by)
            taken_back = ended_by is EndedBy.CLOUD
            state = BoxState.INTERRUPTED if taken_back else BoxState.DELETING
    world.journal.observe(box, facts=facts, state=state)


def _node(world: World, box: Box, old: dict[str, Any], thing: Thing | None, now: datetime) -> dict[str, Any]:
    """A node as its cloud shows it; as it was, where the cloud may only be late to show it."""
    if isinstance(thing, Machine):
        return node_facts(thing)
    forgotten = world.clouds[box.facts["cloud"]].forgets_ended and old["state"] == State.RUNNING
    past_end = box.expires_at is not None and now >= box.expires_at
    if forgotten or past_end or world.clock() - box.created_at >= CONSISTENCY_WINDOW:
        return {**old, "state": str(State.GONE), "billed": False}
    return {"billed": True, **old}


def _why_ended(box: Box, things: Sequence[Thing | None], now: datetime) -> EndedBy:
    """Why no machine of a box is billed any more. Clouds that forget what has ended say nothing of it."""
    if any(isinstance(thing, Machine) and thing.preempted for thing in things):
        return EndedBy.CLOUD
    if box.expires_at is not None and now >= box.expires_at:
        return EndedBy.TTL
    forgotten = any(thing is None for thing in things) and box.facts["purchase"] == Purchase.SPOT
    return EndedBy.CLOUD if forgotten else EndedBy.ITSELF


def _cloud_time(world: World, box: Box) -> datetime:
    """The time by the cloud of a box, which ends it; by our own clock where the cloud does not tell."""
    try:
        theirs = world.waiter.run(world.clouds[box.facts["cloud"]].server_time, CALL_TIMEOUT_S)
    except (GpucloudError, TimedOutError):
        return world.clock()
    return theirs or world.clock()


def _ended_by_guard(world: World, things: Sequence[Thing | None]) -> bool:
    """Whether machines are stopped, and their consoles tell that the guard has done it.

    Who stops a machine in the cloud's own console may want to start it again: that is no end.
    """
    machines = [thing for thing in things if isinstance(thing, Machine)]
    if not machines or any(machine.state is not State.STOPPED for machine in machines):
        return False
    try:
        consoles = [
            world.waiter.run(
                partial(world.clouds.usable(machine.ref.cloud).console, machine.ref), CALL_TIMEOUT_S
            )
            for machine in machines
        ]
    except (CloudError, TimedOutError):
        return False
    return all(GUARD_LAST_WORDS in console for console in consoles)
