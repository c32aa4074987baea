"""Decides about the slots of a cluster, from what its engine requests and what exists. Pure functions.

The slots of a gang are the nodes of one box: they are launched together, or not at all, and end together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from gpucloud.elastic.cluster import Cluster
from gpucloud_pricing.values import Money

FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=10), timedelta(hours=1)
"""The bounds of the pause of a class after a failed launch; each further failure doubles it."""
REMEMBERED = timedelta(hours=4)
"""How long a failure counts: by then the pause is the longest already."""


class SlotState(StrEnum):
    """The states of a slot."""

    WANTED = "wanted"  # it is to be launched, and no process works on it
    LAUNCHING = "launching"  # a process works on it
    WAITING = "waiting"  # its launch failed; another one is made later
    READY = "ready"
    LOST = "lost"  # its box ended while it was wanted
    ENDING = "ending"  # a process deletes its box
    ENDED = "ended"  # it is not wanted any more


_WANTED = frozenset({SlotState.WANTED, SlotState.LAUNCHING, SlotState.WAITING, SlotState.READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot, as the journal has it. A field that is not known is ``None``.

    Attributes:
        name: the name of the slot; that of the first slot of a gang is the name of the box.
        gang: the slots of its box, by rank; of most boxes itself alone.
        since: when its box was lost or it was no longer wanted; else, when it was wanted.
        has_box: whether there is a box that may be billed.
        box: the id of its last box.
        address: the public address of its node.
        private_address: its address in the network of its cloud.
        price: of its machine, per hour.
        expires_at: when its box ends unless its lease is renewed.
        reason: why it is lost or waits.
        wish: the id of the wish for it; each wish has one of its own.
        labels: what its engine says of it.
    """

    name: str
    gang: tuple[str, ...]
    node_class: str
    state: SlotState
    since: datetime
    has_box: bool = False
    box: str | None = None
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    purchase: str | None = None
    address: str | None = None
    private_address: str | None = None
    price: Money | None = None
    expires_at: datetime | None = None
    reason: str | None = None
    wish: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class LaunchPause:
    """Until when nothing is launched of a class, and why."""

    until: datetime
    reason: str


class Do(StrEnum):
    """What is to be done about a box."""

    LAUNCH = "launch"
    WAIT = "wait"  # for capacity: the engine may be told
    RENEW = "renew"
    END = "end"
    LOST = "lost"  # the engine is to be told: it decides whether it wants the slots again
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is to be done about the slots of one box, and why. ``until`` is how long to wait."""

    do: Do
    slots: tuple[str, ...]
    reason: str = ""
    until: datetime | None = None


def reconcile(
    cluster: Cluster,
    wanted: Mapping[str, datetime],
    seen: Iterable[Slot],
    backoffs: Mapping[str, LaunchPause],
    now: datetime,
    *,
    as_of: datetime | None = None,
) -> list[Action]:
    """What is to be done so that the slots are there that an engine wants, and no others.

    Args:
        cluster: the classes and the lease.
        wanted: the slots that the engine wants, each with when it asked for it: after a loss, only a later
            wish launches again.
        seen: what there is, of each slot at most once.
        backoffs: by class.
        now: the present time.
        as_of: when the engine said what it wants; by default, now.

    Raises:
        UsageError: the cluster has no such slot.
    """
    boxes: dict[tuple[str, ...], list[Slot]] = defaultdict(list)
    for slot in seen:
        boxes[slot.gang].append(slot)
    known = {slot.name for slots in boxes.values() for slot in slots}
    rules = _Rules(cluster, wanted, backoffs, now, as_of or now)
    found = [action for slots in boxes.values() for action in rules.of_box(slots)]
    return found + [rules.launch((name,), cluster.class_of(name)) for name in wanted if name not in known]


@dataclass(frozen=True, slots=True)
class _Rules:
    cluster: Cluster
    wanted: Mapping[str, datetime]
    backoffs: Mapping[str, LaunchPause]
    now: datetime
    as_of: datetime

    def of_box(self, slots: Sequence[Slot]) -> Iterator[Action]:
        """What is to be done about a box. Of a gang that is over, some slots may have other boxes now."""
        slot, every = slots[0], tuple(each.name for each in slots)
        names = tuple(name for name in every if name in self.wanted)
        match slot.state:
            case SlotState.ENDING:
                yield Action(do=Do.NOTHING, slots=every, reason="its box is being deleted")
            case SlotState.ENDED if not names and not slot.has_box:
                return
            case state if not names and state in _WANTED and slot.since > self.as_of:
                yield Action(do=Do.NOTHING, slots=every, reason="it is wanted since")
            case _ if not names:
                yield Action(do=Do.END, slots=every, reason="nobody wants it")
            case SlotState.LAUNCHING:
                yield Action(do=Do.NOTHING, slots=every, reason="it is being launched")
            case SlotState.WANTED | SlotState.WAITING:
                yield self.launch(names, slot.node_class)
            case SlotState.READY:
                yield self._of_ready(slot)
            case SlotState.LOST | SlotState.ENDED:
                yield from self._of_lost(slot, names)

    def launch(self, names: tuple[str, ...], node_class: str) -> Action:
        """The launch of slots, or the wait until their class may be launched again."""
        backoff = self.backoffs.get(node_class)
        if backoff is not None and self.now < backoff.until:
            return Action(do=Do.WAIT, slots=names, reason=backoff.reason, until=backoff.until)
        return Action(do=Do.LAUNCH, slots=names)

    def _of_ready(self, slot: Slot) -> Action:
        if slot.expires_at is None or slot.expires_at - self.now >= self.cluster.lease / 2:
            return Action(do=Do.NOTHING, slots=slot.gang, reason="it is ready")
        return Action(do=Do.RENEW, slots=slot.gang)

    def _of_lost(self, slot: Slot, names: tuple[str, ...]) -> Iterator[Action]:
        again = tuple(name for name in names if self.wanted[name] > slot.since)
        told = tuple(name for name in names if name not in again)
        if told:
            yield Action(do=Do.LOST, slots=told, reason=slot.reason or "")
        if again:
            yield self.launch(again, slot.node_class)


SOURCE = "gpucloud:source"
"""The label of a slot that names the file of the cluster that wants it."""


def of_others(cluster: Cluster, seen: Iterable[Slot]) -> list[Slot]:
    """The slots that another cluster of the same name wants, by their files."""
    mine = cluster.source
    wanted = [slot for slot in seen if slot.state is not SlotState.ENDED]
    return [slot for slot in wanted if mine and slot.labels.get(SOURCE, mine) != mine]


def is_attended(slot: Slot, lease: timedelta, now: datetime) -> bool:
    """Whether somebody has wanted or renewed a slot of late: who lives renews before half a lease is left."""
    renewed = slot.expires_at - lease if slot.expires_at else slot.since
    return now - max(renewed, slot.since) < lease * 3 / 4


def backoff_after(
    failures: Iterable[tuple[datetime, str]], came_up: Sequence[datetime]
) -> LaunchPause | None:
    """The pause of a class after its failed launches; ``None`` if none counts.

    Launches that failed within the pause after another one were made at the same time: they count once.

    Args:
        failures: when launches failed, and why.
        came_up: when launches began that succeeded: failures before the last of them count no more.
    """
    last_up = max(came_up, default=None)
    found: LaunchPause | None = None
    pause = FIRST_PAUSE
    for at, reason in sorted(failures):
        if last_up is not None and at < last_up:
            continue
        if found is None:
            found = LaunchPause(at + pause, reason)
        elif at >= found.until:
            pause = min(2 * pause, LONGEST_PAUSE)
            found = LaunchPause(at + pause, reason)
    return found
