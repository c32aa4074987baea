"""Decides what to tell slurmctld: from its nodes and jobs, the boxes, and their cost. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucloud.elastic.rules import Do, LaunchPause, Slot, SlotState
from gpucloud.elastic.slurm.shapes import CheapestPlace, features
from gpucloud.elastic.slurm.states import SlurmJob, SlurmNode

if TYPE_CHECKING:
    from gpucloud.elastic.fleet import Reconciled

OURS = "(gpucloud) "
"""Begins the reason of every state that this program sets."""
LONGEST_REASON = 160
INSTANCES_SINCE = (23, 2)
"""Since this version accounting keeps the machine of a node (``sacctmgr show instance``)."""


@dataclass(frozen=True, slots=True)
class Update:
    """What ``scontrol update`` is told about some nodes, or a job."""

    what: tuple[str, ...]
    settings: tuple[str, ...]
    is_job: bool = False


def failed(names: Sequence[str], reason: str) -> list[Update]:
    """Gives nodes back that cannot come up, or are gone: their jobs are queued again at once.

    ``down`` alone stays for ever once the node counts as powered down; ``power_down`` makes it idle again.
    """
    if not names:
        return []
    words = _reason(reason)
    return [
        Update(tuple(names), ("state=down", words)),
        Update(tuple(names), ("state=power_down", words)),
    ]


def _reason(text: str) -> str:
    plain = " ".join(text.split())
    return f"reason={OURS}{plain[:LONGEST_REASON]}"


def of_lost(nodes: Iterable[SlurmNode], reasons: Mapping[str, str]) -> list[Update]:
    """What to tell of nodes that Slurm wants, and that will not come, are gone, or are of no use.

    Args:
        nodes: as Slurm has them.
        reasons: by the names of nodes that will not come, or are gone.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if not node.is_wanted:
            continue
        if node.name in reasons:
            found[reasons[node.name]].append(node.name)
        elif node.is_too_small:
            found[node.reason.removeprefix(OURS)].append(node.name)
    return [update for reason, names in found.items() for update in failed(names, reason)]


def reasons_of(done: Reconciled) -> dict[str, str]:
    """Why slots will not come, or are gone, by name; those that are only delayed are left out."""
    found = {
        slot.name: f"no node could be launched: {slot.reason}"
        for slot in done.slots
        if slot.state is SlotState.WAITING
    }
    words = {Do.WAIT: "no node can be launched", Do.LOST: "it is gone"}
    for action in done.actions:
        if action.do in words:
            found |= dict.fromkeys(action.slots, f"{words[action.do]}: {action.reason}")
    return found


def of_classes(
    nodes: Iterable[SlurmNode],
    class_of: Callable[[str], str],
    pauses: Mapping[str, LaunchPause],
    markets: Mapping[str, CheapestPlace],
) -> list[Update]:
    """What to tell of nodes that are powered down: whether they can be had, and at what price.

    Nodes of a class that pauses are drained, so that their jobs wait, or go elsewhere, and nothing tries in
    vain; afterwards they are resumed, and so is every node that something has left down.
    """
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node in nodes:
        node_class = class_of(node.name)
        pause, market = pauses.get(node_class), markets.get(node_class)
        if "POWERED_DOWN" in node.states:
            if settings := tuple(_of_powered_down(node, pause)):
                found[settings].append(node.name)
            if market is not None and node.features != (
                words := features(node_class, market.cloud, market.purchase)
            ):
                found[f"features={words}",].append(node.name)
        if market is not None and node.weight != market.weight:
            found[f"weight={market.weight}",].append(node.name)
    return [Update(tuple(names), settings) for settings, names in found.items()]


def _of_powered_down(node: SlurmNode, pause: LaunchPause | None) -> Iterator[str]:
    ours = "DRAIN" in node.states and node.reason.startswith(OURS)
    if "DOWN" in node.states or (ours and pause is None):
        yield "state=resume"
    elif pause is not None and "DRAIN" not in node.states and "IDLE" in node.states:
        yield "state=drain"
        yield _reason(f"paused until {pause.until:%H:%M:%S} UTC: {pause.reason}")


def of_machines(
    nodes: Mapping[str, SlurmNode], slots: Iterable[Slot], version: tuple[int, int]
) -> Iterator[Update]:
    """What to tell of nodes that are up: cloud, type and price, for users and for accounting."""
    for slot in slots:
        node = nodes.get(slot.name)
        if node is None or slot.state is not SlotState.READY or not node.is_registered:
            continue
        if (note := note_of(slot)) == node.note:
            continue
        words = features(slot.node_class, slot.cloud, slot.purchase)
        settings = [f"comment={note}", f"features={words}"]
        if version >= INSTANCES_SINCE:
            settings += [f"instanceid={slot.box}", f"instancetype={slot.instance_type}", f"extra={note}"]
        yield Update((slot.name,), tuple(settings))


def of_jobs(jobs: Iterable[tuple[SlurmJob, Sequence[str]]], slots: Iterable[Slot]) -> Iterator[Update]:
    """What accounting is told of jobs: the machines that they run on, with their prices.

    Args:
        jobs: each with the names of its nodes.
        slots: as they are.
    """
    notes = {slot.name: note_of(slot) for slot in slots if slot.state is SlotState.READY}
    for job, names in jobs:
        machines = dict.fromkeys(notes[name] for name in names if name in notes)
        if machines and (note := "; ".join(machines)) != job.note:
            yield Update((job.id,), (f"admincomment={note}",), is_job=True)


def note_of(slot: Slot) -> str:
    """A machine in words: its cloud, zone, type, way of paying and price per hour."""
    price = f"{slot.price.amount.normalize():f} {slot.price.currency}/h" if slot.price else "unknown price"
    place = slot.zone or slot.region
    words = (slot.cloud, place, slot.instance_type, slot.purchase, price)
    return " ".join(word for word in words if word)
