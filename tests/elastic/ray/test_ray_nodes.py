"""What Ray's autoscaler asks, answered on the sandbox; a program on the boxes stands in for ``ray``.

``make engines`` does the same with Ray itself.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta

import pytest

from gpucloud import Client, Cluster, NodeClass, Spec
from gpucloud.api.ray_nodes import QUIET_S, LaunchRefusedError, RayNodes
from gpucloud.elastic.ray.nodes import REQUEST, RESOURCES
from gpucloud.elastic.ray.starting import Head
from gpucloud_sandbox.client import Endpoint
from tests.elastic.conftest import client, endpoint, profile
from tests.waiting import until

__all__ = ["client", "endpoint", "profile"]

RAY = b"""#!/bin/sh
case "$1" in
  --version) echo "ray, version 2.60.0" ;;
  start) echo "Ray runtime started for $RAY_CLOUD_INSTANCE_ID: $*"; exec sleep 600 ;;
esac
"""
PROGRAM = b64encode(RAY).decode()
INSTALL = f"mkdir -p .local/bin; echo {PROGRAM} | base64 -d >.local/bin/ray; chmod +x .local/bin/ray"


@pytest.fixture(autouse=True)
def nothing_is_left_to_do(client: Client) -> Iterator[None]:
    """The threads in which nodes are launched and ended are no part of the next test."""
    yield
    until(lambda: not [each for each in threading.enumerate() if each.name == "gpucloud"], "the threads")


def lab(setup: str = INSTALL) -> Cluster:
    spec = Spec(gpu="T4", clouds="aws", setup=setup)
    return Cluster(name="lab", classes={"t4": NodeClass(spec=spec, max=3)}, lease=timedelta(hours=1))


def head(session: str, version: str = "2.60.0") -> Head:
    return Head(address="10.0.0.5:6379", version=version, session=session)


def asked(request: str) -> dict[str, str]:
    """The labels of a request of Ray."""
    return {REQUEST: request, RESOURCES: json.dumps({"CPU": 4, "GPU": 1}), "ray-node-type": "worker"}


def started(client: Client, box: str) -> dict[str, bool]:
    """The jobs of Ray on a node: whether each runs."""
    return {job.id: job.running for job in client.nodes.jobs(box) if job.id.startswith("ray")}


def test_nodes_are_there_at_once_outlive_their_head_and_go(client: Client, endpoint: Endpoint) -> None:
    first = RayNodes(client, lab(), head("aaaa"))
    [one, two] = first.create("t4", 2, asked("r1"))
    assert {node: slot.labels[REQUEST] for node, slot in first.look().items()} == {one: "r1", two: "r1"}
    until(lambda: {str(slot.state) for slot in first.look().values()} == {"ready"}, "the nodes")
    said = client.nodes.exec("lab-t4-1", ["cat", ".gpucloud/jobs/rayaaaa/out"]).stdout
    assert f"started for {one}: start --block --address=10.0.0.5:6379 --num-cpus=4 --num-gpus=1" in said
    first.label(one, {"ray-node-status": "up-to-date"})

    second = RayNodes(client, lab(), head("bbbb"))
    assert second.create("t4", 2, asked("r1")) == [], "the same request again"
    assert set(second.look()) == {one, two}
    assert second.look()[one].labels == {**asked("r1"), "ray-node-status": "up-to-date"}
    assert second.look_after().troubles == ()
    assert started(client, "lab-t4-1") == {"rayaaaa": False, "raybbbb": True}
    with pytest.raises(LaunchRefusedError, match="all 3 slots of t4 are taken"):
        second.create("t4", 2, asked("r2"))
    [three] = second.look().keys() - {one, two}
    assert second.look()[three].labels[REQUEST] == "r2", "the one that there was room for"

    second.end([one, two, three, "lab-t4-9.run-unknown"])
    assert second.look() == {}
    second.end([one])
    until(lambda: endpoint.client.status()["billing"] == [], "nothing billed")


def test_a_failed_launch_leaves_no_node_and_the_class_waits_without_a_call(
    client: Client, endpoint: Endpoint
) -> None:
    nodes = RayNodes(client, lab("true"), head("aaaa"))
    nodes.create("t4", 1, asked("r1"))
    until(lambda: nodes.look() == {}, "the failure")
    until(lambda: endpoint.client.status()["billing"] == [], "nothing billed")
    endpoint.client.calls(clear=True)
    for _ in range(3):
        with pytest.raises(LaunchRefusedError, match="has no Ray; the head has Ray") as refused:
            nodes.create("t4", 1, asked("r2"))
    assert refused.value.category == "waits"
    assert endpoint.client.calls() == []


def test_only_a_head_that_ray_still_asks_launches_and_renews(client: Client) -> None:
    nodes = RayNodes(client, lab(), None)
    with pytest.raises(LaunchRefusedError, match="only the head of lab launches its nodes"):
        nodes.create("t4", 1, asked("r1"))
    nodes.look()
    now = time.monotonic()
    assert nodes.is_heard(now)
    assert not nodes.is_heard(now + QUIET_S)


def test_what_a_dead_head_wanted_and_had_not_launched_is_given_back(
    client: Client, endpoint: Endpoint
) -> None:
    client.engines.fleet(lab()).want(["lab-t4-1"], labels=asked("r1"))
    nodes = RayNodes(client, lab(), head("bbbb"))
    assert len(nodes.look()) == 1
    assert nodes.look_after().troubles == ()
    assert nodes.look() == {}
    assert [call for call in endpoint.client.calls() if call["mutating"]] == []
