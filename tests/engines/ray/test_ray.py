"""Ray's own autoscaler, with boxes as its nodes: real programs, and the clouds of the sandbox."""

from __future__ import annotations

import json
import re

import pytest

from tests.chaos.truth import most_at_once
from tests.engines.ray.heads import INSTALL, cluster
from tests.examples.play import example
from tests.pages import ROOT
from tests.shell import Shell, cli, endpoint, own_clouds
from tests.waiting import until

__all__ = ["cli", "endpoint", "own_clouds"]

pytestmark = pytest.mark.timeout(900)  # four or five programs of Ray start for each node
PAGE = "10.0.0.5"
"""The address of the head in docs/ray.md."""


def test_smoke_a_task_that_wants_a_gpu_gets_a_box_which_goes_when_it_is_idle(cli: Shell) -> None:
    with cluster(cli, idle="3s").running() as head:
        [(_, gpu)] = head.work(1)
        assert gpu == "0"
        [box] = cli.boxes()
        assert (box["name"], box["run_id"], box["state"]) == ("lab-t4-1", "lab-t4-1", "ready")
        until(lambda: not cli.boxes(), "the end of the box")
    assert cli.sandbox.status()["billing"] == []


def test_the_commands_of_the_page_launch_three_boxes_at_once_and_all_go(cli: Shell) -> None:
    page = (ROOT / "docs" / "ray.md").read_text(encoding="utf-8")
    init, start, work = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].splitlines()
    lab = cluster(cli, idle="3s")
    host, _, port = lab.head.partition(":")
    assert init == f"gpucloud ray init --head {PAGE} >ray.yaml"
    assert lab.start == start.replace(PAGE, host).replace("6379", port)
    with lab.running() as head:
        nodes = head.run(ROOT / work.removeprefix("python "))
        assert len(nodes) == len(set(nodes)) == 3
        assert head.log().count("Launching 3 nodes of type t4") == 1
        until(lambda: not cli.boxes(), "the end of the boxes")
    assert most_at_once(cli.sandbox.ledger()) == 3
    assert cli.sandbox.status()["billing"] == []


def test_a_new_head_finds_the_nodes_and_tags_of_the_one_that_was_killed_and_works_on_them(cli: Shell) -> None:
    lab = cluster(cli)
    with lab.running() as head:
        [(old, _)] = head.work(1)
        before, boxes = lab.nodes(), cli.boxes()
        head.kill()
    [tags] = [tags for node, tags in before.items() if node != "lab.head"]
    assert (tags["ray-user-node-type"], tags["ray-node-type"]) == ("t4", "worker")
    assert tags["ray-launch-request"]
    assert lab.nodes() == before
    with lab.running() as head:
        [(new, _)] = head.work(1)
        assert new != old, "it is another cluster to Ray"
        assert [box["id"] for box in cli.boxes()] == [box["id"] for box in boxes]
        assert lab.nodes() == before


def test_when_the_head_is_dead_nothing_is_billed_one_lease_later(own_clouds: Shell) -> None:
    names = ("aws", "alibaba")
    with cluster(own_clouds, {name: {"clouds": name, "max": 1} for name in names}).running() as head:
        head.work(2)
        assert sorted(each["cloud"] for each in own_clouds.billed()) == sorted(names)
        head.kill()
    own_clouds.sandbox.clock(advance_s=1.1 * 3600)
    until(lambda: not own_clouds.sandbox.status()["billing"], "nothing billed")


@pytest.mark.parametrize(
    ("stock", "setup", "said"),
    [
        pytest.param(None, "true", "has no Ray; the head has Ray", id="no Ray on the node"),
        pytest.param(0, INSTALL, "none of", id="no stock"),
    ],
)
def test_a_class_whose_launch_failed_is_not_asked_for_again_however_often_ray_asks(
    cli: Shell, stock: int | None, setup: str, said: str
) -> None:
    cli.sandbox.stock(count=stock)
    with cluster(cli, {"t4": {"setup": setup}}).running() as head, head.working(1):
        until(lambda: head.log().count("t4 is not launched until") > 1, "the refusal")
        cli.sandbox.calls(clear=True)
        refused = head.log().count("Failed to launch")
        until(lambda: head.log().count("Failed to launch") > refused + 3, "more refusals")
        assert cli.changes_asked() == []
        assert said in head.log()
        assert cli.sandbox.status()["billing"] == []


def test_a_request_that_waits_for_ray_serve_gets_a_box(cli: Shell) -> None:
    with cluster(cli).running() as head:
        assert json.loads(head.serve(example("ray") / "model.py")) == {"bytes": 5}
        assert [box["name"] for box in cli.boxes()] == ["lab-t4-1"]


def test_a_node_that_its_cloud_takes_back_is_drained_before(cli: Shell) -> None:
    with cluster(cli, {"t4": {"purchase": "spot"}}).running() as head, head.working(1):
        [box] = until(lambda: [box for box in cli.boxes() if box["state"] == "ready"], "the box")
        until(lambda: re.search(r"RAY_RUNNING \(id=\S+ type=t4", head.log()), "the node")
        cli.sandbox.interrupt(box["nodes"][0]["instance_id"], notice_s=100)
        until(lambda: "is DRAINING" in head.log(), "the drain")
