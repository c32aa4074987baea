"""Sends notices of what this command and others write into the journal, while this one works.

A thread of its own looks every few seconds, so that no deletion waits for a message. At the end of a command
it looks for the last time, and the command waits for that for seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from gpucloud.costs.spend import BillingOf, cost_so_far, per_hour
from gpucloud.ending.pending import pending_deletions
from gpucloud.journal.leases import claim
from gpucloud.journal.lifecycle import BoxState, Claim
from gpucloud.journal.records import Box, Holding, Run, StoredEvent
from gpucloud.journal.store import Journal
from gpucloud.monitor.channels import Channel
from gpucloud.monitor.delivery import Sent, deliver
from gpucloud.monitor.notices import Notice, of_box_event, of_run_event, of_state
from gpucloud_pricing.values import Money

LOOK_S = 5.0
LAST_S = 6.0
"""How long a command may wait at its end for its messages, all together."""
SAYING_S = 0.5
"""The part of that for what was not sent."""
STATES_EVERY = 12
"""Looks between two looks at the states of all boxes: a minute."""


@dataclass(slots=True, kw_only=True)
class Watch:
    """Finds what is worth a notice.

    Args:
        owner: whose boxes and runs.
        journal: the journal.
        channels: who is told.
        sent: what they got already.
        now: returns the time.
        billing_of: how a cloud bills.
        complain: is called at the end, in the caller's thread, with what was not sent.
        money: returns the notices for budgets and for unusual days.
        prefix: what each text begins with.
    """

    owner: str
    journal: Journal
    channels: Sequence[Channel]
    sent: Sent
    now: Callable[[], datetime]
    billing_of: BillingOf
    complain: Callable[[str], None]
    money: Callable[[], Iterable[Notice]] = tuple
    prefix: str = ""
    _cursor: int = 0
    _looks: int = 0
    _ends_at: float = 0.0
    _failures: list[str] = field(default_factory=list[str])
    _told: set[str] = field(default_factory=set[str])

    @contextmanager
    def watching(self) -> Generator[None]:
        """Sends notices while the body runs, and those of its end."""
        self._cursor = self.journal.last()
        over = threading.Event()

        def keep_looking() -> None:
            while not over.wait(LOOK_S):
                until = time.monotonic() + LAST_S
                self._look(until, states=self._looks % STATES_EVERY == STATES_EVERY - 1)
                self._looks += 1
            self._look(self._ends_at - SAYING_S, states=True)

        thread = threading.Thread(target=keep_looking, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends_at = time.monotonic() + LAST_S
            over.set()
            thread.join(LAST_S)
            for text in self._failures:
                self.complain(text)

    def _look(self, until: float, *, states: bool) -> None:
        """Sends what is new, until a moment. A failure of any kind is told at the end."""
        try:
            notices = [*self._of_events(), *(self._of_states() if states else ())]
        except Exception as error:  # the journal is locked or gone: the command itself says so
            self._note(f"notices: the journal cannot be read: {type(error).__name__}")
            return
        new = [
            replace(each, text=f"{self.prefix}{each.text}") for each in notices if each.key not in self._told
        ]
        self._told |= {each.key for each in new}
        left_s = max(until - time.monotonic(), 0.0)
        deliver(self.channels, self.sent, new, within_s=left_s, complain=self._note)

    def _note(self, failure: str) -> None:
        """Keeps a failure for the end, once: what fails now fails at each look."""
        if failure not in self._failures:
            self._failures.append(failure)

    def _of_events(self) -> Iterator[Notice]:
        events, self._cursor = self.journal.since(self._cursor)
        boxes = {box.id: box for box in self.journal.known(Box, {event.box for event in events})}
        for event in events:
            box = boxes.get(event.box)
            found = self._of_run(event) if box is None else self._of_box(event, box)
            if found is not None:
                yield found

    def _of_box(self, event: StoredEvent, box: Box) -> Notice | None:
        if box.owner != self.owner:
            return None
        notice = of_box_event(event, box, self._cost([box]))
        # What happens to the box of a run is told as the run's.
        return notice if notice is None or self._run_of(box) is None else None

    def _of_run(self, event: StoredEvent) -> Notice | None:
        try:
            run = self.journal.run(event.box)
        except KeyError:
            return None
        if run.owner != self.owner:
            return None
        boxes = self.journal.known(Box, {each.box for each in run.attempts if each.box is not None})
        last = next((box for box in boxes if box.id == run.box), None)
        rate = per_hour(last, self.billing_of).total if last else None
        return of_run_event(event, run, self._cost(boxes), last, rate)

    def _run_of(self, box: Box) -> Run | None:
        runs = self.journal.runs_named(self.owner, box.run_id) if box.run_id else []
        return next((run for run in runs if box.id in {each.box for each in run.attempts}), None)

    def _of_states(self) -> Iterator[Notice]:
        now = self.now()
        for box in self.journal.holdings(Holding, owner=self.owner):
            left = len(pending_deletions(self.journal, box)) if self._is_left(box) else 0
            yield from of_state(box, left, now)
        yield from self.money()

    def _is_left(self, holding: Holding) -> bool:
        """Whether a deletion was begun, and no process that lives goes on with it."""
        free = claim(holding.lease, self.journal.now()) is not Claim.HELD
        return free and (holding.state is BoxState.DELETING or holding.is_remains)

    def _cost(self, boxes: Sequence[Box]) -> Money | None:
        """What boxes have cost so far; ``None`` without a known price, or in several currencies."""
        costs = [cost.amount for box in boxes if (cost := cost_so_far(box, self.now(), self.billing_of))]
        if len({cost.currency for cost in costs}) != 1:
            return None
        return Money(amount=sum((cost.amount for cost in costs), Decimal(0)), currency=costs[0].currency)
