"""``python -m tests.chaos``: every cell of every command on every cloud, in a process for each core.

``--replay CELL`` plays one again, with ``--seed`` of the run that failed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos.lab import a_lab
from tests.chaos.plights import BY_NAME
from tests.chaos.schedules import Cell, all_cells, play
from tests.forked import ForkServer


def main() -> int:
    """Runs; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--every", type=int, default=1, help="play only one cell in so many")
    parser.add_argument("--scene", default="", help="only of this command")
    parser.add_argument("--part", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--replay", default=None, metavar="CELL")
    given = parser.parse_args()
    if given.replay or given.part is not None:
        return _play(given)
    print(f"seed {given.seed}", flush=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.chaos", *sys.argv[1:], "--seed", given.seed]
    parts = [
        subprocess.Popen(
            [*command, "--part", str(part), "--workers", str(given.workers)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in range(given.workers)
    ]
    total: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for part in parts:
        out, _ = part.communicate()
        *words, last = out.splitlines() or ["{}"]
        print("\n".join(words), flush=True)
        document: dict[str, Any] = json.loads(last)
        total.update(document.get("counts", {}))
        kinds.update(document.get("kinds", {}))
    took = time.monotonic() - began
    by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    print(f"{total['schedules']} schedules in {took:.0f} s, {total['schedules'] / took:.1f} per second")
    print(f"{total['struck']} faults struck: {by_kind}")
    print(f"{total['failed']} schedules failed: {total['leaks']} leaks, {total['doubles']} doubles")
    return int(bool(total["failed"]) or any(part.returncode for part in parts))


def _play(given: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    forks = ForkServer()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder, a_lab(Path(folder), forks) as lab:
        if given.replay:
            cells = [Cell.parse(given.replay)]
        else:
            found = [cell for cell in all_cells(lab) if given.scene in cell.scene]
            share = found[:: given.every]
            cells = share[given.part :: given.workers]
        for cell in cells:
            plight = BY_NAME[cell.plight]
            outcome = play(lab, cell, plight, f"{given.seed} {cell}")
            counts["schedules"] += 1
            counts["struck"] += outcome.struck
            kinds[plight.kind] += outcome.struck
            if outcome.wrong:
                counts["failed"] += 1
                counts["leaks"] += any(" is left" in each or "billed" in each for each in outcome.wrong)
                counts["doubles"] += any(
                    "machines at once" in each or " has made " in each for each in outcome.wrong
                )
                print(f"FAILED {cell}: {'; '.join(outcome.wrong)}", flush=True)
            if given.replay:
                print(outcome.told)
    forks.close()
    print(json.dumps({"counts": counts, "kinds": kinds}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
