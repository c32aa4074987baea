"""The committed code of the contracts is what their .proto files say."""

from __future__ import annotations

import importlib.resources
import subprocess
import sys
from pathlib import Path

import pytest

from gpucloud.elastic.kubernetes import core_pb2, externalgrpc_pb2
from tests.pages import ROOT

FOLDER = Path("gpucloud/elastic/kubernetes")


def test_the_generated_code_is_that_of_the_proto_files(tmp_path: Path) -> None:
    """The line of the compiler is the one of docs/dev/checks.md, into another folder."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    files = sorted(str(FOLDER / file.name) for file in (ROOT / FOLDER).glob("*.proto"))
    out = (f"--python_out={tmp_path}", f"--pyi_out={tmp_path}")
    argv = (sys.executable, "-m", "grpc_tools.protoc", "-I", ".", f"-I{well_known}", *out, *files)
    subprocess.run(argv, cwd=ROOT, check=True)
    made = {file.name: file.read_text() for file in (tmp_path / FOLDER).iterdir()}
    assert sorted(made) == sorted(file.name for file in (ROOT / FOLDER).glob("*_pb2.py*"))
    assert made == {name: (ROOT / FOLDER / name).read_text() for name in made}


@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("NodeGroup", "id=1 minSize=2 maxSize=3 debug=4"),
        ("ExternalGrpcNode", "providerID=1 name=2 labels=3 annotations=4"),
        ("PricingNodePriceRequest", "node=1 startTimestamp=4 endTimestamp=5"),
        ("PricingPodPriceRequest", "pod_bytes=4 startTimestamp=5 endTimestamp=6"),
        ("NodeGroupIncreaseSizeRequest", "delta=1 id=2"),
        ("NodeGroupDeleteNodesRequest", "nodes=1 id=2"),
        ("NodeGroupDecreaseTargetSizeRequest", "delta=1 id=2"),
        ("NodeGroupTemplateNodeInfoResponse", "nodeBytes=2"),
        ("InstanceStatus", "instanceState=1 errorInfo=2"),
        ("InstanceErrorInfo", "errorCode=1 errorMessage=2 instanceErrorClass=3"),
        (
            "NodeGroupAutoscalingOptions",
            "scaleDownUtilizationThreshold=1 scaleDownGpuUtilizationThreshold=2 zeroOrMaxNodeScaling=6 "
            "ignoreDaemonSetsUtilization=7 scaleDownUnneededDuration=8 scaleDownUnreadyDuration=9 "
            "MaxNodeProvisionDuration=10 maxNodeStartupDuration=11",
        ),
    ],
)
def test_the_numbers_of_the_fields_are_those_of_the_public_contract(message: str, numbers: str) -> None:
    """Written down a second time: a number that is wrong is silently another field of the autoscaler's."""
    fields = externalgrpc_pb2.DESCRIPTOR.message_types_by_name[message].fields
    assert {f"{field.name}={field.number}" for field in fields} == set(numbers.split())


def test_all_fifteen_calls_are_named_and_kubernetes_own_messages_have_their_numbers() -> None:
    contract = externalgrpc_pb2.DESCRIPTOR.services_by_name["CloudProvider"]
    assert contract.full_name == "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
    assert len(contract.methods) == 15
    # A pod with the request {"cpu": "2"}, as kubernetes/api, core/v1/generated.proto, numbers it.
    cpu = b"\x12\x0a\x0a\x03cpu\x12\x03\x0a\x012"
    container = b"\x12" + bytes([len(cpu) + 2]) + b"\x42" + bytes([len(cpu)]) + cpu
    pod = core_pb2.Pod.FromString(b"\x0a\x03\x0a\x01p\x12" + bytes([len(container)]) + container)
    assert pod.spec.containers[0].resources.requests["cpu"].string == "2"
