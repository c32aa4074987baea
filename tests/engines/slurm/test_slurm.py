"""Real Slurm on the sandbox: what is submitted runs on nodes that were not there, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.slurm.lab import Lab, laboratory, lines
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
    lab.settle()
