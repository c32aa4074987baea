"""Nodes for Kubernetes' cluster-autoscaler: its calls are journalled at once, and carried out in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.api.markets import Markets
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.kubernetes.groups import GroupMember, fewer, given_up, members, more, named, provider_id
from gpucloud.elastic.kubernetes.join import Joiner, Joining
from gpucloud.elastic.kubernetes.node_objects import NodeObjects, gone
from gpucloud.elastic.kubernetes.shapes import GroupShape, shape_of
from gpucloud.elastic.rules import Do
from gpucloud.errors import GpucloudError
from gpucloud.journal.lifecycle import OVER
from gpucloud.runtime.events import Noticed, Warned

if TYPE_CHECKING:
    from gpucloud.api.fleet import Fleet
    from gpucloud.api.session import Session
    from gpucloud.elastic.kubernetes.service import Certificates
    from gpucloud.elastic.view import View
    from gpucloud.spec.model import Spec

LONGEST_S = 5.0
"""How long the calls under way may take when the server ends."""


class Kubernetes:
    """The classes of a cluster as groups of nodes.

    Each call writes to the journal what is wanted, and returns. Threads launch it, and a look after all
    nodes follows each refresh: what the autoscaler does not want, or what nobody renews because it or this
    process is dead, ends with its lease.
    """

    def __init__(self, session: Session, fleet: Fleet, joining: Joining, token: str) -> None:
        self._session = session
        self._fleet = replace(fleet, _join=Joiner(fleet.cluster, joining, token).join)
        self._objects = NodeObjects.of_pod(session.profile.variables)
        self._changing = threading.Lock()
        self._due = threading.Event()
        self._ended = False
        self._told: set[str] = set()
        self._shapes = {name: self._shape(name) for name in fleet.cluster.classes}

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self._fleet.cluster

    @contextmanager
    def serving(self, address: str, certificates: Certificates) -> Generator[str]:
        """Answers the autoscaler while the body runs; gives the address, with the port that was chosen.

        Raises:
            UsageError: a file cannot be read, or the address cannot be had.
        """
        from gpucloud.elastic.kubernetes.service import listen

        server, port = listen(self, address, certificates)
        threading.Thread(target=self._look_again, daemon=True).start()
        try:
            yield f"{address.rpartition(':')[0]}:{port}"
        finally:
            server.stop(LONGEST_S).wait()
            self._ended = True
            self._due.set()

    # --- what the calls ask for

    def members(self) -> Mapping[str, Sequence[GroupMember]]:
        """The nodes of each group, from the journal."""
        return self._members(self._fleet.view())

    def shape(self, node_class: str) -> GroupShape:
        """The least that a node of a group has, and its price.

        Raises:
            GpucloudError: nothing matched its spec when this process began.
        """
        found = self._shapes[node_class]
        if isinstance(found, GpucloudError):
            raise GpucloudError(f"{node_class}: {found.message}", hint=found.hint)
        return found

    def usd_per_hour(self, member: GroupMember) -> Decimal | None:
        """The price of a node: that of its box, or while there is none, of its class."""
        price = member.slot.price
        if price is None:
            return self.shape(member.slot.node_class).usd_per_hour
        return self._session.catalog.shipped.usd(price.amount, price.currency)

    def increase(self, node_class: str, delta: int) -> None:
        """Wants more nodes of a group.

        Raises:
            SizeError: it would be larger than its ``max``.
        """
        with self._changing:
            view = self._fleet.view()
            slots = more(self.cluster, node_class, view, self._members(view)[node_class], delta)
            self._fleet.want(slots)
        self._begin(slots)

    def decrease(self, node_class: str, delta: int) -> None:
        """Wants fewer nodes, of those that are not up.

        Raises:
            SizeError: too few are not up.
        """
        with self._changing:
            self._fleet.give_back(fewer(node_class, self.members()[node_class], delta))
        self._due.set()

    def delete(self, node_class: str, ids: Sequence[str]) -> None:
        """Wants these nodes no more; those that are gone are no error.

        Raises:
            NotOfGroupError: one is not of this group; all stay.
        """
        with self._changing:
            self._fleet.give_back(named(self.cluster, node_class, self.members(), ids))
        self._due.set()

    def refresh(self) -> None:
        """Looks after all nodes soon."""
        self._due.set()

    def _members(self, view: View) -> dict[str, list[GroupMember]]:
        now = self._session.now()
        return {name: members(self.cluster, name, view, now) for name in self.cluster.classes}

    # --- what happens after the answers

    def look(self) -> None:
        """Looks after all nodes once: renews and ends boxes, launches what is due, gives up what is lost."""
        done = self._fleet.look()
        self._tell(done.troubles)
        self._begin([name for action in done.actions if action.do is Do.LAUNCH for name in action.slots])
        with self._changing:
            view = self._fleet.view()
            over = given_up(view, self._session.now())
            self._fleet.give_back(over)
        for name in over:
            slot = view.slots[name]
            reason = f"{slot.state}{f': {slot.reason}' if slot.reason else ''}"
            self._session.on_event(Noticed("k8s", f"{name} is given up ({reason})"))
        if over:
            self._due.set()
        if self._objects is not None:
            self._delete_node_objects(self._objects)

    def _delete_node_objects(self, objects: NodeObjects) -> None:
        """Deletes the Node objects of machines that are gone."""
        listed = objects.provider_ids(self.cluster.name)
        living = {each.id for found in self.members().values() for each in found}
        if not listed.keys() or set(listed.values()) <= living:
            return
        boxes = self._session.journal.boxes(owner=self._session.owner, over=True)
        ended = {provider_id(box) or "" for box in boxes if box.state in OVER}
        for name in gone(listed, living, ended):
            objects.delete(name)

    def _look_again(self) -> None:
        """A look after each refresh, one at a time."""
        while self._due.wait() and not self._ended:
            self._due.clear()
            self._guarded(self.look)

    def _begin(self, slots: Sequence[str]) -> None:
        """Launches slots in a thread: a launch takes minutes, and the looks go on."""
        if slots:
            call = partial(self._guarded, partial(self._launch, slots))
            threading.Thread(target=call, daemon=True).start()

    def _launch(self, slots: Sequence[str]) -> None:
        self._tell(self._fleet.launch(slots).troubles)

    def _guarded(self, call: Callable[[], None]) -> None:
        """Makes a call whose failure ends nothing: the next look goes on with what it left."""
        try:
            call()
        except GpucloudError as error:
            self._tell([error])
        except Exception as error:  # a thread that ended silently would leave every node to its lease
            self._tell([GpucloudError(f"unexpected {type(error).__name__}: {error}")])

    def _tell(self, troubles: Sequence[GpucloudError]) -> None:
        """Writes what could not be done; what the look before told is not repeated."""
        texts = {each.message: each.hint for each in troubles}
        for text in texts.keys() - self._told:
            self._session.on_event(Warned("k8s", text, texts[text]))
        self._told = set(texts)

    def _shape(self, node_class: str) -> GroupShape | GpucloudError:
        try:
            return shape_of_class(self._session, self.cluster.classes[node_class].spec)
        except GpucloudError as error:
            return error


def shape_of_class(session: Session, spec: Spec) -> GroupShape:
    """The least that a node of a class has, by the market.

    Raises:
        NoOfferError: nothing matches.
        PriceError: what matches costs more than the limit.
    """
    return shape_of(Markets(session).offers(spec).offers, spec.disk)
