"""Launches a box elsewhere with copies of another one's volumes; if that fails, deletes what it made.

What is made is ``attended``: it ends with this process, or by the next command after the process was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gpucloud.boxes.launch import provision
from gpucloud.bring_up.bring_up import hand_over
from gpucloud.errors import (
    RULES,
    CleanupIncompleteError,
    CloudError,
    ErrorClass,
    Next,
    NoOfferError,
    OutcomeUnknownError,
)
from gpucloud.journal.errors import JournalError, StaleWriterError
from gpucloud.journal.events import Seen
from gpucloud.journal.facts import Facts
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box, Holding, Snapshot, Volume
from gpucloud.planning.plan import Candidate
from gpucloud.planning.volume_move import VolumeMove, stops
from gpucloud.purchase.failover import abandon, last_attempt
from gpucloud.purchase.order import LaunchOrder
from gpucloud.runtime.context import Context
from gpucloud.ssh.client import Target, forget
from gpucloud.ssh.keys import key_folder
from gpucloud.storage.snapshots import create_snapshot, wait_complete
from gpucloud.storage.volumes import create_volume


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRelocation:
    """A box to launch with the volumes of another one.

    Attributes:
        context: clouds, journal, clock and progress of this call.
        order: what was agreed of the new box, which is ``attended``.
        old: the box that has the volumes.
        moves: its volumes.
        fill: copies to the new box what does not come with its volumes, before either is its user's; also
            before its set-up, which may read that.
    """

    context: Context
    order: LaunchOrder
    old: Box
    moves: Sequence[VolumeMove]
    fill: Callable[[Box], None]

    def carry(self) -> Box:
        """Buys the first attempt that starts, and fills it; a failure leaves nothing behind.

        With volumes, one place after the other: they are made before the machine, and deleted if no attempt
        starts there. The limit for attempts is one for all places.

        Returns:
            The new box.

        Raises:
            GpucloudError: nothing started, or it was not filled; nothing is left, unless the error says so.
        """
        attempts = self.order.plan.attempts
        tried: list[dict[str, Any]] = []
        failure: CloudError | None = None
        until = last_attempt(self.context)
        with _copies(self.context, self.old) as copies:
            for machines in stops(attempts) if self.moves else [attempts]:
                if self.context.clock() > until:
                    break
                try:
                    return self._at(until, machines, copies)
                except CloudError as error:
                    failure = error
                    tried += error.attempts
                    error.attempts = tried
                    if not self.moves or not _may_start_elsewhere(error):
                        raise
                    self.context.tell("create", f"{error.message}; trying the next place")
            raise failure or NoOfferError("no offer could be tried", hint="see them: gpucloud offers")

    def _at(self, until: datetime, machines: Sequence[Candidate], copies: _Copies) -> Box:
        """The new box with its volumes, at one place."""
        context = self.context
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        with ExitStack() as made:
            volumes: list[Volume] = []
            for move in self.moves:
                near = move.is_near(machines[0].cloud, machines[0].region)
                snapshot = copies.of(move) if near else None
                plan = move.beside(context, self.order.market, machines[0], snapshot)
                volumes.append(create_volume(context, plan, attended=True))
                made.enter_context(_ended_if_that_fails(context, volumes[-1]))
            new = provision(context, self._at_most(until, machines))
            made.enter_context(_ended_if_that_fails(context, new))
            self.fill(new)
            for volume in volumes:
                _keep(context, volume)
            hand_over(context, new, key_folder(context.state, new.id), Facts(attended=False))
        context.journal.release(new)
        return context.journal.box(new.id)

    def _at_most(self, until: datetime, machines: Sequence[Candidate]) -> LaunchOrder:
        """The order of the box with its new volumes, of one place; no attempt begins after ``until``."""
        volumes = tuple(f"{move.name}:{move.path}" for move in self.moves)
        order = self.order.of(self.order.request.spec.replaced(volumes=volumes), machines)
        return replace(order, request=replace(order.request, deliver=self._before_setup), until=until)

    def _before_setup(self, new: Box, _: Sequence[Target]) -> None:
        """Copies what a set-up may read; what changes meanwhile is copied after it."""
        if self.order.request.spec.setup:
            self.fill(new)


@dataclass(slots=True)
class _Copies:
    """Snapshots of volumes, each made when it is needed first."""

    context: Context
    holder: Box
    ends: ExitStack
    made: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])

    def of(self, move: VolumeMove) -> Snapshot:
        """The snapshot of a volume, from which volumes can be filled."""
        found = self.made.get(move.name)
        if found is None:
            found = create_snapshot(self.context, move.copy, self.holder, attended=True)
            self.made[move.name] = found
            self.ends.enter_context(_ended_at_last(self.context, found))
            wait_complete(self.context, found)
        return found


@contextmanager
def _copies(context: Context, holder: Box) -> Generator[_Copies]:
    """Snapshots of the volumes of a box, which are deleted in every outcome of the body."""
    with ExitStack() as ends:
        yield _Copies(context, holder, ends)


@contextmanager
def _ended_at_last(context: Context, made: Holding) -> Generator[None]:
    """Ends something in every outcome of the body."""
    try:
        yield
    except BaseException as error:
        _end(context, made, error)
        raise
    _end(context, made, None)


@contextmanager
def _ended_if_that_fails(context: Context, made: Holding) -> Generator[None]:
    """Ends something if the body fails."""
    try:
        yield
    except BaseException as error:
        _end(context, made, error)
        raise


def _end(context: Context, made: Holding, cause: BaseException | None) -> None:
    """Deletes what was made, because of a failure or because it has served its purpose.

    Raises:
        CleanupIncompleteError: the deletion cannot be confirmed.
    """
    with suppress(JournalError):  # it is deleted all the same
        made = context.take(made) or made  # a launch gives a volume back when it fails
    try:
        abandon(context, made, cause, ends_as=BoxState.DELETED)
    except CleanupIncompleteError as owed:
        owed.message = owed.message if cause else f"the new box is ready, but {owed.message}"
        raise
    if isinstance(made, Box):
        assert context.state is not None  # noqa: S101  (who buys has a state folder)
        forget(key_folder(context.state, made.id), made.id)


def _keep(context: Context, volume: Volume) -> None:
    """Makes a volume its user's: it no longer ends with this process.

    Raises:
        StaleWriterError: another process has taken it over.
    """
    taken = context.take(volume)
    if taken is None:
        raise StaleWriterError(volume.name, str(volume.kind))
    context.journal.write(taken, Seen(facts=Facts(attended=False)))
    context.journal.release(taken)


def _may_start_elsewhere(error: CloudError) -> bool:
    """Whether another place may start what this one refused, and nothing of it can be left."""
    final = {Next.STOP, Next.AGAIN}
    return (
        not isinstance(error, OutcomeUnknownError) and RULES[ErrorClass(error.error_class)].next not in final
    )
