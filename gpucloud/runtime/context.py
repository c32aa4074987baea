"""The engine's dependencies in one value: journal, clouds, time, randomness, signals, progress."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpucloud.clouds.cloud import Clouds
from gpucloud.journal.leases import claim, this_process
from gpucloud.journal.lifecycle import Claim, Lease
from gpucloud.journal.records import Box, H, Run
from gpucloud.journal.store import Journal
from gpucloud.resources import Search
from gpucloud.runtime.events import Event, Noticed, Progress, Sink, Warned, ignore
from gpucloud.runtime.tasks import Call, Tasks

if TYPE_CHECKING:
    from gpucloud_pricing import Market

SET_CLOCK = "set the clock: sudo timedatectl set-ntp true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The engine's dependencies. Tests pass their own clock, randomness and clouds.

    ``emit`` receives the progress events, in the thread that they come from. ``state`` is the folder of the
    journal, the keys and the history of prices. ``proxy_command`` is ssh's ``ProxyCommand`` for boxes that
    are not reached directly. ``mend_clock`` says how to mend a clock that differs from a cloud's. ``call`` is
    the id in its leases (:func:`gpucloud.journal.leases.calling`). ``before_end`` is called before the first
    deletion of a box, for what is only in its memory; it raises nothing but signals. ``market`` gives prices
    and exchange rates to what checks budgets, which are not checked without it. ``silent`` has the
    clouds that did not answer this command, each with the call that was sent: the command continues without
    them where it can. ``ended_without`` is the file with what was ended while this journal was away; ``None``
    for a journal that is never away, and for one that stands in for another.
    """

    owner: str
    journal: Journal
    clouds: Clouds
    tasks: Tasks
    emit: Sink = ignore
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    randomness: Callable[[int], bytes] = os.urandom
    state: Path | None = None
    proxy_command: str | None = None
    mend_clock: str = SET_CLOCK
    call: str = ""
    before_end: Callable[[Context, Box], None] | None = None
    market: Callable[[], Market] | None = None
    silent: dict[str, Call] = field(default_factory=dict[str, Call])
    ended_without: Path | None = None

    def search(self, owner: str | None = None) -> Search:
        """A search for what is of an owner, under each of its ids; by default, of the owner of this call."""
        whose = owner or self.owner
        return Search(owner=whose, aliases=self.journal.aliases(whose))

    def is_mine(self, owner: str) -> bool:
        """Whether an owner id is one of this call's owner."""
        return owner in {self.owner, *self.journal.aliases(self.owner)}

    def about(self, box: str) -> Context:
        """This context for what is done about one box: its events have the box's name."""
        emit = self.emit

        def receive(event: Event) -> None:
            emit(event if event.box else replace(event, box=box))

        return replace(self, emit=receive)

    def tell(self, step: str, text: str) -> None:
        """Emits progress of a step of the timeline that has no event type of its own."""
        self.emit(Progress(step, text))

    def notice(self, step: str, text: str) -> None:
        """Emits news that a user should see even where progress is not shown; nothing is wrong."""
        self.emit(Noticed(step, text))

    def warn(self, step: str, text: str, hint: str | None = None) -> None:
        """Emits a warning: something was left undone, or is not known."""
        self.emit(Warned(step, text, hint))

    def is_unresponsive(self, cloud: str) -> bool:
        """Whether a cloud has not answered this command so far."""
        return cloud in self.silent and not self.silent[cloud].done

    def lease(self) -> Lease:
        """The lease that this call writes when it works on a box."""
        return this_process(self.journal.now(), self.call)

    def claim(self, lease: Lease | None) -> Claim:
        """The meaning of a lease in the journal for this call."""
        return claim(lease, self.journal.now(), self.call)

    def may_take(self, lease: Lease | None) -> bool:
        """Whether no living process works on a box with this lease."""
        return self.claim(lease) is not Claim.HELD

    def take(self, holding: H, *, by_force: bool = False) -> H | None:
        """Takes the lease of a holding; ``None`` while its holder lives, unless ``by_force``."""
        return self.journal.take(holding, self.lease(), claim=self.claim, by_force=by_force)

    def take_run(self, run: Run, *, by_force: bool = False) -> Run | None:
        """Takes a run's lease; ``None`` while its holder lives, unless ``by_force``, and once it is over."""
        return self.journal.take_run(run.id, self.lease(), claim=self.claim, by_force=by_force)
