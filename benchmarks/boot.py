"""What boots: rendering and its size, the guard's memory and processor time, and the time from start to ssh.

The budgets are absolute; they stand in the baseline's column.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.table import Row
from gpucloud.clouds.abilities import Boot
from gpucloud.ssh.keys import create_keys
from gpucloud_aws.provider import AwsProvider
from gpucloud_templates import BootPlan, Metadata, Software, packed, render
from tests.boot.guarded import GuardedBox
from tests.profiles import own_profile
from tests.providers.abilities import able

RENDERINGS = 50
HOUR_POLLS, POLL_S = 720, 5.0
RENDER_BUDGET_S = 0.005
SIZE_BUDGET_KB = {"cuda-12.6": 13.0, "pytorch": 15.0, "tensorflow": 15.5}
"""EC2 accepts 16 KiB, the user's own commands included. The wheels' digests are 2 KB that do not compress."""
RSS_BUDGET_MB, CPU_BUDGET_S, QUERIES_BUDGET = 20.0, 7.0, 61.0
SSH_BUDGET_S = 6.0
TICKS = os.sysconf("SC_CLK_TCK")
RECIPES = {
    "cuda-12.6": Software(driver="580", containers=True, toolkit="12.6", cudnn="9", system="ubuntu-24.04"),
    "pytorch": Software(driver="580", containers=True, wheels="pytorch-2.10", system="ubuntu-24.04"),
    "tensorflow": Software(driver="580", containers=True, wheels="tensorflow-2.20", system="ubuntu-24.04"),
}


def main() -> list[Row]:
    """All of them; the boot only where a system can be booted."""
    with TemporaryDirectory(prefix="bench-") as folder:
        return [*rendering(Path(folder)), *guarding(Path(folder)), *booting(Path(folder))]


def _metadata() -> Metadata:
    found = able(AwsProvider(own_profile()), Boot).metadata
    assert found is not None
    return found


def plan(folder: Path, software: Software) -> BootPlan:
    """Everything that a spec can ask for."""
    keys = create_keys(folder / "keys", "b-1")
    return BootPlan(
        box="b-01JD3XW0000000000000000000",
        name="trainer-of-a-large-language-model",
        user="gpucloud",
        public_key=keys.public_key,
        host_private_key=keys.host_private_key,
        host_public_key=keys.host_public_key,
        deadline=datetime.now(UTC) + timedelta(hours=8),
        ttl_s=8 * 3600,
        idle_s=1800,
        checkpoint="python save.py --to /workspace/checkpoints",
        gpus=8,
        spot=True,
        metadata=_metadata(),
        software=software,
        scratch=True,
    )


def rendering(folder: Path) -> Iterator[Row]:
    """The fullest spec of each recipe that installs something."""
    for recipe, software in RECIPES.items():
        wanted = plan(folder, software)
        size = len(packed(render(wanted)))
        began = time.process_time()
        for _ in range(RENDERINGS):
            packed(render(wanted))
        cpu_s = (time.process_time() - began) / RENDERINGS
        yield Row(f"render and pack {recipe}, CPU", RENDER_BUDGET_S, cpu_s, 1.0)
        yield Row(f"user-data of {recipe}", SIZE_BUDGET_KB[recipe], size / 1024, 1.0, "KB")


def guarding(folder: Path) -> Iterator[Row]:
    """An hour of the guard, poll by poll, on a spot box whose metadata service is asked at each."""
    with guarded(folder / "guarded") as box:
        assert box.guard is not None
        pid = box.guard.pid
        before = cpu_seconds(pid)
        for _ in range(HOUR_POLLS):
            box.pass_time(POLL_S)
        yield Row("guard, an hour's polls, with its children", CPU_BUDGET_S, cpu_seconds(pid) - before, 1.0)
        yield Row("guard, peak RSS", RSS_BUDGET_MB, peak_mb(pid), 1.0, "MB")
        asked = float(len(box.said("nvidia-smi")))
        yield Row("guard, nvidia-smi in an hour", QUERIES_BUDGET, asked, 1.0, "calls")


@contextmanager
def guarded(folder: Path) -> Generator[GuardedBox]:
    """A box whose guard watches with everything switched on."""

    def answer(_method: str, path: str, _headers: Mapping[str, str]) -> tuple[int, str]:
        return (404, "") if "spot" in path else (200, "token")

    box = GuardedBox(folder)
    try:
        box.serve(answer)
        box.arm(spot=True, ttl_s=9 * 3600, idle_s=8 * 3600, metadata=asdict(_metadata()))
        yield box
    finally:
        box.close()


def cpu_seconds(pid: int) -> float:
    """Of a process and those of its children that have ended (proc(5), fields 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def peak_mb(pid: int) -> float:
    """A process's largest resident set."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def booting(folder: Path) -> Iterator[Row]:
    """Real cloud-init on rendered user-data, until ssh answers."""
    from gpucloud.ssh.client import wait_until_reachable
    from tests.boot.machine import BootedMachine
    from tests.boot.tree import tree, why_not

    reason = why_not()
    if reason is not None:
        print(f"no system can be booted: {reason}", file=sys.stderr)
        return
    tree()
    user_data = packed(render(plan(folder, RECIPES["cuda-12.6"])))
    machine = BootedMachine(folder=folder / "machine", user_data=user_data, keys=folder / "keys")
    try:
        began = time.perf_counter()
        machine.boot()
        assert machine.target is not None
        wait_until_reachable(machine.target, timeout_s=60)
        yield Row("boot, from start to ssh", SSH_BUDGET_S, time.perf_counter() - began, 1.0)
    finally:
        machine.close()
