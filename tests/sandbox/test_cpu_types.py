"""Types without a GPU on all three clouds, for head nodes and bastions. gpucloud offers none of them."""

from __future__ import annotations

from typing import Any

import pytest

from gpucloud_sandbox.client import Endpoint, SandboxClient
from gpucloud_sandbox.market import Catalog
from gpucloud_sandbox.review import Review
from tests.refreshing import market
from tests.sandbox.alibaba_lab import Alibaba
from tests.sandbox.azure_lab import Azure
from tests.sandbox.running import SPOT, HollowBoxes, client
from tests.sandbox.test_aws_launch import refused
from tests.sandbox.test_aws_power import PLAIN


def price(sandbox: SandboxClient) -> str:
    """What the one instance costs per hour."""
    (entry,) = [each for each in sandbox.status()["billing"] if each["kind"] == "instance"]
    return str(entry["price"]["amount"])


def gpus(boxes: HollowBoxes) -> list[tuple[str, int]]:
    """The GPUs of the boxes: model and number."""
    return [(each.gpu_model, each.gpu_count) for each in boxes.alive.values()]


def test_ec2_runs_a_machine_without_a_gpu(ec2: Any, endpoint: Endpoint, boxes: HollowBoxes) -> None:
    endpoint.client.review(Review.OWN)
    plain = {**PLAIN, "InstanceType": "m5.large"}
    (shown,) = ec2.describe_instance_types(InstanceTypes=["m5.large"])["InstanceTypes"]
    assert "GpuInfo" not in shown
    assert (shown["VCpuInfo"]["DefaultVCpus"], shown["MemoryInfo"]["SizeInMiB"]) == (2, 8192)
    made = ec2.run_instances(**plain)["Instances"][0]["InstanceId"]
    assert ec2.describe_instances(InstanceIds=[made])["Reservations"]
    assert (price(endpoint.client), gpus(boxes)) == ("0.096", [("", 0)])
    spot = refused(ec2.run_instances, **plain, InstanceMarketOptions=SPOT)
    assert spot[1] in {400, 500}
    assert spot[0] != "InternalError"
    standard = {"ServiceCode": "ec2", "QuotaCode": "L-1216C47A"}
    assert client(endpoint, "service-quotas").get_service_quota(**standard)["Quota"]["Value"] > 0
    endpoint.client.cloud("aws", "quota", region="us-east-1", code="L-1216C47A", value=3)
    assert refused(ec2.run_instances, **plain) == ("VcpuLimitExceeded", 400)
    assert ec2.run_instances(**PLAIN)["Instances"], "GPUs have a quota of their own"


def test_azure_runs_a_machine_without_a_gpu(azure: Azure) -> None:
    made = azure.launch(hardwareProfile__vmSize="Standard_D2s_v5")
    assert made.provisioning_state == "Succeeded"
    assert price(azure.sandbox) == "0.096"
    assert gpus(azure.boxes)[-1] == ("", 0)
    skus = azure.compute.resource_skus.list(filter="location eq 'eastus'")
    (found,) = [each for each in skus if each.name == "Standard_B2s"]
    named = {each.name: each.value for each in found.capabilities}
    assert named["vCPUs"] == "2"
    assert "GPUs" not in named


def test_ecs_runs_a_machine_without_a_gpu(alibaba: Alibaba) -> None:
    made = alibaba.launch(InstanceType="ecs.g7.large")
    (shown,) = alibaba.instances(InstanceIds=f'["{made}"]')
    assert (shown["GPUAmount"], shown["GPUSpec"]) == (0, "")
    assert price(alibaba.sandbox) == "0.69242"
    assert gpus(alibaba.boxes)[-1] == ("", 0)
    with_gpus = alibaba.ask("DescribeInstanceTypes", MinimumGPUAmount=1, InstanceTypes=["ecs.g7.large"])
    assert with_gpus["InstanceTypes"]["InstanceType"] == []


@pytest.mark.parametrize("cloud", ["aws", "azure", "alibaba"])
def test_no_offer_of_gpuclouds_is_one_of_them(cloud: str) -> None:
    ours = {name for name, each in Catalog(cloud).types.items() if not each.whole_gpus}
    assert ours
    assert ours.isdisjoint(each.instance_type for each in market().prices())
