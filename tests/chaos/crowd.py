"""Many processes that work on one journal at the same time, and may be stopped or killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import gpucloud.journal.lifecycle
from gpucloud.journal.errors import NameTakenError, StaleWriterError
from gpucloud.journal.events import Planned, Seen, StateChanged, Taken
from gpucloud.journal.facts import Facts
from gpucloud.journal.leases import this_process
from gpucloud.journal.lifecycle import BoxState, Claim, Lease, claim_on, new_id
from gpucloud.journal.records import Box, StoredEvent
from gpucloud.journal.store import Journal
from gpucloud.journal.verification import verify
from tests.forked import Forked, ForkServer
from tests.journals import open_journal

PROCESSES = int(os.environ.get("CROWD_PROCESSES", "30"))
OPERATIONS = int(os.environ.get("CROWD_OPERATIONS", "30"))
"""``make torture`` asks for a hundred of each."""
SHARED = "shared"
LEASE_S = 0.5
"""How long a lease lasts that is not renewed."""
SOON_S = 0.04
"""Within what time after the beginning of an operation its process is struck: most take as long."""
END_S = 900.0


# --- one of them


def main() -> None:
    """Arguments: the journal's folder, this process's number, how many operations, a seed, and in which share
    of the operations it is killed or stopped. One that follows a killed one goes on after it."""
    folder, number, operations, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    killed, stopped = map(float, sys.argv[5:7])
    gpucloud.journal.lifecycle.LEASE_TIMEOUT = timedelta(seconds=LEASE_S)
    member = _Member(open_journal(folder, now), folder / f"deeds-{number}", f"host-{number}")
    for turn in range(member.turns(), operations):
        chance = random.Random(f"{seed} {number} {turn}")  # noqa: S311  (to be replayed)
        member.tell("turn", f"{turn}")
        fate = chance.random()
        if fate < killed + stopped:
            number_of_signal = signal.SIGKILL if fate < killed else signal.SIGSTOP
            threading.Thread(target=_strike, args=(number_of_signal, chance.uniform(0, SOON_S))).start()
        member.operate(chance, f"p{number}-{turn}")


def _strike(fate: signal.Signals, after_s: float) -> None:
    time.sleep(after_s)
    os.kill(os.getpid(), fate)


@dataclass
class _Member:
    """Works on the journal, and writes down what the journal has acknowledged."""

    journal: Journal
    deeds: Path
    host: str

    def turns(self) -> int:
        """How many operations were begun by those before it."""
        return sum(each[0] == "turn" for each in _deeds(self.deeds))

    def tell(self, *words: str) -> None:
        """Writes something down: what a killed process has written stays."""
        with self.deeds.open("a") as file:
            file.write(" ".join(words) + "\n")

    def operate(self, chance: random.Random, name: str) -> None:
        """Plans a box, takes one over and ends it, or only looks."""
        match chance.randrange(4):
            case 0:
                self._plan(chance, chance.choice([name, SHARED]))
            case 1:
                living = self.journal.boxes(owner="u")  # once: others end them meanwhile
                for box in chance.sample(living, min(len(living), 1)):
                    self._end(box, by_force=chance.random() < 0.3)
            case 2:
                self.journal.boxes(owner="u", over=True)
            case _:
                for box in self.journal.boxes(owner="u")[:1]:
                    if self.journal.observe(box, Facts(replaced=name)):
                        self.tell("seen", box.id, name)

    def _end(self, box: Box, *, by_force: bool) -> None:
        taken = self.journal.take(box, self._lease(), claim=self._claim, by_force=by_force)
        if taken is None:
            return
        self.tell("taken", box.id, f"{taken.epoch}")
        if taken.state is not BoxState.FAILED:
            try:
                self.journal.write(taken, StateChanged(state=BoxState.FAILED))
                self.tell("state", box.id, "failed")
            except (StaleWriterError, ValueError):  # another was faster: to take it, or to end it
                self.tell("refused", box.id)

    def _plan(self, chance: random.Random, name: str) -> None:
        box = new_id("b-", now(), chance.randbytes(10))
        try:
            self.journal.plan(
                Box,
                id=box,
                name=name,
                owner="u",
                run_id=None,
                op=new_id("op-", now(), chance.randbytes(10)),
                expires_at=None,
                facts=Facts(),
                lease=self._lease(),
            )
        except NameTakenError:
            assert name == SHARED
        else:
            self.tell("planned", box, name)

    def _lease(self) -> Lease:
        return replace(this_process(self.journal.now()), host=self.host)

    def _claim(self, lease: Lease | None) -> Claim:
        """Everybody is on a host of their own: only the age of a lease tells whether its holder works."""
        return claim_on(lease, here=self._lease(), alive=[])


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


# --- all of them


@dataclass
class Crowd:
    """The processes on one journal.

    Args:
        forks: forks them.
        folder: the journal's, and theirs.
        environment: names the journal's server.
    """

    forks: ForkServer
    folder: Path
    environment: Mapping[str, str]
    struck: Counter[str] = field(default_factory=Counter[str])
    """How often one was killed or stopped."""

    def run(self, *, seed: str, processes: int, operations: int, killed: float, stopped: float) -> list[str]:
        """Runs them to their end: who was killed is followed by another, who was stopped goes on too late.

        Returns:
            What any of them said: nothing, if all is well.
        """

        def start(number: int) -> Forked:
            return self.forks.start(
                [str(self.folder), f"{number}", f"{operations}", seed, f"{killed}", f"{stopped}"],
                environment={"HOME": str(self.folder), **self.environment},
                folder=str(self.folder),
                main="tests.chaos.crowd:main",
            )

        running = {number: start(number) for number in range(processes)}
        since: dict[int, float] = {}
        said: list[str] = []
        until = time.monotonic() + END_S
        while running:
            assert time.monotonic() < until, f"{len(running)} do not end"
            for number, process in list(running.items()):
                code = process.poll()
                if code is None:
                    self._let_go_on(process, since)
                    continue
                said += [text for text in process.communicate() if text]
                del running[number]
                if code == -signal.SIGKILL:
                    self.struck["killed"] += 1
                    running[number] = start(number)
            time.sleep(0.02)
        return said

    def _let_go_on(self, process: Forked, since: dict[int, float]) -> None:
        """Wakes a stopped process once its leases are over."""
        try:
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:  # it has just ended
            return
        if state == "T" and time.monotonic() > since.setdefault(process.pid, time.monotonic()) + 2 * LEASE_S:
            del since[process.pid]
            self.struck["stopped"] += 1
            process.send_signal(signal.SIGCONT)

    def wrong(self, journal: Journal) -> list[str]:
        """What is lost or doubled: each acknowledged write is there once, and the events give the tables."""
        events, _ = journal.since(most=1_000_000)
        there = Counter(_told(events))
        done = Counter(words for file in self.folder.glob("deeds-*") for words in _deeds(file))
        self.struck["refused"] = sum(count for (what, *_), count in done.items() if what == "refused")
        acknowledged = {words: count for words, count in done.items() if words[0] in EVENTS}
        wrong = [
            f"{' '.join(words)}: {there[words]} events, told to {count}"
            for words, count in acknowledged.items()
            if (there[words], count) != (1, 1)
        ]
        places = Counter((each.box, each.number) for each in events)
        last = Counter(each.box for each in events)
        wrong += [f"event {number} of {box}: {count}" for (box, number), count in places.items() if count > 1]
        wrong += [f"{box} has a gap before {number}" for box, number in places if number > last[box]]
        boxes = journal.boxes(owner="u", over=True)
        planned = sorted(each.box for each in events if isinstance(each.event, Planned))
        if planned != [box.id for box in boxes]:
            wrong.append("what was planned is not what is there")
        if sum(box.name == SHARED and box.state is not BoxState.FAILED for box in boxes) > 1:
            wrong.append("two living boxes have one name")
        return wrong + list(verify(journal).differences)


EVENTS = frozenset({"planned", "taken", "seen", "state"})
"""What a member writes down of the journal's events; besides, it counts its turns, and refusals."""


def _deeds(file: Path) -> list[tuple[str, ...]]:
    return [tuple(line.split()) for line in file.read_text().splitlines()] if file.exists() else []


def _told(events: Iterable[StoredEvent]) -> Iterator[tuple[str, ...]]:
    """The events in the words of those who caused them."""
    epochs = Counter[str]()
    for each in events:
        match each.event:
            case Planned(name=name):
                yield "planned", each.box, name
            case Taken():
                epochs[each.box] += 1
                yield "taken", each.box, f"{epochs[each.box]}"
            case Seen(facts=facts):
                yield "seen", each.box, str(facts.replaced)
            case StateChanged(state=state):
                yield "state", each.box, str(state)
            case _:
                pass
