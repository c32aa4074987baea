"""The capacity requests of an engine, in the journal: no cloud is asked, and nothing is bought.

A wish is a run of the journal that has no command. Its id is the name of its slot, so that no slot is wanted
or launched twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.rules import REMEMBERED, SOURCE, Slot, SlotState, is_attended, of_others
from gpucloud.elastic.view import View, view_of
from gpucloud.errors import UsageError
from gpucloud.journal.events import RunEnded
from gpucloud.journal.lifecycle import new_id
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, Failure, RunState, Slots, Work
from gpucloud.runtime.context import Context

NO_LABELS: Mapping[str, str] = {}

_BUSY = frozenset({SlotState.LAUNCHING, SlotState.READY, SlotState.ENDING})
DUE = frozenset({SlotState.WANTED, SlotState.WAITING})
"""The states of a slot that has still to be launched."""
_NEVER_UP = RunEnded(
    state=RunState.CANCELLED,
    failure=Failure(error_class="cancelled", message="it was given back before it was up"),
)

Group = tuple[str, ...]
"""The slots of one box."""


@dataclass(frozen=True, slots=True)
class CapacityRequests:
    """The wishes for the slots of a cluster."""

    cluster: Cluster

    def view(self, context: Context) -> View:
        """The slots as the journal has them; no cloud is asked."""
        journal, now = context.journal, context.clock()
        since = now - max(REMEMBERED, self.cluster.lease)  # a box that was left lives no longer
        runs = journal.runs(owner=context.owner, over=True, since=since)
        boxes = {box.id: box for box in journal.boxes(owner=context.owner)}
        gone = {run.box for run in runs if run.work.slots and run.box and run.state not in RUNS_OVER}
        boxes |= {box.id: box for box in journal.known(Box, gone - boxes.keys())}

        def is_held(one: Box | Run) -> bool:
            return one.lease is not None and not context.may_take(one.lease)

        return view_of(self.cluster, runs, boxes, is_held, now)

    def seen(self, context: Context, names: Collection[str] | None = None) -> tuple[Slot, ...]:
        """The slots that are wanted, or still have a box, in order; no cloud is asked."""
        return shown(self.view(context), names)

    def own(self, context: Context) -> View:
        """The slots, all of them of this cluster: those that nobody else looks after any more become so.

        Raises:
            UsageError: another cluster of this name is being looked after.
        """
        view, now = self.view(context), context.clock()
        others = of_others(self.cluster, view.slots.values())
        for slot in others:
            if is_attended(slot, self.cluster.lease, now):
                name, other = self.cluster.name, slot.labels[SOURCE]
                raise UsageError(
                    f"two clusters are named {name!r}: {self.cluster.source}, and {other} wants {slot.name}",
                    hint="give one of them another name; the nodes of one that is dead end with their leases",
                )
        for wish in {slot.wish for slot in others}:
            context.journal.label(wish, {SOURCE: self.cluster.source})
        return self.view(context) if others else view

    def want(self, context: Context, groups: Sequence[Group], labels: Mapping[str, str] = NO_LABELS) -> None:
        """Writes down which slots are wanted, each group as the nodes of one box. Nothing is bought.

        A slot that is up, or wanted already, stays as it is. One that was lost is wanted anew. ``labels`` are
        those of the wishes that are written.

        Raises:
            UsageError: the cluster has no such slot, or a group cannot be launched as a whole.
        """
        for group in groups:
            if len({self.cluster.class_of(name) for name in group}) != 1:
                raise UsageError(f"a gang is of one class: {', '.join(group)}")
        view = self.own(context) if groups else View()
        works = {
            new_id("run-", context.clock(), context.randomness(10)): self._work(group, labels)
            for group in groups
            if self._is_new(context, view, group)
        }
        if works:
            context.journal.want(owner=context.owner, works=works, lease=context.lease())

    def give_back(self, context: Context, names: Collection[str]) -> None:
        """Ends the wishes for slots; no cloud is asked: the next look deletes their boxes."""
        view = self.own(context)
        self.give_up_all(context, view, [name for name in names if view.is_wanted(name)])

    def give_up_all(self, context: Context, view: View, names: Iterable[str]) -> Collection[str]:
        """Ends the wishes for slots that are not over; the ids of all of them."""
        wishes = {view.wishes[name].id: (view.wishes[name], view.slots[name]) for name in names}
        for wish, slot in wishes.values():
            if wish.state not in RUNS_OVER:
                self._give_up(context, wish, slot)
        return wishes.keys()

    def _work(self, group: Group, labels: Mapping[str, str]) -> Work:
        node_class = self.cluster.class_of(group[0])
        if self.cluster.source:
            labels = {**labels, SOURCE: self.cluster.source}
        slots = Slots(cluster=self.cluster.name, node_class=node_class, names=group, labels=labels)
        return Work(spec=self.cluster.spec_of(group).document(), command="", slots=slots)

    def _is_new(self, context: Context, view: View, group: Group) -> bool:
        """Whether a wish is to be written for a group; those that it replaces are ended.

        Raises:
            UsageError: a part of a gang is up already.
        """
        found = {wish.id: (wish, view.slots[name]) for name in group if (wish := view.wishes.get(name))}
        living = [(wish, slot) for wish, slot in found.values() if wish.state not in RUNS_OVER]
        for _, slot in living:
            if slot.state in _BUSY and slot.gang != group and len(group) > 1:
                raise UsageError(
                    f"{slot.name} is {slot.state}: a gang is launched as a whole",
                    hint="give it back first, or launch the other slots",
                )
        if any(slot.state in _BUSY or (slot.state in DUE and slot.gang == group) for _, slot in living):
            return False
        for wish, slot in living:
            self._give_up(context, wish, slot)
        return True

    def _give_up(self, context: Context, wish: Run, slot: Slot) -> None:
        """Ends a wish, also one that another process works on: that one plans no more boxes for it."""
        taken = context.take_run(wish, by_force=True)
        if taken is not None:
            was_up = slot.state in {SlotState.READY, SlotState.LOST, SlotState.ENDING}
            context.journal.write(taken, RunEnded(state=RunState.ENDED) if was_up else _NEVER_UP)


def shown(view: View, names: Collection[str] | None = None) -> tuple[Slot, ...]:
    """The slots of a view that are wanted or still have a box, or those of these names, in order."""
    return tuple(
        slot
        for name, slot in sorted(view.slots.items(), key=lambda each: _in_order(each[0]))
        if (names is None or name in names) and (slot.state is not SlotState.ENDED or slot.has_box)
    )


def _in_order(name: str) -> tuple[str, int]:
    """The key that sorts slots by class and number."""
    node_class, _, number = name.rpartition("-")
    return node_class, int(number)
