"""The boxes of a cluster: bought, renewed and ended as its engine wants them.

What an engine wants is written down before anything is bought: a wish. Who launches holds its lease. Its
attempts are boxes; a failed launch is one that was lost. It ends when the engine does not want the slot any
more. After a crash the next pass goes on from the journal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from gpucloud.boxes.deadline import extend
from gpucloud.elastic.capacity_requests import DUE, CapacityRequests, Group, shown
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.rules import (
    Action,
    Do,
    Slot,
    SlotState,
    reconcile,
)
from gpucloud.elastic.view import View
from gpucloud.ending.down import end_all
from gpucloud.ending.reconcile import refresh_all, settle
from gpucloud.errors import (
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    GpucloudError,
    InterruptedBySignal,
    UsageError,
)
from gpucloud.journal.errors import JournalError, RunTakenError, StaleWriterError
from gpucloud.journal.events import RunLost
from gpucloud.journal.lifecycle import OVER
from gpucloud.journal.records import Box, Run
from gpucloud.journal.runs import Loss
from gpucloud.planning.access import SKEW_FAILS, begin_reading, reading_of
from gpucloud.purchase.failover import abandon
from gpucloud.runs.first_step import settle_first
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

_NEVER_LOST = datetime.max.replace(tzinfo=UTC)
_TAKEN_OVER = (JournalError, RunTakenError, StaleWriterError, InterruptedBySignal)
"""The failures of a launch that say nothing of its class."""

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
class FleetController:
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

    @property
    def _wishes(self) -> CapacityRequests:
        return CapacityRequests(self.cluster)

    def up(self, context: Context, groups: Sequence[Group]) -> Reconciled:
        """Writes down what is wanted, and launches what is not there and does not have to wait.

        Raises:
            UsageError: as :meth:`want`.
        """
        self._wishes.want(context, groups)
        return self.launch(context, list(dict.fromkeys(name for group in groups for name in group)))

    def launch(self, context: Context, names: Collection[str]) -> Reconciled:
        """Launches those of these slots that are wanted, and do not have to wait; nothing is wanted anew."""
        settle_first(context)
        view = self._wishes.view(context)
        seen = [view.slots[name] for name in names if name in view.slots and view.is_wanted(name)]
        wanted = dict.fromkeys((slot.name for slot in seen), _NEVER_LOST)
        actions = reconcile(self.cluster, wanted, seen, view.backoffs, context.clock())
        troubles = self._launch(context, _groups(actions, Do.LAUNCH))
        return self._result(context, names, actions, troubles)

    def down(self, context: Context, names: Collection[str]) -> Reconciled:
        """Ends the wishes for slots, and their boxes; a gang when none of its slots is wanted any more."""
        view, troubles = self._wishes.own(context), list[GpucloudError]()
        known = [slot for name in names if (slot := view.slots.get(name)) is not None]
        self._end(context, view, [slot.name for slot in known if set(slot.gang) <= set(names)], troubles)
        return self._result(context, names, (), troubles)

    def renew(self, context: Context, names: Collection[str]) -> Reconciled:
        """Gives the boxes of slots that are ready a whole lease from now."""
        view = self._wishes.view(context)
        ready = [name for name in names if name in view.slots and view.slots[name].state is SlotState.READY]
        return self._result(context, names, (), self._renew(context, view, ready))

    def rejoin(self, context: Context, names: Collection[str]) -> list[GpucloudError]:
        """Makes the nodes of slots that are ready known to their engine once more, several at a time.

        Returns:
            One error for each box that could not join; it stays.
        """
        view = self._wishes.view(context)
        ready = [view.slots[name] for name in names if name in view.slots]
        boxes = {slot.box: slot.gang for slot in ready if slot.state is SlotState.READY}
        known = context.journal.known(Box, [box for box in boxes if box])
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
        actions = self._decide(context, view, wanted, troubles, as_of=as_of)
        troubles += self._renew(context, view, _names(actions, Do.RENEW))
        self._end(context, view, _names(actions, Do.END), troubles)
        groups = _groups(actions, Do.LAUNCH)
        self._wishes.want(context, [*groups, *_groups(actions, Do.WAIT)])
        troubles += self._launch(context, groups)
        if all(action.do in {Do.NOTHING, Do.LOST} for action in actions):
            return Reconciled(slots=shown(view), actions=tuple(actions), troubles=tuple(troubles))
        return self._result(context, None, actions, troubles)

    def look(self, context: Context) -> Reconciled:
        """Renews the boxes that are wanted by :meth:`want`, and ends the others.

        It is for an engine that says what it wants by :meth:`want` and :meth:`give_back`, also during a look.
        What is to be launched is only told, in the actions.
        """
        view, troubles = self._look_around(context)
        wanted = {name: wish.created_at for name, wish in view.wishes.items() if view.is_wanted(name)}
        actions = self._decide(context, view, wanted, troubles)
        troubles += self._renew(context, view, _names(actions, Do.RENEW))
        self._end(context, view, _names(actions, Do.END), troubles)
        return self._result(context, None, actions, troubles)

    def _decide(
        self,
        context: Context,
        view: View,
        wanted: Mapping[str, datetime],
        troubles: list[GpucloudError],
        as_of: datetime | None = None,
    ) -> list[Action]:
        """What is to be done about slots.

        By a clock that differs from that of a cloud with boxes, boxes are only ended: leases seem to have
        passed, or to last, that have not, or do not.
        """
        now = context.clock()
        actions = reconcile(self.cluster, wanted, view.slots.values(), view.backoffs, now, as_of=as_of)
        clouds = {slot.cloud for slot in view.slots.values() if slot.has_box and slot.cloud}
        trouble = _clock_trouble(context, clouds)
        if trouble is not None:
            troubles.append(trouble)
            return [action for action in actions if action.do is Do.END]
        return actions

    # --- boxes

    def _look_around(self, context: Context) -> tuple[View, list[GpucloudError]]:
        """The slots, after the clouds were asked about boxes that are up, and what is owed was settled."""
        before, view = context.journal.last(), self._wishes.own(context)
        up = {slot.box for slot in view.slots.values() if slot.state is SlotState.READY}
        troubles = refresh_all(context, [view.boxes[each] for each in up if each], known_for=KNOWN_FOR)
        troubles += settle(context, budget_s=SETTLE_S)
        changed = context.journal.last() != before
        return self._wishes.view(context) if changed else view, troubles

    def _launch(self, context: Context, groups: Sequence[Group]) -> list[GpucloudError]:
        """Launches the boxes of wishes that no other process works on, several at a time."""
        view = self._wishes.view(context) if groups else View()
        alike: defaultdict[tuple[str, int], dict[Group, Run]] = defaultdict(dict)
        for group in groups:
            wish, slot = view.wishes.get(group[0]), view.slots.get(group[0])
            if wish is None or slot is None or slot.gang != group or slot.state not in DUE:
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
            if not died or not self._wishes.view(context).is_paused(
                wish.work.slots.node_class, context.clock()
            ):
                self._buy(context, buy, wish, names)
        finally:
            context.journal.release(wish)

    def _clear(self, context: Context, wish: Run, names: Group) -> bool:
        """Ends the boxes that have the slots' names: of a launch whose process died, or of older wishes.

        Returns:
            Whether there was such a launch of this wish.

        Raises:
            UsageError: another process is ending one.
            CleanupIncompleteError: something may still be billed.
        """
        left = [
            box
            for name in names
            for box in context.journal.named(context.owner, name)
            if isinstance(box, Box) and box.run_id == box.name and box.state not in OVER
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
        view, now = self._wishes.view(context), context.clock()
        for wish in wishes:
            assert wish.work.slots is not None  # noqa: S101  (it is a wish)
            lost = with_loss(context, context.journal.held_run(wish), loss, why)[-1]
            until = view.backoff_with(wish.work.slots.node_class, now, why).until
            context.journal.write(wish, RunLost(attempt=lost, restart_at=until))
        if isinstance(error, CleanupIncompleteError) or not isinstance(error, GpucloudError):
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
        wishes = self._wishes.give_up_all(context, view, names)
        ids = {each.box for wish in wishes for each in context.journal.run(wish).attempts if each.box}
        end_all(context, [box for box in context.journal.known(Box, ids) if box.state not in OVER], troubles)

    def _result(
        self,
        context: Context,
        names: Collection[str] | None,
        actions: Sequence[Action],
        troubles: Sequence[GpucloudError],
    ) -> Reconciled:
        return Reconciled(
            slots=self._wishes.seen(context, names), actions=tuple(actions), troubles=tuple(troubles)
        )


def _clock_trouble(context: Context, clouds: Iterable[str]) -> GpucloudError | None:
    """Why nothing can be concluded from our clock: that of one of these clouds differs."""
    asked: list[Call] = []
    for name in sorted(clouds):
        with suppress(CloudError):  # its boxes could not be looked after: that is told already
            asked.append(begin_reading(context, context.clouds.usable(name)))
    for each in asked:
        reading = reading_of(context, each)
        if reading is not None and reading.skew > SKEW_FAILS:
            return GpucloudError(
                f"{reading.text}: no node is launched, renewed, or said to be lost",
                hint=f"{context.mend_clock}; then check again: gpucloud check",
            )
    return None


def _loss(error: Exception) -> Loss:
    """What a failed launch means for its class. Of a cloud that is asked too often, only that it was one."""
    if isinstance(error, CloudError) and error.error_class == ErrorClass.THROTTLED:
        return Loss.LAUNCH
    capacity = isinstance(error, GpucloudError) and loss_of(error) is Loss.CAPACITY
    return Loss.CAPACITY if capacity else Loss.REFUSED


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
