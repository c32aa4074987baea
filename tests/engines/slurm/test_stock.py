"""Without stock: jobs wait, nothing spins, and no node stays down."""

from __future__ import annotations

from tests.engines.slurm.lab import Lab, laboratory
from tests.waiting import until

ALL = {f"lab-t4-{n}": "drain~" for n in range(1, 9)}


def test_without_stock_jobs_wait_and_no_node_stays_down() -> None:
    """One attempt is made for the class; then its nodes are drained until its pause ends."""
    with laboratory() as lab:
        lab.shell.sandbox.stock(count=0)
        jobs = [lab.submit("true", "--partition=t4", "--gpus-per-node=1", "--exclusive") for _ in range(3)]
        until(lambda: "(gpucloud)" in lab.reasons(), "what was told")
        until(lambda: _looked_after(lab) == ALL, "the pause")
        lab.shell.sandbox.calls(clear=True)
        assert lab.sync().code == 0
        assert lab.shell.changes_asked() == [], "nothing spins"
        assert {lab.state(job) for job in jobs} == {"PD"}
        assert "(gpucloud) paused until" in lab.reasons()
        assert lab.shell.sandbox.status()["billing"] == []


def _looked_after(lab: Lab) -> dict[str, str]:
    """The nodes after one look."""
    assert lab.sync().code == 0
    return lab.nodes()
