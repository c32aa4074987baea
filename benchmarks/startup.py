"""How long commands take that only look: against importing what any such program needs, in the same run.

Programs are started in turn, A B A B, so that a machine that slows down slows both; medians are compared.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.table import Row
from gpucloud.api.client import JOURNAL
from gpucloud.config import find_owner, find_paths, make_private
from gpucloud.journal.leases import this_process
from gpucloud.journal.store import Journal

BASELINE = (sys.executable, "-c", "import typer, rich.console")
ONE_RUN = str(Path(__file__).parent / "one_run.py")
GPUCLOUD = str(Path(sys.executable).parent / "gpucloud")
HELP = (GPUCLOUD, "--help")
OFFERS = (GPUCLOUD, "offers", "--gpu", "A100:8", "--json")
LIST = (GPUCLOUD, "list")
MEMORY_BUDGET_MB = 60.0
RUNS = 15


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program: wall-clock seconds and the peak of its resident memory in MB (10^6 bytes)."""

    seconds: float
    peak_mb: float


def run(argv: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Runs a program once.

    Raises:
        RuntimeError: it failed; a figure of a failing command means nothing.
    """
    launcher = (sys.executable, "-I", "-S", ONE_RUN)
    result = subprocess.run((*launcher, *argv), env=environment, check=True, capture_output=True, text=True)
    if result.stderr:
        sys.stderr.write(result.stderr)
    seconds, peak_bytes, code = result.stdout.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(argv)} ended with {code}")
    return Run(seconds=float(seconds), peak_mb=int(peak_bytes) / 1e6)


def compare(argv: Sequence[str], environment: Mapping[str, str], runs: int = RUNS) -> tuple[Run, Run]:
    """The medians of the baseline and of a program, run in turn; one more of each first, to warm up."""
    turns = [(run(BASELINE, environment), run(argv, environment)) for _ in range(runs + 1)][1:]
    return median([baseline for baseline, _ in turns]), median([measured for _, measured in turns])


def median(runs: Sequence[Run]) -> Run:
    """The median of each figure."""
    return Run(
        seconds=statistics.median(one.seconds for one in runs),
        peak_mb=statistics.median(one.peak_mb for one in runs),
    )


def fill_journal(environment: Mapping[str, str], count: int) -> None:
    """Writes a journal with this many ready boxes, none of which has anything open."""
    paths = find_paths(environment, sandbox=False)
    owner = find_owner(paths, environment)
    now = datetime.now(UTC)
    journal = Journal.open(make_private(paths.state) / JOURNAL, lambda: now)
    for number in range(count):
        box = journal.plan_box(
            id=f"box-{number:022d}",
            name=f"bench-{number}",
            owner=owner,
            run_id=None,
            op=f"op-{number:023d}",
            expires_at=None,
            facts=FACTS,
            lease=this_process(now),
        )
        for state in ("provisioning", "bootstrapping", "ready"):
            journal.write(box, "state", {"state": state})
        journal.write(box, "released")


FACTS: Mapping[str, Any] = {
    "cloud": "aws",
    "region": "us-east-1",
    "zone": "use1-az1",
    "instance_type": "g4dn.xlarge",
    "gpu": {"model": "T4", "count": "1", "memory_gib": "16"},
    "purchase": "on_demand",
    "price": {"amount": "0.526", "currency": "USD"},
    "nodes": [
        {
            "instance_id": "i-0123456789abcdef0",
            "state": "running",
            "public_ip": "203.0.113.7",
            "private_ip": "10.0.0.7",
        }
    ],
}


def main() -> list[Row]:
    """Help, a search of the market, and the list of 100 boxes."""
    with tempfile.TemporaryDirectory(prefix="gpucloud-bench-") as home:
        environment = {**os.environ, "GPUCLOUD_HOME": home, "GPUCLOUD_OWNER": "bench"}
        environment.pop("GPUCLOUD_SANDBOX", None)
        bare, help_ = compare(HELP, environment)
        rows = [Row("gpucloud --help", bare.seconds, help_.seconds, 1.8)]
        bare, offers = compare(OFFERS, environment)
        rows += [
            Row("gpucloud offers --gpu A100:8 --json", bare.seconds, offers.seconds, 3),
            Row("  its peak memory, against the budget", MEMORY_BUDGET_MB, offers.peak_mb, 1, "MB"),
        ]
        fill_journal(environment, 100)
        bare, listed = compare(LIST, environment)
        rows.append(Row("gpucloud list, 100 boxes", bare.seconds, listed.seconds, 4))
    return rows
