"""Nodes for Slurm: what slurmctld waits for, what a look costs each minute, and what a job waits for."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.fleet import SLOTS, client_of, journalled, seconds
from benchmarks.launch import sandbox, timed
from benchmarks.startup import GPUCLOUD, run
from benchmarks.table import Row
from gpucloud import SlotState

RESUMED, RESUME_BUDGET_S = 100, 1.0
RESUMES = 3
SYNC_BUDGET_S = 1.0
LOOK_S = 30.0
"""How often slurmctld looks whether the nodes of a job are up."""
AGAINST_READY = 1.5
CLUSTER = 'cluster: lab\nclasses: {{t4: {{gpu: "T4:1", clouds: aws, max: {most}}}}}\nidle: 30s\n'
STATES = "State=ALLOCATED+CLOUD Weight=526 AvailableFeatures=t4,aws,on_demand"
SCONTROL = """#!/bin/sh
# Stands for scontrol: every node is up.
case "$*" in
  *--version*) echo slurm-wlm 22.05.8 ;;
  *"show node"*) cat {nodes} ;;
esac
"""


def resumed() -> Row:
    """How long slurmctld waits for its ResumeProgram: the best of some runs, each in a sandbox of its own."""
    taken_s = min(_resumed_s() for _ in range(RESUMES))
    return Row(f"slurm resume of {RESUMED} nodes returns", RESUME_BUDGET_S, taken_s, 1)


def _resumed_s() -> float:
    """The seconds of one ``resume``. Nothing is in stock: what goes on buys nothing."""
    with sandbox() as (endpoint, given), TemporaryDirectory() as folder:
        environment = _with_slurm(given, Path(folder))
        file = Path(folder, "cluster.yaml")
        file.write_text(CLUSTER.format(most=RESUMED))
        endpoint.client.stock(count=0)
        timed((GPUCLOUD, "--sandbox", "slurm", "init", str(file)), environment)
        command = (GPUCLOUD, "--sandbox", "slurm", "resume", "--cluster", str(file))
        taken = run((*command, f"lab-t4-[1-{RESUMED}]"), environment)
        with client_of(environment) as client:
            if len(client.engines.fleet(file).seen()) != RESUMED:
                raise RuntimeError("not all nodes are wanted")
    return taken.seconds


def looked_after() -> Row:
    """The CPU seconds of a look at nodes that are all up, without the clouds' answers; Slurm's are there."""
    with sandbox() as (_, given), TemporaryDirectory() as folder:
        environment = _with_slurm(given, Path(folder))
        file = Path(folder, "cluster.yaml")
        file.write_text(CLUSTER.format(most=SLOTS))
        with client_of(environment) as client:
            fleet = client.engines.fleet(file)
            fleet.want(fleet.cluster.slots("t4"))
            with client._session.operation() as context:  # pyright: ignore[reportPrivateUsage]
                journalled(context)
            slurm = client.engines.slurm(file)
            taken_s = seconds(slurm.sync)
            if any(slot.state is not SlotState.READY for slot in fleet.seen()):
                raise RuntimeError("not all nodes are up")
    return Row(f"slurm sync of {SLOTS:,} nodes", SYNC_BUDGET_S, taken_s, 1)


def _with_slurm(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """An environment in which slurmctld answers that all nodes are up."""
    nodes, programs = folder / "nodes", folder / "bin"
    lines = [f"NodeName=lab-t4-{n} {STATES} Comment=aws use1-az1 0.526 USD/h" for n in range(1, SLOTS + 1)]
    nodes.write_text("\n".join([*lines, ""]))
    programs.mkdir()
    for name, text in (("scontrol", SCONTROL.format(nodes=nodes)), ("squeue", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return {**environment, "PATH": f"{programs}{os.pathsep}{environment['PATH']}"}


def waited() -> Row:
    """From sbatch to the running job: with no node up, against ready nodes and one look of slurmctld."""
    from tests.engines.slurm.lab import Lab, laboratory  # fetches Debian's packages at its first use

    def ran(lab: Lab) -> float:
        began = time.perf_counter()
        job = lab.submit("true", "--partition=t4", "--nodes=2", "--gpus-per-node=1")
        while lab.state(job) not in {"R", "CG", "CD"}:
            time.sleep(0.2)
        taken_s = time.perf_counter() - began
        while lab.state(job) != "CD":
            time.sleep(0.2)
        return taken_s

    with laboratory(CLUSTER.format(most=4)) as lab:
        cold_s, ready_s = ran(lab), ran(lab)
    return Row("sbatch until the job runs, no node up", ready_s + LOOK_S, cold_s, AGAINST_READY)


def main() -> list[Row]:
    """Every figure; the last needs Debian's packages of Slurm."""
    return [resumed(), looked_after(), waited()]
