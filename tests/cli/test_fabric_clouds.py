"""Nodes that are joined by RDMA on Azure and Alibaba Cloud: close together, tested together, and deleted."""

from __future__ import annotations

import pytest

from tests.cli.test_least_privilege import apply, policy
from tests.shell import Shell

GPUS = ("--gpu", "A100:8,A100-80GB:8", "--nodes", "2", "--rdma", "any")
PLACES = {
    "azure": ("--cloud", "azure", "--region", "eastus"),
    "alibaba": ("--cloud", "alibaba", "--region", "cn-shenzhen"),
}
PROOF = {"azure": "NET/IB : Using [0]mlx5_ib0", "alibaba": "NET/IB : Using [0]erdma_0"}


@pytest.mark.parametrize("cloud", sorted(PLACES))
def test_joined_nodes_are_tested_together_and_nothing_is_left_of_them(cli: Shell, cloud: str) -> None:
    """Under the policy that ``check`` prints. The journal is lost; a sweep also finds what costs nothing."""
    apply(cli, cloud, policy(cli, cloud))
    launched = cli("launch", *GPUS, *PLACES[cloud], "--name", "pair", "--accept-test", "--yes")
    assert launched.code == 0, launched.err
    assert f"2 nodes add up at 90.0 GB/s: NCCL INFO {PROOF[cloud]}" in launched.err
    told = cli("exec", "pair", "--", "sh", "-c", "echo $NCCL_SOCKET_IFNAME")
    assert told.out == "eth0\n", told.err
    assert cli("extend", "pair", "--ttl", "30h").code == 0
    for file in (cli.home / "state-sandbox").glob("journal*"):
        file.unlink()
    swept = cli("sweep", "--older-than", "0s", "--yes", "--json")
    kinds = [each["kind"] for each in swept.json["found"]]
    assert {kind: kinds.count(kind) for kind in ("instance", "placement-group")} == {
        "instance": 2,
        "placement-group": 1,
    }
    assert cli.sandbox.status()["billing"] == []
    assert cli("sweep", "--older-than", "0s", "--dry-run", "--json").json["found"] == []


def test_infiniband_on_spot_is_refused_before_anything_is_made(cli: Shell) -> None:
    refused = cli("launch", *GPUS, *PLACES["azure"], "--spot", "--yes", "--json")
    assert refused.code == 2
    assert "takes no machine on Spot" in refused.error["message"]
    assert "--on-demand" in refused.error["hint"]
    assert cli.sandbox.status()["billing"] == []
