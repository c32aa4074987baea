"""The slots of a cluster in the journal: capacity requests, which are runs, and boxes. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.rules import REMEMBERED, LaunchPause, Slot, SlotState, backoff_after
from gpucloud.journal.lifecycle import LAUNCHING, OVER, BoxState, EndedBy
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, AttemptRecord, Loss, RunState
from gpucloud.resources import State
from gpucloud_pricing.values import Money

FAILED_LAUNCH = frozenset({Loss.CAPACITY, Loss.REFUSED})
"""The losses after which a class backs off."""

UNFINISHED = LAUNCHING | {BoxState.FAILED}
"""In these states a box was never ready."""

_ENDED_BY: Mapping[EndedBy | None, str] = {
    EndedBy.CLOUD: "its cloud took it back",
    EndedBy.TTL: "its lease has passed",
    EndedBy.ITSELF: "it ended by itself",
    None: "it was deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The slots of a cluster: the newest wish of each, and the pauses of the classes.

    Attributes:
        slots: by name; those that are not wanted any more, too, as long as that counts.
        wishes: the wish of each of these slots.
        boxes: their boxes, by id.
        failures: when launches of each class failed, and why.
        came_up: when launches of each class began that succeeded.
    """

    slots: dict[str, Slot] = field(default_factory=dict[str, Slot])
    wishes: dict[str, Run] = field(default_factory=dict[str, Run])
    boxes: Mapping[str, Box] = field(default_factory=dict[str, Box])
    failures: defaultdict[str, list[tuple[datetime, str]]] = field(default_factory=lambda: defaultdict(list))
    came_up: defaultdict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))

    @property
    def backoffs(self) -> dict[str, LaunchPause]:
        """The pauses of the classes whose launches failed."""
        found = {name: backoff_after(each, self.came_up[name]) for name, each in self.failures.items()}
        return {name: backoff for name, backoff in found.items() if backoff is not None}

    def is_wanted(self, name: str) -> bool:
        """Whether the newest wish for a slot is not over."""
        return name in self.wishes and self.wishes[name].state not in RUNS_OVER

    def is_paused(self, node_class: str, now: datetime) -> bool:
        """Whether nothing of a class is launched now."""
        backoff = self.backoffs.get(node_class)
        return backoff is not None and now < backoff.until

    def backoff_with(self, node_class: str, at: datetime, reason: str) -> LaunchPause:
        """The pause of a class after one more failure."""
        backoff = backoff_after([*self.failures[node_class], (at, reason)], self.came_up[node_class])
        return backoff or LaunchPause(at, reason)


def view_of(
    cluster: Cluster,
    runs: Iterable[Run],
    boxes: Mapping[str, Box],
    is_held: Callable[[Box | Run], bool],
    now: datetime,
) -> View:
    """The slots of a cluster.

    Args:
        cluster: the cluster.
        runs: the owner's runs, oldest first: those that are not over, and those that were in the last hours.
        boxes: the boxes of the last attempts, by id; of runs that are over, those that live.
        is_held: whether a living process works on a box or a run.
        now: the present time.
    """
    view = View(boxes=boxes)
    for run in sorted(runs, key=_begun_last):
        wish = run.work.slots
        if wish is None or wish.cluster != cluster.name:
            continue
        box = boxes.get(run.box or "")
        view.failures[wish.node_class] += [
            (attempt.lost_at, attempt.message or "")
            for before, attempt in pairwise((None, *run.attempts))
            if attempt is not None and attempt.lost_at and now - attempt.lost_at < REMEMBERED
            if _counts(before, attempt)
        ]
        if run.attempts and _came_up(run, box):
            view.came_up[wish.node_class].append(run.attempts[-1].at)
        for rank, name in enumerate(wish.names):
            view.wishes[name] = run
            view.slots[name] = _with_box(_slot(run, name, box, is_held), box, rank)
    return view


def _counts(before: AttemptRecord | None, attempt: AttemptRecord) -> bool:
    """Whether a launch failed so that its class backs off.

    One that was not finished says nothing of its class; two in a row would go on so for ever.
    """
    twice = before is not None and before.loss is attempt.loss is Loss.LAUNCH
    return twice or attempt.loss in FAILED_LAUNCH


def _begun_last(run: Run) -> tuple[bool, str]:
    """The order in which wishes replace each other: one that is not over has the slot."""
    return (run.state not in RUNS_OVER, run.id)


def _came_up(run: Run, box: Box | None) -> bool:
    """Whether the last attempt of a wish led to a box that was ready."""
    if run.state in RUNS_OVER:
        return run.state is RunState.ENDED
    ready = box is not None and box.state not in UNFINISHED
    return run.attempts[-1].loss is None and ready


def _slot(run: Run, name: str, box: Box | None, is_held: Callable[[Box | Run], bool]) -> Slot:
    """A slot by its wish: its state, since when, and why."""
    assert run.work.slots is not None  # noqa: S101  (it is a wish)
    state, since, reason = _state(run, box, is_held)
    return Slot(
        name=name,
        gang=run.work.slots.names,
        node_class=run.work.slots.node_class,
        state=state,
        since=since,
        reason=reason,
        has_box=box is not None and box.state not in OVER,
        box=run.box,
        wish=run.id,
        labels=run.work.slots.labels,
    )


def _state(
    run: Run, box: Box | None, is_held: Callable[[Box | Run], bool]
) -> tuple[SlotState, datetime, str | None]:
    """The state of a wish, since when, and why."""
    begun, living = run.created_at, box is not None and box.state not in OVER
    if run.state in RUNS_OVER:
        being_deleted = living and box is not None and is_held(box)
        why = run.failure.message if run.failure else "it was given back"
        return SlotState.ENDING if being_deleted else SlotState.ENDED, run.ended_at or begun, why
    if is_held(run):
        return SlotState.LAUNCHING, begun, None
    last = run.attempts[-1] if run.attempts else None
    if last is not None and last.loss in FAILED_LAUNCH:
        return SlotState.WAITING, begun, last.message
    if last is None or box is None or last.loss is not None:
        return SlotState.WANTED, begun, None
    return _state_of_box(box, begun, is_held)


def _state_of_box(
    box: Box, begun: datetime, is_held: Callable[[Box | Run], bool]
) -> tuple[SlotState, datetime, str | None]:
    """The state of a wish whose box was bought, and which no process works on."""
    match box.state:
        case BoxState.READY:
            return _state_of_ready(box, begun)
        case BoxState.DELETING if is_held(box):
            return SlotState.ENDING, begun, None
        case _ if box.state in UNFINISHED or (box.state is BoxState.DELETING and box.measured is None):
            return SlotState.LAUNCHING if is_held(box) else SlotState.WANTED, begun, None
        case BoxState.STOPPING | BoxState.STOPPED | BoxState.STARTING:
            reason = "it was stopped"
        case _:
            reason = _ENDED_BY[box.ended_by]
    return SlotState.LOST, box.ended_at or box.seen_at or begun, reason


def _state_of_ready(box: Box, begun: datetime) -> tuple[SlotState, datetime, str | None]:
    """The state of a wish whose box is up: of a gang that lost a node, the others are of no use.

    That a lease has passed is for the clock of the box's cloud to say, which a look asks: ours may be wrong.
    """
    gone = [node for node in box.nodes if node.state is State.GONE]
    if not gone:
        return SlotState.READY, begun, None
    reason = _ENDED_BY[EndedBy.CLOUD if any(node.taken_back for node in gone) else EndedBy.ITSELF]
    since = max((node.ended_at for node in gone if node.ended_at), default=begun)
    return SlotState.LOST, since, f"a node of its box: {reason}"


def _with_box(slot: Slot, box: Box | None, rank: int) -> Slot:
    """A slot with its place in its box, while there is one."""
    if box is None or box.state in OVER:
        return slot
    place, offer, price = box.place, box.offer, box.price
    node = box.nodes[rank] if rank < len(box.nodes) else None
    return replace(
        slot,
        cloud=place.cloud if place else None,
        region=place.region if place else None,
        zone=place.zone if place else None,
        instance_type=offer.instance_type if offer else None,
        purchase=str(offer.purchase) if offer else None,
        address=node.public_ip if node else None,
        private_address=node.private_ip if node else None,
        price=Money(amount=price.amount, currency=price.currency) if price else None,
        expires_at=box.expires_at,
    )
