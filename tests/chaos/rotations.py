"""A training that keeps its newest two checkpoints, and writes one each moment: no upload may wait for it.

Its boxes are taken back a few times; what each next box restores is the newest set in the bucket, and whole.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.chaos.interruptions import (
    BUDGET_USD,
    LOOK_S,
    PATIENCE_S,
    Log,
    Loss,
    Story,
    _said,
    _tending,
    say,
)
from tests.cli.test_checkpoints import STORES, Store
from tests.forked import Forked
from tests.processes import first_child
from tests.shell import PROGRAMS, Shell, newcomer, running_sandbox

JOB = """
import os, pathlib, sys, time
log, step_s, mib = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
folder = pathlib.Path(os.environ["GPUCLOUD_CHECKPOINT_DIR"])
block = os.urandom(1 << 20)
def tell(what):
    with open(log, "a") as file:
        print(time.time(), what, file=file, flush=True)
def path(step):
    return folder / f"step-{step}.pt"
step = max((int(each.stem[5:]) for each in folder.glob("step-*.pt")), default=0)
if step:
    with open(path(step), "rb") as file:
        file.seek(mib << 20)
        if file.read() != str(step).encode():
            tell(f"torn {step}")
tell(f"begin {step}")
while not os.path.exists(log + ".enough"):
    time.sleep(step_s)
    step += 1
    with open(folder / ".draft", "wb") as draft:
        for _ in range(mib):
            draft.write(block)
        draft.write(str(step).encode())
    os.replace(folder / ".draft", path(step))
    path(step - 2).unlink(missing_ok=True)
    tell(f"step {step}")
"""
BUCKETS = {"aws": "s3", "azure": "az", "alibaba": "oss"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """How large a checkpoint is, how often one is written, and how long a notice is."""

    mib: int
    step_s: float
    notice_s: float
    apart: int
    """Steps between two losses."""


@dataclass(slots=True)
class Rotating:
    """One such training, with its bucket."""

    story: Story
    store: Store
    rotation: Rotation
    wrong: list[str] = field(default_factory=list[str])

    def newest_step(self, attempts: int) -> int:
        """The newest step that the first attempts have in the bucket."""
        for number in range(attempts, 0, -1):
            listed = self.store.get(f"count/attempts/{number}/latest.json")
            if listed is not None:
                return max(
                    int(name[5:-3]) for name in json.loads(listed)["files"] if name.startswith("step-")
                )
        return 0

    def lose(self, what: str, since: float, who: Sequence[subprocess.Popen[str] | Forked]) -> None:
        """Waits for the next begin, and writes down what the loss has cost."""
        story = self.story
        begun = story.log.begun()
        furthest = max(step for _, _, step in story.log.lines())
        seen: dict[int, float] = {}

        def look() -> None:
            with suppress(Exception):  # of the store's SDK: the next look sees as much
                seen.setdefault(self.newest_step(begun), time.time())

        story.wait_for(begun + 1, 0, who, look)
        at = [(at, step) for at, said, step in story.log.lines() if said == "begin"][-1]
        # What an emulated box still stores once its machine has ended, no real one would.
        stored = [step for step, when in seen.items() if when <= self.ended(before=at[0])]
        if not stored:
            self.wrong.append("what was stored before the machine ended was not seen")
        least, newest = max(stored, default=0), self.newest_step(begun)
        if not least <= at[1] <= newest:
            self.wrong.append(
                f"the next box began at step {at[1]}, the newest set had step {least}, and has {newest} now"
            )
        if torn := [step for _, said, step in story.log.lines() if said == "torn"]:
            self.wrong.append(f"step {torn[0]} came back torn")
        furthest = max(furthest, *(step for _, said, step in story.log.lines() if said == "step"))
        story.losses.append(Loss(what, furthest, furthest - at[1], at[0] - since))
        say(
            f"  {what} at step {furthest:3}: running again after {at[0] - since:5.1f} s (the notice is "
            f"{self.rotation.notice_s:.0f} s), {furthest - at[1]} steps since the last whole set repeated"
        )

    def ended(self, before: float) -> float:
        """When the last machine ended before a moment; that moment, if none did."""
        deaths = [
            datetime.fromisoformat(each["at"]).timestamp()
            for each in self.story.shell.sandbox.ledger()
            if (each["event"], each.get("kind")) == ("died", "instance")
        ]
        return max((at for at in deaths if at <= before), default=before)

    def interrupt(self) -> float:
        """Its cloud takes its box back, after a notice; when that came."""
        [machine] = self.story.shell.billed()
        self.story.shell.sandbox.interrupt(machine["id"], notice_s=self.rotation.notice_s)
        return time.time()

    def end(self) -> None:
        """Has the training end after its next step; each step must have been done."""
        log = self.story.log
        log.path.with_name(f"{log.path.name}.enough").touch()
        done = {step for _, what, step in log.lines() if what == "step"}
        if done != set(range(1, max(done) + 1)):
            self.wrong.append(f"of {max(done)} steps, {len(done)} were done")

    def rate(self) -> str:
        """How fast its box uploads, beside rclone alone, there and now."""
        own = self._own_rate()
        config = self._config()
        home = config.parent.parent
        settings = json.loads((config / "settings.json").read_text())
        newest = max(home.glob("kept/step-*.pt"), key=lambda file: file.stat().st_mtime)
        (home / "bare").mkdir()
        bare = home / "bare/file"
        bare.hardlink_to(newest)
        target = f"own:{settings['run']}/attempts/{settings['attempt']}/bare/"
        rclone = [str(PROGRAMS / "rclone"), "--config", f"{config}/rclone.conf"]
        command = [*rclone, "copy", str(bare.parent), target, "--no-check-dest"]
        trusting = {"SSL_CERT_FILE": self.store.authority} if self.store.authority else {}
        began = time.monotonic()
        subprocess.run(command, check=True, env={"PATH": "/usr/bin", "HOME": str(home), **trusting})
        return uploads_said(own, bare.stat().st_size / (time.monotonic() - began))

    def _own_rate(self) -> float | None:
        """Bytes per second of the newest box's uploads; ``None`` if it has made no whole one in time."""
        patience = time.monotonic() + PATIENCE_S  # the box has just begun: its first upload is under way
        while True:
            known = self._config() / "known.json"
            with suppress(FileNotFoundError, ValueError):
                if rate := json.loads(known.read_text()).get("rate"):
                    return float(rate)
            if time.monotonic() > patience:
                return None
            time.sleep(LOOK_S)

    def _config(self) -> Path:
        """What the newest box knows of its checkpoints."""
        boxes = (self.story.shell.endpoint.folder / "boxes").glob("**/.gpucloud/checkpoints/settings.json")
        return max(boxes, key=lambda file: file.stat().st_mtime).parent


def uploads_said(own: float | None, alone: float) -> str:
    """Both rates in words, from bytes per second."""
    beside = f"rclone copy of one file, beside them, at {alone / 1e6:.0f} MB/s"
    if own is None:
        return f"  no upload of the last box was seen whole: its rate is unknown; {beside}"
    return f"  uploads at {own / 1e6:.0f} MB/s; {beside}"


@contextmanager
def rotating(shell: Shell, cloud: str, rotation: Rotation, restarts: int) -> Generator[Rotating]:
    """A training on a cloud, with a bucket of the same cloud."""
    store = STORES[BUCKETS[cloud]](shell)
    log = Log(shell.home / "steps.log")
    told = (str(log.path), str(rotation.step_s), str(rotation.mib))
    line = (
        *("run", "--gpu", "T4", "--cloud", cloud, "--spot", "--run-id", "count"),
        *("--restarts", str(restarts), "--budget", str(BUDGET_USD), "--ttl", "6h"),
        *("--checkpoint-dir", "kept", "--checkpoint-to", store.url, *store.options),
        *("--checkpoint-every", "1s", "--", "python3", "-c", JOB, *told),
    )
    yield Rotating(Story(shell, cloud, line, log), store, rotation)


def attached(training: Rotating, losses: Sequence[str], then: Callable[[], None] = lambda: None) -> None:
    """``run`` waits for it; where it is killed, it is given again with the same ``--run-id``."""
    story = training.story
    process = story.shell.start(*story.line)
    for number, what in enumerate(losses, start=1):
        story.wait_for(number, _next(story, training.rotation), [process])
        if what == "killed":
            since = time.time()
            process.kill()
            _said(process)
            process = story.shell.start(*story.line)
        else:
            since = training.interrupt()
        training.lose(what, since, [process])
    then()
    training.end()
    ended = story.shell.finish(process)
    assert ended.code == 0, ended.err


def detached(training: Rotating, losses: Sequence[str], then: Callable[[], None] = lambda: None) -> None:
    """A tender looks after it."""
    story = training.story
    begun = story.shell("run", "--detach", *story.line[1:])
    assert begun.code == 0, begun.err
    tender = _tending(story)
    try:
        for number, what in enumerate(losses, start=1):
            story.wait_for(number, _next(story, training.rotation), [tender])
            training.lose(what, training.interrupt(), [tender])
        then()
        training.end()
        patience = time.monotonic() + 180
        while [
            each for each in story.shell("runs", "list", "--json").json["runs"] if each["ended_at"] is None
        ]:
            assert time.monotonic() < patience, "the run does not end"
            time.sleep(1)
    finally:
        if tender.poll() is None:
            os.kill(first_child(tender.pid), signal.SIGTERM)
        tender.communicate(timeout=60)


def _next(story: Story, rotation: Rotation) -> int:
    """The step at which the next loss comes."""
    begins = [step for _, what, step in story.log.lines() if what == "begin"]
    return (begins[-1] if begins else 0) + rotation.apart


LOSSES = {
    "attached": ("interrupted", "interrupted", "interrupted"),
    "killed": ("interrupted", "killed", "interrupted"),
    "detached": ("interrupted", "interrupted", "interrupted"),
}
PLAYS = {"attached": attached, "killed": attached, "detached": detached}
LARGE = Rotation(mib=235, step_s=1.0, notice_s=10.0, apart=12)


def main() -> int:
    """Plays; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.rotations", description=__doc__)
    parser.add_argument("--cloud", action="append", choices=tuple(BUCKETS))
    parser.add_argument("--how", action="append", choices=tuple(LOSSES))
    given = parser.parse_args()
    wrong: list[str] = []
    for how in given.how or LOSSES:
        for cloud in given.cloud or BUCKETS:
            wrong += [f"{how} on {cloud}: {each}" for each in _played(how, cloud)]
    say("\n".join(wrong) or "everything holds")
    return int(bool(wrong))


def _played(how: str, cloud: str) -> list[str]:
    """One training of two large checkpoints; what was wrong."""
    losses = LOSSES[how]
    say(f"{how} on {cloud}, 2 x {LARGE.mib} MiB, one each {LARGE.step_s:.0f} s: {', '.join(losses)}")
    with tempfile.TemporaryDirectory(prefix="rotations-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        started = running_sandbox(Path(folder) / "clouds" / "sandbox")
        with (
            started as endpoint,
            newcomer(endpoint, home, reset=False) as shell,
            rotating(shell, cloud, LARGE, restarts=len(losses)) as training,
        ):
            try:
                PLAYS[how](training, losses, lambda: say(training.rate()))
            except AssertionError as error:
                training.wrong.append(str(error))
            return training.wrong


if __name__ == "__main__":
    sys.exit(main())
