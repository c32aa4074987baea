"""Answers Ray's autoscaler from the journal; launches and ends its nodes in threads.

Ray asks each five seconds and expects answers at once; a launch takes minutes. So what it wants is written
down and done in the background; a launch that failed has no node; Ray retries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from gpucloud.api.client import Client
from gpucloud.elastic.cluster import Cluster
from gpucloud.elastic.fleet import Reconciled
from gpucloud.elastic.ray.joining import join
from gpucloud.elastic.ray.nodes import REQUEST, free_slots, made_for, node_id, nodes_of
from gpucloud.elastic.ray.starting import Head, drain_command
from gpucloud.elastic.rules import LaunchPause, Slot, SlotState
from gpucloud.errors import GpucloudError
from gpucloud.journal.records import Box
from gpucloud.runtime.context import Context

LOOK_S = 60.0
"""How often the clouds are asked for the nodes, and leases renewed that are half over."""
QUIET_S = 300.0
"""How long Ray may ask nothing before it counts as dead: then no lease is renewed."""

_NOT_UP = frozenset({SlotState.WANTED, SlotState.WAITING, SlotState.LOST})
_log = logging.getLogger(__name__)


class LaunchRefusedError(GpucloudError):
    """Nothing is launched now: the class waits, or its slots are taken. ``category`` is a short label."""

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category


class RayNodes:
    """The nodes of a Ray cluster. Safe to use from several threads.

    Args:
        client: the owner's boxes.
        cluster: the classes; Ray's node types have their names.
        head: the head; ``None`` where another process than the autoscaler of the head looks at the nodes.
    """

    def __init__(self, client: Client, cluster: Cluster, head: Head | None) -> None:
        self.cluster = cluster if head is None else _with_drain(cluster, head)
        self._fleet = replace(client.engines.fleet(self.cluster), _join=self._join)
        self._head = head
        self._lock = threading.Lock()
        self._nodes: dict[str, Slot] = {}
        self._asked: Counter[tuple[str, str]] = Counter()
        self._launching: set[str] = set()
        self._given_back: set[str] = set()
        self._joined: set[str] = set()
        self._heard_at = time.monotonic()
        self._over = threading.Event()

    # --- asked by Ray

    def look(self) -> dict[str, Slot]:
        """The nodes that there are or will be, by id, from the journal."""
        self._heard_at = time.monotonic()
        nodes = nodes_of(self._fleet.seen(), self._given_back)
        self._nodes = nodes
        return nodes

    def node(self, node: str) -> Slot | None:
        """A node as of the last look; ``None`` if there is no such node any more."""
        return self._nodes.get(node) or self.look().get(node)

    def create(self, node_class: str, count: int, labels: Mapping[str, str]) -> list[str]:
        """Writes down that nodes are wanted, and launches them in the background; returns their ids.

        Ray splits one request into several calls for a class, and repeats a call that it takes for lost: what
        the journal has for the request, and this process has not asked for, was made by a call that is
        repeated now.

        Raises:
            LaunchRefusedError: the class waits after a failed launch, or has too few free slots; those that
                it has are launched.
            UsageError: there is no such class.
        """
        if self._head is None:
            raise LaunchRefusedError("no head", f"only the head of {self.cluster.name} launches its nodes")
        with self._lock:
            backoff = self._fleet.pauses().get(node_class)
            if backoff is not None:
                raise _waits(node_class, backoff)
            request, every = labels.get(REQUEST, ""), self.cluster.slots(node_class)
            of_class = [slot for slot in self._fleet.seen() if slot.node_class == node_class]
            made = made_for(request, of_class)
            missing = max(self._asked[request, node_class] + count - made, 0)
            names = free_slots(every, of_class, missing)
            self._launching.update(names)
            try:
                wanted = self._fleet.want(names, labels=labels)
            except BaseException:
                self._launching.difference_update(names)
                raise
            if request:
                self._asked[request, node_class] = made + len(names)
        wishes = {slot.name: slot.wish for slot in wanted}
        if wishes:
            _begin(partial(self._launch, wishes))
        self.look()
        if len(names) < missing:
            raise LaunchRefusedError("no free slot", f"all {len(every)} slots of {node_class} are taken")
        return [node_id(name, wish) for name, wish in wishes.items()]

    def end(self, nodes: Collection[str]) -> None:
        """Gives nodes back; they are deleted in the background. May be repeated."""
        known = {node: slot for node in nodes if (slot := self.node(node)) is not None}
        self._given_back.update(known)
        self.look()
        if known:
            _begin(partial(self._end, [slot.name for slot in known.values()]))

    def label(self, node: str, labels: Mapping[str, str]) -> None:
        """Adds labels to a node, for later heads too."""
        slot = self.node(node)
        if slot is not None:
            self._fleet.label(slot.wish, labels)
            self.look()

    # --- in the background

    def keep(self) -> None:
        """Looks after the nodes from now on, in a thread of its own, as long as Ray asks for them."""
        _begin(self._keep)

    def close(self) -> None:
        """Looks after them no more."""
        self._over.set()

    def look_after(self) -> Reconciled:
        """One look: renews leases, ends what nobody wants, and has nodes join that an older head has left."""
        as_of = datetime.now(UTC)
        nodes = nodes_of(self._fleet.seen(), self._given_back)
        old = [
            slot.name
            for node, slot in nodes.items()
            if slot.state is SlotState.READY and node not in self._joined
        ]
        for trouble in self._fleet.rejoin(old):
            _log.warning("%s", trouble)
        # What is wanted and not launched here was left by a head that died: Ray knows nothing of it.
        kept = [
            slot
            for slot in nodes.values()
            if slot.state is not SlotState.WANTED or slot.name in self._launching
        ]
        return self._fleet.reconcile({slot.name: slot.since for slot in kept}, as_of=as_of)

    def is_heard(self, now: float) -> bool:
        """Whether Ray still asks for its nodes, at a time of the monotonic clock. If not, leases run out."""
        return now - self._heard_at < QUIET_S

    def _keep(self) -> None:
        while not self._over.is_set():
            if self.is_heard(time.monotonic()):
                _guarded(lambda: _tell(self.look_after()))
            self._over.wait(LOOK_S)

    def _launch(self, wishes: Mapping[str, str]) -> None:
        """Launches the slots of wishes; those that did not come up, or are wanted by nobody now, end."""
        try:
            result = self._fleet.up(list(wishes))
        finally:
            self._launching.difference_update(wishes)
        _tell(result)
        failed = [slot for slot in result.slots if slot.wish != wishes[slot.name] or slot.state in _NOT_UP]
        for slot in failed:
            _log.warning("%s was not launched: %s", slot.name, slot.reason)
        self._end([slot.name for slot in failed])

    def _end(self, names: Sequence[str]) -> None:
        _tell(self._fleet.down(names))

    def _join(self, context: Context, box: Box, slots: tuple[str, ...]) -> None:
        assert self._head is not None  # noqa: S101  (nothing else launches)
        join(self._head, context, box, slots)
        for name in slots:
            wish = context.journal.runs_named(context.owner, name)[-1]
            self._joined.add(node_id(name, wish.id))


def _with_drain(cluster: Cluster, head: Head) -> Cluster:
    """The cluster, each of whose boxes tells Ray before it ends, unless its class says something else."""
    drain = drain_command(head.address)
    classes = {
        name: each if each.spec.checkpoint else replace(each, spec=each.spec.replaced(checkpoint=drain))
        for name, each in cluster.classes.items()
    }
    return replace(cluster, classes=classes)


def _begin(work: Callable[[], None]) -> None:
    """Does something in a thread that no exit of the program waits for: the journal knows what is left."""
    threading.Thread(target=_guarded, args=(work,), daemon=True, name="gpucloud").start()


def _guarded(work: Callable[[], None]) -> None:
    """Does something whose failure is only told: the next look goes on with it."""
    try:
        work()
    except GpucloudError as error:
        _log.warning("%s", error)
    except Exception:
        _log.exception("unexpected")


def _tell(result: Reconciled) -> None:
    for trouble in result.troubles:
        _log.warning("%s", trouble)


def _waits(node_class: str, backoff: LaunchPause) -> LaunchRefusedError:
    until = f"{backoff.until:%H:%M} UTC"
    return LaunchRefusedError("waits", f"{node_class} is not launched until {until}: {backoff.reason}")
