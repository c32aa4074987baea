"""``python -m tests.chaos``: every cell of every command on every cloud, in a process for each core.

``--replay CELL --seed SEED`` plays one again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.chaos.lab import Lab, a_lab
from tests.chaos.schedules import Cell, Outcome, all_cells, play
from tests.chaos.teams import a_team
from tests.forked import ForkServer
from tests.journals import FILES, SERVER, URL, a_server

TELL_EVERY_S = 60.0
TRIES = 5
"""Threads may order calls otherwise than the clean run did: a cell is played again if its fault missed."""


def main() -> int:
    """Runs; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--workers", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=1, help="how often each cell is played")
    parser.add_argument("--share", type=float, default=1.0, help="of the cells, by chance")
    parser.add_argument("--only", default="", help="cells whose names begin so: move-volume/aws")
    parser.add_argument("--kind", default="", help="cells whose fault kind begins so, as in plights.py")
    parser.add_argument(
        "--journal", choices=(FILES, SERVER), default=FILES, help=f"{SERVER}: every message to it, instead"
    )
    parser.add_argument("--replay", default=None, metavar="CELL")
    parser.add_argument("--cells", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cells is not None:
        return _work(given.cells, given.seed)
    with ExitStack() as stack:
        if given.journal == SERVER:
            os.environ[URL] = stack.enter_context(a_server()).url
        return _run(given)


def _run(given: argparse.Namespace) -> int:
    with _a_lab() as lab:
        if given.replay:
            outcome = play(lab, Cell.parse(given.replay), f"{given.seed} {given.replay}")
            print(f"{outcome.told}\nstruck: {outcome.struck}\nwrong: {outcome.wrong}")
            return int(bool(outcome.wrong))
        cells = [str(cell) for cell in all_cells(lab, given.only) if cell.kind.startswith(given.kind)]
    print(f"seed {given.seed}, {len(cells)} cells", flush=True)
    chance = random.Random(given.seed)  # noqa: S311
    chosen = [cell for cell in cells if chance.random() < given.share] * given.rounds
    chance.shuffle(chosen)
    return _all_of(chosen, given.seed, given.workers)


def _all_of(cells: list[str], seed: str, workers: int) -> int:
    """Plays cells in several processes, and tells."""
    began = time.monotonic()
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    told_at = began

    def tell(line: str) -> None:
        """What a worker says: what came of a schedule, as JSON, or words for people."""
        nonlocal told_at
        if not line.startswith("{"):
            print(line, end="", flush=True)
            return
        document: dict[str, Any] = json.loads(line)
        counts.update(document["counts"])
        kinds.update(document["kinds"])
        now = time.monotonic()
        if now - told_at > TELL_EVERY_S:
            told_at = now
            print(f"{counts['schedules']} of {len(cells)} after {now - began:.0f} s", flush=True)

    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        parts: list[subprocess.Popen[str]] = []
        for number in range(workers):
            file = Path(folder, f"part-{number}")
            # What follows each other begins the same: what was before a command is made once, not for each.
            file.write_text("\n".join(sorted(cells[number::workers], key=_beginning)))
            command = [sys.executable, "-m", "tests.chaos", "--cells", str(file), "--seed", f"{seed}"]
            parts.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        lines: SimpleQueue[str | None] = SimpleQueue()
        for part in parts:
            threading.Thread(target=_read, args=(part, lines), daemon=True).start()
        for _ in parts:
            while (line := lines.get()) is not None:
                tell(line)
        codes = [part.wait() for part in parts]
    took_s = time.monotonic() - began
    struck = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    print(f"{counts['schedules']} schedules in {took_s:.0f} s, {counts['schedules'] / took_s:.1f} per second")
    print(f"{sum(kinds.values())} faults struck: {struck}; cells that were missed: {counts['missed']}")
    what = {
        "leaks": "leaks",
        "doubles": "doubles",
        "dearer": "above the agreed price",
        "late": "late ends",
        "results": "results lost that were whole",
    }
    found = ", ".join(f"{counts[kind]} {words}" for kind, words in what.items())
    print(f"{counts['failed']} failed; {found}")
    incomplete = counts["schedules"] != len(cells) or any(codes)
    return int(bool(counts["failed"] or counts["missed"]) or incomplete)


def _beginning(cell: str) -> tuple[str, str]:
    return Cell.parse(cell).scene, Cell.parse(cell).cloud


def _read(part: subprocess.Popen[str], lines: SimpleQueue[str | None]) -> None:
    assert part.stdout is not None
    for line in part.stdout:
        lines.put(line)
    lines.put(None)


def _work(file: Path, seed: str) -> int:
    """Plays the cells of a file."""
    with _a_lab() as lab:
        for number, text in enumerate(file.read_text().splitlines()):
            cell = Cell.parse(text)
            outcome = _played(lab, cell, f"{seed} {number} {text}")
            wrong = "; ".join(outcome.wrong)
            counts = {
                "schedules": 1,
                "missed": not outcome.struck,
                "failed": bool(wrong),
                "leaks": " is left" in wrong or " billed" in wrong,
                "doubles": "machines at once" in wrong or " has made " in wrong,
                "dearer": ", agreed was " in wrong,
                "results": "results are lost" in wrong,
                "late": " ends it from outside" in wrong or "later than was asked" in wrong,
            }
            if wrong:
                print(f"FAILED {cell} --seed '{seed} {number} {text}': {wrong}\n{outcome.told}", flush=True)
            elif not outcome.struck:
                print(f"MISSED {cell}", flush=True)
            print(json.dumps({"counts": counts, "kinds": {cell.kind: int(outcome.struck)}}), flush=True)
    return 0


def _played(lab: Lab, cell: Cell, seed: str) -> Outcome:
    for _ in range(TRIES):
        try:
            outcome = play(lab, cell, seed)
        except AssertionError as error:  # a command that does not end, or one before the schedule that fails
            return Outcome(struck=True, wrong=("the schedule broke off",), told=str(error))
        if outcome.struck or outcome.wrong:
            break
    return outcome


@contextmanager
def _a_lab() -> Iterator[Lab]:
    forks = ForkServer("tests.chaos.victims")
    # Where there is memory for it: what is waited for on a disk shows nothing here.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
    with (
        tempfile.TemporaryDirectory(prefix="chaos-", dir=memory) as folder,
        ExitStack() as stack,
    ):
        team = stack.enter_context(a_team(os.environ[URL])) if URL in os.environ else None
        yield stack.enter_context(a_lab(Path(folder), forks, team))
    forks.close()


if __name__ == "__main__":
    sys.exit(main())
