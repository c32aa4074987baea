"""Replaces a box whose hardware is faulty, if its spec says so (``on_unhealthy: replace``): one pass.

What is found needs no lease. The process that takes the lease of the box looks into the journal again and
acts on what it finds then: of two that look at the same time, one replaces. Who has lost the lease plans no
box.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpucloud.api.moving import Mover
from gpucloud.api.results import BoxDid, TendedBox
from gpucloud.bring_up.archived_logs import keep_logs
from gpucloud.bring_up.bring_up import targets
from gpucloud.bring_up.ingress import reach
from gpucloud.ending.reconcile import refresh
from gpucloud.errors import GpucloudError, InterruptedBySignal
from gpucloud.journal.records import Box, Volume
from gpucloud.runs.replacement import (
    AskGuard,
    EndPredecessor,
    Leave,
    Lineage,
    avoided_by,
    step_for,
    wants_replacement,
)
from gpucloud.runs.tend import end_boxes
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target
from gpucloud.ssh.guard import faulty_hardware
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.attachments import free_unused

if TYPE_CHECKING:
    from gpucloud.api.session import Session

ANOTHER = "another process works on it"


def to_look_after(context: Context) -> list[Box]:
    """The boxes that are to be replaced once they are faulty. Those of recorded runs belong to their runs."""
    return [
        box
        for box in context.journal.boxes(owner=context.owner)
        if wants_replacement(box) and not _is_of_run(context, box)
    ]


@dataclass(frozen=True, slots=True)
class Faulty:
    """A box is to be replaced: what its guard reports of its hardware."""

    fault: str


@dataclass(frozen=True, slots=True)
class Replacer:
    """Looks after boxes, and replaces them."""

    session: Session
    context: Context

    def tend(self, box: Box) -> TendedBox:
        """Looks after one box of :func:`to_look_after`.

        Raises:
            ConnectionFailedError: it does not answer: nothing is known of its hardware.
            GpucloudError: it is faulty and was not replaced, or was replaced and may still be billed.
        """
        found = self._find(box)
        if isinstance(found, Leave):
            return _left(box, found.why)
        taken = self.context.take(box)
        if taken is None:
            return _left(box, ANOTHER)
        try:
            return self._act(taken, found)
        finally:
            self.context.journal.release(taken)

    def _find(self, box: Box) -> Leave | EndPredecessor | Faulty:
        """What is to be done about a box, as far as nobody does it yet."""
        if not self.context.may_take(box.lease):
            return Leave(ANOTHER)
        step = step_for(self._lineage(box), self.context.clock())
        if not isinstance(step, AskGuard):
            return step
        nodes = self._nodes(box)
        if not nodes:
            return Leave("its machine has no address")
        fault = self._fault(box, nodes[0])
        if fault is None:
            return Leave("its guard reports no faulty hardware")
        if step.but is not None:
            return Leave(f"it is faulty ({fault}), and is not replaced: {step.but}")
        return Faulty(fault)

    def _act(self, taken: Box, found: EndPredecessor | Faulty) -> TendedBox:
        """Does what was found to be done about a box, if it is to be done still now that it is held."""
        refresh(self.context, taken)
        old = self.context.journal.held(taken)
        step = step_for(self._lineage(old), self.context.clock()) if wants_replacement(old) else None
        if isinstance(found, EndPredecessor) and step == found:
            self._end(old)
            return _tended(old, BoxDid.ENDED, f"{found.successor} has replaced it", found.successor)
        if isinstance(found, Faulty) and step == AskGuard():
            return self._replace(old, found.fault)
        return _left(old, ANOTHER)

    def _fault(self, box: Box, node: Target) -> str | None:
        """What the guard reports of faulty hardware."""
        reach(self.context, box, node)
        return self.context.tasks.run(partial(faulty_hardware, node))

    def _replace(self, old: Box, fault: str) -> TendedBox:
        """Launches another box with its files, and ends it then."""
        context = self.context
        context.notice("tend", f"box {old.name} is faulty: {fault}; replacing it")
        mover = Mover(context=context, catalog=self.session.catalog, billing_of=self.session.billing_of)
        kept = self._volumes_of(old)
        try:
            new = mover.replace(old, avoided_by(self._lineage(old), context.clock()))
        except InterruptedBySignal:
            raise
        except GpucloudError as error:
            error.message = f"box {old.name!r} is faulty ({fault}), and was not replaced: {error.message}"
            raise
        try:
            self._end(old)
        except GpucloudError as error:
            error.message = (
                f"box {old.name!r} is faulty ({fault}), and was replaced by {new.name}: {error.message}"
            )
            raise
        left = "".join(f"; volume {each} is kept with what was on it, and billed" for each in kept)
        return _tended(
            old, BoxDid.REPLACED, f"by {new.name} in {new.cloud} {_at(new)}: {fault}{left}", new.name
        )

    def _end(self, old: Box) -> None:
        """Ends a box that was replaced, and keeps its logs.

        Raises:
            CleanupIncompleteError: it may still be billed.
        """
        keep_logs(self.context, self._nodes(old))
        end_boxes(self.context, [self.context.journal.box(old.id)])
        free_unused(self.context)

    def _nodes(self, box: Box) -> list[Target]:
        assert self.context.state is not None  # noqa: S101  (the keys are there)
        return targets(box, key_folder(self.context.state, box.id), self.context.proxy_command)

    def _lineage(self, box: Box) -> Lineage:
        """A box with what the journal has of its replacements."""
        known = partial(self.context.journal.known, Box)
        box = self.context.journal.now_of(box)
        before: list[Box] = []
        earlier = box.replaces
        while earlier is not None:
            before += known([earlier])
            earlier = before[-1].replaces
        return Lineage(
            box=box,
            before=tuple(before),
            tried=tuple(sorted(known(box.successors), key=lambda each: each.created_at)),
            tried_before=tuple(known([each for one in before for each in one.successors])),
        )

    def _volumes_of(self, box: Box) -> list[str]:
        volumes = self.context.journal.holdings(Volume, owner=self.context.owner)
        return [each.name for each in volumes if each.holder == box.id]


def _is_of_run(context: Context, box: Box) -> bool:
    if box.run_id is None:
        return False
    runs = context.journal.runs_named(context.owner, box.run_id)
    return any(box.id == each.box for run in runs for each in run.attempts)


def _at(box: Box) -> str:
    assert box.place is not None  # noqa: S101  (it is ready)
    return box.place.zone or box.place.region


def _left(box: Box, why: str) -> TendedBox:
    return _tended(box, BoxDid.LEFT, why)


def _tended(box: Box, did: BoxDid, message: str, replaced_by: str | None = None) -> TendedBox:
    return TendedBox(id=box.id, name=box.name, did=did, message=message, replaced_by=replaced_by)
