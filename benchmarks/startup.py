"""How long commands take that only look: against importing what any such program needs, in the same run.

Programs are started in turn, A B A B, so that a machine that slows down slows both; medians are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from benchmarks.table import Row
from gpucloud.config import JOURNAL, find_owner, find_paths, make_private
from gpucloud.journal.events import StateChanged
from gpucloud.journal.facts import BoughtOffer, Facts, Gpu, Node, Place, Price
from gpucloud.journal.leases import this_process
from gpucloud.journal.lifecycle import BoxState
from gpucloud.journal.records import Box
from gpucloud.journal.store import Journal
from gpucloud.resources import State
from gpucloud_pricing.purchases import Purchase

BASELINE = (sys.executable, "-c", "import typer, rich.console")
ONE_RUN = str(Path(__file__).parent / "one_run.py")
GPUCLOUD = str(Path(sys.executable).parent / "gpucloud")
HELP = (GPUCLOUD, "--help")
OFFERS = (GPUCLOUD, "offers", "--gpu", "A100:8", "--json")
COST = (GPUCLOUD, "cost", "--gpu", "A100:8", "--hours", "72")
LIST = (GPUCLOUD, "list")
TABS = {
    "a box": "gpucloud ssh bench-4",
    "a region": "gpucloud launch --gpu A100:8 --region us-",
    "an option": "gpucloud launch --gpu",
}
"""Lines whose last word a shell completes; a person waits for each."""
TAB_S = 0.150
BOXES = 100
MEMORY_BUDGET_MB = 60.0
RUNS = 15


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program: seconds, CPU seconds, and the peak of its resident memory in MB (10^6 bytes)."""

    seconds: float
    cpu_s: float
    peak_mb: float


def run(argv: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Runs a program once, as if installed: pip compiles a package, so the first run keeps its bytecode too.

    Raises:
        RuntimeError: it failed; a figure of a failing command means nothing.
    """
    launcher = (sys.executable, "-I", "-S", ONE_RUN)
    compiled = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    result = subprocess.run((*launcher, *argv), env=compiled, check=True, capture_output=True, text=True)
    seconds, cpu_s, peak_bytes, code = result.stdout.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(argv)} ended with {code}: {result.stderr}")
    return Run(seconds=float(seconds), cpu_s=float(cpu_s), peak_mb=int(peak_bytes) / 1e6)


def compare(argv: Sequence[str], environment: Mapping[str, str], runs: int = RUNS) -> tuple[Run, Run]:
    """The best of the baseline and of a program, run in turn; one more of each first, to warm up."""
    turns = [(run(BASELINE, environment), run(argv, environment)) for _ in range(runs + 1)][1:]
    return best([baseline for baseline, _ in turns]), best([measured for _, measured in turns])


def best(runs: Sequence[Run]) -> Run:
    """The least of each figure: what else a machine does makes a run longer, never shorter."""
    return Run(
        seconds=min(one.seconds for one in runs),
        cpu_s=min(one.cpu_s for one in runs),
        peak_mb=min(one.peak_mb for one in runs),
    )


def fill_journal(environment: Mapping[str, str], count: int) -> None:
    """Writes a journal with this many ready boxes, none of which has anything open."""
    paths = find_paths(environment, sandbox=False)
    owner = find_owner(paths, environment)
    now = datetime.now(UTC)
    journal = Journal.open(make_private(paths.state) / JOURNAL, lambda: now)
    for number in range(count):
        box = journal.plan(
            Box,
            id=f"box-{number:022d}",
            name=f"bench-{number}",
            owner=owner,
            run_id=None,
            op=f"op-{number:023d}",
            expires_at=None,
            facts=FACTS,
            lease=this_process(now),
        )
        for state in (BoxState.PROVISIONING, BoxState.BOOTSTRAPPING, BoxState.READY):
            journal.write(box, StateChanged(state=state))
        journal.release(box)


FACTS = Facts(
    place=Place(cloud="aws", region="us-east-1", zone="use1-az1"),
    offer=BoughtOffer(
        instance_type="g4dn.xlarge",
        purchase=Purchase.ON_DEMAND,
        gpu=Gpu(model="T4", count=Decimal(1), memory_gib=Decimal(16)),
    ),
    price=Price(amount=Decimal("0.526"), currency="USD"),
    nodes=(
        Node(
            instance_id="i-0123456789abcdef0",
            state=State.RUNNING,
            public_ip="203.0.113.7",
            private_ip="10.0.0.7",
        ),
    ),
)


def main(runs: int = RUNS) -> list[Row]:
    """Help, a search, an estimate, the list of 100 boxes, and completions: the best of some runs of each."""
    with tempfile.TemporaryDirectory(prefix="gpucloud-bench-") as home:
        environment = {**os.environ, "GPUCLOUD_HOME": home, "GPUCLOUD_OWNER": "bench"}
        environment.pop("GPUCLOUD_SANDBOX", None)
        fill_journal(environment, BOXES)
        rows: list[Row] = []
        for what, argv, budget in (
            ("gpucloud --help", HELP, 0.9),
            ("gpucloud offers --gpu A100:8 --json", OFFERS, 2.2),
            ("gpucloud cost --gpu A100:8 --hours 72", COST, 2.7),
            (f"gpucloud list, {BOXES} boxes", LIST, 2.5),
        ):
            bare, ours = compare(argv, environment, runs)
            rows.append(Row(what, bare.seconds, ours.seconds, budget))
            if argv is OFFERS:
                rows.append(
                    Row("  its peak memory, against the budget", MEMORY_BUDGET_MB, ours.peak_mb, 1, "MB")
                )
        for what, line in TABS.items():
            measured = best([run((GPUCLOUD,), {**environment, **asked(line)}) for _ in range(runs + 1)][1:])
            rows.append(Row(f"a tab after {what}, against 150 ms", TAB_S, measured.seconds, 1))
    return rows


def asked(line: str) -> dict[str, str]:
    """The variables with which bash asks for the completion of a line's last word."""
    cursor = str(len(line.split(" ")) - 1)
    return {"_GPUCLOUD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": cursor}


def short() -> list[Row]:
    """The same with fewer runs."""
    return main(runs=7)
