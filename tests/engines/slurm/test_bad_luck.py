"""What befalls the programs of slurmctld and its nodes: kills, a spot storm, second registrations, clocks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.truth import most_at_once
from tests.engines.slurm.lab import Lab, laboratory, lines
from tests.engines.slurm.programs import wrong_clock
from tests.waiting import until

CLUSTER = """\
cluster: lab
classes:
  t4: {gpu: "T4:1", purchase: spot, clouds: [aws], max: 4}
idle: 8s
"""
UNTIL_IT_IS_RESTARTED = """\
echo start=${SLURM_RESTART_COUNT:-0} node=$SLURMD_NODENAME
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
sleep 600
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One cluster, which every test leaves empty."""
    with laboratory(CLUSTER) as started:
        yield started


@pytest.mark.parametrize("calls", [1, 4, 8, 12])
def test_a_program_that_is_killed_in_the_middle_of_a_launch_leaves_one_box_or_none_and_the_job_runs(
    lab: Lab, calls: int
) -> None:
    """After so many calls to the cloud; the look of the next minute goes on from there."""
    lab.shell.sandbox.pace(latency_s=0.2)
    lab.shell.sandbox.calls(clear=True)
    job = lab.submit("true", "--partition=t4", "--gpus-per-node=1")
    until(lambda: _asked(lab) >= calls, "the launch")
    killed = _kill_programs(lab)
    lab.shell.sandbox.pace(latency_s=0.0)
    assert killed, "its program works on it"
    until(lambda: lab.sync().code in {0, 1, 8} and lab.state(job) == "CD", "the job")
    lab.settle()
    assert most_at_once(lab.shell.sandbox.ledger()) == 1


def test_a_storm_takes_half_of_the_nodes_and_their_jobs_run_on_others(lab: Lab) -> None:
    """Without a notice. The jobs on the other nodes are not disturbed."""
    where = ("--partition=t4", "--gpus-per-node=1", "--requeue", "--open-mode=append")
    jobs = [lab.submit(UNTIL_IT_IS_RESTARTED, *where) for _ in range(4)]
    until(lambda: {lab.state(job) for job in jobs} == {"R"}, "all jobs")
    machines = lab.shell.billed()
    assert len(machines) == 4
    for each in machines[:2]:
        lab.shell.sandbox.interrupt(each["id"], notice_s=0)
    until(lambda: lab.sync().code == 0 and _ended(lab, jobs) == 2, "the jobs of two nodes")
    left = [job for job in jobs if lab.state(job) == "R"]
    assert [lines(lab.output(job), "start=1") for job in left] == [[], []]
    lab.run("scancel", *left)
    lab.settle()
    assert most_at_once(lab.shell.sandbox.ledger()) == 4


def test_a_node_that_is_started_and_registers_a_second_time_stays_the_one_that_it_is(lab: Lab) -> None:
    job = lab.submit("sleep 5; echo done", "--partition=t4", "--gpus-per-node=1")
    until(lambda: lab.state(job) == "R", "the job")
    node = lab.run("squeue", "-h", "-j", job, "-o", "%N").strip()
    file = str(lab.shell.home / "cluster.yaml")
    again = [lab.shell.start("slurm", "resume", "--cluster", file, node, **lab.variables) for _ in range(2)]
    assert {lab.shell.finish(each).code for each in again} == {0}
    lab.run("scontrol", "reconfigure")
    restarted = lab.gpucloud("exec", node, "--", "pkill", "-HUP", "-x", "slurmd")
    assert restarted.code == 0, restarted.err
    until(lambda: lab.state(job) == "CD", "the job")
    assert lab.output(job) == "done\n"
    lab.settle()
    assert most_at_once(lab.shell.sandbox.ledger()) <= 4


@pytest.mark.parametrize(("shift", "way"), [("+3h", "ahead of"), ("-3h", "behind")])
def test_a_clock_that_jumps_on_the_controller_ends_no_node_and_buys_none(
    lab: Lab, shift: str, way: str
) -> None:
    job = lab.submit("while [ ! -e go ]; do sleep 0.2; done", "--partition=t4", "--gpus-per-node=1")
    until(lambda: lab.state(job) == "R", "the job")
    machines = lab.shell.billed()
    look = ("-m", "gpucloud", "slurm", "sync", "--cluster", lab.shell.home / "cluster.yaml")
    wrong = lab.shell.run(sys.executable, *look, **lab.variables, **wrong_clock(shift))
    assert (wrong.code, f" s {way} that of aws" in wrong.err) == (1, True), wrong.err
    assert lab.sync().code == 0
    assert lab.shell.billed() == machines
    assert lab.state(job) == "R"
    (lab.folder / "go").touch()
    until(lambda: lab.state(job) == "CD", "the job")
    (lab.folder / "go").unlink()
    lab.settle()


def _asked(lab: Lab) -> int:
    return sum(int(call["count"]) for call in lab.shell.sandbox.calls())


def _ended(lab: Lab, jobs: list[str]) -> int:
    return [lab.state(job) for job in jobs].count("CD")


def _kill_programs(lab: Lab) -> list[int]:
    """Kills what slurmctld has started to launch nodes; gives their process ids."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            own = str(lab.shell.home).encode() in (folder / "environ").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if own and b"slurm" in words and b"--foreground" in words:
            os.kill(int(folder.name), signal.SIGKILL)
            found.append(int(folder.name))
    return found
