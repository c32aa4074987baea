"""``make interruptions``: a training on spot that loses its box five times, and its user's process once.

It counts to 1,000 with a checkpoint each 10 steps, and writes each step down where its boxes cannot lose it.
A seed, which is printed, chooses at which steps something happens to it; ``--seed`` replays one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from tests.chaos.truth import most_at_once
from tests.cli.test_checkpoints import azure_container
from tests.cli.test_takeover import CONTAINER, may_unshare
from tests.forked import Forked
from tests.processes import PROC, first_child
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import HollowBoxes, client
from tests.shell import PROGRAMS, Shell, newcomer, running_sandbox

STEPS, EACH, LEAST_APART = 1000, 10, 80
INTERRUPTIONS = 5
RESTARTS = {"foreground": INTERRUPTIONS, "detached": INTERRUPTIONS + 1}
"""A launch whose tender was stopped is a loss of its own."""
BUDGET_USD = Decimal(5)
NOTICE_S = 10.0
"""Instead of AWS's 120 s and Azure's 30 s: the box has it whole, and somebody waits for this."""
STEP_S = 0.1
PATIENCE_S = 180.0
LOOK_S = 0.05

TRAIN = """
import os, pathlib, sys, time
log, step_s, steps, each = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
saved = pathlib.Path(os.environ["GPUCLOUD_CHECKPOINT_DIR"], "step")
def tell(what):
    with open(log, "a") as file:
        print(time.time(), what, file=file, flush=True)
def save(step):
    draft = pathlib.Path("draft")
    draft.write_text(str(step))
    os.replace(draft, saved)
step = int(saved.read_text()) if saved.exists() else 0
tell(f"begin {step}")
while step < steps:
    if os.path.exists("notice"):
        save(step)
        pathlib.Path("saved").touch()
        time.sleep(3600)
    time.sleep(step_s)
    step += 1
    tell(f"step {step}")
    if step % each == 0:
        save(step)
"""
"""At a notice it saves, and does nothing more that would be lost."""
HOOK = "touch notice; timeout 5 sh -c 'until [ -e saved ]; do sleep 0.1; done'"


def say(text: str) -> None:
    """Writes a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Loss:
    """What was lost with a box, or with the process of the user."""

    what: str
    at_step: int
    repeated: int
    again_s: float


@dataclass(slots=True)
class Log:
    """What the training has written down."""

    path: Path

    def lines(self) -> list[tuple[float, str, int]]:
        """When it did what, with its step."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        found = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [(float(at), what, int(step)) for at, what, step in found]

    def begun(self) -> int:
        """How often it has begun."""
        return sum(what == "begin" for _, what, _ in self.lines())

    def step(self) -> int:
        """The last step that it has done since it began last."""
        return self.lines()[-1][2] if self.lines() else 0

    def repeated(self) -> list[int]:
        """For each begin but the first: how many steps were done again."""
        furthest, again = 0, list[int]()
        for _, what, step in self.lines():
            if what == "begin":
                again.append(furthest - step)
            furthest = max(furthest, step)
        return again[1:]


@dataclass(slots=True)
class Story:
    """One training, and what happens to it."""

    shell: Shell
    cloud: str
    line: tuple[str, ...]
    log: Log
    losses: list[Loss] = field(default_factory=list[Loss])

    def wait_for(
        self,
        begun: int,
        step: int,
        who: Sequence[subprocess.Popen[str] | Forked],
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Until it has begun so often and has done a step; fails once nobody works on it any more."""
        patience = time.monotonic() + PATIENCE_S
        while self.log.begun() < begun or self.log.step() < step:
            meanwhile()
            if time.monotonic() > patience or any(each.poll() is not None for each in who):
                said = [(each.poll(), *_said(each)) for each in who]
                raise AssertionError(f"{self.log.begun()} begun, step {self.log.step()}: {said}")
            time.sleep(LOOK_S)

    def interrupt(self) -> float:
        """Its cloud takes its box back, after a notice; when that came."""
        [machine] = self.shell.billed()
        self.shell.sandbox.interrupt(machine["id"], notice_s=NOTICE_S)
        return time.time()

    def note(self, what: str, at_step: int, since: float) -> None:
        """Writes down what a loss has cost, once it runs again."""
        again = [at for at, said, _ in self.log.lines() if said == "begin"][-1]
        self.losses.append(Loss(what, at_step, self.log.repeated()[-1], again - since))
        loss = self.losses[-1]
        say(
            f"  {what} at step {at_step:4}: running again after {loss.again_s:5.1f} s, "
            f"{loss.repeated} steps repeated"
        )

    def wrong(self) -> Iterator[str]:
        """What does not hold in the end."""
        done = {step for _, what, step in self.log.lines() if what == "step"}
        if done != set(range(1, STEPS + 1)):
            yield f"{len(done)} of {STEPS} steps were done"
        for loss in self.losses:
            if loss.repeated > EACH:
                yield f"{loss.repeated} steps were repeated after {loss.what} at step {loss.at_step}"
        spent = self.spent_usd()
        if not 0 < spent <= BUDGET_USD:
            yield f"it has cost {spent} USD, and its budget was {BUDGET_USD} USD"
        if left := [each for each in self.shell.sandbox.status()["billing"] if each["kind"] != "storage"]:
            yield f"still billed: {left}"
        if (most := most_at_once(self.shell.sandbox.ledger())) > 1:
            yield f"{most} machines lived at once"

    def spent_usd(self) -> Decimal:
        """What all of its boxes have cost."""
        runs = self.shell("runs", "list", "--all", "--json").json["runs"]
        costs = [money for run in runs for money in run["cost_so_far"]]
        assert all(money["currency"] == "USD" for money in costs), costs
        return sum((Decimal(money["amount"]) for money in costs), Decimal(0))


def _said(process: subprocess.Popen[str] | Forked) -> tuple[str, str]:
    for number in {first_child(process.pid), process.pid}:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return process.communicate(timeout=30)


@contextmanager
def a_story(cloud: str, restarts: int) -> Iterator[Story]:
    """Clouds, somebody at a shell, and a bucket."""
    with tempfile.TemporaryDirectory(prefix="interruptions-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        started = running_sandbox(Path(folder) / "clouds" / "sandbox")
        with started as endpoint, newcomer(endpoint, home, reset=False) as shell:
            if cloud == "aws":
                client(endpoint, "s3").create_bucket(Bucket="lab")
                bucket = "s3://lab/team"
            else:
                azure_container(Azure(endpoint, HollowBoxes()))
                bucket = "az://checkpoints/con/team"
            log = Log(home / "steps.log")
            training = ("python3", "-c", TRAIN, str(log.path), str(STEP_S), str(STEPS), str(EACH))
            line = (
                *("run", "--gpu", "T4", "--cloud", cloud, "--spot", "--run-id", "count"),
                *("--restarts", str(restarts), "--budget", str(BUDGET_USD), "--ttl", "6h"),
                *("--checkpoint-dir", "kept", "--checkpoint-to", bucket, "--checkpoint-every", "1s"),
                *("--checkpoint", HOOK, "--", *training),
            )
            yield Story(shell, cloud, line, log)


def foreground(story: Story, moments: Sequence[tuple[int, str]]) -> None:
    """``run`` waits for the training; killed, it is given again with the same ``--run-id``."""
    process = _waiting(story)
    for number, (step, what) in enumerate(moments, start=1):
        story.wait_for(number, step, [process])
        at_step = story.log.step()
        if what == "killed":
            since = time.time()
            process.kill()
            _said(process)
            process = _waiting(story)
        else:
            since = story.interrupt()
        story.wait_for(number + 1, 0, [process])
        story.note(what, at_step, since)
    ended = story.shell.finish(process)
    assert ended.code == 0, ended.err


def _waiting(story: Story) -> subprocess.Popen[str] | Forked:
    """The run in the foreground."""
    return story.shell.start(*story.line)


def detached(story: Story, moments: Sequence[tuple[int, str]]) -> None:
    """Two tenders look after it, as on two machines; one is stopped in a launch until its lease is lost."""
    begun = story.shell("run", "--detach", *story.line[1:])
    assert begun.code == 0, begun.err
    tenders = [_tending(story) for _ in range(2)]
    asleep = 0
    try:
        for number, (step, what) in enumerate(moments, start=1):
            story.wait_for(number, step, tenders)
            at_step = story.log.step()
            since = story.interrupt()
            if what == "stopped":
                asleep = _stop_in_its_launch(story, tenders)
            story.wait_for(number + 1, 0, tenders)
            story.note(what, at_step, since)
            if what == "stopped":  # its lease is over: the other one has bought the box that runs now
                os.kill(asleep, signal.SIGCONT)
        patience = time.monotonic() + PATIENCE_S
        while story.shell("runs", "list", "--active", "--json").json["runs"]:
            assert time.monotonic() < patience, "the run does not end"
            time.sleep(1)
        [run] = story.shell("runs", "list", "--all", "--json").json["runs"]
        assert (run["state"], run["exit_code"]) == ("ended", 0), run
    finally:
        for each in tenders:
            if each.poll() is None:
                os.kill(first_child(each.pid), signal.SIGCONT)
                os.kill(first_child(each.pid), signal.SIGTERM)
                each.communicate(timeout=60)


def _stop_in_its_launch(story: Story, tenders: Sequence[subprocess.Popen[str]]) -> int:
    """Stops the tender that has bought the next box, before the training runs there; its process."""
    [old] = story.shell.billed()
    places = {str((PROC / str(first_child(each.pid)) / "ns/pid").stat().st_ino): each for each in tenders}
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience:
        if {each["id"] for each in story.shell.billed()} - {old["id"]}:
            with closing(sqlite3.connect(_journal(story))) as journal:
                [(lease,)] = journal.execute("SELECT lease FROM states WHERE kind = 'run'").fetchall()
            asleep = first_child(places[json.loads(lease)["namespace"]].pid)
            os.kill(asleep, signal.SIGSTOP)
            if not _is_locked(story):
                return asleep
            os.kill(asleep, signal.SIGCONT)  # in the middle of a write it keeps all others from writing
        time.sleep(LOOK_S)
    raise AssertionError("nobody buys another box")


def _is_locked(story: Story) -> bool:
    """Whether a process is in the middle of a write to the journal."""
    with closing(sqlite3.connect(_journal(story), timeout=1, isolation_level=None)) as journal:
        try:
            journal.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        journal.execute("ROLLBACK")
        return False


def _journal(story: Story) -> Path:
    return story.shell.home / "state-sandbox" / "journal.db"


def _tending(story: Story) -> subprocess.Popen[str]:
    """A tender elsewhere: its processes cannot be seen from here, as on another machine."""
    unshare = shutil.which("unshare")
    assert unshare is not None
    return subprocess.Popen(
        [unshare, *CONTAINER, str(PROGRAMS / "gpucloud"), "tend", "--every", "5s"],
        env=story.shell.environ,
        cwd=story.shell.home,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def moments_of(seed: str, cloud: str, other: str) -> list[tuple[int, str]]:
    """At which steps something happens: five interruptions, and one that is something else."""
    chance = random.Random(f"{seed} {cloud} {other}")  # noqa: S311
    while True:
        steps = sorted(chance.sample(range(LEAST_APART, STEPS - LEAST_APART), INTERRUPTIONS + 1))
        if all(b - a >= LEAST_APART for a, b in itertools.pairwise(steps)):
            break
    if other == "stopped":  # an interruption too
        steps.remove(chance.choice(steps))
    odd = chance.randrange(len(steps))
    return [(step, other if number == odd else "interrupted") for number, step in enumerate(steps)]


def main() -> int:
    """Plays; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.interruptions", description=__doc__)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--cloud", action="append", choices=("aws", "azure"))
    parser.add_argument("--how", action="append", choices=("foreground", "detached"))
    given = parser.parse_args()
    say(f"seed {given.seed}; the notice is {NOTICE_S:.0f} s; counted to {STEPS}, saved each {EACH}")
    if not may_unshare():
        say("this system gives no namespaces to this user: the tenders cannot be on two machines")
        return 2
    wrong: list[str] = []
    for how in given.how or ("foreground", "detached"):
        for cloud in given.cloud or ("aws", "azure"):
            wrong += [f"{how} on {cloud}: {each}" for each in _played(how, cloud, given.seed)]
    say("\n".join(wrong) or "everything holds")
    return int(bool(wrong))


def _played(how: str, cloud: str, seed: str) -> list[str]:
    """One training; what was wrong."""
    play, other = {"foreground": (foreground, "killed"), "detached": (detached, "stopped")}[how]
    moments = moments_of(seed, cloud, other)
    say(f"{how} on {cloud}: {', '.join(f'{what} at {step}' for step, what in moments)}")
    began = time.monotonic()
    with a_story(cloud, RESTARTS[how]) as story:
        try:
            play(story, moments)
        except AssertionError as error:
            return [str(error)]
        wrong = list(story.wrong())
        repeated = sum(loss.repeated for loss in story.losses)
        say(
            f"  {len(story.losses)} losses, {repeated} steps repeated, {story.spent_usd():.4f} USD, "
            f"{time.monotonic() - began:.0f} s"
        )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
