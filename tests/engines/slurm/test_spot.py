"""A spot node that its cloud takes back: its job runs again elsewhere, here on another cloud."""

from __future__ import annotations

from tests.engines.slurm.lab import laboratory, lines
from tests.waiting import until

CLUSTER = """\
cluster: lab
classes:
  t4: {gpu: "T4:1", purchase: spot, clouds: [aws, alibaba], checkpoint: "touch saved", max: 3}
idle: 8s
"""
JOB = """\
echo start=${SLURM_RESTART_COUNT:-0} node=$SLURMD_NODENAME
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
sleep 600
"""


def test_a_job_whose_spot_node_is_taken_back_runs_again_on_another_cloud() -> None:
    with laboratory(CLUSTER) as lab:
        job = lab.submit(JOB, "--partition=t4", "--gpus-per-node=1", "--requeue", "--open-mode=append")
        until(lambda: lab.state(job) == "R", "the job")
        [first] = [each for each in lab.shell.sandbox.status()["billing"] if each["kind"] == "instance"]
        lab.shell.sandbox.stock(cloud=first["cloud"], count=0)
        lab.shell.sandbox.interrupt(first["id"], notice_s=60)
        until(lambda: lab.state(job) == "PD", "the notice")
        until(lambda: lab.state(job) == "CD", "the job again")
        assert lines(lab.output(job), "start=") == ["start=0 node=lab-t4-1", "start=1 node=lab-t4-2"]
        assert "(gpucloud) its cloud takes it back" in lab.run("scontrol", "show", "node", "lab-t4-1")
        births = [entry["cloud"] for entry in lab.shell.sandbox.ledger() if entry["kind"] == "instance"]
        assert set(births) == {"aws", "alibaba"}
        assert lab.sync().code == 0
        lab.settle()
