"""One of many processes that work on one journal at the same time, and may die at any moment."""

from __future__ import annotations

import os
import random
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from gpucloud.journal.errors import NameTakenError, StaleWriterError
from gpucloud.journal.events import StateChanged
from gpucloud.journal.facts import Facts
from gpucloud.journal.leases import this_process
from gpucloud.journal.lifecycle import BoxState, Claim, Lease, new_id
from gpucloud.journal.store import Journal
from tests.journals import open_journal

SHARED = "shared"
DIES = 0.0002
"""How likely a process is to die after an operation: two in a hundred of those with a hundred operations."""


def main() -> None:
    """Arguments: the journal's folder, this process's number, how many operations, a seed."""
    folder, number, operations, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    chance = random.Random(f"{seed} {number}")  # noqa: S311
    journal = open_journal(folder, now)
    for turn in range(operations):
        _operation(journal, chance, f"p{number}-{turn}")
        if chance.random() < DIES:
            os.kill(os.getpid(), signal.SIGKILL)


def _operation(journal: Journal, chance: random.Random, name: str) -> None:
    """Plans a box, takes one over and ends it, or only looks."""
    match chance.randrange(4):
        case 0:
            _plan(journal, chance, chance.choice([name, SHARED]))
        case 1:
            for box in chance.sample(journal.boxes(owner="u"), 1) if journal.boxes(owner="u") else ():
                by_force = chance.random() < 0.5
                taken = journal.take(box.id, this_process(now()), claim=_others, by_force=by_force)
                if taken is not None and taken.state is not BoxState.FAILED:
                    try:
                        journal.write(taken, StateChanged(state=BoxState.FAILED))
                    except (StaleWriterError, ValueError):  # another was faster: to take it, or to end it
                        continue
        case 2:
            journal.boxes(owner="u", over=True)
        case _:
            for box in journal.boxes(owner="u")[:1]:
                journal.observe(box, Facts(replaced=name))


def _others(lease: Lease | None) -> Claim:
    """Every lease is another process's, which lives."""
    return Claim.HELD if lease else Claim.FREE


def _plan(journal: Journal, chance: random.Random, name: str) -> None:
    try:
        journal.plan_box(
            id=new_id("b-", now(), chance.randbytes(10)),
            name=name,
            owner="u",
            run_id=None,
            op=new_id("op-", now(), chance.randbytes(10)),
            expires_at=None,
            facts=Facts(),
            lease=this_process(now()),
        )
    except NameTakenError:
        assert name == SHARED


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
