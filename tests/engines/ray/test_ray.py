"""Ray's own autoscaler, with boxes as its nodes: real programs, and the clouds of the sandbox."""

from __future__ import annotations

from tests.engines.ray.heads import cluster
from tests.shell import Shell, cli, endpoint
from tests.waiting import until

__all__ = ["cli", "endpoint"]


def test_smoke_a_task_that_wants_a_gpu_gets_a_box_which_goes_when_it_is_idle(cli: Shell) -> None:
    with cluster(cli).running() as head:
        [(_, gpu)] = head.work(1)
        assert gpu == "0"
        [box] = cli.boxes()
        assert (box["name"], box["run_id"], box["state"]) == ("lab-t4-1", "lab-t4-1", "ready")
        until(lambda: not cli.boxes(), head.log())
    assert cli.sandbox.status()["billing"] == []
