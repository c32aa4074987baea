"""The boxes of a cluster: bought, renewed and ended as its engine wants them.

What an engine wants is written down before anything is bought, as a run of the journal that has no command:
a wish. Its id is the name of its slot, so that no slot is wanted or launched twice; who launches holds its
lease. Its attempts are boxes; a failed launch is one that was lost. It ends when the engine does not want the
slot any more. Of a process that dies in between, the next one finds what is to be done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from gpucloud.boxes.launch import abandon
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.rules import (
    REMEMBERED,
    SOURCE,
    Action,
    Do,
    Slot,
    SlotState,
    is_attended,
    of_others,
    reconcile,
)
from gpucloud.elastic.view import View, view_of
from gpucloud.errors import CloudError, ErrorClass, GpucloudError, InterruptedBySignal, OwedError, UsageError
from gpucloud.inventory.down import end_all
from gpucloud.inventory.extend import extend
from gpucloud.inventory.reconcile import refresh_all, settle
from gpucloud.inventory.settling import settle_first
from gpucloud.journal.errors import JournalError, RunTakenError, StaleWriterError
from gpucloud.journal.events import RunEnded, RunLost
from gpucloud.journal.lifecycle import OVER, new_id
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import RUNS_OVER, Failure, Loss, RunState, Slots, Work
from gpucloud.runs.record import loss_of, with_loss
from gpucloud.runs.tend import end_boxes
from gpucloud.runtime.context import Context
from gpucloud.runtime.isolation import isolated
from gpucloud.runtime.tasks import Call, TimedOutError
from gpucloud.spec.model import Spec
from gpucloud.ssh.client import forget
from gpucloud.ssh.keys import key_folder

AT_ONCE = 128
"""The number of boxes that are launched or renewed at the same time: nearly all of it is waiting."""
LONGEST_S = 3600.0
"""How long to wait for all of them."""
KNOWN_FOR = timedelta(minutes=2)
"""How long it is not journalled again that a box is as it was: an engine looks each minute at all of them."""
SETTLE_S = 60.0
"""How long to wait until what is owed is settled; the next look goes on with the rest."""

NO_LABELS: Mapping[str, str] = {}

_NEVER_LOST = datetime.max.replace(tzinfo=UTC)
_BUSY = frozenset({SlotState.LAUNCHING, SlotState.READY, SlotState.ENDING})
_DUE = frozenset({SlotState.WANTED, SlotState.WAITING})
_NEVER_UP = RunEnded(
    state=RunState.CANCELLED,
    failure=Failure(error_class="cancelled", message="it was given back before it was up"),
)
_TAKEN_OVER = (JournalError, RunTakenError, StaleWriterError, InterruptedBySignal)
"""The failures of a launch that say nothing of its class."""

Group = tuple[str, ...]
"""The slots of one box."""

Buy = Callable[[Context, Run, Spec], Box]
"""Buys the box of a wish, and brings it up, both held; it may raise any :class:`GpucloudError`."""

Join = Callable[[Context, Box, Group], None]
"""Makes the nodes of a box known to its engine; it may raise any :class:`GpucloudError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What was done for the slots of a cluster.

    Attributes:
        slots: the slots that were asked about, as they are now; those that nobody wants are left out.
        actions: what was decided: also whether slots are lost or wait, which the engine is to be told.
        troubles: what could not be done; the next look goes on with it.
    """

    slots: tuple[Slot, ...]
    actions: tuple[Action, ...] = ()
    troubles: tuple[GpucloudError, ...] = ()


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keeps the boxes of a cluster.

    Attributes:
        cluster: the cluster.
        offer: plans for boxes of a spec with these names at today's prices, and returns what buys one.
        join: makes the nodes of a box known to the engine, by its slots in the order of the nodes. A box that
            cannot join is of no use: it is deleted, and its class backs off.
    """

    cluster: Cluster
    offer: Callable[[Context, Spec, Sequence[str]], Buy]
    join: Join

    def view(self, context: Context) -> View:
        """The slots as the journal has them; no cloud is asked."""
        journal, now = context.journal, context.clock()
        since = now - max(REMEMBERED, self.cluster.lease)  # a box that was left lives no longer
        runs = journal.runs(owner=context.owner, over=True, since=since)
        boxes = {box.id: box for box in journal.boxes(owner=context.owner)}
        gone = {run.box for run in runs if run.work.slots and run.box and run.state not in RUNS_OVER}
        boxes |= {box.id: box for box in journal.known(gone - boxes.keys())}

        def is_held(one: Box | Run) -> bool:
            return one.lease is not None and not context.may_take(one.lease)

        return view_of(self.cluster, runs, boxes, is_held, now)

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
        view = self._own(context) if groups else View()
        works = {
            new_id("run-", context.clock(), context.randomness(10)): self._work(group, labels)
            for group in groups
            if self._is_new(context, view, group)
        }
        if works:
            context.journal.want(owner=context.owner, works=works, lease=context.lease())

    def up(self, context: Context, groups: Sequence[Group]) -> Reconciled:
        """Writes down what is wanted, and launches what is not there and does not have to wait.

        Raises:
            UsageError: as :meth:`want`.
        """
        self.want(context, groups)
        return self.launch(context, list(dict.fromkeys(name for group in groups for name in group)))

    def launch(self, context: Context, names: Collection[str]) -> Reconciled:
        """Launches those of these slots that are wanted, and do not have to wait; nothing is wanted anew."""
        settle_first(context)
        view = self.view(context)
        seen = [view.slots[name] for name in names if name in view.slots and view.is_wanted(name)]
        wanted = dict.fromkeys((slot.name for slot in seen), _NEVER_LOST)
        actions = reconcile(self.cluster, wanted, seen, view.backoffs, context.clock())
        troubles = self._launch(context, _groups(actions, Do.LAUNCH))
        return self._result(context, names, actions, troubles)

    def down(self, context: Context, names: Collection[str]) -> Reconciled:
        """Ends the wishes for slots, and their boxes; a gang when none of its slots is wanted any more."""
        view, troubles = self._own(context), list[GpucloudError]()
        known = [slot for name in names if (slot := view.slots.get(name)) is not None]
        self._end(context, view, [slot.name for slot in known if set(slot.gang) <= set(names)], troubles)
        return self._result(context, names, (), troubles)

    def give_back(self, context: Context, names: Collection[str]) -> None:
        """Ends the wishes for slots; no cloud is asked: the next look deletes their boxes."""
        view = self._own(context)
        self._give_up_all(context, view, [name for name in names if view.is_wanted(name)])

    def renew(self, context: Context, names: Collection[str]) -> Reconciled:
        """Gives the boxes of slots that are ready a whole lease from now."""
        view = self.view(context)
        ready = [name for name in names if name in view.slots and view.slots[name].state is SlotState.READY]
        return self._result(context, names, (), self._renew(context, view, ready))

    def rejoin(self, context: Context, names: Collection[str]) -> list[GpucloudError]:
        """Makes the nodes of slots that are ready known to their engine once more, several at a time.

        Returns:
            One error for each box that could not join; it stays.
        """
        view = self.view(context)
        ready = [view.slots[name] for name in names if name in view.slots]
        boxes = {slot.box: slot.gang for slot in ready if slot.state is SlotState.READY}
        known = context.journal.known([box for box in boxes if box])
        calls = [(box.name, partial(self._rejoin_one, box, boxes[box.id])) for box in known]
        return _in_threads(context, calls)

    def reconcile(
        self, context: Context, wanted: Mapping[str, datetime], as_of: datetime | None = None
    ) -> Reconciled:
        """Sees to it that the slots are there that are wanted, and no others.

        Args:
            context: clouds, journal, clock and progress of this call.
            wanted: the slots that the engine wants, each with when it asked for it.
            as_of: when the engine said so; what was wanted since is left alone.

        Raises:
            UsageError: the cluster has no such slot.
        """
        view, troubles = self._look_around(context)
        actions = reconcile(
            self.cluster, wanted, view.slots.values(), view.backoffs, context.clock(), as_of=as_of
        )
        troubles += self._renew(context, view, _names(actions, Do.RENEW))
        self._end(context, view, _names(actions, Do.END), troubles)
        groups = _groups(actions, Do.LAUNCH)
        self.want(context, [*groups, *_groups(actions, Do.WAIT)])
        troubles += self._launch(context, groups)
        if all(action.do in {Do.NOTHING, Do.LOST} for action in actions):
            return Reconciled(slots=_shown(view), actions=tuple(actions), troubles=tuple(troubles))
        return self._result(context, None, actions, troubles)

    def look(self, context: Context) -> Reconciled:
        """Renews the boxes that are wanted by :meth:`want`, and ends the others.

        It is for an engine that says what it wants by :meth:`want` and :meth:`give_back`, also during a look.
        What is to be launched is only told, in the actions.
        """
        view, troubles = self._look_around(context)
        wanted = {name: wish.created_at for name, wish in view.wishes.items() if view.is_wanted(name)}
        actions = reconcile(self.cluster, wanted, view.slots.values(), view.backoffs, context.clock())
        troubles += self._renew(context, view, _names(actions, Do.RENEW))
        self._end(context, view, _names(actions, Do.END), troubles)
        return self._result(context, None, actions, troubles)

    def seen(self, context: Context, names: Collection[str] | None = None) -> tuple[Slot, ...]:
        """The slots that are wanted, or still have a box, in order; no cloud is asked."""
        return _shown(self.view(context), names)

    # --- wishes

    def _own(self, context: Context) -> View:
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
        if any(slot.state in _BUSY or (slot.state in _DUE and slot.gang == group) for _, slot in living):
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

    def _give_up_all(self, context: Context, view: View, names: Iterable[str]) -> Collection[str]:
        """Ends the wishes for slots that are not over; the ids of all of them."""
        wishes = {view.wishes[name].id: (view.wishes[name], view.slots[name]) for name in names}
        for wish, slot in wishes.values():
            if wish.state not in RUNS_OVER:
                self._give_up(context, wish, slot)
        return wishes.keys()

    # --- boxes

    def _look_around(self, context: Context) -> tuple[View, list[GpucloudError]]:
        """The slots, after the clouds were asked about boxes that are up, and what is owed was settled."""
        before, view = context.journal.last(), self._own(context)
        up = {slot.box for slot in view.slots.values() if slot.state is SlotState.READY}
        troubles = refresh_all(context, [view.boxes[each] for each in up if each], known_for=KNOWN_FOR)
        troubles += settle(context, budget_s=SETTLE_S)
        changed = context.journal.last() != before
        return self.view(context) if changed else view, troubles

    def _launch(self, context: Context, groups: Sequence[Group]) -> list[GpucloudError]:
        """Launches the boxes of wishes that no other process works on, several at a time."""
        view = self.view(context) if groups else View()
        alike: defaultdict[tuple[str, int], dict[Group, Run]] = defaultdict(dict)
        for group in groups:
            wish, slot = view.wishes.get(group[0]), view.slots.get(group[0])
            if wish is None or slot is None or slot.gang != group or slot.state not in _DUE:
                continue
            taken = context.take_run(wish)
            if taken is not None and taken.epoch == wish.epoch + 1:  # nobody has worked on it since
                alike[slot.node_class, len(group)][group] = taken
            elif taken is not None:
                context.journal.release(taken)
        troubles: list[GpucloudError] = []
        calls = [
            (node_class, partial(self._launch_alike, wishes, troubles))
            for (node_class, _), wishes in alike.items()
        ]
        return _in_threads(context, calls) + troubles

    def _launch_alike(
        self, wishes: Mapping[Group, Run], troubles: list[GpucloudError], context: Context
    ) -> None:
        """Launches the boxes of wishes of one class and size, which this process holds, by one plan.

        Raises:
            GpucloudError: the failures could not be written down.
        """
        try:
            spec = self.cluster.spec_of(next(iter(wishes))).replaced(name=None)
            buy = self._offer(context, spec, wishes)
            if buy is not None:
                calls = [(group[0], partial(self._launch_one, buy, wish)) for group, wish in wishes.items()]
                troubles += _in_threads(context, calls)
        finally:
            for wish in wishes.values():
                context.journal.release(wish)

    def _offer(self, context: Context, spec: Spec, wishes: Mapping[Group, Run]) -> Buy | None:
        """What buys the boxes of wishes; ``None`` if there is no offer: that is written down.

        Raises:
            GpucloudError: a wish was taken over, or a signal came.
        """
        try:
            return self.offer(context, spec, [group[0] for group in wishes])
        except Exception as error:
            self._write_failure(context, wishes.values(), error)
            return None

    def _launch_one(self, buy: Buy, wish: Run, context: Context) -> None:
        """Launches the box of a wish, which this process holds.

        Raises:
            GpucloudError: something may still be billed, or the wish was taken over.
        """
        assert wish.work.slots is not None  # noqa: S101  (it is a wish)
        names = wish.work.slots.names
        try:
            died = self._clear(context, wish, names)
            if not died or not self.view(context).is_paused(wish.work.slots.node_class, context.clock()):
                self._buy(context, buy, wish, names)
        finally:
            context.journal.release(wish)

    def _clear(self, context: Context, wish: Run, names: Group) -> bool:
        """Ends the boxes that have the slots' names: of a launch whose process died, or of older wishes.

        Returns:
            Whether there was such a launch of this wish.

        Raises:
            UsageError: another process is ending one.
            OwedError: something may still be billed.
        """
        left = [
            box
            for name in names
            for box in context.journal.named(context.owner, name)
            if box.run_id == box.name and box.state not in OVER
        ]
        for box in left:
            if not context.may_take(box.lease):
                raise UsageError(f"another process works on box {box.name!r}", hint="it is launched later")
        died = bool(wish.attempts) and wish.attempts[-1].loss is None
        if died:
            lost = with_loss(context, wish, Loss.LAUNCH, "its launch was not finished")[-1]
            context.journal.write(wish, RunLost(attempt=lost, restart_at=context.clock()))
        end_boxes(context, left)
        return died

    def _buy(self, context: Context, buy: Buy, wish: Run, names: Group) -> None:
        """Buys the box of a wish and brings it up; a failure is written down.

        Raises:
            GpucloudError: something may still be billed, or the wish was taken over.
        """
        try:
            box = buy(context, context.journal.held_run(wish), self.cluster.spec_of(names))
            self._join(context, box, names)
        except Exception as error:
            self._write_failure(context, [wish], error)
        else:
            context.journal.release(box)

    def _join(self, context: Context, box: Box, names: Group) -> None:
        """Makes the nodes of a box known to the engine; a box that cannot join is deleted.

        Raises:
            GpucloudError: it cannot; nothing is left, unless the error says so.
        """
        try:
            self.join(context, box, names)
        except BaseException as error:
            abandon(context, box, error)
            assert context.state is not None  # noqa: S101  (who buys has a state folder)
            forget(key_folder(context.state, box.id), box.id, nodes=len(box.nodes))
            raise

    def _rejoin_one(self, box: Box, names: Group, context: Context) -> None:
        self.join(context, box, names)

    def _write_failure(self, context: Context, wishes: Collection[Run], error: Exception) -> None:
        """Writes down that launches of one class failed, and until when the class backs off.

        Raises:
            Exception: the error, if it says nothing of the class, or more than that a launch failed.
        """
        if isinstance(error, _TAKEN_OVER):
            raise error
        why = error.message if isinstance(error, GpucloudError) else f"unexpected {error!r}"
        loss = _loss(error)
        view, now = self.view(context), context.clock()
        for wish in wishes:
            assert wish.work.slots is not None  # noqa: S101  (it is a wish)
            lost = with_loss(context, context.journal.held_run(wish), loss, why)[-1]
            until = view.backoff_with(wish.work.slots.node_class, now, why).until
            context.journal.write(wish, RunLost(attempt=lost, restart_at=until))
        if isinstance(error, OwedError) or not isinstance(error, GpucloudError):
            raise error

    def _renew(self, context: Context, view: View, names: Iterable[str]) -> list[GpucloudError]:
        """Moves the ends of the boxes of slots to a lease from now, several at a time."""
        boxes = {slot.box: slot.gang[0] for name in names if (slot := view.slots[name]).box}
        calls = [(name, partial(self._renew_one, box)) for box, name in boxes.items() if box]
        return _in_threads(context, calls)

    def _renew_one(self, box: str, context: Context) -> None:
        now = context.journal.box(box)
        if context.may_take(now.lease):  # else another process renews or ends it
            extend(context, now, self.cluster.lease)

    def _end(self, context: Context, view: View, names: Iterable[str], troubles: list[GpucloudError]) -> None:
        """Ends the wishes for slots first, so that nobody launches for them, then their boxes."""
        wishes = self._give_up_all(context, view, names)
        ids = {each.box for wish in wishes for each in context.journal.run(wish).attempts if each.box}
        end_all(context, [box for box in context.journal.known(ids) if box.state not in OVER], troubles)

    def _result(
        self,
        context: Context,
        names: Collection[str] | None,
        actions: Sequence[Action],
        troubles: Sequence[GpucloudError],
    ) -> Reconciled:
        return Reconciled(slots=self.seen(context, names), actions=tuple(actions), troubles=tuple(troubles))


def _loss(error: Exception) -> Loss:
    """What a failed launch means for its class. Of a cloud that is asked too often, only that it was one."""
    if isinstance(error, CloudError) and error.error_class == ErrorClass.THROTTLED:
        return Loss.LAUNCH
    capacity = isinstance(error, GpucloudError) and loss_of(error) is Loss.CAPACITY
    return Loss.CAPACITY if capacity else Loss.REFUSED


def _shown(view: View, names: Collection[str] | None = None) -> tuple[Slot, ...]:
    """The slots of a view that are wanted or still have a box, or those of these names, in order."""
    return tuple(
        slot
        for name, slot in sorted(view.slots.items(), key=lambda each: _in_order(each[0]))
        if (names is None or name in names) and (slot.state is not SlotState.ENDED or slot.has_box)
    )


def _in_threads(
    context: Context, calls: Sequence[tuple[str, Callable[[Context], None]]]
) -> list[GpucloudError]:
    """Makes calls, each with a name, several at a time; those under way are finished in any case.

    Returns:
        One error for each that failed.
    """
    tasks = context.tasks
    running: dict[str, Call] = {}
    with tasks.finishing():
        try:
            for name, call in calls:
                if not tasks.until_done(running.values(), LONGEST_S, but=AT_ONCE - 1) or tasks.signum:
                    break
                running[name] = tasks.start(partial(_in_thread, context, call))
        finally:
            tasks.until_done(running.values(), LONGEST_S)
    troubles: list[GpucloudError] = []
    for name, each in running.items():
        with isolated(troubles, name):
            if not each.done:
                raise TimedOutError("it is not finished yet")
            each.value()
    return troubles


def _in_thread(context: Context, call: Callable[[Context], None]) -> None:
    """Makes a call in this thread, which waits by itself."""
    tasks = context.tasks.for_another_thread()
    with tasks.within(LONGEST_S):
        call(replace(context, tasks=tasks))


def _groups(actions: Iterable[Action], do: Do) -> list[Group]:
    """The slots about which one thing is to be done, by box."""
    return [action.slots for action in actions if action.do is do]


def _names(actions: Iterable[Action], do: Do) -> list[str]:
    """The slots about which one thing is to be done."""
    return [name for action in actions if action.do is do for name in action.slots]


def _in_order(name: str) -> tuple[str, int]:
    """The key that sorts slots by class and number."""
    node_class, _, number = name.rpartition("-")
    return node_class, int(number)
