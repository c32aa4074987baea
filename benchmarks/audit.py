"""The newest calls of a long audit record against reading all of it, as was done before."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks.table import Row
from gpucloud.clouds.audit import FILE, read

CALLS = 100_000
"""Two lines each."""
SHOWN = 200
BUDGET = 0.05


def main() -> list[Row]:
    """Seconds of both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / FILE).open("w", encoding="utf-8") as file:
            for number in range(CALLS):
                sent = {"at": "2026-11-22T10:00:00Z", "call": str(number), "action": "ec2:RunInstances"}
                file.write(json.dumps(sent) + "\n")
                file.write(json.dumps({"call": str(number), "outcome": "ok"}) + "\n")
        begin = perf_counter()
        whole = read(folder)
        middle = perf_counter()
        newest = read(folder, most=SHOWN)
        end = perf_counter()
    assert (len(whole.calls), list(newest.calls)) == (CALLS, list(whole.calls[-SHOWN:]))
    return [Row(f"audit, the newest {SHOWN} of {2 * CALLS:,} lines", middle - begin, end - middle, BUDGET)]
