"""Real Slurm on the sandbox: what is submitted runs on nodes that were not there, and nothing is left."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.engines.slurm.lab import Lab, laboratory, lines
from tests.examples.play import example
from tests.waiting import until


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One cluster, which every test leaves empty."""
    with laboratory() as started:
        yield started


def test_smoke_a_job_of_two_nodes_runs_with_ranks_and_gpus_and_its_box_ends(lab: Lab) -> None:
    job = lab.submit(
        "srun sh -c 'echo rank=$SLURM_PROCID node=$SLURMD_NODENAME gpu=$CUDA_VISIBLE_DEVICES'",
        "--partition=t4",
        "--nodes=2",
        "--gpus-per-node=t4:1",
    )
    until(lambda: lab.state(job) == "CD", "the job")
    assert lines(lab.output(job), "rank=") == [
        "rank=0 node=lab-t4-1 gpu=0",
        "rank=1 node=lab-t4-2 gpu=0",
    ]
    until(lambda: lab.shell.sandbox.status()["billing"] == [], "the end of its box")


def test_a_graph_of_jobs_runs_in_its_order_on_nodes_that_stay_up_between_them(lab: Lab) -> None:
    """An array of three, two at a time; then what needs all of them. Nodes are used again before they end."""
    first = lab.submit(
        "echo task=$SLURM_ARRAY_TASK_ID", "--partition=t4", "--array=1-3%2", "--gpus-per-node=1"
    )
    last = lab.submit("echo last", f"--dependency=afterok:{first}", "--gpus-per-node=1", "--exclusive")
    until(lambda: lab.state(last) == "CD", "the last job")
    assert lines(lab.output(first), "task=") == ["task=1", "task=2", "task=3"]
    assert lab.output(last) == "last\n"
    births = [entry for entry in lab.shell.sandbox.ledger() if entry["kind"] == "instance"]
    assert len({entry["id"] for entry in births}) <= 4  # two of the job before, two of this one
    lab.settle()


def test_the_graph_of_jobs_of_the_examples_ends_with_its_report(lab: Lab) -> None:
    output = {"SBATCH_OUTPUT": f"{lab.folder}/out.%j"}
    report = lab.run(str(example("slurm") / "graph.sh"), "t4", **output).strip()
    until(lambda: lab.state(report) == "CD", "the report")
    assert lab.output(report) == "report\n"
    assert lines(lab.output(""), r"^(part|rank) \d$") == [f"part {n}" for n in range(1, 5)] + [
        "rank 0",
        "rank 1",
    ]
    lab.settle()


def test_what_may_cost_more_than_its_comment_says_is_refused_when_it_is_submitted(lab: Lab) -> None:
    two_hours = ("--partition=t4", "--nodes=2", "--time=2:00:00", "--gpus-per-node=1", "--hold")
    job = lab.submit("true", *two_hours, "--comment=max-usd=4.00")
    with pytest.raises(
        AssertionError, match=r"2 node\(s\) for 120 min may cost 4.00 USD, more than max-usd=3.99"
    ):
        lab.submit("true", *two_hours, "--comment=max-usd=3.99")
    with pytest.raises(AssertionError, match="max-usd needs a time limit"):
        lab.submit("true", "--comment=max-usd=3.99")
    lab.run("scancel", job)


def test_two_hundred_jobs_at_once_share_what_nodes_there_may_be(lab: Lab) -> None:
    jobs = [lab.submit("true", "--time=5", "--mem=100") for _ in range(200)]
    until(lambda: lab.run("squeue", "-h", "-o", "%i") == "", "all jobs")
    assert {lab.state(job) for job in jobs[::40]} == {"CD"}
    lab.settle()


def test_where_jobs_go_to_the_least_loaded_node_two_jobs_are_on_two_nodes(lab: Lab) -> None:
    """Packed, they would be on one; a job before them has started both nodes."""
    where = "echo node=$SLURMD_NODENAME; sleep 1"
    lab.run("scontrol", "update", "partitionname=t4", "LLN=YES")
    first = lab.submit("true", "--partition=t4", "--nodes=2")
    after = ("--partition=t4", f"--dependency=afterok:{first}", "--mem=100")
    jobs = [lab.submit(where, *after) for _ in range(2)]
    until(lambda: {lab.state(job) for job in jobs} == {"CD"}, "the jobs")
    assert len({lab.output(job) for job in jobs}) == 2
    lab.run("scontrol", "update", "partitionname=t4", "LLN=NO")
    lab.settle()


def test_when_slurmctld_is_dead_every_node_ends_with_its_lease(lab: Lab) -> None:
    """The last test of this cluster: the clock of its clouds is ahead of this machine's afterwards."""
    job = lab.submit("sleep 600", "--partition=t4", "--nodes=2", "--gpus-per-node=1")
    until(lambda: lab.state(job) == "R", "the job")
    assert lab.sync().code == 0, "nothing is due for renewal"
    lab.stop("slurmctld", signal.SIGKILL)
    refused = lab.sync()
    assert (refused.code, "slurmctld" in refused.err) == (1, True), "nothing is renewed without it"
    lab.shell.sandbox.clock(advance_s=3700)
    until(lambda: lab.shell.sandbox.status()["billing"] == [], "the end of the lease")
