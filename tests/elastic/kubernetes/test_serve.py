"""``gpucloud k8s serve`` as cluster-autoscaler meets it: over mutual TLS, with the sandbox behind."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from gpucloud.elastic.kubernetes import core_pb2 as core
from gpucloud.elastic.kubernetes import externalgrpc_pb2 as wire
from gpucloud_sandbox.client import Endpoint
from tests.chaos.truth import most_at_once
from tests.elastic.kubernetes import certificates as made
from tests.elastic.kubernetes.autoscaler import (
    API,
    CREATING,
    K3S,
    TOKEN,
    Autoscaler,
    Calls,
    Server,
    connected,
    serving,
)
from tests.forked import ForkServer
from tests.pages import ROOT
from tests.shell import Shell, cli, endpoint, newcomer
from tests.waiting import PATIENCE_S, until

__all__ = ["cli", "endpoint"]

LAB = f"""
cluster: lab
classes:
  t4:
    gpu: T4
    clouds: aws
    regions: us-east-1
    max_price: 0.60
    max: 4
{K3S}
  a10g:
    gpu: A10G
    clouds: aws
    max: 2
{K3S}
  bare: {{gpu: T4, clouds: aws, regions: us-west-2, max: 1}}
idle: 7m
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.make(tmp_path_factory.mktemp("tls") / "pem")


@pytest.fixture
def server(cli: Shell, certificates: Path) -> Iterator[Server]:
    """A server of a test's own."""
    with serving_lab(cli, certificates) as server:
        yield server


@pytest.fixture(scope="module")
def idle(
    endpoint: Endpoint, certificates: Path, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The server of the tests that want no node of it."""
    with (
        newcomer(endpoint, tmp_path_factory.mktemp("idle"), forks) as shell,
        serving_lab(shell, certificates) as server,
    ):
        yield server


@contextmanager
def serving_lab(cli: Shell, certificates: Path) -> Generator[Server]:
    """A server for the cluster of these tests."""
    (cli.home / "cluster.yaml").write_text(LAB)
    with serving(cli, cli.home / "cluster.yaml", certificates) as server:
        yield server


def refused(call: Callable[[], object]) -> grpc.StatusCode:
    """The code of a call that is refused."""
    with pytest.raises(grpc.RpcError) as error:
        call()
    code: grpc.StatusCode = error.value.code()
    return code


def test_nodes_come_and_go_as_the_autoscaler_wants_them(
    server: Server, certificates: Path, cli: Shell
) -> None:
    with connected(server.address, certificates) as calls:
        loop = Autoscaler(calls, wanted={"t4": 2})
        loop.loop()
        assert calls.NodeGroupTargetSize(id="t4").targetSize == 2, "from the answer on"
        first = calls.NodeGroupNodes(id="t4").instances
        assert [each.status.instanceState for each in first] == [CREATING, CREATING]
        until(loop.settled, "two nodes")
        up = loop.up("t4")
        assert {id.rpartition("/")[2] for id in up} == {box["id"] for box in cli.billed()}
        assert all(id.startswith("gpucloud://aws/") for id in up)
        for id in up:
            node = wire.ExternalGrpcNode(providerID=id)
            assert calls.NodeGroupForNode(node=node).nodeGroup.id == "t4"
        joined = [json.loads(cli("exec", box["name"], "--", "cat", "k3s.json").out) for box in cli.boxes()]
        assert {word for node in joined for word in node["kubelet-arg"]} == {f"provider-id={id}" for id in up}
        template = core.Node.FromString(calls.NodeGroupTemplateNodeInfo(id="t4").nodeBytes).metadata.labels
        for node in joined:
            assert (node["server"], node["token"]) == (API, TOKEN)
            assert dict(word.split("=") for word in node["node-label"]).items() <= template.items()
        words = cli("exec", "lab-t4-1", "--", "cat", "k3s.words").out.splitlines()
        assert words[:2] == ["agent", "--config"]
        assert cli("exec", "lab-t4-1", "--", "stat", "-c", "%a", words[2]).out == "600\n"
        own = (file for file in cli.home.iterdir() if file.name != "sandbox")
        files = [file for path in own for file in (path, *path.rglob("*")) if file.is_file()]
        assert [file for file in files if TOKEN.encode() in file.read_bytes()] == []
        assert TOKEN not in str(cli.sandbox.received())
        loop.wanted["t4"] = 1
        until(loop.settled, "one node")
        assert loop.up("t4") < up
        loop.wanted["t4"] = 0
        until(lambda: loop.settled() and cli.sandbox.status()["billing"] == [], "nothing")
        for id in up:
            node = wire.ExternalGrpcNode(providerID=id)
            assert calls.NodeGroupForNode(node=node).nodeGroup.id == "", "it is gone"
        loop.delete("t4", sorted(up))
        assert calls.NodeGroupTargetSize(id="t4").targetSize == 0, "deleting again changes nothing"


def test_a_node_that_cannot_be_is_told_as_an_error_and_nothing_spins(
    server: Server, certificates: Path, cli: Shell
) -> None:
    """The autoscaler gives such nodes back and takes another group at once; the class pauses here too."""
    cli.sandbox.stock(count=0, instance_type="g4dn.*", region="us-east-1")
    with connected(server.address, certificates) as calls:
        loop = Autoscaler(calls, wanted={"t4": 2, "a10g": 1, "bare": 1})
        until(lambda: loop.settled() and loop.backed_off == {"t4", "bare"}, "what can be had")
        capacity, other = 1, 99
        assert {(group, number) for group, _, number, _ in loop.errors} == {("t4", capacity), ("bare", other)}
        assert any("k3s is not on the PATH" in message for *_, message in loop.errors)
        until(lambda: loop.settled() and loop.targets == {"t4": 0, "a10g": 1, "bare": 0}, "what is left")
        until(lambda: len(cli.billed()) == 1, "the box that could not join to be deleted")
        asked = len(cli.changes_asked())
        loop.backed_off.clear()
        until(lambda: loop.settled() and "t4" in loop.backed_off, "the next failure")
        assert len(cli.changes_asked()) == asked, "no cloud is asked before the pause is over"


def test_what_cannot_be_is_refused_and_changes_nothing(idle: Server, certificates: Path) -> None:
    codes = grpc.StatusCode
    wrong, never, unknown = codes.INVALID_ARGUMENT, codes.FAILED_PRECONDITION, codes.NOT_FOUND
    foreign = wire.ExternalGrpcNode(providerID="aws:///us-east-1a/i-0123456789abcdef0", name="other")
    with connected(idle.address, certificates) as calls:
        assert refused(lambda: calls.NodeGroupTargetSize(id="h100")) == unknown
        assert refused(lambda: calls.NodeGroupNodes(id="")) == unknown
        assert refused(lambda: calls.NodeGroupIncreaseSize(id="t4", delta=5)) == never
        assert refused(lambda: calls.NodeGroupIncreaseSize(id="t4", delta=0)) == never
        assert refused(lambda: calls.NodeGroupDecreaseTargetSize(id="t4", delta=-1)) == never
        assert refused(lambda: calls.NodeGroupDeleteNodes(id="t4", nodes=[foreign])) == wrong
        assert refused(lambda: calls.PricingNodePrice(node=foreign)) == wrong
        assert calls.NodeGroupForNode(node=foreign).nodeGroup.id == ""
        assert calls.NodeGroupTargetSize(id="t4").targetSize == 0


def test_only_a_client_with_a_certificate_is_answered(idle: Server, certificates: Path) -> None:
    with connected(idle.address, certificates, "stranger") as calls:
        assert refused(calls.NodeGroups) == grpc.StatusCode.UNAVAILABLE
    with grpc.insecure_channel(idle.address) as channel:
        assert refused(Calls(channel).NodeGroups) == grpc.StatusCode.UNAVAILABLE


def test_what_a_group_has_and_costs_is_what_the_market_says(idle: Server, certificates: Path) -> None:
    hour = {"startTimestamp": Timestamp(seconds=0), "endTimestamp": Timestamp(seconds=7200)}
    with connected(idle.address, certificates) as calls:
        groups = {each.id: (each.minSize, each.maxSize) for each in calls.NodeGroups().nodeGroups}
        assert groups == {"t4": (0, 4), "a10g": (0, 2), "bare": (0, 1)}
        node = core.Node.FromString(calls.NodeGroupTemplateNodeInfo(id="t4").nodeBytes)
        has = {name: each.string for name, each in node.status.allocatable.items()}
        assert (has["nvidia.com/gpu"], has["cpu"], has["pods"]) == ("1", "4", "110")
        assert int(has["memory"]) < 16 << 30
        label = calls.GPULabel().label
        assert node.metadata.labels[label] == "T4"
        assert set(calls.GetAvailableGPUTypes().gpuTypes) == {"T4", "A10G"}
        given = wire.NodeGroupAutoscalingOptions(scaleDownUtilizationThreshold=0.4)
        options = calls.NodeGroupGetOptions(id="t4", defaults=given).nodeGroupAutoscalingOptions
        assert options.scaleDownUtilizationThreshold == 0.4
        assert options.MaxNodeProvisionDuration.seconds == 1800
        assert options.scaleDownUnneededDuration.seconds == 420
        like_it = wire.ExternalGrpcNode(name=node.metadata.name, labels=node.metadata.labels)
        assert calls.PricingNodePrice(node=like_it, **hour).price == pytest.approx(2 * 0.526)
        whole, quarter, nowhere = pod(**{"nvidia.com/gpu": "1"}), pod(cpu="1", memory="1Gi"), pod(cpu="1000")
        assert calls.PricingPodPrice(pod_bytes=whole, **hour).price == pytest.approx(2 * 0.526)
        assert calls.PricingPodPrice(pod_bytes=quarter, **hour).price == pytest.approx(0.526 / 2)
        with pytest.raises(grpc.RpcError, match="the price of the pod is not known"):
            calls.PricingPodPrice(pod_bytes=nowhere, **hour)


def pod(**requests: str) -> bytes:
    """A pod with one container that asks for this."""
    asked = core.ResourceRequirements()
    for name, text in requests.items():
        asked.requests[name].string = text
    return core.Pod(spec=core.PodSpec(containers=[core.Container(resources=asked)])).SerializeToString()


def test_a_server_that_is_killed_knows_everything_when_it_is_started_again(
    server: Server, certificates: Path, cli: Shell
) -> None:
    with connected(server.address, certificates) as calls:
        loop = Autoscaler(calls, wanted={"t4": 1})
        loop.loop()
        server.kill()
        server.start()
        assert calls.NodeGroupTargetSize(id="t4").targetSize == 1
        until(loop.settled, "a node")
        up = loop.up("t4")
        server.kill()
        server.start()
        loop.loop()
        assert loop.up("t4") == up
        loop.delete("t4", sorted(up))
        server.kill()
        server.start()
        loop.wanted["t4"] = 0
        until(lambda: loop.settled() and cli.sandbox.status()["billing"] == [], "nothing")
        assert most_at_once(cli.sandbox.ledger()) == 1


def test_the_commands_of_the_page_do_what_it_says(cli: Shell, certificates: Path) -> None:
    """With the page's own cluster, in a folder with the files that they name."""
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    [cluster], [commands] = (
        re.findall(r"```yaml\n(.*?)```", page, re.S),
        re.findall(r"```sh\n(.*?)```", page, re.S),
    )
    (cli.home / "cluster.yaml").write_text(cluster)
    (cli.home / "node-token").write_text(TOKEN)
    for name, file in (("tls.crt", "server.crt"), ("tls.key", "server.key"), ("ca.crt", "ca.crt")):
        (cli.home / name).write_bytes((certificates / file).read_bytes())
    lines = [shlex.split(line.partition("|")[0])[1:] for line in commands.splitlines()]
    assert [line[:2] for line in lines] == [["k8s", "manifests"], ["k8s", "serve"], ["runs", "list"]]
    printed = cli(*lines[0])
    assert (printed.code, "kind: Deployment" in printed.out) == (0, True), printed.err
    serve = cli.start(*lines[1], "--listen", "127.0.0.1:0", "--json")
    assert serve.stdout is not None
    with connected(json.loads(serve.stdout.readline())["address"], certificates) as calls:
        assert [group.id for group in calls.NodeGroups().nodeGroups] == ["t4", "a100"]
        calls.NodeGroupIncreaseSize(id="t4", delta=1)
        assert "(1 node of cluster lab)" in cli(*lines[2]).out
        calls.NodeGroupDecreaseTargetSize(id="t4", delta=-1)
    serve.terminate()
    serve.communicate(timeout=PATIENCE_S)
    assert serve.wait() == 143


def test_it_does_not_listen_without_certificates_or_where_somebody_else_does(
    idle: Server, certificates: Path, cli: Shell
) -> None:
    line = ("k8s", "serve", str(idle.cluster), "--client-ca", str(certificates / "ca.crt"), "--server", API)
    keys = ("--cert", str(certificates / "server.crt"), "--key", str(certificates / "server.key"))
    assert cli(*line).code == 2
    for more, words in (
        (("--token-file", "missing.token"), "missing.token"),
        (("--join", "kubelet"), "allowed: k3s, kubeadm"),
        (("--server", "10.0.0.5"), "such as https://10.0.0.5:6443"),
        (("--token-file", str(idle.cluster)), "has spaces"),
    ):
        found = cli(*line, *keys, *more, GPUCLOUD_K8S_TOKEN=TOKEN)
        assert (found.code, words in found.err) == (2, True), found.err
    assert "the token that lets nodes join is missing" in cli(*line, *keys).err
    given = (*line, "--token-file", str(certificates / "token"))
    (certificates / "token").write_text(f"{TOKEN}\n")
    missing = cli(*given, "--cert", "missing.crt", "--key", "missing.key")
    assert (missing.code, "missing.key" in missing.err) == (2, True)
    taken = cli(*given, *keys, "--listen", idle.address)
    assert (taken.code, idle.address in taken.err) == (2, True)
    wrong = cli(*given, "--cert", str(idle.cluster), "--key", str(idle.cluster))
    assert wrong.code == 2, wrong.err
