"""The boxes of a cluster: bought, renewed and ended as its engine wants them.

What an engine wants is written down before anything is bought, as a run of the journal that has no command:
a wish. Its id is the name of its slot, so that no slot is wanted or launched twice; who launches holds its
lease. Its attempts are boxes; a failed launch is one that was lost. It ends when the engine does not want the
slot any more. Of a process that dies in between, the next one finds what is to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from gpucloud.boxes.launch import abandon
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.rules import REMEMBERED, Action, Do, Slot, SlotState, reconcile
from gpucloud.elastic.view import View, view_of
from gpucloud.errors import GpucloudError, InterruptedBySignal, OwedError, UsageError
from gpucloud.inventory.down import end_all
from gpucloud.inventory.extend import extend
from gpucloud.inventory.reconcile import refresh_all, settle
from gpucloud.inventory.settling import settle_first
from gpucloud.journal.errors import JournalError, RunTakenError, StaleWriterError
from gpucloud.journal.events import RunEnded, RunLost
from gpucloud.journal.lifecycle import OVER, BoxState, new_id
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

AT_ONCE = 32
"""The number of boxes that are launched or renewed at the same time."""
LONGEST_S = 3600.0
"""How long to wait for all of them."""
SETTLE_S = 60.0
"""How long to wait until what is owed is settled; the next look goes on with the rest."""

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
        buy: buys a box of a spec for a wish, and brings it up, both held.
        join: makes the nodes of a box known to the engine, by its slots in the order of the nodes. A box that
            cannot join is of no use: it is deleted, and its class backs off.
    """

    cluster: Cluster
    buy: Callable[[Context, Run, Spec], Box]
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

    def want(self, context: Context, groups: Sequence[Group]) -> None:
        """Writes down which slots are wanted, each group as the nodes of one box. Nothing is bought.

        A slot that is up, or wanted already, stays as it is. One that was lost is wanted anew.

        Raises:
            UsageError: the cluster has no such slot, or a group cannot be launched as a whole.
        """
        for group in groups:
            if len({self.cluster.class_of(name) for name in group}) != 1:
                raise UsageError(f"a gang is of one class: {', '.join(group)}")
        view = self.view(context) if groups else View()
        works = {
            new_id("run-", context.clock(), context.randomness(10)): self._work(group)
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
        settle_first(context)
        view, names = self.view(context), {name: None for group in groups for name in group}
        seen = [view.slots[name] for name in names if name in view.slots]
        wanted = dict.fromkeys(names, _NEVER_LOST)
        actions = reconcile(self.cluster, wanted, seen, view.backoffs, context.clock())
        troubles = self._launch(context, _groups(actions, Do.LAUNCH))
        return self._result(context, names, actions, troubles)

    def down(self, context: Context, names: Collection[str]) -> Reconciled:
        """Ends the wishes for slots, and their boxes; a gang when none of its slots is wanted any more."""
        view, troubles = self.view(context), list[GpucloudError]()
        known = [slot for name in names if (slot := view.slots.get(name)) is not None]
        self._end(context, view, [slot.name for slot in known if set(slot.gang) <= set(names)], troubles)
        return self._result(context, names, (), troubles)

    def renew(self, context: Context, names: Collection[str]) -> Reconciled:
        """Gives the boxes of slots that are ready a whole lease from now."""
        view = self.view(context)
        ready = [name for name in names if name in view.slots and view.slots[name].state is SlotState.READY]
        return self._result(context, names, (), self._renew(context, view, ready))

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
        troubles = refresh_all(context, self._boxes_up(context))
        troubles += settle(context, budget_s=SETTLE_S)
        view = self.view(context)
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

    def seen(self, context: Context, names: Collection[str] | None = None) -> tuple[Slot, ...]:
        """The slots that are wanted, or still have a box, in order; no cloud is asked."""
        return _shown(self.view(context), names)

    # --- wishes

    def _work(self, group: Group) -> Work:
        slots = Slots(cluster=self.cluster.name, node_class=self.cluster.class_of(group[0]), names=group)
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

    # --- boxes

    def _boxes_up(self, context: Context) -> list[Box]:
        """The boxes of the cluster that were up when somebody looked."""
        beginning = f"{self.cluster.name}-"
        return [
            box
            for box in context.journal.boxes(owner=context.owner)
            if box.state is BoxState.READY and box.run_id == box.name and box.name.startswith(beginning)
        ]

    def _launch(self, context: Context, groups: Sequence[Group]) -> list[GpucloudError]:
        """Launches the boxes of wishes that no other process works on, several at a time."""
        view = self.view(context) if groups else View()
        calls: list[tuple[str, Callable[[Context], None]]] = []
        for group in groups:
            wish, slot = view.wishes.get(group[0]), view.slots.get(group[0])
            if wish is None or slot is None or slot.gang != group or slot.state not in _DUE:
                continue
            taken = context.take_run(wish)
            if taken is not None and taken.number == wish.number + 1:
                calls.append((group[0], partial(self._launch_one, taken)))
            elif taken is not None:
                context.journal.release(taken)
        return _in_threads(context, calls)

    def _launch_one(self, wish: Run, context: Context) -> None:
        """Launches the box of a wish, which this process holds.

        Raises:
            GpucloudError: something may still be billed, or the wish was taken over.
        """
        assert wish.work.slots is not None  # noqa: S101  (it is a wish)
        names = wish.work.slots.names
        try:
            self._clear(context, wish, names)
            self._buy(context, wish, names)
        finally:
            context.journal.release(wish)

    def _clear(self, context: Context, wish: Run, names: Group) -> None:
        """Ends the boxes that have the slots' names: of a launch whose process died, or of older wishes.

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
        if wish.attempts and wish.attempts[-1].loss is None:
            lost = with_loss(context, wish, Loss.LAUNCH, "its launch was not finished")[-1]
            context.journal.write(wish, RunLost(attempt=lost, restart_at=context.clock()))
        end_boxes(context, left)

    def _buy(self, context: Context, wish: Run, names: Group) -> None:
        """Buys the box of a wish and brings it up; a failure is written down: its class backs off.

        Raises:
            GpucloudError: something may still be billed, or the wish was taken over.
        """
        try:
            box = self.buy(context, context.journal.held_run(wish), self.cluster.spec_of(names))
            self._join(context, box, names)
        except _TAKEN_OVER:
            raise
        except Exception as error:
            self._write_failure(context, wish, error)
            if isinstance(error, GpucloudError) and not isinstance(error, OwedError):
                return
            raise
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

    def _write_failure(self, context: Context, wish: Run, error: Exception) -> None:
        """Writes down that a launch failed, and until when its class backs off."""
        assert wish.work.slots is not None  # noqa: S101  (it is a wish)
        loss, why = Loss.REFUSED, f"unexpected {type(error).__name__}: {error}"
        if isinstance(error, GpucloudError):
            loss, why = Loss.CAPACITY if loss_of(error) is Loss.CAPACITY else loss, error.message
        lost = with_loss(context, context.journal.held_run(wish), loss, why)[-1]
        backoff = self.view(context).backoff_with(wish.work.slots.node_class, context.clock(), why)
        context.journal.write(wish, RunLost(attempt=lost, restart_at=backoff.until))

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
        wishes = {view.wishes[name].id: (view.wishes[name], view.slots[name]) for name in names}
        for wish, slot in wishes.values():
            if wish.state not in RUNS_OVER:
                self._give_up(context, wish, slot)
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
