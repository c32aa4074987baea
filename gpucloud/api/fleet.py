"""The boxes of a cluster for an engine that has a queue of its own."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from gpucloud.clouds.cloud import Clouds
from gpucloud.elastic.capacity_requests import NO_LABELS, CapacityRequests
from gpucloud.elastic.cluster import Cluster
from gpucloud.journal.leases import calling
from gpucloud.runtime.context import Context
from gpucloud.runtime.tasks import Tasks

if TYPE_CHECKING:
    from gpucloud.api.session import Session
    from gpucloud.elastic.fleet import Buy, FleetController, Join, Reconciled
    from gpucloud.elastic.rules import LaunchPause, Slot
    from gpucloud.elastic.view import View
    from gpucloud.ending.discovery import DiscoveryResult
    from gpucloud.errors import GpucloudError
    from gpucloud.journal.records import Box, Run
    from gpucloud.purchase.order import LaunchOrder
    from gpucloud.spec.model import Spec


@dataclass(frozen=True, slots=True)
class Fleet:
    """The boxes of a cluster, each a slot or, of a gang, several.

    The engine decides how many nodes it wants; where each comes from, what it may cost and that it ends is
    decided here. What is wanted is in the journal before anything is bought: any number of processes may
    call, also at once, and one that dies leaves what the next call goes on with. A box lives for the lease of
    the cluster unless that is renewed.
    """

    cluster: Cluster
    _session: Session
    _join: Join = field(default=lambda _context, _box, _slots: None)

    def want(
        self, slots: Sequence[str], *, gang: bool = False, labels: Mapping[str, str] = NO_LABELS
    ) -> tuple[Slot, ...]:
        """Writes down that slots are wanted, and returns at once: :meth:`up` or :meth:`reconcile` launches.

        Args:
            slots: the names of the slots.
            gang: launches them as the nodes of one box, in this order, all or none.
            labels: what the engine says of those that are wanted from now on, in its own words.

        Raises:
            UsageError: the cluster has no such slot, or a part of the gang is up already.
        """
        return self.want_boxes(_groups(slots, gang=gang), labels)

    def want_boxes(
        self, boxes: Sequence[Sequence[str]], labels: Mapping[str, str] = NO_LABELS
    ) -> tuple[Slot, ...]:
        """Like :meth:`want`, for the slots of several boxes: those of one are launched together.

        Args:
            boxes: the slots of each box, by rank.
            labels: as of :meth:`want`.
        """
        with self._noting() as context:
            self._wishes.want(context, [tuple(box) for box in boxes], labels)
            return self._wishes.seen(context, [name for box in boxes for name in box])

    def up(self, slots: Sequence[str], *, gang: bool = False) -> Reconciled:
        """Launches slots, several at a time; those that are up stay. Arguments and errors: :meth:`want`.

        A slot of a class whose last launch failed is ``waiting`` or ``wanted``, with the reason: nothing of
        the class is launched for 10 minutes, then 20, up to an hour, until a box of it comes up.
        """
        return self.up_boxes(_groups(slots, gang=gang))

    def up_boxes(self, boxes: Sequence[Sequence[str]]) -> Reconciled:
        """Like :meth:`up`, for the slots of several boxes. Arguments and errors: :meth:`want_boxes`."""
        with self._session.operation() as context:
            return self._keeper.up(context, [tuple(box) for box in boxes])

    def down(self, slots: Collection[str]) -> Reconciled:
        """Deletes the boxes of slots, also those that another process launches; nothing is left of them.

        A gang is deleted when all of its slots are given back.
        """
        with self._session.operation() as context:
            return self._keeper.down(context, slots)

    def launch(self, slots: Collection[str]) -> Reconciled:
        """Launches those of these slots that are wanted by :meth:`want`, and do not have to wait."""
        with self._session.operation() as context:
            return self._keeper.launch(context, slots)

    def give_back(self, slots: Collection[str]) -> None:
        """Writes down that slots are not wanted any more, and returns at once: :meth:`look` deletes them."""
        with self._noting() as context:
            self._wishes.give_back(context, slots)

    def renew(self, slots: Collection[str]) -> Reconciled:
        """Gives the boxes of slots that are ready a whole lease from now, several at a time."""
        with self._session.operation() as context:
            return self._keeper.renew(context, slots)

    def label(self, wish: str, labels: Mapping[str, str]) -> None:
        """Adds labels to the slots of a wish, unless that is over; a label that was there is replaced."""
        self._session.journal.label(wish, labels)

    def pauses(self) -> Mapping[str, LaunchPause]:
        """Until when nothing is launched of the classes whose last launch failed, and why."""
        with self._session.operation() as context:
            now = context.clock()
            backoffs = self._wishes.view(context).backoffs
            return {name: backoff for name, backoff in backoffs.items() if now < backoff.until}

    def rejoin(self, slots: Collection[str]) -> Sequence[GpucloudError]:
        """Makes the nodes of slots that are ready known to an engine that has forgotten them.

        Returns:
            One error for each box that could not join; it stays.
        """
        with self._session.operation() as context:
            return self._keeper.rejoin(context, slots)

    def seen(self) -> tuple[Slot, ...]:
        """The slots that are wanted or still have a box, from the journal: no cloud is asked."""
        with self._noting() as context:
            return self._wishes.seen(context)

    def reconcile(self, wanted: Mapping[str, datetime], *, as_of: datetime | None = None) -> Reconciled:
        """Looks after all slots once: launches, renews and ends boxes, and says which are lost or wait.

        Args:
            wanted: every slot that the engine wants, each with when it asked for it. A slot that was lost is
                launched again only if that was later.
            as_of: when the engine said so; what another process has wanted since is left alone.

        Raises:
            UsageError: the cluster has no such slot.
        """
        with self._session.operation() as context:
            return self._keeper.reconcile(context, wanted, as_of)

    def look(self) -> Reconciled:
        """Looks after all slots once, as :meth:`reconcile`, by what :meth:`want` and :meth:`give_back` wrote.

        Nothing is launched: what is to be is in the actions, for :meth:`launch`.
        """
        with self._session.operation() as context:
            return self._keeper.look(context)

    def view(self) -> View:
        """The slots with what was wanted of each, also of late, from the journal: no cloud is asked."""
        with self._noting() as context:
            return self._wishes.view(context)

    @contextmanager
    def _noting(self) -> Generator[Context]:
        """The context of a call that only reads and writes the journal: it knows no cloud."""
        session = self._session
        with calling() as call:
            yield Context(
                owner=session.owner,
                journal=session.journal,
                clouds=Clouds({}),
                tasks=Tasks(),
                clock=session.now,
                call=call,
            )

    @property
    def _wishes(self) -> CapacityRequests:
        return CapacityRequests(self.cluster)

    @property
    def _keeper(self) -> FleetController:
        from gpucloud.elastic.fleet import FleetController

        return FleetController(self.cluster, self._offer, self._join)

    def _offer(self, context: Context, spec: Spec, names: Sequence[str]) -> Buy:
        """A plan for boxes of a spec at today's prices, and what buys one of them for a wish.

        Raises:
            GpucloudError: the clouds have no offer; nothing was bought.
        """
        from gpucloud.api.launching import Buyer
        from gpucloud.boxes.launch import environment_of, refuse_impossible
        from gpucloud.purchase.order import BoxRequest

        refuse_impossible(spec)
        wanted = BoxRequest(spec=spec, environment=environment_of(spec, self._session.profile.variables))
        buyer = Buyer(context, self._session.catalog, wanted)
        search = buyer.search_for(names)
        order = buyer.agree()
        return _Offered(order, search.result()).buy


@dataclass(frozen=True, slots=True)
class _Offered:
    """A plan for the boxes of a class: what is the same for each, and the machines with their names."""

    order: LaunchOrder
    discovery: DiscoveryResult

    def buy(self, context: Context, wish: Run, spec: Spec) -> Box:
        """A box for a wish, which this process holds.

        Raises:
            GpucloudError: nothing started; nothing is left, unless the error says so.
        """
        from gpucloud.boxes.launch import provision
        from gpucloud.ending.discovery import refuse_taken_name

        assert spec.name is not None  # noqa: S101  (a node has the name of its slot)
        refuse_taken_name(context, spec.name, self.discovery)
        order = self.order.of(spec)
        request = replace(order.request, run_id=wish.run_id, run=wish)
        return provision(context, replace(order, request=request))


def _groups(slots: Sequence[str], *, gang: bool) -> list[tuple[str, ...]]:
    """The slots of each box."""
    names = tuple(dict.fromkeys(slots))
    if not gang:
        return [(name,) for name in names]
    return [names] if names else []
