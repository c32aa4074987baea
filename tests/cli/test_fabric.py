"""Nodes that are joined by RDMA: close together, with its settings, tested together, and deleted."""

from __future__ import annotations

from tests.cli.test_least_privilege import apply, policy
from tests.shell import Shell

PLACE = ("--cloud", "aws", "--region", "us-east-1")
PAIR = ("launch", "--gpu", "A100:8", "--nodes", "2", "--rdma", "any", *PLACE)
ASKED = (*PAIR, "--name", "pair", "--accept-test", "--yes")
SETTINGS = "echo $FI_PROVIDER $NCCL_SOCKET_IFNAME; cat /etc/security/limits.d/gpucloud.conf"


def test_nodes_joined_by_efa_have_its_settings_and_are_tested_together(cli: Shell) -> None:
    """Under the policy that ``check`` prints. What the user sets wins."""
    apply(cli, "aws", policy(cli, "aws"))
    launched = cli(*ASKED, "--env", "NCCL_SOCKET_IFNAME=eth1")
    assert launched.code == 0, launched.err
    assert "2 nodes add up at 90.0 GB/s: NCCL INFO NET/OFI Selected provider is efa" in launched.err
    told = cli("exec", "pair", "--all-nodes", "--", "sh", "-c", SETTINGS)
    limits = ["* - memlock unlimited", "root - memlock unlimited"]
    expected = sorted(f"{node}: {line}" for node in (0, 1) for line in ("efa eth1", *limits))
    assert sorted(told.out.splitlines()) == expected, told.err
    [box] = cli.boxes("--live")
    assert len({node["public_ip"] for node in box["nodes"]} - {None}) == 2
    assert box["per_hour"]["address"]["amount"] == "0.010000"
    assert len(cli.billed("address")) == 2
    found = cli("sweep", "--older-than", "0s", "--dry-run", "--json").json["found"]
    assert found == [], "nothing of a living box is unwanted"
    assert cli("extend", "pair", "--ttl", "30h").code == 0
    assert cli("down", "pair", "--yes").code == 0
    assert cli.sandbox.status()["billing"] == []
    assert cli.ec2("us-east-1").describe_placement_groups()["PlacementGroups"] == []


def test_nodes_that_fall_back_to_tcp_are_replaced_once_and_then_end_the_launch(cli: Shell) -> None:
    cli.sandbox.gpu("tcp", times=3)
    failed = cli(*ASKED, "--json")
    assert failed.code != 0
    assert "node 0: NCCL fell back to TCP" in failed.error["message"]
    assert "instead of efa" in failed.error["message"]
    assert cli.sandbox.status()["billing"] == []


def test_nodes_without_rdma_are_tested_over_tcp(cli: Shell) -> None:
    line = ("launch", "--gpu", "T4", "--nodes", "2", "--cloud", "azure", "--accept-test", "--yes")
    launched = cli(*line)
    assert launched.code == 0, launched.err
    assert "2 nodes add up at 1.2 GB/s: NCCL INFO NET/Socket" in launched.err


def test_nodes_whose_journal_is_lost_are_restored_with_their_settings_or_swept(cli: Shell) -> None:
    launched = cli(*PAIR, "--name", "pair", "--yes")
    assert launched.code == 0, launched.err
    lose_journal(cli)
    assert cli("recover").code == 0
    told = cli("exec", "pair", "--all-nodes", "--", "sh", "-c", "echo $FI_PROVIDER")
    assert sorted(told.out.splitlines()) == ["0: efa", "1: efa"], told.err
    lose_journal(cli)
    swept = cli("sweep", "--older-than", "0s", "--yes", "--json")
    kinds = [each["kind"] for each in swept.json["found"]]
    assert {kind: kinds.count(kind) for kind in ("address", "instance", "placement-group")} == {
        "address": 2,
        "instance": 2,
        "placement-group": 1,
    }
    assert cli.sandbox.status()["billing"] == []


def lose_journal(cli: Shell) -> None:
    for file in (cli.home / "state-sandbox").glob("journal*"):
        file.unlink()
